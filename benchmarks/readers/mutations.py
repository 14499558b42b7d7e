"""Mutations of files: changed, cut, duplicated and exchanged bytes, and values that break libraries."""

from collections.abc import Callable

import numpy as np

Mutation = Callable[[bytes, np.random.Generator], bytes]
TOKENS = (
    *(
        b".nan",
        b".inf",
        b"-.inf",
        b"nan",
        b"inf",
        b"1e999",
        b"-1e308",
        b"1e-320",
        b"7e27",
        b"0",
        b"-1",
        b"1e2_0",
        b"0_5",
    ),
    *(b"9" * 5000, b"2026-13-45", b"2026-02-30 25:61:61", b"0x" + b"f" * 400, b"null", b"true", b"~", b"''", b"\x00"),
    *(b"!!python/object:os.system x", b"!!binary =", b"!!timestamp x", b"!!int x", b"!!float x", b"!!bool maybe"),
    *(b"&a [*a]", b"*nothing", b"<<: *x", b"[" * 300, b"{" * 300, b"- " * 300, b"? ", b"%YAML 9.9\n---\n", b"a" * 5000),
    *(
        b"../../escape",
        b"/etc/passwd",
        b"\xff\xfe",
        "\u202e\u0661\ufeff".encode(),
        b"\r",
        b"\t",
        b",,,,",
        b";",
        b'"',
        b"#",
    ),
    *(
        b"<!DOCTYPE x>",
        b"<a>" * 300,
        b"</robot>",
        b'name=""',
        b"1.5708",
        b"1 2",
        b"0 0 0 0",
        b"fixed",
        b"floating",
        b"planar",
    ),
    *(b"2147483648", b"18446744073709551616", b"-9223372036854775809", b"13014118383"),
)


def _place(data: bytes, rng: np.random.Generator) -> int:
    return int(rng.integers(0, max(len(data), 1)))


def flip(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the data with some bytes changed."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 9)) if data else 0):
        changed[_place(data, rng)] = int(rng.integers(0, 256))
    return bytes(changed)


def cut(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the data without their end, or without a piece within."""
    first = _place(data, rng)
    return data[:first] + (b"" if rng.random() < 0.5 else data[first + int(rng.integers(1, 200)) :])


def double(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the data with a piece of them inserted again."""
    first, at = _place(data, rng), _place(data, rng)
    return data[:at] + data[first : first + int(rng.integers(1, 2000))] + data[at:]


def token(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the data with a hostile value inserted."""
    at = _place(data, rng)
    return data[:at] + TOKENS[int(rng.integers(len(TOKENS)))] + data[at + int(rng.integers(0, 4)) :]


def value(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the data with a hostile value in place of a word after a colon, within quotes, or between commas."""
    places = [k for k, byte in enumerate(data[:200_000]) if byte in b':",= [']
    if not places:
        return token(data, rng)
    first = places[int(rng.integers(len(places)))] + 1
    last = min(
        (data.find(end, first) for end in (b",", b"\n", b'"', b"]", b"}") if data.find(end, first) >= 0), default=first
    )
    return data[:first] + b" " * int(rng.random() < 0.5) + TOKENS[int(rng.integers(len(TOKENS)))] + data[last:]


def lines(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the data with lines exchanged, omitted or repeated."""
    rows = data.split(b"\n")
    a, b = (int(rng.integers(len(rows))) for _ in range(2))
    if rng.random() < 0.5:
        rows[a], rows[b] = rows[b], rows[a]
    else:
        rows[a:a] = rows[b : b + int(rng.integers(1, 5))]
        del rows[b]
    return b"\n".join(rows)


def number(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the data with an extreme length or count in eight bytes."""
    extreme = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)
    at, width = _place(data, rng), int(rng.choice([1, 2, 4, 8]))
    wanted = extreme[int(rng.integers(len(extreme)))] % 2 ** (8 * width)
    raw = bytes(int(wanted).to_bytes(width, "little"))
    return data[:at] + (raw if rng.random() < 0.7 else raw[::-1]) + data[at + width :]


TEXT: tuple[Mutation, ...] = (flip, cut, double, token, value, value, value, lines)
BINARY: tuple[Mutation, ...] = (flip, cut, double, token, number, number)


def mutated(data: bytes, seed: int, mutations: tuple[Mutation, ...]) -> bytes:
    """Return a file after one to three mutations."""
    rng = np.random.default_rng(seed)
    for _ in range(int(rng.integers(1, 4))):
        data = mutations[int(rng.integers(len(mutations)))](data, rng)
    return data

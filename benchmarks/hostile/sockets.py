"""Addresses on which a process listens, by Linux's /proc; all except loopback can be reached from the network."""

import contextlib
import ipaddress
import os
from pathlib import Path

TABLES = ("udp", "udp6", "tcp", "tcp6")
LISTENS = "0A"  # state of a TCP socket that accepts connections


def listens_on(pid: int) -> set[str]:
    """Return the addresses to which a process has bound UDP sockets, or on which it accepts TCP connections."""
    own = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the socket was closed meanwhile
            own.add(os.readlink(link).removeprefix("socket:[").rstrip("]"))
    found = set()
    for name in TABLES:
        file = Path(f"/proc/{pid}/net/{name}")
        rows = [line.split() for line in file.read_text().splitlines()[1:]] if file.is_file() else []
        found |= {
            _address(row[1].split(":")[0])
            for row in rows
            if row[9] in own and (name.startswith("udp") or row[3] == LISTENS)
        }
    return found


def reachable(pid: int) -> set[str]:
    """Return those of them at which packets from the network arrive."""
    return {one for one in listens_on(pid) if not ipaddress.ip_address(one).is_loopback}


def _address(text: str) -> str:
    """Return an address from its hexadecimal digits: words of four bytes, the last byte first."""
    raw = bytes.fromhex(text)
    words = [raw[at : at + 4][::-1] for at in range(0, len(raw), 4)]
    return str(ipaddress.ip_address(b"".join(words)))

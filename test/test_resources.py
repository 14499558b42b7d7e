"""Arbitrary YAML files: reading ends soon, with a value or one sentence."""

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynid.documents import MOST_YAML_ALIASES, read_json, read_yaml
from dynid.errors import ConfigurationError, DataError, DynidError, InputNotFoundError, UnknownNameError, shown
from dynid.resources import guarded, load_validated
from dynid.robot.file import RobotFile

BILLION = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in itertools.pairwise("abcdefghijklm")
)
FEW_ALIASES = "a: &a [x, x]\n" + "".join(  # of a file that is short: built, it has 9^10 values
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in itertools.pairwise("abcdefghijk")
)
MERGED = "a: &a {k: 1}\n" + "".join(f"b{k}: {{<<: *a}}\n" for k in range(MOST_YAML_ALIASES + 1))


def read(tmp_path: Path, text: str | bytes) -> object:
    path = tmp_path / "file.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_yaml(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("date: 2020-13-45", "month must be in 1..12"),
        ("number: " + "9" * 5000, "not a valid YAML file"),
        ("flag: !!bool maybe", "not a valid YAML file"),
        ("[" * 20_000, "nested 51 deep"),
        ("- " * 20_000, "nested 51 deep"),
        (BILLION, "of more than 600000 values"),
        (FEW_ALIASES, "of more than 600000 values, aliases followed"),
        ("[" + "1," * 600_001 + "]", "of more than 600000 values"),
        (MERGED, "with more than 100 aliases"),
        (b"\xff\xfe\x00", "not a valid YAML file"),
        ("a: !!python/object/apply:os.system [true]", "not a valid YAML file"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_special_yaml_is_refused_in_one_sentence(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        read(tmp_path, text)


def test_non_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in (("nowhere", InputNotFoundError), (".", ConfigurationError), ("pipe", ConfigurationError)):
        with pytest.raises(kind):
            read_yaml(tmp_path / path)


def test_anchors_in_a_file_by_hand_are_read(tmp_path: Path) -> None:
    assert read(tmp_path, "a: &a [1, 2]\nb: *a\n") == {"a": [1, 2], "b": [1, 2]}


def test_field_name_with_line_breaks_is_named_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "robot.yaml"
    path.write_text('"na\\nme\\u0085": 1\nservos: {"a\\nb": {"x\\ry": 1}}\n')
    with pytest.raises(ConfigurationError, match="na me is unknown") as caught:
        load_validated(path, RobotFile)
    assert str(caught.value).isprintable()
    assert str(UnknownNameError("joint", "a\nb", ["c\rd"])) == "unknown joint 'a b'; known: c d"


def test_long_values_are_shortened_in_messages(tmp_path: Path) -> None:
    level: object = "x" * 100_000
    for _ in range(30):
        level = [level] * 100  # shared, so small; its repr would have 100^30 entries
    assert len(shown(level)) <= 80 and len(shown("x" * 10**7)) <= 80 and len(shown(b"x" * 10**7)) <= 80
    assert shown(10**5000) == "a number of more than 80 digits" and shown([1, "a\n"]) == "[1, 'a\\n']"
    shared = "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in itertools.pairwise("abcdef"))
    path = tmp_path / "robot.yaml"
    path.write_text(f"a: &a [{'x' * 1000}]\n{shared}name: *f\n" + "".join(f"{'k' * 500}{k}: 1\n" for k in range(500)))
    with pytest.raises(ConfigurationError, match="and 4") as caught:
        load_validated(path, RobotFile)
    assert len(str(caught.value)) < 20_000


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a": ' * 200_000, "1" * 6000, "[1", "\ud800", ""])
def test_json_that_is_none_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    with pytest.raises(ConfigurationError, match=r"x\.json is not (valid JSON|a valid JSON file)"):
        read_json(path)
    path.write_text('{"a": [1, 2.5]}')
    assert read_json(path) == {"a": [1, 2.5]}


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="abc123:-[]{}&*<!?|>#%@'\"\n \t.,~", max_size=60))
def test_any_text_is_a_value_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    try:
        read(tmp_path_factory.getbasetemp(), text)
    except DynidError as error:
        assert "file.yaml" in str(error)


def test_a_file_that_is_too_large_for_the_memory_is_not_called_damaged() -> None:
    with pytest.raises(DataError, match=r"^run\.csv takes more memory than this machine has free: split it") as refused:
        with guarded("run.csv", "CSV recording"):
            raise MemoryError
    assert "not a valid" not in str(refused.value)

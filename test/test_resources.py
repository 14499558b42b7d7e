"""What a YAML file may be: whatever it holds, reading it ends soon, in a value or in one sentence."""

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynid.errors import ConfigurationError, DynidError, InputNotFoundError
from dynid.resources import MOST_YAML_ALIASES, read_yaml

BILLION = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in itertools.pairwise("abcdefghijklm")
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
        (BILLION, "with more than 100 aliases"),
        (MERGED, "with more than 100 aliases"),
        (b"\xff\xfe\x00", "not a valid YAML file"),
        ("a: !!python/object/apply:os.system [true]", "not a valid YAML file"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_plain_yaml_is_refused_in_one_sentence(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        read(tmp_path, text)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in (("nowhere", InputNotFoundError), (".", ConfigurationError), ("pipe", ConfigurationError)):
        with pytest.raises(kind):
            read_yaml(tmp_path / path)


def test_anchors_in_a_file_by_hand_are_read(tmp_path: Path) -> None:
    assert read(tmp_path, "a: &a [1, 2]\nb: *a\n") == {"a": [1, 2], "b": [1, 2]}


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="abc123:-[]{}&*<!?|>#%@'\"\n \t.,~", max_size=60))
def test_any_text_is_a_value_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    try:
        read(tmp_path_factory.getbasetemp(), text)
    except DynidError as error:
        assert "file.yaml" in str(error)

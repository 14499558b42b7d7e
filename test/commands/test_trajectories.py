"""`dynid trajectories` with and without `list`, and refusals of `plot`."""

import json
import sys
from pathlib import Path

import pytest

from dynid import cli


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run `dynid trajectories ARGUMENTS` and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["dynid", "trajectories", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.slow
def test_bare_command_prints_the_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ((), ("--json",), ("--profile", "paper", "--json")):
        assert run(monkeypatch, *options) == 0
        bare = capsys.readouterr().out
        assert run(monkeypatch, "list", *options) == 0
        assert capsys.readouterr().out == bare
    rows = json.loads(bare)
    assert rows["AG02"]["duration_s"] == pytest.approx(110, abs=3) and len(rows) >= 43
    assert {row["schema_version"] for row in rows.values()} == {1}


@pytest.mark.slow
def test_plot_writes_the_figure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "new" / "V01.svg"
    assert run(monkeypatch, "plot", "V01", "--out", str(out), "--profile", "paper") == 0
    assert str(out) in capsys.readouterr().out
    text = out.read_text(encoding="utf-8")
    assert "V01, profile 'paper'" in text.replace("&#39;", "'")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("plot", "V01", "--out", "there.png"), 1, "there.png exists"),
        (("plot", "V99", "--out", "x.png"), 1, "unknown trajectory 'V99'"),
        (("plot", "V01", "--out", "x.png", "--profile", "wild"), 1, "unknown trajectory profile 'wild'"),
        (("plot", "V01", "--out", "x.jpg"), 1, "unknown figure format '.jpg'"),
        (("plot", "V01"), 2, "--out"),
        (("V01",), 2, "V01"),
        (("--json", "list"), 2, "put options after the command"),
    ],
)
def test_wrong_arguments_of_trajectories_are_refused(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.png").write_text("mine")
    assert run(monkeypatch, *arguments) == code
    output = capsys.readouterr()
    assert output.out == "" and len(output.err.strip().splitlines()) == 1 and words in output.err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]

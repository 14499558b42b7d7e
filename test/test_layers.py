"""`./run test`: a layer also applies to chosen tests, and unsupported options are refused."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("packaging.requirements")
from newcomer import Newcomer

SHARED = Path(__file__).parent / "shared"
TESTS = """import pytest

def test_plain(): pass
@pytest.mark.slow
def test_slow(): pass
@pytest.mark.study
def test_study(): pass
"""


@pytest.fixture
def layered(tmp_path: Path) -> Path:
    """A folder with a test of each kind."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    study\n")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["layers", "processor_time"]\n')
    (tmp_path / "test_kinds.py").write_text(TESTS)
    return tmp_path


def ran(folder: Path, *options: str) -> tuple[int, list[str], str]:
    """Return pytest's code, the tests that ran, and all that it printed."""
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *options]
    environment = {**os.environ, "PYTHONPATH": str(SHARED), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    names = re.findall(r"^test_kinds\.py::test_(\w+) PASSED", done.stdout, re.MULTILINE)
    return done.returncode, names, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ["plain", "slow", "study"]),
        (("--promised",), ["plain", "slow"]),
        (("--quick",), ["plain"]),
        (("--study",), ["study"]),
        (("--quick", "-k", "plain or slow"), ["plain"]),
        (("--study", "test_kinds.py::test_slow", "test_kinds.py::test_study"), ["study"]),
        (("--promised", "-m", "slow"), ["slow"]),
    ],
)
def test_a_layer_runs_for_the_chosen_tests(layered: Path, options: tuple[str, ...], expected: list[str]) -> None:
    assert ran(layered, *options)[:2] == (0, expected)


def test_two_layers_are_refused(layered: Path) -> None:
    code, names, text = ran(layered, "--quick", "--study")
    assert code == 4 and not names and "--quick and --study are two layers: choose one" in text


@pytest.mark.slow
def test_processor_time_of_the_slowest_tests_is_printed(layered: Path) -> None:
    with (layered / "test_kinds.py").open("a") as file:
        file.write("\ndef test_work():\n    from time import process_time as now\n    end = now() + 0.2\n")
        file.write("    while now() < end: pass\n")
    for workers in ("-p no:xdist", "-n 1"):
        _, _, text = ran(layered, *workers.split(), "--processor-time=1")
        told = text.split("of processor time")[1]
        assert "::test_work" in told and "::test_plain" not in told
        assert float(told.split("test_kinds")[0].split()[-2]) >= 0.2
    assert "of processor time" not in ran(layered)[2]


# -- ./run test ------------------------------------------------------------------------------------------------


def asked(newcomer: Newcomer) -> list[str]:
    """What pytest was started with, one line for each time."""
    lines = newcomer.log.read_text().splitlines()
    return [line.removeprefix("-m pytest ") for line in lines if line.startswith("-m pytest ")]


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    made = Newcomer(tmp_path)
    (tmp_path / "test").mkdir()
    (tmp_path / "test/test_one.py").touch()
    assert made.run("test").returncode == 0
    return made


@pytest.mark.parametrize(
    "words",
    [
        ("--quick", "-k", "words"),
        ("--quick", "test/test_one.py"),
        ("test/test_one.py::test_it", "--quick"),
        ("--study", "-x", "test/test_one.py"),
        ("-k", "words"),
        ("-m", "slow", "--quick"),
    ],
)
def test_chosen_tests_run_once_with_their_layer(newcomer: Newcomer, words: tuple[str, ...]) -> None:
    assert newcomer.run("test", *words).returncode == 0
    assert asked(newcomer) == [" ".join(words)]


PARTS = ["not real_time", "real_time and not alone", "alone"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "layer", "parts"),
    [((), "--promised", PARTS), (("--quick",), "--quick", ["not alone"]), (("-x", "--study"), "-x --study", PARTS)],
)
def test_without_a_choice_every_part_has_the_layer(
    newcomer: Newcomer, words: tuple[str, ...], layer: str, parts: list[str]
) -> None:
    assert newcomer.run("test", *words).returncode == 0
    ran = asked(newcomer)
    assert all(one.endswith(layer) for one in ran)
    assert [one.split("-m ")[1].removesuffix(layer).strip() for one in ran] == parts


@pytest.mark.slow
def test_layer_without_chosen_tests_is_reported(newcomer: Newcomer) -> None:
    python = newcomer.folder / ".venv/bin/python"
    python.write_text(python.read_text().replace('case "$1', '[ "${2:-}" != pytest ] || exit 5\ncase "$1', 1))
    refused = newcomer.run("test", "--quick", "test/test_one.py")
    assert refused.returncode == 1
    assert refused.stderr == "run: --quick holds none of the tests that were asked for: leave it out\n"
    assert newcomer.run("test", "test/test_one.py").returncode == 5
    assert newcomer.run("test", "--quick").returncode == 0  # a part without tests

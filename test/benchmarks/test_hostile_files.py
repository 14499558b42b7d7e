"""Rows of hostile files and of the network: dynid passes, and each row detects a faulty program."""

import sys
from pathlib import Path

import pytest
from benchmarks.hostile.files import FILE_CASES, FileCase, harm

from dynid.recording.bag_budget import VARIABLE

CASES = {case.name: case for case in FILE_CASES}
JOURNAL = CASES["bag: journal that names another file"]
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", FILE_CASES, ids=lambda case: case.name)
def test_program_passes_every_row(case: FileCase, tmp_path: Path) -> None:
    assert harm(case, 0, tmp_path) == ""


CARELESS_YAML = (
    "import sys, pathlib, yaml; loader = yaml.CSafeLoader\n"
    "text = max(pathlib.Path(sys.argv[-1]).rglob('*.yaml'), key=lambda one: one.stat().st_size).read_text()\n"
    "repr(yaml.load(text, loader))"
)
CARELESS_SQL = (
    "import sys, pathlib, sqlite3\n"
    "for file in pathlib.Path(sys.argv[-1]).glob('*.db3'): sqlite3.connect(file).execute('SELECT * FROM topics')"
)
CARELESS_WRITER = (
    "import sys, pathlib\npathlib.Path(sys.argv[-1], '.metadata.yaml.new').write_text('x')\n"
    "pathlib.Path(sys.argv[-1], '..', '..', 'beside').touch()"
)

CARELESS_MESH = (
    "import sys, pathlib, numpy, coal\n"
    "mesh = next(one for one in pathlib.Path('.').glob('shape.*'))\n"
    "coal.MeshLoader().load(str(mesh.absolute()), numpy.ones(3))"
)


@pytest.mark.parametrize(
    ("name", "program", "words"),
    [
        ("robot: aliases that stand for a billion values", CARELESS_YAML, "it "),
        ("robot: brackets within brackets", CARELESS_YAML, "it ended by signal"),
        ("bag: nested metadata.yaml", CARELESS_YAML, "it ended by signal"),
        ("bag: journal that names another file", CARELESS_SQL, "it changed or removed another file"),
        ("bag: links where a repair writes", CARELESS_WRITER, "it changed or removed another file; it left beside"),
        ("robot: a field given twice", "raise KeyError(1)", "a traceback: KeyError: 1; it did not say"),
        ("URDF: entities", "print('DOCTYPE', bytearray(1500 << 20)[:0])", "MiB, expected at most 1024"),
        ("bag: topic that commands the terminal", "print('/a', chr(27))", "it commanded the terminal"),
        ("table: header that commands the terminal", "print(open('x.csv').read())", "it commanded the terminal"),
        ("mesh: a triangle of vertices that it does not have", CARELESS_MESH, "it ended by signal"),
        ("mesh: a scene that contains itself", CARELESS_MESH, "it ended by signal"),
        ("logs: nested description", "raise SystemExit(7)", "it ended with code 7"),
    ],
)
def test_program_that_is_not_careful_is_found(name: str, program: str, words: str, tmp_path: Path) -> None:
    assert words in harm(CASES[name], 0, tmp_path, (sys.executable, "-c", program))


@pytest.mark.parametrize("name", ["bag: chunks that become gigabytes", "bag: packed file that becomes gigabytes"])
def test_reader_without_a_memory_budget_is_detected(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "4")
    found = harm(CASES[name], 0, tmp_path)
    assert "did not say 'DYNID_BAG_GIB'" in found or "MiB, expected at most 1024" in found


def test_node_that_listens_on_the_network_is_detected() -> None:
    pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")
    from benchmarks.hostile.plain_node import launched_environment, plain_node_reachable

    assert plain_node_reachable() == ()
    open_to_all = {key: value for key, value in launched_environment().items() if not key.endswith("PROFILES_FILE")}
    assert "0.0.0.0" in "; ".join(plain_node_reachable(open_to_all | {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}))

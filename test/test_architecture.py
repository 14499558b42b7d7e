"""The structure holds: arrows point one way, only nodes know ROS, files stay readable."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "dynid"
ROS = {
    "ament_index_python",
    "builtin_interfaces",
    "control_msgs",
    "diagnostic_msgs",
    "launch",
    "launch_ros",
    "lifecycle_msgs",
    "rcl_interfaces",
    "rclpy",
    "rosbag2_py",
    "sensor_msgs",
    "std_msgs",
    "std_srvs",
    "trajectory_msgs",
}
# The lower part may be imported by the higher, never the other way round; parts of one level may import each other.
LEVELS = (
    {"errors", "resources", "robot", "robot_file", "parent", "parallel", "model"},
    {"trajectory", "control", "hardware", "simulation", "recording", "identification", "elastic"},
    {"reporting", "benchmarking"},
    {"nodes", "commands", "cli", "__main__"},
)
LONGEST_FILE = 320
LONGER_FILES: dict[str, str] = {}  # path under src/dynid: reason


def imports(tree: ast.AST) -> Iterator[str]:
    """Full names of all modules that a file imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used"
            yield str(node.module)
            if node.module == "dynid":
                yield from (f"dynid.{alias.name}" for alias in node.names)


def part_of(module: str) -> str:
    """The part of dynid to which a module belongs; '' for dynid itself and anything else."""
    names = module.split(".")
    return names[1] if names[0] == "dynid" and len(names) > 1 else ""


def level_of(part: str) -> int:
    (level,) = (index for index, parts in enumerate(LEVELS) if part in parts)
    return level


def findings(part: str, source: str) -> list[str]:
    """What a file of a part of dynid imports against the rules."""
    found = []
    for module in imports(ast.parse(source)):
        if module.split(".")[0] in ROS and part != "nodes":
            found.append(f"{part} imports {module}, but only nodes may import ROS")
        other = part_of(module)
        if other and other != "__version__" and level_of(other) > level_of(part):
            found.append(f"{part} imports {module}, which is above it")
    return found


def files() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def part_of_file(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_keep_the_rules(path: Path) -> None:
    assert findings(part_of_file(path), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("model", "from dynid.hardware.bus import ServoBus"),
        ("model", "def late():\n    import dynid.trajectory.trajectory"),
        ("hardware", "from dynid.nodes import common"),
        ("identification", "from dynid import reporting"),
        ("reporting", "from dynid.cli import app"),
        ("recording", "import rclpy"),
        ("cli", "def late():\n    from sensor_msgs.msg import JointState"),
    ],
)
def test_imports_against_the_rules_are_found(part: str, source: str) -> None:
    assert len(findings(part, source)) == 1


def test_every_part_has_its_level() -> None:
    known = set.union(*LEVELS)
    assert {part_of_file(path) for path in files()} <= known
    assert sum(map(len, LEVELS)) == len(known)


def test_only_nodes_know_ros_and_some_do() -> None:
    """The rule above is about something: nodes do import ROS, and nothing below loads without it being there."""
    users = {
        part_of_file(path)
        for path in files()
        if any(name.split(".")[0] in ROS for name in imports(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert users == {"nodes"}


def test_files_stay_readable() -> None:
    long = {
        str(path.relative_to(PACKAGE)): count
        for path in files()
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_FILE
    }
    assert set(long) == set(LONGER_FILES), long
    assert all(LONGER_FILES.values())


def test_no_robot_is_named_in_the_code() -> None:
    """A robot is data: only the default of an option or parameter, and texts, may name one."""
    robots = {path.parent.name for path in (ROOT / "config").glob("*/robot.yaml")}
    assert robots
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare | ast.Dict | ast.Subscript):
                values = {child.value for child in ast.walk(node) if isinstance(child, ast.Constant)}
                strings = {value for value in values if isinstance(value, str)}
                assert not strings & robots, f"{path}:{node.lineno} decides by a robot's name"

"""Structure of the project: imports go one way, only nodes import ROS, files stay short."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "dynid"
BENCHMARKS = ROOT / "benchmarks"
ROS = {
    "ament_index_python",
    "builtin_interfaces",
    "control_msgs",
    "diagnostic_msgs",
    "geometry_msgs",
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
# From the bottom up: a part may import itself and those before it, never one that comes later. The longest name
# decides, so `identification.settings` lies below the rooms of that folder, and the rest of its files above them.
ORDER = (
    "errors",
    "documents",
    "durable",
    "resources",
    "parent",
    "foreign_files",
    "limited",
    "threads",
    "parallel",
    "nonnegative",
    "hardware.servos",
    "robot",
    "verdict",
    "model.pinocchio_library",
    "model.chain",
    "model.mdh",
    "robot.link_limits",
    "model",
    "robot.draft_drives",
    "robot.draft_gears",
    "robot.draft_rest",
    "robot.draft",
    "robot.check",
    "codegen",
    "trajectory",
    "recording",
    "hardware.bus",
    "hardware.safety",
    "hardware.startup",
    "hardware.arm",
    "hardware.loop",
    "export",
    "control",
    "runtime",
    "excitation",
    "contact",
    "simulation.plant",
    "simulation.servo",
    "simulation.faults",
    "simulation.bus",
    "simulation.lockstep",
    "identification.settings",
    "identification.data",
    "identification.feasibility",
    "identification.estimators",
    "identification.joint_level",
    "identification.closed_loop",
    "identification",
    "identification.payload",
    "identification.elastic",
    "identification.campaign",
    "identification.methods",
    "contact.recorded",
    "reporting",
    "adaptive",
    "rehearsal",
    "nodes",
    "demo",
    "commands",
    "cli",
    "__main__",
    "benchmarks",  # beside the package: it imports dynid, and nothing of dynid imports it
)


def module_of(path: Path) -> str:
    """`dynid.model.urdf` for its file; a package's own file has the package's name."""
    base = PACKAGE.parent if path.is_relative_to(PACKAGE) else ROOT
    name = ".".join(path.relative_to(base).with_suffix("").parts)
    return name.removesuffix(".__init__")


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def all_files() -> list[Path]:
    return [*files(), *sorted(BENCHMARKS.rglob("*.py"))]


MODULES = frozenset(module_of(path) for path in all_files())


@cache
def imports(source: str) -> frozenset[str]:
    """Full names of all modules that a file imports, wherever in it; of our own, the modules themselves."""
    found = set()
    for node in ast.walk(tree(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, "relative imports are not used"
            below = [f"{node.module}.{alias.name}" for alias in node.names]
            below = [name for name in below if name != "dynid.__version__"]
            found |= {name if name in MODULES else node.module for name in below}
    return frozenset(found)


@cache
def tree(source: str) -> ast.Module:
    return ast.parse(source)


def part_of(module: str) -> str:
    """The part of ORDER that one of our modules belongs to; '' for the package dynid itself."""
    name = module.removeprefix("dynid").removeprefix(".")
    return max((part for part in ORDER if name == part or name.startswith(f"{part}.")), key=len, default="")


def findings(module: str, source: str) -> list[str]:
    """What one of our modules imports against the rules."""
    own, found = part_of(module), []
    for name in sorted(imports(source)):
        if name.split(".")[0] in ROS and own not in ("nodes", "benchmarks"):
            found.append(f"{module} imports {name}, but only nodes may import ROS")
        if name == "dynid" and own:
            found.append(f"{module} imports {name}, the front door, which is for users")
        other = part_of(name) if name in MODULES else ""
        if own and other and ORDER.index(other) > ORDER.index(own):
            found.append(f"{module} imports {name}, which is above it")
    return found


def circles(graph: dict[str, set[str]]) -> list[str]:
    """One circle of imports, as the modules on it; [] where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def import_graph() -> dict[str, set[str]]:
    return {
        module_of(path): {name for name in imports(path.read_text(encoding="utf-8")) if name in MODULES}
        for path in all_files()
        if path != PACKAGE / "__init__.py"  # the front door: its names load when they are used
    }


def test_imports_obey_the_rules() -> None:
    assert [line for path in all_files() for line in findings(module_of(path), path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("dynid.model.mdh", "from dynid.hardware.bus import servo_bus"),
        ("dynid.model.mdh", "def late():\n    import dynid.trajectory.trajectory"),
        ("dynid.hardware.bus.port", "from dynid.hardware.loop.cycle import ControlCycle"),
        ("dynid.identification.settings", "from dynid.identification.data.signals import Signals"),
        ("dynid.identification.data.signals", "from dynid.identification import pipeline"),
        ("dynid.reporting.report", "from dynid.cli import app"),
        ("dynid.recording.cdr", "import rclpy"),
        ("dynid.cli", "def late():\n    from sensor_msgs.msg import JointState"),
        ("dynid.demo.demo", "def late():\n    from benchmarks.chain import soak"),
        ("dynid.commands.identify", "from dynid import __version__, identify"),
    ],
)
def test_imports_against_the_rules_are_found(module: str, source: str) -> None:
    assert len(findings(module, source)) == 1


def test_modules_have_no_circular_imports() -> None:
    assert circles(import_graph()) == []


@pytest.mark.slow
def test_a_circular_import_is_detected() -> None:
    graph = import_graph()
    assert {"dynid.identification.pipeline", "benchmarks.studies.plants"} <= set(graph)
    graph["dynid.errors"] = graph["dynid.errors"] | {"dynid.identification.pipeline"}
    assert {"dynid.errors", "dynid.identification.pipeline"} <= set(circles(graph))


def test_every_module_has_its_part_and_every_part_its_modules() -> None:
    parts = {part_of(module) for module in MODULES - {"dynid", "dynid.hardware", "dynid.simulation"}}
    assert parts == set(ORDER)


def test_only_nodes_import_ros() -> None:
    """Nodes do import ROS, and the modules below them load although ROS is not installed."""
    users = {
        part_of(module_of(path))
        for path in files()
        if any(name.split(".")[0] in ROS for name in imports(path.read_text(encoding="utf-8")))
    }
    assert users == {"nodes"}


def test_commands_import_only_what_they_run() -> None:
    """Every start of `dynid` would wait a second for libraries that it does not use."""
    heavy = {"cvxpy", "dynid.model.dynamics", "matplotlib", "mujoco", "numba", "pinocchio", "rclpy", "scipy"}
    command = [
        sys.executable,
        "-c",
        "import sys; from dynid.cli import app; app(['--help'], standalone_mode=False); print(*sys.modules)",
    ]
    loaded = set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert "dynid.commands.identify" in loaded and not heavy & loaded


def test_no_module_imports_a_large_library_for_a_small_function() -> None:
    """Each costs 0.25 s at every start; `scipy.special` has the distributions, and Clarabel solves programs."""
    large = {"cvxpy", "scipy.stats", "scipy.signal"}
    for path in files():
        loaded = {name for name in imports(path.read_text(encoding="utf-8")) if name in large}
        assert not loaded, f"{path} imports {', '.join(loaded)}"


def test_no_robot_is_named_in_the_code() -> None:
    """A robot is data: only the default of an option or parameter, and texts, may name one."""
    robots = {path.parent.name for path in (ROOT / "config").glob("*/robot.yaml")}
    assert robots
    for path in files():
        for node in ast.walk(tree(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare | ast.Dict | ast.Subscript):
                values = {child.value for child in ast.walk(node) if isinstance(child, ast.Constant)}
                strings = {value for value in values if isinstance(value, str)}
                assert not strings & robots, f"{path}:{node.lineno} decides by a robot's name"

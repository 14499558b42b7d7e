"""Launch files, checked statically and, if `launch` and `launch_ros` are installed, by loading them."""

import ast
import configparser
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.hostile.sockets import listens_on
from child import Child

from dynid.hardware.bus.clock import LONGEST_FACTOR
from dynid.hardware.loop.cycle import STOP_TIMEOUT_S
from dynid.nodes import entry
from dynid.nodes.middleware import PROFILE_FILES, middleware_defaults

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "launch").glob("*.launch.py"))
NAMES = [path.name for path in FILES]
ALLOWED_IMPORTS = {"launch", "launch_ros", "lifecycle_msgs", "os", "rclpy", "signal", "tempfile", "uuid", "sys"}
# executables of other packages, which only an installed ROS can check
FOREIGN = {
    "controller_manager": {"ros2_control_node", "spawner"},
    "mujoco_ros2_control": {"ros2_control_node"},
    "robot_state_publisher": {"robot_state_publisher"},
    "rviz2": {"rviz2"},
    "ros_gz_sim": {"create"},
    "ros_gz_bridge": {"parameter_bridge"},
}
FOREIGN_FILES = {"gz_sim.launch.py"}
# names that users of RT's packages look for
BRINGUP_ARGUMENTS = {"port_name", "baudrate", "use_sim", "robot", "mount", "namespace", "allow_real_port"}


def entry_points() -> dict[str, str]:
    """Executable -> module of setup.cfg."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["options.entry_points"]["console_scripts"].split("\n")
    names = (line.split("=")[0].strip() for line in lines if "=" in line)
    return {name: getattr(entry, name).args[0] for name in names if name != "dynid"}


def module_source(module: str) -> str:
    """Text of a module of this package."""
    return (ROOT / "src" / Path(*module.split("."))).with_suffix(".py").read_text(encoding="utf-8")


def declared_parameters(module: str) -> set[str]:
    """Parameters that a node's module declares, or one beside it that it uses."""
    source = module_source(module)
    for other in re.findall(r"^from (dynid\.nodes\.\w+) import", source, re.MULTILINE):
        source += module_source(other)
    names = set(re.findall(r'declare\(\s*[\w.]+,\s*"(\w+)"', source))
    loops = re.findall(r"for name in \(([^)]*)\):\s+descriptor", source)
    return names | {name for loop in loops for name in re.findall(r'"(\w+)"', loop)}


def texts_of(tree: ast.AST, keyword: str) -> set[str]:
    """String values of a keyword argument anywhere in a tree."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    values = [k.value for call in calls for k in call.keywords if k.arg == keyword]
    return {value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)}


def launch_faults(source: str) -> list[str]:
    """Return the names in a launch file that do not exist."""
    tree = ast.parse(source)
    known = entry_points()
    executables = texts_of(tree, "executable")
    elsewhere = {name for package in texts_of(tree, "package") for name in FOREIGN.get(package, ())}
    faults = [f"executable {name}" for name in executables if name not in known and name not in elsewhere]
    parameters = {name for text in executables & set(known) for name in declared_parameters(known[text])}
    parameters.add("use_sim_time")  # every node has it
    faults += [f"parameter {name}" for name in sorted(node_parameters(tree)) if name not in parameters]
    faults += [
        f"file {name}"
        for name in re.findall(r'"([\w.]+\.launch\.py)"', source)
        if name not in FOREIGN_FILES and not (ROOT / "launch" / name).is_file()
    ]
    shared = re.findall(r'share\(("[^)]*")\)', source)
    faults += [f"file {parts}" for parts in shared if not ROOT.joinpath(*ast.literal_eval(f"({parts},)")).is_file()]
    installed = re.findall(r'ExecutableInPackage\("(\w+)"', source)
    faults += [f"executable {name}" for name in installed if name not in known]
    modules = re.findall(r'"-m", "([\w.]+)"', source)
    return faults + [f"module {name}" for name in modules if importlib.util.find_spec(name) is None]


def node_parameters(tree: ast.AST) -> set[str]:
    """Names that a launch file hands to nodes: keys of the dictionaries in `parameters=[...]`."""
    nodes = list(ast.walk(tree))
    assigned: dict[str, list[ast.expr]] = {}
    found = set()
    given = [k.value for n in nodes if isinstance(n, ast.Call) for k in n.keywords if k.arg == "parameters"]
    used = {name.id for value in given for name in ast.walk(value) if isinstance(name, ast.Name)}
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                assigned.setdefault(target.id, []).append(node.value)
            if isinstance(target, ast.Subscript) and getattr(target.value, "id", "") in used:
                found |= constants(target.slice)
    dictionaries = [value for name in used for value in assigned.get(name, [])] + given
    for item in (node for value in dictionaries for node in ast.walk(value)):
        if isinstance(item, ast.Dict):
            found |= {text for key in item.keys if key is not None for text in constants(key)}
        if isinstance(item, ast.DictComp):
            names = item.generators[0].iter
            values = assigned.get(names.id, []) if isinstance(names, ast.Name) else [names]
            found |= {text for value in values for text in constants(value)}
    return found


def constants(tree: ast.AST) -> set[str]:
    """String constants of a tree."""
    return {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def declared_arguments(source: str) -> dict[str, str]:
    """Launch argument -> description."""
    calls = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)]
    declared = [call for call in calls if getattr(call.func, "id", "") == "DeclareLaunchArgument"]
    return {
        ast.literal_eval(call.args[0]): next(
            (ast.literal_eval(k.value) for k in call.keywords if k.arg == "description"), ""
        )
        for call in declared
    }


def test_the_launch_files_that_the_readme_names_are_there() -> None:
    expected = ("adaptive", "bringup", "collect", "control", "gazebo", "hold", "identify", "ros2_control", "two_arms")
    assert NAMES == [f"{name}.launch.py" for name in expected]


def test_everything_that_a_launch_file_names_exists() -> None:
    assert [f"{path.name}: {fault}" for path in FILES for fault in launch_faults(path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    "source",
    [
        'Node(executable="no_such_node")',
        'Node(executable="executor_node", parameters=[{"trajektory": 1}])',
        'PathJoinSubstitution(["nowhere.launch.py"])',
        'Node(package="rviz2", executable="spawner")',
        'share("config", "crane_x7", "no_such_file.yaml")',
        'command = ["-m", "dynid.no_such_module"]',
        'command = [ExecutableInPackage("no_such_thing", "dynid")]',
    ],
)
def test_a_launch_file_with_a_wrong_name_is_reported(source: str) -> None:
    assert launch_faults(source)


SHARED = ROOT / "launch" / "shared.py"


def imported(source: str) -> set[str]:
    """Top-level names of all modules that a source imports."""
    nodes = list(ast.walk(ast.parse(source)))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {name.split(".")[0] for name in plain | {str(n.module) for n in nodes if isinstance(n, ast.ImportFrom)}}


def test_launch_files_import_launch_only() -> None:
    others = {path.name: imported(path.read_text("utf-8")) - ALLOWED_IMPORTS for path in (*FILES, SHARED)}
    assert {name: modules for name, modules in others.items() if modules} == {}


def test_every_argument_explains_itself() -> None:
    arguments = {path.name: declared_arguments(path.read_text("utf-8")) for path in FILES}
    assert all(arguments.values())
    short = [f"{file}: {name}" for file, texts in arguments.items() for name, text in texts.items() if len(text) <= 10]
    assert short == []


def test_bringup_has_usual_arguments_and_moves_no_real_arm_by_default() -> None:
    source = (ROOT / "launch/bringup.launch.py").read_text(encoding="utf-8")
    assert set(declared_arguments(source)) >= BRINGUP_ARGUMENTS
    assert re.search(r'"allow_real_port",\s*default_value="false"', source)


def test_launch_waits_as_long_as_the_arm_may_take_to_rest() -> None:
    """Killed before, it would be left under torque."""
    source = (ROOT / "launch/bringup.launch.py").read_text("utf-8")
    waits = {name: ast.literal_eval(text) for name, text in re.findall(r"^(\w+_PATIENCE) = (\{.*\})$", source, re.M)}
    longest = LONGEST_FACTOR * STOP_TIMEOUT_S
    hardware, arm = waits["HARDWARE_PATIENCE"], waits["ARM_PATIENCE"]
    assert longest < float(hardware["sigterm_timeout"])
    assert float(hardware["sigterm_timeout"]) + float(hardware["sigkill_timeout"]) < float(arm["sigterm_timeout"])


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_every_launch_file_loads_with_its_declared_arguments(path: Path) -> None:
    launch = pytest.importorskip("launch")
    pytest.importorskip("launch_ros")
    sources = pytest.importorskip("launch.launch_description_sources")
    description = sources.PythonLaunchDescriptionSource(str(path)).get_launch_description(launch.LaunchContext())
    names = {argument.name for argument in description.get_launch_arguments()}
    assert names >= set(declared_arguments(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_an_argument_that_there_is_not_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = pytest.importorskip("launch")
    pytest.importorskip("launch_ros")
    sources = pytest.importorskip("launch.launch_description_sources")
    for file, argument, refused in (
        (path.name, "mounts:=hanging", True),
        (path.name, "namespace:=left", False),
        ("cell.launch.py", "mounts:=hanging", False),  # that one includes this one, and has arguments of its own
    ):
        monkeypatch.setattr("sys.argv", ["ros2", "launch", "dynid", file, argument])
        context = launch.LaunchContext(argv=[argument])
        first = sources.PythonLaunchDescriptionSource(str(path)).get_launch_description(context).entities[0]
        if refused:
            with pytest.raises(ValueError, match="unknown launch argument mounts; known: "):
                first.execute(context)
        else:
            assert not first.execute(context)


def test_every_launch_file_checks_its_arguments_first() -> None:
    first = re.compile(r"return LaunchDescription\(\s*\[\s*OpaqueFunction\(function=refuse_unknown_arguments\)")
    assert [path.name for path in FILES if not first.search(path.read_text("utf-8"))] == []


def test_every_launch_file_confines_its_processes_before_any_starts() -> None:
    second = re.compile(
        r"OpaqueFunction\(function=refuse_unknown_arguments\),\s*OpaqueFunction\(function=shared\.set_middleware\),"
    )
    assert [path.name for path in FILES if not second.search(path.read_text("utf-8"))] == []


PLAIN_NODE = """
import sys, rclpy
rclpy.init()
node = rclpy.create_node("plain")
print("up", flush=True)
sys.stdin.read()
"""
MIDDLEWARE = ("ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY", "FASTDDS_BUILTIN_TRANSPORTS", *PROFILE_FILES)


def plain_node_listens_on(environment: dict[str, str]) -> set[str]:
    """Where a node of nobody's package listens in an environment."""
    command = [sys.executable, "-c", PLAIN_NODE]
    with Child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None and child.stdout.readline() == "up\n"
        return listens_on(child.pid)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="sockets are read from Linux's /proc")
def test_a_plain_node_in_the_launched_environment_listens_on_loopback_only() -> None:
    rclpy = pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")
    clean = {name: value for name, value in os.environ.items() if name not in MIDDLEWARE}
    assert plain_node_listens_on(clean) - {"127.0.0.1"}, "without the profile it listens on the network"
    found = middleware_defaults(clean, rclpy.get_rmw_implementation_identifier())
    assert plain_node_listens_on(clean | found) == {"127.0.0.1"}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="sockets are read from Linux's /proc")
def test_a_plain_node_that_a_real_launch_starts_listens_on_loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = pytest.importorskip("launch")
    pytest.importorskip("launch_ros")
    sources = pytest.importorskip("launch.launch_description_sources")
    monkeypatch.setattr("sys.argv", ["ros2"])
    environments: dict[str, dict[str, str]] = {}
    for path in FILES:
        for name in MIDDLEWARE:
            monkeypatch.setenv(name, "")  # so that what launch sets is undone
            monkeypatch.delenv(name)
        context = launch.LaunchContext()
        source = sources.PythonLaunchDescriptionSource(str(path))
        for action in source.get_launch_description(context).entities[1].execute(context):
            action.execute(context)
        environments[path.name] = dict(context.environment)
    assert len({tuple(sorted(one.items())) for one in environments.values()}) == 1
    assert plain_node_listens_on(environments[NAMES[0]]) == {"127.0.0.1"}


def test_a_users_choice_is_kept_by_the_launch_files(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = pytest.importorskip("launch")
    pytest.importorskip("launch_ros")
    sources = pytest.importorskip("launch.launch_description_sources")
    for name in MIDDLEWARE:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET")
    context = launch.LaunchContext()
    path = ROOT / "launch" / "bringup.launch.py"
    description = sources.PythonLaunchDescriptionSource(str(path)).get_launch_description(context)
    for action in description.entities[1].execute(context):
        action.execute(context)
    assert context.environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "SUBNET"
    assert not any(name in context.environment for name in PROFILE_FILES)


def described_control(launch: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What control.launch.py is made of, by the real `launch`."""
    sources = pytest.importorskip("launch.launch_description_sources")
    monkeypatch.setattr("sys.argv", ["ros2"])
    path = ROOT / "launch" / "control.launch.py"
    source = sources.PythonLaunchDescriptionSource(str(path))
    return list(source.get_launch_description(launch.LaunchContext()).entities)


@pytest.mark.parametrize(
    ("name", "executable", "policies"),
    [("contact", "external_torque_node", ("report", "stop")), ("payload", "payload_node", ("report", "apply"))],
)
def test_sensing_starts_only_with_a_policy_and_all_it_needs(
    monkeypatch: pytest.MonkeyPatch, name: str, executable: str, policies: tuple[str, ...]
) -> None:
    launch = pytest.importorskip("launch")
    pytest.importorskip("launch_ros")
    entities = described_control(launch, monkeypatch)
    (node,) = (one for one in entities if getattr(one, "node_executable", "") == executable)
    (argument,) = (one for one in entities if getattr(one, "name", "") == name)
    given = {"model_file": "model.yaml", "command_output": "joint_commands", "start_hardware": "true"}
    first_start = next(k for k, one in enumerate(entities) if type(one).__name__ == "IncludeLaunchDescription")
    refusals = [one for one in entities[:first_start] if type(one).__name__ == "OpaqueFunction"]
    context = launch.LaunchContext()
    for text, started in (("", False), *((policy, True) for policy in policies)):
        context.launch_configurations.update({"contact": "", "payload": ""} | given | {name: text})
        argument.execute(context)
        assert node.condition.evaluate(context) == started
        refusals[-1].execute(context)
    for other, wrong in (("model_file", ""), ("command_output", "effort_controller"), ("start_hardware", "false")):
        context.launch_configurations.update(given | {other: wrong})
        with pytest.raises(ValueError, match=name):
            refusals[-1].execute(context)
    context.launch_configurations[name] = "stops"
    with pytest.raises(RuntimeError, match=name):
        argument.execute(context)


def test_an_arm_whose_contact_is_no_longer_sensed_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = pytest.importorskip("launch")
    pytest.importorskip("launch_ros")
    entities = described_control(launch, monkeypatch)
    (node,) = (one for one in entities if getattr(one, "node_executable", "") == "external_torque_node")
    (handler,) = (one for one in entities if type(one).__name__ == "RegisterEventHandler")
    exited = pytest.importorskip("launch.events.process").ProcessExited
    facts = {"name": "", "cmd": [], "cwd": None, "env": None, "pid": 1, "returncode": 1}
    assert handler.event_handler.matches(exited(action=node, **facts))
    assert not handler.event_handler.matches(exited(action=launch.actions.ExecuteProcess(cmd=["true"]), **facts))

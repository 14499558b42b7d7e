"""The arm as ROS topics: the hardware node, configured and activated, on a real port or with the simulated arm.

Torque stays off until a user calls `hardware/enable`. A real port is refused without `allow_real_port:=true`.
"""

import os
import signal
import tempfile
import uuid

from launch import LaunchContext, LaunchDescription
from launch.action import Action
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    ExecuteProcess,
    GroupAction,
    LogInfo,
    OpaqueFunction,
    RegisterEventHandler,
)
from launch.event_handlers import OnProcessExit, OnProcessIO, OnProcessStart
from launch.events import matches_action
from launch.events.process import ProcessIO, SignalProcess
from launch.launch_description_sources import load_python_launch_file_as_module
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode
from launch_ros.event_handlers import OnStateTransition
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import ExecutableInPackage
from lifecycle_msgs.msg import Transition

HERE = os.path.dirname(os.path.abspath(__file__))
shared = load_python_launch_file_as_module(os.path.join(HERE, "shared.py"))
refuse_unknown_arguments = shared.refusal_of_unknown_arguments(os.path.abspath(__file__))

TRUE = ("true", "1")
SWITCHES = ("write_eeprom", "take_over", "reboot_servos", "allow_real_port", "disable_cpu_idle", "zero_is_no_command")
# Time to bring the arm to rest; on a busy host it is held, and the node itself gives up after a minute. The simulated
# arm must still answer meanwhile.
HARDWARE_PATIENCE = {"sigterm_timeout": "100", "sigkill_timeout": "10"}
ARM_PATIENCE = {"sigterm_timeout": "115"}


def arguments() -> list[DeclareLaunchArgument]:
    """The launch arguments; `ros2 launch dynid bringup.launch.py --show-args` prints them."""
    return [
        DeclareLaunchArgument(
            "robot", default_value="crane_x7", description="Robot name, or a folder with a robot.yaml."
        ),
        DeclareLaunchArgument("port_name", default_value="/dev/ttyUSB0", description="Serial port of the servo bus."),
        DeclareLaunchArgument(
            "baudrate", default_value="", description="Baud rate of the servos [bit/s]; empty: the robot's."
        ),
        DeclareLaunchArgument(
            "rate_hz",
            default_value="",
            description="Control cycle: 1000, 500, 333 or 250 Hz; empty: what line and machine keep.",
        ),
        DeclareLaunchArgument(
            "mount", default_value="", description="How the arm is mounted; empty: the robot's default."
        ),
        DeclareLaunchArgument(
            "use_sim", default_value="false", description="true: start the simulated arm and use its port instead."
        ),
        DeclareLaunchArgument(
            "allow_real_port", default_value="false", description="true: a REAL arm may move on port_name."
        ),
        DeclareLaunchArgument(
            "write_eeprom", default_value="false", description="true: allow writing settings to a real arm's servos."
        ),
        DeclareLaunchArgument(
            "take_over",
            default_value="false",
            description="true: switch off torque that is on at startup; support the arm.",
        ),
        DeclareLaunchArgument(
            "reboot_servos", default_value="false", description="true: reboot servos with a hardware error first."
        ),
        DeclareLaunchArgument(
            "realtime_priority", default_value="0", description="SCHED_FIFO priority of the bus thread; 0: none."
        ),
        DeclareLaunchArgument(
            "disable_cpu_idle",
            default_value="false",
            description="true: no CPU idle states while the arm is active; punctual, for power.",
        ),
        DeclareLaunchArgument(
            "driver_prefix",
            default_value="",
            description="Command prefix for the driver, such as 'taskset -c 3 chrt -f 20'; not sudo.",
        ),
        DeclareLaunchArgument(
            "zero_is_no_command",
            default_value="false",
            description="true: efforts that are all zero end the commands, as a deactivated controller's.",
        ),
        DeclareLaunchArgument(
            "joint_states_topic", default_value="joint_states", description="Topic for the arm's states."
        ),
        DeclareLaunchArgument(
            "joint_commands_topic",
            default_value="joint_commands",
            description="Topic with torque commands for the arm.",
        ),
        DeclareLaunchArgument("namespace", default_value="", description="Namespace of all nodes; use one per arm."),
    ]


def hardware(context: LaunchContext, port: str, clock_file: str = "") -> list[Action]:
    """The hardware node on a port, and what takes it to the active state; `clock_file`: of a simulated arm's time."""
    given = {name: LaunchConfiguration(name).perform(context) for name in ("baudrate", "rate_hz", "mount")}
    parameters: dict[str, object] = {
        "robot": ParameterValue(LaunchConfiguration("robot"), value_type=str),
        "port_name": port,
        "clock_file": clock_file,
        "realtime_priority": ParameterValue(LaunchConfiguration("realtime_priority"), value_type=int),
    }
    for name in SWITCHES:
        parameters[name] = ParameterValue(LaunchConfiguration(name), value_type=bool)
    for name in ("baudrate", "rate_hz"):
        if given[name]:
            parameters[name] = int(given[name])
    if given["mount"]:
        parameters["mount"] = given["mount"]
    node = LifecycleNode(
        executable="hardware_node",
        name="hardware",
        parameters=[parameters],
        remappings=[(name, LaunchConfiguration(f"{name}_topic")) for name in ("joint_states", "joint_commands")],
        prefix=LaunchConfiguration("driver_prefix"),
        **shared.NODE,
        **HARDWARE_PATIENCE,
    )
    started = OnProcessStart(target_action=node, on_start=[shared.change(node, Transition.TRANSITION_CONFIGURE)])
    configured = OnStateTransition(
        target_lifecycle_node=node,
        start_state="configuring",
        goal_state="inactive",
        entities=[shared.change(node, Transition.TRANSITION_ACTIVATE)],
    )
    refused = OnStateTransition(
        target_lifecycle_node=node,
        start_state="configuring",
        goal_state="unconfigured",
        entities=[shared.give_up("the hardware node refused to configure; its error is above")],
    )
    active = OnStateTransition(
        target_lifecycle_node=node,
        goal_state="active",
        entities=[LogInfo(msg="the arm is active; torque is off until hardware/enable is called")],
    )
    ended = OnProcessExit(target_action=node, on_exit=[shared.give_up("the hardware node ended")])
    handlers = (started, configured, refused, active, ended)
    return [*(RegisterEventHandler(handler) for handler in handlers), node]


def simulated_arm(context: LaunchContext) -> list[Action]:
    """The simulated arm; the hardware node follows when it has said its port."""
    robot = LaunchConfiguration("robot").perform(context)
    # as installed, so with the interpreter that dynid's dependencies are in
    clock_file = os.path.join(tempfile.gettempdir(), f"dynid-clock-{uuid.uuid4().hex}")  # the arm makes and removes it
    command = [ExecutableInPackage("simulated_arm", "dynid"), "--ignore-interrupt", "--robot", robot]
    # libraries may print, too, so its output only says when to look into this file
    port_file = os.path.join(tempfile.gettempdir(), f"dynid-port-{uuid.uuid4().hex}")
    command += ["--clock", clock_file, "--port-file", port_file]
    for name in ("mount", "baudrate"):
        if value := LaunchConfiguration(name).perform(context):
            command += [f"--{name}", value]
    # It outlives an interrupt, so that the hardware node can still switch torque off over it.
    arm = ExecuteProcess(
        cmd=command, name="simulated_arm", additional_env=shared.END_WITH_LAUNCH, output="log", **ARM_PATIENCE
    )
    ports: list[str] = []
    given = dict(context.launch_configurations)  # of this arm: by the time of the first line, another one's may count
    end = EmitEvent(event=SignalProcess(signal_number=signal.SIGTERM, process_matcher=matches_action(arm)))

    def on_stdout(event: ProcessIO) -> list[Action] | None:
        if ports or not os.path.exists(port_file):  # before the end, it is there as soon as the port is served
            return None
        with open(port_file, encoding="utf-8") as stream:
            ports.append(stream.read().strip())
        if context.is_shutdown:  # interrupted while the arm was started: it has no hardware node to wait for
            return [end]
        return [GroupAction([OpaqueFunction(function=driver)], launch_configurations=given)]

    def driver(inner: LaunchContext) -> list[Action]:
        nodes = hardware(inner, ports[0], clock_file)
        return [*nodes, RegisterEventHandler(OnProcessExit(target_action=nodes[-1], on_exit=[end]))]

    return [
        RegisterEventHandler(OnProcessIO(target_action=arm, on_stdout=on_stdout)),
        RegisterEventHandler(OnProcessExit(target_action=arm, on_exit=[shared.give_up("the simulated arm ended")])),
        arm,
    ]


def start(context: LaunchContext) -> list[Action]:
    """The simulated arm or the real port, as asked for."""
    if LaunchConfiguration("use_sim").perform(context).lower() in TRUE:
        return simulated_arm(context)
    return hardware(context, LaunchConfiguration("port_name").perform(context))


def generate_launch_description() -> LaunchDescription:
    """Everything above."""
    return LaunchDescription(
        [
            OpaqueFunction(function=refuse_unknown_arguments),
            OpaqueFunction(function=shared.set_middleware),
            *arguments(),
            OpaqueFunction(function=start),
        ]
    )

"""The arm under controller_manager: on our hardware node, mirrored by mock hardware, in Gazebo, or in MuJoCo.

Starts robot_state_publisher, the controller manager (inside Gazebo it comes with the simulator), the state broadcaster
and one controller; the other one is loaded, so that `ros2 control switch_controllers` can change over.

On the real profile torque stays off until `hardware/enable` is called, and the trajectory controller is loaded only:
enable the arm, then activate it, and it holds the arm where it is. The effort controller is not there at all, because
it keeps its last torque for ever; dynid's executor talks to the hardware node itself.
"""

import os

from launch import LaunchContext, LaunchDescription
from launch.action import Action
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction, RegisterEventHandler
from launch.conditions import IfCondition
from launch.event_handlers import OnProcessExit
from launch.launch_description_sources import PythonLaunchDescriptionSource, load_python_launch_file_as_module
from launch.substitutions import Command, EqualsSubstitution, FindExecutable, LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

HERE = os.path.dirname(os.path.abspath(__file__))
shared = load_python_launch_file_as_module(os.path.join(HERE, "shared.py"))
refuse_unknown_arguments = shared.refusal_of_unknown_arguments(os.path.abspath(__file__))

REAL, MOCK, GAZEBO, MUJOCO = "real", "mock", "gazebo", "mujoco"
CONTROLLERS = ("effort_controller", "joint_trajectory_controller")
# The hardware node's own topics; `joint_states` belongs to the broadcaster, as everybody expects.
STATES, COMMANDS = "hardware/joint_states", "hardware/joint_commands"


def arguments() -> list[DeclareLaunchArgument]:
    """What can be chosen here; those of bringup hold for the real profile."""
    return [
        DeclareLaunchArgument(
            "ros2_control",
            default_value=MOCK,
            choices=[REAL, MOCK, GAZEBO, MUJOCO],
            description="Hardware under the controllers. real: dynid's hardware node; for gazebo use gazebo.launch.py.",
        ),
        DeclareLaunchArgument(
            "controller",
            default_value=CONTROLLERS[0],
            choices=list(CONTROLLERS),
            description="Controller to activate; the other one is only loaded.",
        ),
        DeclareLaunchArgument(
            "inertials",
            default_value="",
            description="Accepted model.yaml whose inertias go into the description; empty: nominal inertias.",
        ),
        DeclareLaunchArgument(
            "mount", default_value="upright", description="How the arm is mounted: upright or hanging."
        ),
        DeclareLaunchArgument("mujoco_model", default_value="", description="MJCF file for the mujoco profile."),
        DeclareLaunchArgument(
            "use_sim_time",
            default_value="false",
            description="true: use time from /clock; always on in Gazebo and MuJoCo.",
        ),
        DeclareLaunchArgument("start_rviz", default_value="false", description="true: start RViz as well."),
        DeclareLaunchArgument("namespace", default_value="", description="Namespace of all nodes; use one per arm."),
    ]


def share(*parts: str) -> str:
    """A file of this package, beside the launch folder."""
    return os.path.join(os.path.dirname(HERE), *parts)


def description(namespace: str, inertials: str) -> dict[str, ParameterValue]:
    """`robot_description` from the xacro, for robot_state_publisher."""
    absolute = f"/{namespace.strip('/')}" if namespace.strip("/") else ""
    given: list[object] = [FindExecutable(name="xacro"), " ", share("urdf", "crane_x7", "crane_x7.urdf.xacro")]
    for name in ("ros2_control", "mount", "mujoco_model", "namespace"):
        given += [f" {name}:=", LaunchConfiguration(name)]
    given += [f" joint_states_topic:={absolute}/{STATES} joint_commands_topic:={absolute}/{COMMANDS}"]
    given += [" controllers_file:=", share("config", "crane_x7", "ros2_control.yaml")]
    if inertials:
        given += [f" inertials:={os.path.abspath(inertials)}"]
    return {"robot_description": ParameterValue(Command(given), value_type=str)}


def spawner(name: str, *more: str) -> Node:
    """Loads a controller, and activates it unless configured otherwise; ends when that is done."""
    return Node(
        package="controller_manager",
        executable="spawner",
        namespace=LaunchConfiguration("namespace"),
        output="screen",
        arguments=[
            name,
            "--controller-manager",
            "controller_manager",
            "--param-file",
            share("config", "crane_x7", "ros2_control.yaml"),
            *more,
        ],
    )


def nodes(context: LaunchContext) -> list[Action]:
    """Everything but the hardware node."""
    profile, chosen = (LaunchConfiguration(name).perform(context) for name in ("ros2_control", "controller"))
    namespace, inertials = (LaunchConfiguration(name).perform(context) for name in ("namespace", "inertials"))
    simulated = profile in (GAZEBO, MUJOCO)
    timed = {"use_sim_time": simulated or ParameterValue(LaunchConfiguration("use_sim_time"), value_type=bool)}
    local = [("/tf", "tf"), ("/tf_static", "tf_static")]  # two arms have the same frames
    where = {"namespace": LaunchConfiguration("namespace"), "output": "screen"}
    publisher = Node(
        package="robot_state_publisher",
        executable="robot_state_publisher",
        parameters=[description(namespace, inertials), timed],
        remappings=local,
        **where,
    )
    found: list[Action] = [publisher]
    if profile != GAZEBO:
        package = "mujoco_ros2_control" if profile == MUJOCO else "controller_manager"
        manager = Node(
            package=package,
            executable="ros2_control_node",
            parameters=[share("config", "crane_x7", "ros2_control.yaml"), timed],
            **where,
        )
        over = OnProcessExit(target_action=manager, on_exit=[shared.give_up("the controller manager ended")])
        found += [manager, RegisterEventHandler(over)]
    found.append(spawner("joint_state_broadcaster"))
    if profile == REAL:
        found.append(spawner("joint_trajectory_controller", "--inactive"))
    else:
        found += [spawner(chosen), *(spawner(name, "--inactive") for name in CONTROLLERS if name != chosen)]
    rviz = Node(
        package="rviz2",
        executable="rviz2",
        arguments=["-d", share("config", "views", "dynid.rviz")],
        parameters=[timed],
        remappings=local,
        condition=IfCondition(LaunchConfiguration("start_rviz")),
        **where,
    )
    return [*found, rviz]


def hardware() -> IncludeLaunchDescription:
    """The hardware node of the real profile, its topics out of the broadcaster's way."""
    return IncludeLaunchDescription(
        PythonLaunchDescriptionSource(os.path.join(HERE, "bringup.launch.py")),
        launch_arguments={
            "joint_states_topic": STATES,
            "joint_commands_topic": COMMANDS,
            "zero_is_no_command": "true",  # deactivated, a controller leaves zeros, and the arm would fall
        }.items(),
        condition=IfCondition(EqualsSubstitution(LaunchConfiguration("ros2_control"), REAL)),
    )


def generate_launch_description() -> LaunchDescription:
    """Everything above."""
    return LaunchDescription(
        [
            OpaqueFunction(function=refuse_unknown_arguments),
            OpaqueFunction(function=shared.set_middleware),
            *arguments(),
            hardware(),
            OpaqueFunction(function=nodes),
        ]
    )

"""Adaptive identification of an arm behind the running nodes: segments are planned here, the executor follows them.

As a client it enables the arm, records, moves, disables, identifies. Parameters: `output` is the folder of bag and
result, `scene` the free space, `longest_s` the motion at most, `after` the model before a change. While the arm moves,
the topic `identification_progress` says how far it is. Exit code 0 only if the model was accepted.
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dynid.adaptive.files import AdaptiveFiles, AdaptiveResult
from dynid.adaptive.session import AdaptiveRun
from dynid.adaptive.settings import AdaptiveSettings
from dynid.errors import NodeError, SafetyError
from dynid.identification.data.sources import load_recording
from dynid.identification.pipeline import identify
from dynid.nodes.arm_stream import ArmStream
from dynid.nodes.chain import Chain, ChainOptions
from dynid.nodes.collect import STATES_TIMEOUT_S, begin_recording, end_recording, states_arrive
from dynid.nodes.commanded_arm import CommandedArm
from dynid.nodes.common import declare
from dynid.nodes.supervisor import Supervisor, run_client
from dynid.recording.settings import HardwareSettings, reported_settings
from dynid.recording.topics import HARDWARE_SETTINGS
from dynid.resources import make_folder
from dynid.robot import Robot, load_robot

LOGS = "logs"
Progress = Callable[[str], None]


def move_and_record(robot: Robot, call: Supervisor, stream: ArmStream, files: AdaptiveFiles) -> AdaptiveRun:
    """Move the arm that the nodes drive, whose torque is on, and record it; at the end it stands at its rest posture.

    Raises:
        NodeError: a node refused, or does not answer.
        SafetyError: no segment is safe, a motion was refused, or nothing says what stands around a real arm.
    """
    refuse_unknown_space(robot, reported_settings(call.latched_text(HARDWARE_SETTINGS), robot), files)
    make_folder(files.out)
    files.identification.report = stream.report
    begin_recording(call, "", files.settings.profile, files.bag)
    try:
        arm = CommandedArm(robot, call, stream)
        arm.to_start(files.identification.start().feed)
        run = files.identification.run(arm, to_rest=True)
    except BaseException:
        with contextlib.suppress(NodeError):  # it may be what failed
            call.trigger("executor/cancel")
        with contextlib.suppress(NodeError):
            call.trigger("recorder/stop")
        raise
    end_recording(call)
    call.set_parameters("executor", {"series": ""})
    return run


def refuse_unknown_space(robot: Robot, settings: HardwareSettings, files: AdaptiveFiles) -> None:
    """Raise SafetyError for a real arm about whose surroundings nothing is known: segments go anywhere."""
    if files.identification.planner.box is None and not settings.simulated:
        raise SafetyError(
            f"{robot.name} is a real arm and has no scene.yaml: describe the free space around it in a file and name "
            "it with --scene (parameter scene)"
        )


def written(robot: Robot, files: AdaptiveFiles, run: AdaptiveRun, progress: Progress) -> AdaptiveResult:
    """Identify from the bag of a run, and write the result.

    Raises:
        DataError: no look came to a model; bag and adaptive.json are there.
    """
    if run.identification is None:
        return files.write(run, None)
    progress("identifying from the bag")
    source = load_recording(files.bag, robot)
    found = identify(robot, [source], settings=files.identification.identification)
    return files.write(replace(run, identification=found), found)


def run_with_chain(robot: Robot, options: ChainOptions, files: AdaptiveFiles, progress: Progress) -> AdaptiveResult:
    """Start the chain, identify its arm while it moves, and end the chain; errors as of the parts."""
    make_folder(files.out)
    with Chain(robot, options, files.out / LOGS) as chain:
        chain.bring_up()
        call = chain.supervisor
        with ArmStream(robot) as stream:
            run = move_and_record(robot, call, stream, files)
        progress("switching torque off")
        call.set_enabled("hardware", False)
        call.trigger("executor/release")
    return written(robot, files, run, progress)


def identify_adaptively(call: Supervisor) -> str:
    """Identify the arm of the running nodes as the parameters say; returns what came out.

    Raises:
        NodeError: as of `move_and_record`, or the model was not accepted.
    """
    robot = load_robot(declare(call.node, "robot", "crane_x7", "robot name or folder", fixed=True))
    output = Path(declare(call.node, "output", "", "new folder of bag and result", fixed=True)).absolute()
    scene = declare(call.node, "scene", "", "free space as YAML; '' is scene.yaml of the robot", fixed=True)
    longest_s = declare(call.node, "longest_s", 30.0, "motion at most [s]", fixed=True)
    after = declare(call.node, "after", "", "model.yaml of the arm before a change; '' starts anew", fixed=True)
    mount = reported_settings(call.latched_text(HARDWARE_SETTINGS), robot).mount
    log = call.node.get_logger().info
    files = AdaptiveFiles(
        robot,
        output,
        scene=Path(scene) if scene else None,
        settings=AdaptiveSettings(longest_s=longest_s),
        after=Path(after) if after else None,
        mount=mount,
        progress=log,
    )
    call.wait(lambda: states_arrive(call), STATES_TIMEOUT_S, "the arrival of joint_states at the executor")
    with ArmStream(robot) as stream:
        call.set_enabled("hardware", True)
        try:
            run = move_and_record(robot, call, stream, files)
        finally:
            call.set_enabled("hardware", False)
            call.trigger("executor/release")
    result = written(robot, files, run, log)
    if not result.run.accepted:
        raise NodeError(f"{result.run.end}: see {result.report}")
    return f"{result.run.end}; {result.report}"


def main() -> None:
    """Run one adaptive identification and end."""
    run_client("adaptive", identify_adaptively)


if __name__ == "__main__":
    main()

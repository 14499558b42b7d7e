"""Adaptive identification of an arm behind the running nodes: segments are planned here, the executor follows them.

As a client it enables the arm, records, moves, disables, identifies. Parameters: `output` is the folder of bag and
result, `scene` the free space, `longest_s` the motion at most, `after` the model before a change. While the arm moves,
the topic `identification_progress` says how far it is. Exit code 0 only if the model was accepted.
"""

import contextlib
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dynid.adaptive.files import AdaptiveFiles, AdaptiveResult
from dynid.adaptive.outcome import AdaptiveRun
from dynid.adaptive.settings import AdaptiveSettings, longest_motion
from dynid.errors import NodeError, SafetyError
from dynid.identification.data.sources import load_recording
from dynid.identification.pipeline import identify
from dynid.nodes.arm_stream import ArmStream
from dynid.nodes.chain import Chain, ChainOptions
from dynid.nodes.collect import begin_recording, end_recording, wait_for_arm
from dynid.nodes.commanded_arm import CommandedArm
from dynid.nodes.common import declare, refuse_unknown_parameters
from dynid.nodes.supervisor import Supervisor, run_client
from dynid.recording.settings import HardwareSettings, reported_settings
from dynid.recording.topics import HARDWARE_SETTINGS
from dynid.resources import make_folder, new_path
from dynid.robot import Robot, load_robot

LOGS = "logs"
PLANNING_NICE = 10
Progress = Callable[[str], None]


def move_and_record(robot: Robot, call: Supervisor, stream: ArmStream, files: AdaptiveFiles) -> AdaptiveRun:
    """Move the arm that the nodes drive, whose torque is on, and record it; at the end it stands at its rest posture.

    Raises:
        NodeError: a node refused, or does not answer.
        SafetyError: no segment is safe, the arm was stopped, or nobody described what stands around a real arm.
    """
    refuse_unknown_space(robot, reported_settings(call.latched_text(HARDWARE_SETTINGS), robot), files)
    make_folder(files.out)
    files.identification.report = stream.report
    arm = CommandedArm(robot, call, stream, files.scene)
    try:
        begin_recording(call, "", files.settings.profile, files.bag)
        try:
            arm.to_start(files.identification.start().feed)
            run = files.identification.run(arm, to_rest=True)
        except BaseException:
            _stop(call)
            raise
        end_recording(call)
    except SafetyError as error:
        raise SafetyError(f"{error}; what was recorded is in {files.bag}") from error
    finally:
        with contextlib.suppress(NodeError):
            arm.leave()
    stream.report({"kind": "end", "motion_s": run.motion_s, "accepted": run.accepted, "text": run.end})
    return run


def _stop(call: Supervisor) -> None:
    """Brake, and close the bag, as far as the nodes still answer."""
    for service in ("executor/cancel", "recorder/stop"):
        with contextlib.suppress(NodeError):
            call.trigger(service)


def refuse_unknown_space(robot: Robot, settings: HardwareSettings, files: AdaptiveFiles) -> None:
    """Raise SafetyError for a real arm whose surroundings nobody described: segments go anywhere."""
    if files.scene is None and not settings.simulated:
        raise SafetyError(
            f"{robot.name} is a real arm, and segments go anywhere in the free space: describe that around it in a "
            "file and name it with --scene (parameter scene)"
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
    with Chain(robot, options, new_path(files.out / LOGS)) as chain:
        chain.bring_up()
        call = chain.supervisor
        with ArmStream(robot) as stream:
            _give_way()
            run = move_and_record(robot, call, stream, files)
        progress("switching torque off")
        _release(call)
    return written(robot, files, run, progress)


def identify_adaptively(call: Supervisor) -> str:
    """Identify the arm of the running nodes as the parameters say; returns what came out.

    Raises:
        NodeError: as of `move_and_record`, or the model was not accepted.
    """
    robot = load_robot(declare(call.node, "robot", "crane_x7", "robot name or folder", fixed=True))
    output = Path(declare(call.node, "output", "", "new folder of bag and result", fixed=True)).absolute()
    scene = declare(call.node, "scene", "", "free space as YAML; '' is scene.yaml of the robot", fixed=True)
    longest_s = declare(call.node, "longest_s", 0.0, "motion at most [s]; 0 is the usual time", fixed=True)
    after = declare(call.node, "after", "", "model.yaml of the arm before a change; '' starts anew", fixed=True)
    refuse_unknown_parameters(call.node)
    log = call.node.get_logger().info
    files = AdaptiveFiles(
        robot,
        output,
        scene=Path(scene) if scene else None,
        settings=AdaptiveSettings(longest_s=longest_motion(longest_s or None, after=bool(after))),
        after=Path(after) if after else None,
        mount=reported_settings(call.latched_text(HARDWARE_SETTINGS), robot).mount,
        progress=log,
    )
    wait_for_arm(call)
    with ArmStream(robot) as stream:
        _give_way()
        try:
            call.set_enabled("hardware", True)
            run = move_and_record(robot, call, stream, files)
        except BaseException:
            with contextlib.suppress(NodeError):  # it may be what failed
                _release(call)
            raise
        _release(call)
    result = written(robot, files, run, log)
    if not result.run.accepted:
        raise NodeError(f"{result.run.end}: see {result.report}")
    return f"{result.run.end}; {result.report}"


def _release(call: Supervisor) -> None:
    """Switch torque off, which lowers the arm, and stop commanding it."""
    call.set_enabled("hardware", False)
    call.trigger("executor/release")


def _give_way() -> None:
    """From now on this thread, which plans and identifies, has its turn after the control cycle's processes."""
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), PLANNING_NICE)


def main() -> None:
    """Run one adaptive identification and end."""
    run_client("adaptive", identify_adaptively)


if __name__ == "__main__":
    main()

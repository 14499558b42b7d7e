"""Client that identifies an arm adaptively: it plans motion segments, and running nodes execute and record them.

The client switches torque on, records the arm in motion, switches torque off and identifies a model from the bag.
Parameters: `output` is the folder of bag and result, `scene` a file that describes the free space, `longest_s` the
maximum time of motion, and `after` an earlier model.yaml of the arm: the run starts with this model, and the result
lists the parameters that have changed. While the arm moves, the topic `identification_progress` reports the progress.
The exit code is 0 only if the model was accepted.
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
from dynid.errors import DynidError, NodeError, SafetyError
from dynid.identification.data.recordings import load_recording
from dynid.identification.pipeline import identify
from dynid.nodes.arm_stream import ArmStream
from dynid.nodes.chain import Chain, ChainOptions
from dynid.nodes.collect import begin_recording, end_recording, wait_for_arm
from dynid.nodes.commanded_arm import CommandedArm
from dynid.nodes.common import declare, refuse_unknown_parameters
from dynid.nodes.supervisor import Supervisor, lower_arm, run_client
from dynid.recording.settings import HardwareSettings, reported_settings
from dynid.recording.topics import HARDWARE_SETTINGS
from dynid.resources import make_folder, new_path
from dynid.robot import Robot, load_robot

LOGS = "logs"
PLANNING_NICE = 10
Progress = Callable[[str], None]


def move_and_record(robot: Robot, call: Supervisor, stream: ArmStream, files: AdaptiveFiles) -> AdaptiveRun:
    """Plan motion segments, move the arm through them, record the motion into a bag, and return the adaptive run.

    The arm ends at its rest posture. Torque must be on.

    Args:
        robot: robot of the arm.
        call: client of the running nodes.
        stream: receiver of the arm's topics.
        files: planner, settings and output paths of the adaptive identification.

    Raises:
        NodeError: a node refused, or does not answer.
        SafetyError: no segment is safe, the arm was stopped, or no file describes the free space of a real arm.
    """
    refuse_unknown_space(robot, reported_settings(call.latched_text(HARDWARE_SETTINGS), robot), files)
    make_folder(files.out)
    files.identification.report = stream.report
    arm = CommandedArm(robot, call, stream, files.scene)
    try:
        begin_recording(call, "", files.settings.profile, files.bag)
        try:
            arm.to_start(files.identification.start().feedforward)
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
    """Brake the arm and close the bag; ignore nodes that refuse or do not answer."""
    for service in ("executor/cancel", "recorder/stop"):
        with contextlib.suppress(NodeError):
            call.trigger(service)


def refuse_unknown_space(robot: Robot, settings: HardwareSettings, files: AdaptiveFiles) -> None:
    """Raise SafetyError if the arm is real and the user has given no file of its free space (`files.scene`).

    Planned segments may go anywhere in the free space.
    """
    if files.scene is None and not settings.simulated:
        raise SafetyError(
            f"{robot.name} is a real arm, and segments go anywhere in the free space: describe that around it in a "
            "file and name it with --scene (parameter scene)"
        )


def write_identification(robot: Robot, files: AdaptiveFiles, run: AdaptiveRun, progress: Progress) -> AdaptiveResult:
    """Identify a model from the bag of an adaptive run, write the result and return it.

    Args:
        robot: robot of the arm.
        files: settings and output paths of the adaptive identification.
        run: the finished run.
        progress: function that receives the name of the present stage.

    Raises:
        DataError: no model could be identified during the motion, or from its bag; bag and adaptive.json are kept.
    """
    if run.identification is None:
        return files.write(run, None)
    progress("identifying from the bag")
    try:
        source = load_recording(files.bag, robot)
        found = identify(robot, [source], settings=files.identification.identification)
    except DynidError:
        files.write_summary(replace(run, identification=None), None)
        raise
    return files.write(replace(run, identification=found), found)


def run_with_chain(robot: Robot, options: ChainOptions, files: AdaptiveFiles, progress: Progress) -> AdaptiveResult:
    """Start all nodes, move the arm adaptively, end the nodes, write the identified model and return the result.

    Args:
        robot: robot of the arm.
        options: options of the arm and its nodes.
        files: planner, settings and output paths of the adaptive identification.
        progress: function that receives the name of the present stage.

    Raises:
        NodeError: a node does not start, refuses, or does not answer.
        SafetyError: no segment is safe, the arm was stopped, or no file describes the free space of a real arm.
        DataError: no model could be identified during the motion, or from its bag; bag and adaptive.json are kept.
    """
    with Chain(robot, options, new_path(files.out / LOGS)) as chain:
        chain.bring_up()
        call = chain.supervisor
        with ArmStream(robot) as stream:
            _lower_priority()
            run = move_and_record(robot, call, stream, files)
        progress("switching torque off")
        lower_arm(call)
    return write_identification(robot, files, run, progress)


def identify_adaptively(call: Supervisor) -> str:
    """Identify the arm of the running nodes adaptively; return the outcome as text.

    The options, such as `output` and `scene`, are ROS parameters of the calling node, see the top of the file.

    Raises:
        NodeError: a node refused or does not answer, or the model was not accepted.
        SafetyError: no segment is safe, the arm was stopped, or no file describes the free space of a real arm.
        OutputExistsError: one of the outputs exists in the folder `output`.
        DataError: the earlier model `after` cannot be used, or no model could be identified during the motion or from
            its bag. In the latter case bag and adaptive.json are kept.
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
        _lower_priority()
        try:
            call.set_enabled("hardware", True)
            run = move_and_record(robot, call, stream, files)
        except BaseException:
            with contextlib.suppress(NodeError):  # the node that failed may refuse this as well
                lower_arm(call)
            raise
        lower_arm(call)
    result = write_identification(robot, files, run, log)
    if not result.run.accepted:
        raise NodeError(f"{result.run.end}: see {result.report}")
    return f"{result.run.end}; {result.report}"


def _lower_priority() -> None:
    """Lower the priority of the calling thread, which plans and identifies, below that of the control processes."""
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), PLANNING_NICE)


def main() -> None:
    """Run one adaptive identification, then end the process."""
    run_client("adaptive", identify_adaptively)


if __name__ == "__main__":
    main()

"""Demo of all steps from recording to control with an identified model, run by ROS nodes and judged by named checks.

Two motions are executed and recorded. The model is identified from the first and validated on the second. Then a
separate process reads the published model, which is compared with model.yaml and model.urdf. The arm holds its posture
during these steps. At the end it repeats the second motion with computed torque and the identified model, which shows
how much the model improves control.
"""

import json
import os
import subprocess  # nosec - a fixed argument list, no shell
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dynid.demo.checks import AT_REST, GAIN, PUBLISHED, RECORDED, Published
from dynid.errors import ConfigurationError, NodeError
from dynid.hardware.safety.settings import load_safety
from dynid.identification.checks import judge
from dynid.model.chain import SerialChain, pinocchio_chain_model
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import ModelFile, read_model_file
from dynid.model.standard import springs_among
from dynid.nodes.chain import Chain, ChainOptions
from dynid.nodes.supervisor import lower_arm
from dynid.parent import PARENT_VARIABLE
from dynid.recording.completeness import completeness
from dynid.recording.driver_recording import load_driver_recording
from dynid.recording.tracking import tracking_rms
from dynid.reporting.report import FILE_NAME, write_report
from dynid.reporting.result_folder import open_result
from dynid.resources import refuse_existing
from dynid.robot import Robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.files import is_file_name, named_motion
from dynid.verdict import Verdict

CONTROLLER = "computed_torque"
READ_BACK_TIMEOUT_S = 60.0
# timeout of an identification: seven joints and 100 s of motion take a minute, and several on a slow or busy machine
IDENTIFICATION_S = 600.0
MOTIONS = ("demo_identification", "demo_validation")
GENTLE_MOTIONS = ("gentle_identification", "gentle_validation")


@dataclass(frozen=True)
class DemoOptions:
    """Options of a demo run.

    Attributes:
        chain: options of the ROS nodes and of the real or simulated arm, which the demo starts.
        output: new folder for all results.
        motions: identification motion and validation motion, in this order. A key is the name of a motion, and of the
            bag into which it is recorded. The value is the same name, or the path of the motion's trajectory file.
        profile: profile of excitation.yaml with which motions given by name are executed; it sets their limits.
        gain: whether to repeat the validation motion with the identified model, to measure the gain in accuracy.
    """

    chain: ChainOptions
    output: Path
    motions: dict[str, str]
    profile: str = "limited"
    gain: bool = True


def usual_motions(robot: Robot, chain: ChainOptions) -> tuple[str, str]:
    """Return the names of a robot's default identification motion and validation motion.

    `GENTLE_MOTIONS`, which load the servos less, are chosen if the robot has them and its servos switch off under
    sustained load.
    """
    limited = chain.trips or load_safety(robot).overload_limits
    gentle = set(GENTLE_MOTIONS) <= set(load_excitation(robot).names)
    return GENTLE_MOTIONS if limited and gentle else MOTIONS


def chosen_motions(robot: Robot, *wanted: str) -> dict[str, str]:
    """Return the motions that a user has chosen, in the form of `DemoOptions.motions`.

    Args:
        robot: robot that has the motions.
        wanted: identification motion and validation motion, each a name or the path of a trajectory file.

    Raises:
        UnknownNameError: there is no such motion.
        InputNotFoundError: there is no such file.
        ConfigurationError: a file is not valid, or both motions have the same name.
    """
    excitation = load_excitation(robot)
    names = [named_motion(excitation, one).name for one in wanted]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"'{names[0]}' cannot validate a model that was identified from it; name another")
    paths = (str(Path(one).absolute()) if is_file_name(one) else one for one in wanted)
    return dict(zip(names, paths, strict=True))


def run_demo(robot: Robot, options: DemoOptions, console: Console) -> Verdict:
    """Run the demo, from recorded motor currents to the published model, and return the verdict of its checks.

    Args:
        robot: robot of the demo.
        options: motions, output folder and options of the nodes.
        console: console that shows the progress and the answer of the identification node.

    Raises:
        OutputExistsError: the output folder exists.
        NodeError: a node refused a request or ended; the message says why.
    """
    refuse_existing(options.output)
    options.output.mkdir(parents=True)
    bags = [options.output / "bags" / name for name in options.motions]
    model_folder = options.output / "model"
    columns = (TextColumn("{task.description:42}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bars = _Bars(progress)
        bars.begin("starting the chain")
        with Chain(robot, options.chain, options.output / "logs") as chain:
            chain.bring_up()
            for bag, wanted in zip(bags, options.motions.values(), strict=True):
                bars.begin(f"executing {bag.name}")
                chain.run_trajectory(wanted, options.profile, bag, bars.report)
            if not options.gain:
                _to_rest(chain, bars)
            bars.begin("identifying and validating")
            answer = _identify(chain, bags, model_folder)
            bars.begin("reading the published model back")
            published = _read_back(chain, robot)
            if options.gain:
                repeated = _repeat(chain, options, bars)
                _to_rest(chain, bars)
        bars.end()
    console.print(answer)
    model_file = read_model_file(model_folder / "model.yaml")
    verdict = judge(RECORDED, [completeness(bags[0])], of=bags[0].name)
    verdict += judge(RECORDED, [completeness(bags[1])], of=bags[1].name) + Verdict(model_file.verdict)
    verdict += judge(PUBLISHED, [_compared(robot, model_file, published, model_folder)])
    if options.gain:
        verdict += judge(GAIN, [[] if repeated is None else _tracking_rms_deg(robot, [bags[1], repeated])])
        if repeated is not None:
            tracked = (bags[1], repeated)
            write_report(open_result(model_folder, robot), options.output / FILE_NAME, tracked=tracked)
    if options.chain.real_port is None:
        summary = _arm_summary(chain)
        verdict += judge(AT_REST, [summary])
        console.print(_real_time_factor(summary, options.chain))
    return verdict


def _to_rest(chain: Chain, bars: "_Bars") -> None:
    bars.begin("bringing the arm to rest")
    lower_arm(chain.supervisor)


def _repeat(chain: Chain, options: DemoOptions, bars: "_Bars") -> Path | None:
    """Repeat the validation motion with computed torque and the identified model, and return the path of its bag.

    Return None if the executor refuses computed torque, because no model was accepted.
    """
    name, wanted = list(options.motions.items())[1]
    bars.begin(f"repeating {name} with the identified model")
    try:
        chain.supervisor.set_parameters("executor", {"controller": CONTROLLER})
    except NodeError:
        return None
    bag = options.output / "bags" / f"{name}_{CONTROLLER}"
    chain.run_trajectory(wanted, options.profile, bag, bars.report)
    return bag


def _tracking_rms_deg(robot: Robot, bags: list[Path]) -> list[float]:
    return [float(np.rad2deg(np.sqrt(np.mean(tracking_rms(load_driver_recording(bag, robot)) ** 2)))) for bag in bags]


class _Bars:
    """Display of the demo's progress, one bar for each of its steps; a bar is completed when the next step begins."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def begin(self, text: str) -> None:
        self.end()
        self._task = self._progress.add_task(text, total=None)

    def report(self, text: str, done: float, total: float) -> None:
        if self._task is not None:
            self._progress.update(self._task, description=text, completed=done, total=total)

    def end(self) -> None:
        if self._task is not None:
            task = next(t for t in self._progress.tasks if t.id == self._task)
            total = task.total or 1.0
            self._progress.update(self._task, total=total, completed=total)
            self._progress.stop_task(self._task)


def _identify(chain: Chain, bags: list[Path], output: Path) -> str:
    """Let the identification node identify from the first bag and validate on the second; return its answer.

    A model that is written but not accepted raises no error, because the verdict reports it. `output` is the folder of
    the result.

    Raises:
        NodeError: the identification wrote no model.
    """
    bag_lists = {"bags": [str(bags[0])], "validation_bags": [str(bags[1])]}
    chain.supervisor.set_parameters("identification", {**bag_lists, "output": str(output)})
    try:
        return chain.supervisor.trigger("identification/identify", timeout_s=IDENTIFICATION_S)
    except NodeError as error:
        if (output / "model.yaml").is_file():
            return str(error)
        raise


def _read_back(chain: Chain, robot: Robot) -> dict[str, object]:
    """Return the model that the identification node publishes, read through ROS by a separate process.

    The dictionary is the result of `dynid.nodes.readback.read_back`: base parameters, structure hash, acceptance, URDF.
    """
    names = ArmModel.of(robot).names
    command = [sys.executable, "-m", "dynid.nodes.readback", "identification", *names]
    environment = {**os.environ, PARENT_VARIABLE: str(os.getpid())}
    done = subprocess.run(  # noqa: S603 - a fixed argument list, no shell
        command, env=environment, capture_output=True, text=True, timeout=READ_BACK_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise NodeError(f"reading the model back failed: {done.stderr.strip().splitlines()[-1:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def _compared(robot: Robot, model_file: ModelFile, published: dict[str, object], folder: Path) -> Published:
    """Compare the published parameters, the published URDF and the file model.urdf with the model of model.yaml.

    Args:
        robot: robot of the model.
        model_file: content of model.yaml.
        published: published model as a dictionary, the result of `_read_back`.
        folder: folder of model.urdf.
    """
    model = ArmModel.of(robot, mount=model_file.mount)
    phi = model_file.base_parameters(model)
    values = published["phi"]
    assert isinstance(values, dict)
    difference = np.abs(np.array([values[name] for name in phi.names]) - phi.values)
    # NaN means that a parameter was never set: the check then fails
    same, unset = float(np.max(difference)), ""
    if not np.isfinite(difference).all():
        why = "" if model_file.accepted else ", because the model was not accepted"
        same, unset = float("nan"), f"the node has not published all parameters{why}"
    on_disk = urdf_torque_difference(robot, model, model_file, (folder / "model.urdf").read_text(encoding="utf-8"))
    # a rejected model must not be published, so there is nothing to compare
    if unset and not (model_file.accepted or published["accepted"]):
        return Published(float("nan"), same, unset, len(values), float("nan"), on_disk)
    torque = urdf_torque_difference(robot, model, model_file, str(published["robot_description"]))
    matching = published["structure_hash"] == model_file.structure_hash and published["accepted"] == model_file.accepted
    return Published(float(matching), same, unset, len(values), torque, on_disk)


def urdf_torque_difference(robot: Robot, model: ArmModel, model_file: ModelFile, urdf: str) -> float:
    """Return the largest difference of a joint torque between a URDF and a model, at 20 random states [N m].

    Pinocchio computes the torques of the URDF. A URDF does not contain rotor inertias and springs, so their torques are
    added from the model. Friction is excluded, because a URDF has only two friction values that approximate the model.

    Args:
        robot: robot of the model.
        model: geometry and structure of the model.
        model_file: content of model.yaml.
        urdf: text of the URDF.
    """
    import pinocchio

    chain = SerialChain(pinocchio_chain_model(urdf, robot.joint_names[: robot.chain_size]))
    chain.model.gravity.linear = np.array(model.gravity)
    data, standard = chain.model.createData(), model_file.standard_parameters(model)
    rotors, n = standard.axis("IA")[: model.chain_size], model.chain_size
    q, dq, ddq = np.random.default_rng(0).uniform(-1.5, 1.5, (3, 20, robot.size))
    friction = [kind for kind in KINDS if kind != "IA"]
    links = of_kinds(model_file.base_parameters(model), friction, others=True)
    expected = model.inverse_dynamics(q, dq, ddq, links)[:, :n]
    found = [
        pinocchio.rnea(chain.model, data, q[k, :n], dq[k, :n], ddq[k, :n]) + rotors * ddq[k, :n] for k in range(len(q))
    ]
    torques = np.array(found)
    for spring in springs_among(robot, standard):
        torques[:, spring.joint] += spring.torque(q[:, spring.joint])
    return float(np.abs(torques - expected).max())


def _arm_summary(chain: Chain) -> dict[str, Any]:
    """Return the summary that the simulated arm logs when it ends, as a dictionary.

    The summary contains, among others, the torque state of each servo, goal currents [A] and the simulated time [s].
    """
    assert chain.arm is not None
    lines = chain.arm.log.read_text(encoding="utf-8").strip().splitlines()
    return dict(json.loads(lines[-1]))


def _real_time_factor(summary: dict[str, Any], options: ChainOptions) -> str:
    """Return a sentence that states the real-time factor of the simulated arm, or that the arm did not wait.

    The factor is the fraction of time in which the arm's clock ran. In the remaining time the clock was paused, and the
    arm waited for a busy host.

    Args:
        summary: result of `_arm_summary`.
        options: options of the nodes and the arm. If `paused_clock` is False, the arm never waits.
    """
    if not options.paused_clock:
        return "the simulated arm did not wait for this machine (--wall-clock)"
    moved_s, held_s = summary["time_s"], summary["held_time_s"]
    return f"real-time factor {moved_s / (moved_s + held_s):.2f}: the arm waited {held_s:.1f} s for this machine"

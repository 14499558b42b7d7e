"""From the URDF of a random arm of servos to an accepted model, by the documented commands alone.

Each command runs in a process of its own, as a user starts it. What it prints to stderr counts: a warning of a library
is a finding, even if the model is accepted.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.studies.gravity_truth import GravityFigures, gravity_figures
from benchmarks.studies.servo_arms import ServoArm, draw_arm

MOTIONS = ("demo_identification", "demo_validation")
WARNING = re.compile(r"^.*\b\w*Warning\b.*$", re.MULTILINE)  # as Python prints numpy's
CURRENT_LIMIT = re.compile(r"stands more for a short time, write current_limit_a: ([0-9.]+[0-9])")
MOTION_FILES = ("excitation.yaml", "controller.yaml", "safety.yaml")  # files that `robot motions` drafts
TRACEBACK = "Traceback (most recent call last)"
TIMEOUT_S = 1800.0
LEAST_ACCEPTED = 0.95  # share of the arms
MOST_GRAVITY_ERROR = 0.05  # error of an accepted model's gravity torques up to which it need not state it
MOST_DEVIATIONS = 2.0  # ratio of that error to the stated one, both over all postures, that still counts as stated


@dataclass(frozen=True)
class ArmRun:
    """Result of one arm.

    Attributes:
        seed: seed of the arm.
        joints: number of its joints.
        mass_kg: mass of its moving links.
        servos: servo models of its joints.
        accepted: whether a model was accepted at the end.
        failed: command that failed and its last line; the failed checks of a refused model; "" if accepted.
        held_out: relative torque error of joints in motion on the held-out motion; None without a model.
        gravity: error of an accepted model's gravity torques and the error that it states; else None.
        measured_gains: number of joints whose inertia and damping `joint-id` could measure.
        warnings: lines with warnings of libraries.
    """

    seed: int
    joints: int
    mass_kg: float
    servos: tuple[str, ...]
    accepted: bool
    failed: str
    held_out: float | None
    gravity: GravityFigures | None
    measured_gains: int
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self) | {"gravity": None if self.gravity is None else self.gravity._asdict()}

    @property
    def misleading(self) -> bool:
        """Whether the model was accepted although its gravity is wrong by far more than it states."""
        found = self.gravity
        return (
            self.accepted
            and found is not None
            and found.error > max(MOST_GRAVITY_ERROR, MOST_DEVIATIONS * found.deviation)
        )


class Commands:
    """Commands of `dynid` in processes of their own, and the warnings that they have printed.

    Attributes:
        folder: working folder.
        warnings: lines with warnings.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warnings: list[str] = []

    def __call__(self, *words: object, may_fail: bool = False) -> dict[str, Any]:
        """Run `dynid WORDS --json` and return its answer; {} if it fails without one and may.

        Raises:
            CommandError: the command failed and may not, or it ended by a traceback.
        """
        command = [sys.executable, "-m", "dynid", *map(str, words), "--json"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        self.warnings += WARNING.findall(done.stderr)
        if TRACEBACK in done.stderr or (done.returncode and not may_fail):
            last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            raise CommandError(f"{' '.join(map(str, words[:2]))}: {last}")
        return dict(json.loads(done.stdout)) if done.stdout.startswith("{") else {}


class CommandError(Exception):
    """A command failed; its name and its last line."""


def run_arm(arm: ServoArm, folder: Path) -> ArmRun:
    """Draft the arm in an empty folder, measure its gains, record, identify, and return what came of it."""
    (folder / "arm.urdf").write_text(arm.urdf, encoding="utf-8")
    (folder / "motors.yaml").write_text(arm.motors, encoding="utf-8")
    dynid, found, gains, failed = Commands(folder), dict[str, Any](), 0, ""
    try:
        new = dynid("robot", "new", "arm", "--urdf", "arm.urdf", "--servos", "motors.yaml", *arm.model_options)
        if answer_current_limits(folder / "arm/robot.yaml", new["questions"]):
            for name in MOTION_FILES:
                (folder / "arm" / name).unlink(missing_ok=True)
            dynid("robot", "motions", "arm")
        else:
            dynid("robot", "motions", "arm", "--out", "again")
        gains = _measured_gains(dynid, folder, len(arm.servos))
        dynid("simulate", *MOTIONS, "--robot", "arm", "--out", "bags")
        bags = [f"bags/{name}" for name in MOTIONS]
        found = dynid("identify", bags[0], "--validate", bags[1], "--robot", "arm", "--out", "model", may_fail=True)
        failed = "" if found.get("accepted") else f"identify: {_refusal(found)}"
    except CommandError as error:
        failed = str(error)
    errors, accepted = found.get("relative_torque_error", {}), bool(found.get("accepted"))
    held_out = errors.get("out_of_sample", {}).get("moving")
    gravity = gravity_figures(folder / "arm", folder / "model") if accepted else None
    about = (arm.seed, len(arm.servos), arm.mass_kg, arm.servos)
    return ArmRun(*about, accepted, failed, held_out, gravity, gains, tuple(dynid.warnings))


def answer_current_limits(robot_yaml: Path, questions: dict[str, str]) -> bool:
    """Write the current limits that the draft's questions propose, as a user does whose servos stand them.

    The draft asks this for each joint whose gears and load need more than half the stall current of its servo.

    Args:
        robot_yaml: the drafted file.
        questions: its questions, by the field that they are about.

    Returns:
        Whether there was such a question.
    """
    content = yaml.safe_load(robot_yaml.read_text(encoding="utf-8"))
    answered = False
    for field, question in questions.items():
        if found := CURRENT_LIMIT.search(question):
            (joint,) = (one for one in content["joints"] if field == f"joints.{one['name']}.current_limit_a")
            joint["current_limit_a"] = float(found[1])
            answered = True
    if answered:
        robot_yaml.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return answered


def _measured_gains(dynid: Commands, folder: Path, joints: int) -> int:
    """Measure each joint's gains and use them; return for how many joints this was possible.

    `joint-id` refuses to write gains that its excitation leaves in doubt, and names the reason.
    """
    count = 0
    for joint in range(1, joints + 1):
        out = folder / f"controller_{joint}.yaml"
        dynid("joint-id", "--robot", "arm", "--joint", joint, "--out", out, may_fail=True)
        if out.exists():
            out.replace(folder / "arm/controller.yaml")
            count += 1
    return count


def _refusal(found: dict[str, Any]) -> str:
    """Return the checks that a refused model failed, or that there is no model."""
    failed = [f"{one['name']} ({one['detail']})" for one in found.get("checks", ()) if not one["passed"]]
    return "; ".join(failed) or "no model"


def run_arms(seeds: Sequence[int], folder: Path, begin: Callable[[str], None]) -> list[ArmRun]:
    """Run the commands on the arm of each seed; `begin` is called with the name of each."""
    runs = []
    for seed in seeds:
        arm, own = draw_arm(seed), folder / f"arm_{seed}"
        own.mkdir()
        begin(f"seed {seed}: {len(arm.servos)} joints, {arm.mass_kg:.1f} kg")
        runs.append(run_arm(arm, own))
    return runs


def missed(runs: Sequence[ArmRun]) -> list[str]:
    """Return a sentence for each limit that the runs miss."""
    accepted = sum(run.accepted for run in runs)
    found = [f"{accepted} of {len(runs)} arms accepted, at least {LEAST_ACCEPTED:.0%} are required"]
    found = found if accepted < LEAST_ACCEPTED * len(runs) else []
    found += [
        f"seed {run.seed}: gravity is {run.gravity.error:.1%} off, stated are {run.gravity.deviation:.1%}"
        for run in runs
        if run.misleading and run.gravity is not None
    ]
    return found + [f"seed {run.seed}: {one}" for run in runs for one in run.warnings]

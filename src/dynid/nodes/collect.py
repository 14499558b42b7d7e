"""Client that executes one trajectory with the running nodes and records it into a bag.

It switches torque on before the motion and off after it. The parameters are `trajectory`, `profile` (excitation
profile) and `output` (folder of the bag). The exit code is 0 only if the motion was completed and the bag closed.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path

from dynid.errors import NodeError
from dynid.hardware.loop.diagnostics import COMMANDERS, LOOP, RATE
from dynid.hardware.loop.rate_trial import MISSING_SHARE, ON_TRIAL
from dynid.nodes.common import declare
from dynid.nodes.outputs import COMMANDED, NAME_SEPARATOR
from dynid.nodes.recorder_node import BAG, COMPLETION_TIMEOUT_S, GIVEN_UP, UNMATCHED
from dynid.nodes.supervisor import CALL_TIMEOUT_S, Supervisor, lower_arm, number, run_client

STATES_TIMEOUT_S = 30.0
RATE_TIMEOUT_S = 45.0
START_TIMEOUT_S = 10.0
DISCOVERY_TIMEOUT_S = 20.0
CHECK_TIMEOUT_S = 120.0  # an answer comes after the motion is checked: meshes and a busy host take long
LEAST_DATA_AGE_S = 0.1
LOG_HINT = "; see the executor's log"
SILENT_DRIVER = "the hardware node does not report: is it active?"
SETTLING_S = 90.0  # time limit for approach and way to the rest posture, with margin for a busy host [s]
DURATION_FACTOR = 4.0  # maximum ratio of real to planned duration; a simulated arm waits for a busy host

Report = Callable[[str, float, float], None]  # arguments: activity, elapsed time [s], total time [s]


def silent(text: str, done: float, total: float) -> None:
    """Ignore a progress report."""


def collect(call: Supervisor, name: str, profile: str, bag: Path, report: Report = silent) -> float:
    """Switch torque on, execute one trajectory and record it into a new bag; return the trajectory's duration [s].

    Torque is switched off at the end, also after an error.

    Args:
        call: client of the running nodes.
        name: name of the trajectory, or path of its file.
        profile: name of the excitation profile, a set of motion limits in excitation.yaml, such as "limited".
        bag: folder of the new bag.
        report: function that receives the progress.

    Raises:
        NodeError: a node refused, the motion was cancelled or took too long; the message gives the reason.
    """
    wait_for_arm(call)
    begin_recording(call, name, profile, bag)
    try:
        call.set_enabled("hardware", True)
        duration = execute(call, name, report)
        end_recording(call)  # before torque goes off: the bag must not contain the arm's sagging
    except BaseException:
        call.set_enabled("hardware", False)
        with contextlib.suppress(NodeError):  # the recorder may be what failed
            call.trigger("recorder/stop")
        raise
    lower_arm(call)
    return duration


def begin_recording(call: Supervisor, name: str, profile: str, bag: Path) -> None:
    """Set the parameters of recorder and executor, open a bag, and wait until all nodes have discovered each other.

    Discovery takes a second or two. If the motion started earlier, the bag would lack its start and the first commands.

    Args:
        call: client of the running nodes.
        name: trajectory that the executor will execute: a name or the path of a file.
        profile: name of the excitation profile, a set of motion limits in excitation.yaml, such as "limited".
        bag: folder of the new bag.

    Raises:
        NodeError: a node refused, is not connected to the others, or the recorder has failed.
    """
    call.set_parameters("recorder", {"output": str(bag)})
    call.set_parameters("executor", {"trajectory": name, "profile": profile})
    call.trigger("recorder/start")
    try:
        call.wait(
            lambda: not _unmatched(call, bag),
            DISCOVERY_TIMEOUT_S,
            "the discovery of all nodes by recorder and arm",
            lambda: f"after {DISCOVERY_TIMEOUT_S:.0f} s {_unmatched(call, bag)}; {bag} holds no motion",
        )
    except BaseException:
        with contextlib.suppress(NodeError):
            call.trigger("recorder/stop")
        raise


def _unmatched(call: Supervisor, bag: Path) -> str:
    """Return a message if recorder or hardware node seem not to be connected to the other nodes, else ''.

    The message names a possible cause. `bag` is the folder of the bag being recorded.

    Raises:
        NodeError: the recorder has failed.
    """
    if call.reported("recorder", BAG) != str(bag):  # the report may be an earlier recording's
        return "the recorder's diagnostics do not report the recording: are they remapped, or is it another version?"
    if reason := call.reported("recorder", GIVEN_UP):
        raise NodeError(f"the bag is incomplete: {reason}")
    if unmatched := call.reported("recorder", UNMATCHED):
        return (
            f"the recorder has not discovered {unmatched}: are hardware node and executor (output joint_commands) "
            "running in the recorder's ROS domain and namespace?"
        )
    commanders, commanded = call.reported(LOOP, COMMANDERS), call.reported("executor", COMMANDED)
    if not commanders:
        return SILENT_DRIVER
    if commanders == "0" or "hardware" not in commanded.split(NAME_SEPARATOR):
        return f"commands do not reach the hardware node: the executor's commands reach {commanded or 'no node'}"
    return ""


def execute(call: Supervisor, name: str, report: Report = silent) -> float:
    """Execute the trajectory that the executor's parameters name, and wait for its end; return its duration [s].

    Args:
        call: client of the running nodes.
        name: name of the motion in messages until the executor has reported a name, which is used from then on. The
            reported name differs if a trajectory file states its own name.
        report: function that receives the progress.

    Raises:
        NodeError: the motion was refused, cancelled, or not done in time.
    """
    before = _counters(call)
    call.experiment = None  # discard the latched report of the motion before
    call.trigger("executor/execute", CHECK_TIMEOUT_S)
    call.wait(
        lambda: call.experiment is not None or bool(call.doubt_reason), START_TIMEOUT_S, "the start of the motion"
    )
    duration = call.experiment.duration_s if call.experiment else 0.0
    name = call.experiment.trajectory if call.experiment else name  # a YAML file gives its own name
    began_s: dict[str, float] = {}

    def done() -> bool:
        state, now_s = call.experiment.state or "" if call.experiment else "", call.now()
        elapsed_s = now_s - began_s.setdefault(state, now_s)
        report(f"{name}: {state}", elapsed_s if state == "trajectory" else 0.0, duration)
        if call.doubt_reason:
            raise NodeError(f"the state of the motion {name} is in doubt: {call.doubt_reason}")
        if state == "cancelled":
            raise NodeError(f"the motion {name} was cancelled{LOG_HINT}")
        return state == "done"

    timeout_s = DURATION_FACTOR * duration + SETTLING_S
    what = f"the end of {name}"

    def why() -> str:
        state = call.experiment.state if call.experiment else "unknown"
        return (
            f"{_missed(call, before)}{what} did not happen within {timeout_s:.0f} s (state: {state}): if other "
            "programs load this host, end them and repeat"
        )

    call.wait(done, timeout_s, what, why)
    return duration


def _counters(call: Supervisor) -> tuple[float, float]:
    """Return how many cycles the driver has missed and how many were due so far; NaN if they are not reported."""
    cycles, skipped, missed = (number(call.reported(LOOP, key)) for key in ("cycles", "skipped", "missed"))
    return missed, cycles + skipped


def _missed(call: Supervisor, before: tuple[float, float]) -> str:
    """Return a clause about the cycles that the driver missed during a motion, to precede an error message.

    Return "" if the missed fraction is small. `before` is the result of `_counters` at the start of the motion.
    """
    missed, planned = (now - then for now, then in zip(_counters(call), before, strict=True))
    if not missed > MISSING_SHARE * planned:
        return ""
    return f"of {planned:.0f} cycles since the motion began, the driver missed {missed:.0f}; "


def end_recording(call: Supervisor) -> None:
    """Close the bag of a completed motion as soon as the recorder, which may lag behind, has received the whole motion.

    Raises:
        NodeError: the bag cannot be closed, or is incomplete because the recorder lags too far or has failed.
    """
    call.trigger("recorder/stop", COMPLETION_TIMEOUT_S + CALL_TIMEOUT_S)


def wait_for_arm(call: Supervisor) -> None:
    """Wait until the executor receives the arm's states and the driver has decided on its cycle rate.

    A change of rate while a bag is recorded would make the bag unusable.

    Raises:
        NodeError: no states arrived in time, or the driver did not decide in time.
    """
    call.wait(lambda: states_arrive(call), STATES_TIMEOUT_S, "the arrival of joint_states at the executor")
    call.wait(
        lambda: not _undecided(call),
        RATE_TIMEOUT_S,
        "the driver's decision on its cycle rate",
        lambda: f"after {RATE_TIMEOUT_S:.0f} s {_undecided(call)}",
    )


def states_arrive(call: Supervisor) -> bool:
    """Return whether the executor receives the arm's states."""
    return number(call.reported("executor", "state_age_s")) < LEAST_DATA_AGE_S


def _undecided(call: Supervisor) -> str:
    """Return why the driver has not decided on its cycle rate yet; '' if it has decided."""
    if not call.reported(LOOP, COMMANDERS):
        return SILENT_DRIVER
    rate = call.reported(LOOP, RATE)
    return f"the driver's cycle rate is {rate}" if rate.startswith(ON_TRIAL) else ""


def collect_one(call: Supervisor) -> str:
    """Execute and record the trajectory that the ROS parameters of the client's node name; return a summary as text.

    The parameters are `trajectory` (its name), `profile` (excitation profile) and `output` (folder of the new bag).
    """
    name = declare(call.node, "trajectory", "", "name of the trajectory")
    profile = declare(call.node, "profile", "limited", "excitation profile")
    output = declare(call.node, "output", "", "folder of the new bag; it must not exist")
    duration = collect(call, name, profile, Path(output).absolute())
    return f"{name} ({profile}), {duration:.1f} s, recorded to {output}"


def main() -> None:
    """Record one experiment, then end the process."""
    run_client("collect", collect_one)


if __name__ == "__main__":
    main()

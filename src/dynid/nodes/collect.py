"""Client that makes one recorded experiment with the running nodes: enable, record, execute, wait, disable.

Parameters `trajectory`, `profile` and `output` say which. Exit code 0 only if the motion was done and the bag closed.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path

from dynid.errors import NodeError
from dynid.hardware.loop.diagnostics import COMMANDERS, LOOP, RATE
from dynid.hardware.loop.rate_trial import MISSING_SHARE, ON_TRIAL
from dynid.nodes.common import declare
from dynid.nodes.outputs import BETWEEN, COMMANDED
from dynid.nodes.recorder_node import BAG, COMPLETION_TIMEOUT_S, GIVEN_UP, UNMATCHED
from dynid.nodes.supervisor import CALL_TIMEOUT_S, Supervisor, number, run_client

STATES_TIMEOUT_S = 30.0
RATE_TIMEOUT_S = 45.0
START_TIMEOUT_S = 10.0
DISCOVERY_TIMEOUT_S = 20.0
FRESH_S = 0.1
WHERE = "; see the executor's log"
SILENT_DRIVER = "the hardware node does not report: is it active?"
SETTLING_S = 90.0  # approach, way to the rest posture, and what a busy host adds
LONGEST = 4.0  # times the planned duration: a simulated arm waits for a busy host

Report = Callable[[str, float, float], None]  # what is going on, seconds done, seconds in all


def silent(text: str, done: float, total: float) -> None:
    """Report nothing."""


def collect(call: Supervisor, name: str, profile: str, bag: Path, report: Report = silent) -> float:
    """Execute and record one trajectory into a new bag; returns the trajectory's duration [s].

    Torque is switched off at the end, whatever happens.

    Raises:
        NodeError: a node refused, the motion was cancelled or took too long; one sentence that says why.
    """
    wait_for_arm(call)
    begin_recording(call, name, profile, bag)
    try:
        call.set_enabled("hardware", True)
        duration = execute(call, name, report)
        end_recording(call)  # before torque goes: how the arm sags is not part of the experiment
    except BaseException:
        call.set_enabled("hardware", False)
        with contextlib.suppress(NodeError):  # it may be what failed
            call.trigger("recorder/stop")
        raise
    call.set_enabled("hardware", False)
    call.trigger("executor/release")
    return duration


def begin_recording(call: Supervisor, name: str, profile: str, bag: Path) -> None:
    """Prepare recorder and executor, and open the bag; return once all of them are connected.

    Nodes find each other within a second or two. A motion that started before would lack its start in the bag, and the
    arm's first commands.

    Raises:
        NodeError: a node refused, is not connected to the others, or the recorder has given up.
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
    """Whom recorder or arm do not receive yet, and what may be the cause; '' if they receive everything.

    Raises:
        NodeError: the recorder has given up.
    """
    if call.reported("recorder", BAG) != str(bag):  # also of a recorder that has ended, or of another one
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
    if commanders == "0" or "hardware" not in commanded.split(BETWEEN):
        return f"commands do not reach the hardware node: the executor's commands reach {commanded or 'no node'}"
    return ""


def execute(call: Supervisor, name: str, report: Report = silent) -> float:
    """Execute what was prepared, to its end; returns the trajectory's duration [s].

    Raises:
        NodeError: refused, cancelled, or not done in time.
    """
    before = _counters(call)
    call.experiment = None  # a latched one may be of the motion before
    call.trigger("executor/execute")
    call.wait(lambda: call.experiment is not None or bool(call.doubt), START_TIMEOUT_S, "the start of the motion")
    duration = call.experiment.duration_s if call.experiment else 0.0
    name = call.experiment.trajectory if call.experiment else name  # of a file's motion: what it is called
    began_s: dict[str, float] = {}

    def done() -> bool:
        state, now_s = call.experiment.state or "" if call.experiment else "", call.now()
        elapsed_s = now_s - began_s.setdefault(state, now_s)
        report(f"{name}: {state}", elapsed_s if state == "trajectory" else 0.0, duration)
        if call.doubt:
            raise NodeError(f"the state of the motion {name} is in doubt: {call.doubt}")
        if state == "cancelled":
            raise NodeError(f"the motion {name} was cancelled{WHERE}")
        return state == "done"

    timeout_s = LONGEST * duration + SETTLING_S
    what = f"the end of {name}"
    call.wait(done, timeout_s, what, lambda: f"{_missed(call, before)}{what} did not happen within {timeout_s:.0f} s")
    return duration


def _counters(call: Supervisor) -> tuple[float, float]:
    """Cycles that the driver has missed, and planned cycles, so far; NaN if it does not say so."""
    cycles, skipped, missed = (number(call.reported(LOOP, key)) for key in ("cycles", "skipped", "missed"))
    return missed, cycles + skipped


def _missed(call: Supervisor, before: tuple[float, float]) -> str:
    """What is to be said first of a motion that is given up: cycles were missing since then; "" if hardly any was."""
    missed, planned = (now - then for now, then in zip(_counters(call), before, strict=True))
    if not missed > MISSING_SHARE * planned:
        return ""
    return f"of {planned:.0f} cycles since the motion began, the driver missed {missed:.0f}; "


def end_recording(call: Supervisor) -> None:
    """Close the bag of a motion that is done, as soon as the recorder, which may lag behind, has received all of it.

    Raises:
        NodeError: the bag is incomplete, since the recorder lags too far or has given up; or it cannot be closed.
    """
    call.trigger("recorder/stop", COMPLETION_TIMEOUT_S + CALL_TIMEOUT_S)


def wait_for_arm(call: Supervisor) -> None:
    """Wait until the executor receives the arm's states, and the driver has decided on its cycle rate.

    A rate that changes while a bag is recorded would spoil the bag.

    Raises:
        NodeError: not in time.
    """
    call.wait(lambda: states_arrive(call), STATES_TIMEOUT_S, "the arrival of joint_states at the executor")
    call.wait(
        lambda: not _undecided(call),
        RATE_TIMEOUT_S,
        "the driver's decision on its cycle rate",
        lambda: f"after {RATE_TIMEOUT_S:.0f} s {_undecided(call)}",
    )


def states_arrive(call: Supervisor) -> bool:
    """Whether the executor receives the arm's states."""
    return number(call.reported("executor", "state_age_s")) < FRESH_S


def _undecided(call: Supervisor) -> str:
    """What the driver's cycle rate waits for, in words; '' if it is decided."""
    if not call.reported(LOOP, COMMANDERS):
        return SILENT_DRIVER
    rate = call.reported(LOOP, RATE)
    return f"the driver's cycle rate is {rate}" if rate.startswith(ON_TRIAL) else ""


def collect_one(call: Supervisor) -> str:
    """Run the experiment that the parameters name; returns what was recorded."""
    name = declare(call.node, "trajectory", "", "name of the trajectory")
    profile = declare(call.node, "profile", "limited", "excitation profile")
    output = declare(call.node, "output", "", "folder of the new bag; it must not exist")
    duration = collect(call, name, profile, Path(output).absolute())
    return f"{name} ({profile}), {duration:.1f} s, recorded to {output}"


def main() -> None:
    """Run one experiment and end."""
    run_client("collect", collect_one)


if __name__ == "__main__":
    main()

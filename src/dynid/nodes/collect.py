"""Client that makes one recorded experiment with the running nodes: enable, record, execute, wait, disable.

Parameters `trajectory`, `profile` and `output` say which. Exit code 0 only if the motion was done and the bag closed.
"""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

import rclpy.logging

from dynid.errors import DynidError, NodeError, SafetyError
from dynid.hardware.diagnostics import COMMANDERS, LOOP
from dynid.nodes.common import StopFlag, declare, end_with_expected_parent
from dynid.nodes.outputs import COMMANDED
from dynid.nodes.supervisor import Supervisor
from dynid.recording.hearing import BAG, BETWEEN, REPORTS_HEARD, TOPICS_HEARD, unheard
from dynid.recording.motion_end import GIVEN_UP, MOTION_END, MOTION_END_AWAITS
from dynid.recording.recording import EXPERIMENT, HARDWARE_SETTINGS, STAMPED

STATES_TIMEOUT_S = 30.0
BEGIN_TIMEOUT_S = 10.0
HEARING_TIMEOUT_S = 20.0
RECORDER_TIMEOUT_S = 20.0
FRESH_S = 0.1
WHERE = "; the executor's log says why"
SETTLING_S = 90.0  # approach, way to the rest posture, and what a busy host adds

RECORDED_TOPICS = (*STAMPED, HARDWARE_SETTINGS, EXPERIMENT)

Report = Callable[[str, float, float], None]  # what is going on, seconds done, seconds in all


def silent(text: str, done: float, total: float) -> None:
    """Report nothing."""


def collect(call: Supervisor, name: str, profile: str, bag: Path, report: Report = silent) -> float:
    """Execute and record one trajectory into a new bag; returns the trajectory's duration [s].

    Torque is switched off at the end, whatever happens.

    Raises:
        NodeError: a node refused, the motion was cancelled or took too long; one sentence that says why.
    """
    call.wait(lambda: states_arrive(call), STATES_TIMEOUT_S, "the arrival of joint_states at the executor")
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
    """Tell recorder and executor what comes next, and open the bag; recorder and arm hear all that the motion sends.

    Nodes find each other within a second or two. A motion that began before would lack its beginning in the bag, and
    the arm's first commands.

    Raises:
        NodeError: a node refused, does not hear the others, or the recorder has given up.
    """
    call.set_parameters("recorder", {"output": str(bag)})
    call.set_parameters("executor", {"trajectory": name, "profile": profile})
    call.trigger("recorder/start")
    try:
        call.wait(
            lambda: not _unheard(call, bag),
            HEARING_TIMEOUT_S,
            "that recorder and arm hear the others",
            lambda: f"after {HEARING_TIMEOUT_S:.0f} s {_unheard(call, bag)}; {bag} holds no motion",
        )
    except BaseException:
        with contextlib.suppress(NodeError):
            call.trigger("recorder/stop")
        raise


def _unheard(call: Supervisor, bag: Path) -> str:
    """What recorder or arm do not hear yet, and what may be the cause; '' if they hear everything.

    Raises:
        NodeError: the recorder has given up.
    """
    if call.reported("recorder", BAG) != str(bag):  # also of a recorder that has ended, or of another one
        return "the recorder's diagnostics do not say that it records: are they remapped, or is it of another version?"
    _refuse_given_up(call)
    topics, reports = call.reported("recorder", TOPICS_HEARD), call.reported("recorder", REPORTS_HEARD)
    if missing := unheard(topics, reports, RECORDED_TOPICS, (LOOP, "executor")):
        return (
            f"the recorder does not hear {', '.join(missing)}: are hardware node and executor (output joint_commands) "
            "running, with the ROS domain and the namespace of the recorder?"
        )
    commanders, commanded = call.reported(LOOP, COMMANDERS), call.reported("executor", COMMANDED)
    if not commanders:
        return "the hardware node does not report: is it active?"
    if commanders == "0" or "hardware" not in commanded.split(BETWEEN):
        return f"commands do not reach the hardware node: the executor's reach {commanded or 'nobody'}"
    return ""


def _refuse_given_up(call: Supervisor) -> None:
    """Raise NodeError with the recorder's reason if it has ended the bag before its time."""
    if reason := call.reported("recorder", GIVEN_UP):
        raise NodeError(f"the bag is incomplete: {reason}")


def execute(call: Supervisor, name: str, report: Report = silent) -> float:
    """Execute what was prepared, to its end; returns the trajectory's duration [s].

    Raises:
        NodeError: refused, cancelled, or not done in time.
    """
    call.experiment = None  # a latched one may be of the motion before
    call.trigger("executor/execute")
    call.wait(lambda: call.experiment is not None, BEGIN_TIMEOUT_S, "the begin of the motion")
    duration = call.experiment.duration_s if call.experiment else 0.0
    call.wait(_Motion(call, name, duration, report).done, duration + SETTLING_S, f"the end of {name}")
    return duration


def end_recording(call: Supervisor) -> None:
    """Close the bag of a motion that is done when the recorder has received all of it; it may be behind the others.

    Raises:
        NodeError: the bag is incomplete, since the recorder is too far behind or has given up; or it cannot be closed.
    """
    end_ns = call.experiment.ended_ns if call.experiment else None

    def has_come() -> bool:
        _refuse_given_up(call)
        return call.reported("recorder", MOTION_END) == str(end_ns)

    def missing() -> str:
        awaited = call.reported("recorder", MOTION_END_AWAITS) or "the message of the end on experiment"
        return (
            f"the bag is incomplete: {RECORDER_TIMEOUT_S:.0f} s after the motion's end (stamp {end_ns} ns) the "
            f"recorder still awaits {awaited}; give it a processor that is less busy, and record again"
        )

    call.wait(has_come, RECORDER_TIMEOUT_S, "the arrival of the motion's end at the recorder", missing)
    call.trigger("recorder/stop")


class _Motion:
    """A motion under way; says what it is doing and for how long."""

    def __init__(self, call: Supervisor, name: str, duration: float, report: Report) -> None:
        self._call, self._name, self._duration, self._report = call, name, duration, report
        self._began: dict[str, float] = {}

    def done(self) -> bool:
        """Whether it has come to its end.

        Raises:
            NodeError: it was cancelled.
        """
        state = self._call.experiment.state if self._call.experiment else ""
        now = self._call.now()
        elapsed = now - self._began.setdefault(state or "", now)
        self._report(f"{self._name}: {state}", elapsed if state == "trajectory" else 0.0, self._duration)
        if state == "cancelled":
            raise NodeError(f"the motion {self._name} was cancelled{WHERE}")
        return state == "done"


def states_arrive(call: Supervisor) -> bool:
    """Whether the executor hears the arm."""
    age = call.reported("executor", "state_age_s")
    return bool(age) and float(age) < FRESH_S


def main() -> None:
    """Run one experiment and end."""
    end_with_expected_parent()
    stop = StopFlag()

    def watch() -> None:
        if stop.stopped:
            stop.stopped = False  # once: what follows still has to clean up
            raise SafetyError("interrupted")

    logger = rclpy.logging.get_logger("collect")
    with contextlib.ExitStack() as stack:
        try:
            call = stack.enter_context(Supervisor(watch))
            name = declare(call.node, "trajectory", "", "name of the trajectory")
            profile = declare(call.node, "profile", "limited", "excitation profile")
            output = declare(call.node, "output", "", "folder of the new bag; it must not exist")
            duration = collect(call, name, profile, Path(output).absolute())
        except DynidError as error:
            logger.error(str(error))
            sys.exit(1)
        logger.info(f"{name} ({profile}), {duration:.1f} s, recorded to {output}")


if __name__ == "__main__":
    main()

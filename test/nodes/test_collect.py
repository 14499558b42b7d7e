"""The client of one experiment: what it asks of the nodes and in which order; torque goes off whatever happens."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dynid.errors import NodeError, SafetyError
from dynid.hardware.diagnostics import COMMANDERS
from dynid.nodes.chain import Chain
from dynid.nodes.collect import RECORDED_TOPICS, collect
from dynid.nodes.outputs import COMMANDED
from dynid.recording.hearing import BAG, BETWEEN, REPORTS_HEARD, TOPICS_HEARD
from dynid.recording.motion_end import GIVEN_UP, MOTION_END, MOTION_END_AWAITS
from dynid.recording.settings import ExperimentSettings, Phase

REPORTS = {
    ("executor", "state_age_s"): "0.001",
    ("recorder", MOTION_END): "2",
    ("recorder", BAG): "bag",
    ("recorder", TOPICS_HEARD): BETWEEN.join(RECORDED_TOPICS),
    ("recorder", REPORTS_HEARD): BETWEEN.join(("executor", "hardware")),
    ("hardware", COMMANDERS): "1",
    ("executor", COMMANDED): BETWEEN.join(("hardware", "recorder")),
}


class RecordedCalls:
    """Stands in for the supervisor: notes every call; `failing` names the one that raises."""

    def __init__(self, end: str = "done", failing: str = "", error: Exception | None = None) -> None:
        self.calls: list[str] = []
        self.experiment: ExperimentSettings | None = None
        self.reports: dict[tuple[str, str], str] = {}
        self.at_call: dict[str, dict[tuple[str, str], str]] = {}  # what is reported from a call on
        self.answers = True
        self.time_s = 0.0
        self._end, self._failing, self._error = end, failing, error or NodeError("refused")

    def _note(self, call: str) -> str:
        self.calls.append(call)
        self.reports |= self.at_call.get(call, {})
        if call == self._failing:
            raise self._error
        return call

    def now(self) -> float:
        self.time_s += 0.1
        return self.time_s

    def reported(self, name: str, key: str) -> str:
        return (REPORTS | self.reports).get((name, key), "")

    def wait(self, condition: object, timeout_s: float, what: str, why: Callable[[], str] | None = None) -> None:
        self._note(f"wait for {what}")
        assert callable(condition)
        began_s = self.time_s
        while not condition():
            if self.now() > began_s + timeout_s:
                assert why is not None, "others must not be waited for so long"
                raise NodeError(why())

    def set_parameters(self, node: str, values: dict[str, object]) -> None:
        self._note(f"{node} {sorted(values)}")

    def set_enabled(self, node: str, enabled: bool) -> str:
        return self._note(f"{node} {'on' if enabled else 'off'}")

    def trigger(self, service: str, timeout_s: float = 1.0) -> str:
        if service == "executor/execute" and self.answers:
            phases = (Phase(name="trajectory", stamp_ns=1), Phase(name=self._end, stamp_ns=2))  # type: ignore[arg-type]
            self.experiment = ExperimentSettings(
                trajectory="V01",
                profile="limited",
                controller="ff_pd",
                gains={"Tf": 0.002},
                duration_s=14.4,
                phases=phases,
            )
        return self._note(service)


def run(calls: RecordedCalls) -> float:
    return collect(calls, "V01", "limited", Path("bag"))  # type: ignore[arg-type]


def test_the_bag_is_closed_before_torque_goes_off_and_the_executor_stops_commanding() -> None:
    calls = RecordedCalls()
    assert run(calls) == 14.4
    assert calls.calls[-3:] == ["recorder/stop", "hardware off", "executor/release"]
    assert (
        calls.calls.index("recorder/start") < calls.calls.index("hardware on") < calls.calls.index("executor/execute")
    )


ALL_HEAR = "wait for that recorder and arm hear the others"
END_RECORDED = "wait for the arrival of the motion's end at the recorder"


def test_the_bag_is_closed_when_the_recorder_has_all_of_the_motion() -> None:
    calls = RecordedCalls()
    run(calls)
    assert calls.calls.index("wait for the end of V01") < calls.calls.index(END_RECORDED)
    assert calls.calls[calls.calls.index(END_RECORDED) + 1] == "recorder/stop"


@pytest.mark.parametrize(
    "failing", ["hardware on", "executor/execute", "wait for the end of V01", END_RECORDED, "recorder/stop"]
)
@pytest.mark.parametrize("error", [NodeError("refused"), SafetyError("interrupted")])
def test_torque_goes_off_whatever_fails(failing: str, error: Exception) -> None:
    calls = RecordedCalls(failing=failing, error=error)
    with pytest.raises(type(error)):
        run(calls)
    after = calls.calls[calls.calls.index(failing) + 1 :]
    assert after[0] == "hardware off"
    assert "recorder/stop" in after


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        (
            {MOTION_END: "1"},
            r"20 s after the motion's end \(stamp 2 ns\) .* still awaits the message of the end on exp",
        ),
        ({MOTION_END: "", MOTION_END_AWAITS: "/joint_states"}, "still awaits /joint_states; give it"),
    ],
)
def test_a_bag_without_the_motions_end_is_an_error(reports: dict[str, str], words: str) -> None:
    calls = RecordedCalls()
    calls.reports = {("recorder", key): value for key, value in reports.items()}
    with pytest.raises(NodeError, match=words):
        run(calls)
    assert calls.calls[-2:] == ["hardware off", "recorder/stop"]


def test_a_recorder_that_gives_up_at_the_end_is_an_error() -> None:
    calls = RecordedCalls()
    calls.at_call[END_RECORDED] = {("recorder", MOTION_END): "", ("recorder", GIVEN_UP): "no room"}
    with pytest.raises(NodeError, match="the bag is incomplete: no room"):
        run(calls)
    assert calls.calls[-2:] == ["hardware off", "recorder/stop"]


def test_a_motion_before_is_not_taken_for_this_one() -> None:
    """It may end while the nodes find each other."""
    calls = RecordedCalls()
    calls.trigger("executor/execute")
    before = calls.experiment
    calls.answers = False
    with pytest.raises(AssertionError, match="others must not"):
        run(calls)
    assert before is not None and calls.experiment is None


@pytest.mark.parametrize(
    ("heard", "words"),
    [
        (
            {("recorder", TOPICS_HEARD): "joint_states, hardware_settings, applied_commands"},
            "^after 20 s the recorder does not hear joint_commands, reference, experiment: .*; bag holds no motion$",
        ),
        ({("recorder", TOPICS_HEARD): ""}, "does not hear joint_states, "),
        ({("recorder", REPORTS_HEARD): "hardware"}, "the recorder does not hear reports of executor"),
        ({("recorder", BAG): "another"}, "the recorder's diagnostics do not say that it records"),
        (
            {("hardware", COMMANDERS): "0"},
            "commands do not reach the hardware node: the executor's reach hardware, rec",
        ),
        ({("hardware", COMMANDERS): ""}, "the hardware node does not report"),
        ({("executor", COMMANDED): "hardware_2, recorder"}, "do not reach the hardware node: .* hardware_2, recorder"),
        ({("executor", COMMANDED): ""}, "the executor's reach nobody"),
        ({("recorder", GIVEN_UP): "no room"}, "the bag is incomplete: no room"),
    ],
)
def test_nothing_moves_before_recorder_and_arm_hear_the_others(heard: dict[tuple[str, str], str], words: str) -> None:
    calls = RecordedCalls()
    calls.reports = heard
    with pytest.raises(NodeError, match=words):
        run(calls)
    assert calls.calls[-3:] == ["recorder/start", ALL_HEAR, "recorder/stop"]


def test_nor_does_it_in_a_chain_of_its_own() -> None:
    chain, calls = Chain.__new__(Chain), RecordedCalls()
    chain._supervisor = calls  # type: ignore[assignment]
    calls.reports = {("recorder", TOPICS_HEARD): ""}
    with pytest.raises(NodeError, match="does not hear joint_states"):
        chain.run_trajectory("V01", "limited", Path("bag"), lambda *_: None)
    assert "executor/execute" not in calls.calls
    calls.reports = {}
    assert chain.run_trajectory("V01", "limited", Path("bag"), lambda *_: None) == 14.4


def test_an_interrupt_while_they_find_each_other_closes_the_bag() -> None:
    calls = RecordedCalls(failing=ALL_HEAR, error=SafetyError("interrupted"))
    with pytest.raises(SafetyError):
        run(calls)
    assert calls.calls[-1] == "recorder/stop" and "hardware on" not in calls.calls


def test_a_cancelled_motion_is_an_error() -> None:
    calls = RecordedCalls(end="cancelled")
    with pytest.raises(NodeError, match="cancelled"):
        run(calls)
    assert "hardware off" in calls.calls


def test_nothing_is_enabled_when_the_output_is_refused() -> None:
    calls = RecordedCalls(failing="recorder ['output']")
    with pytest.raises(NodeError):
        run(calls)
    assert "hardware on" not in calls.calls

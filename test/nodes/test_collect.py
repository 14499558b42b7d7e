"""The client of one experiment: requests to the nodes in order; torque is switched off in every case."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dynid.errors import NodeError, SafetyError
from dynid.hardware.loop.diagnostics import COMMANDERS, RATE
from dynid.hardware.loop.rate_trial import ON_TRIAL
from dynid.nodes.chain import Chain
from dynid.nodes.collect import collect
from dynid.nodes.outputs import COMMANDED, NAME_SEPARATOR
from dynid.nodes.recorder_node import BAG, COMPLETION_TIMEOUT_S, GIVEN_UP, UNMATCHED
from dynid.recording.settings import ExperimentSettings, Phase

REPORTS = {
    ("executor", "state_age_s"): "0.001",
    ("recorder", BAG): "bag",
    ("hardware", COMMANDERS): "1",
    ("executor", COMMANDED): NAME_SEPARATOR.join(("hardware", "recorder")),
}


class RecordedCalls:
    """Stands in for the supervisor: notes every call; `failing` names the one that raises."""

    def __init__(self, end: str = "done", failing: str = "", error: Exception | None = None) -> None:
        self.calls: list[str] = []
        self.experiment: ExperimentSettings | None = None
        self.doubt_reason = ""
        self.reports: dict[tuple[str, str], str] = {}
        self.at_call: dict[str, dict[tuple[str, str], str]] = {}  # what is reported from a call on
        self.answers = True
        self.timeouts_s: dict[str, float] = {}
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
        self.timeouts_s.setdefault(service, timeout_s)
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


DISCOVERY = "wait for the discovery of all nodes by recorder and arm"


def test_the_recorder_is_given_the_time_to_receive_all_of_the_motion() -> None:
    """Its answer says whether the bag is whole."""
    calls = RecordedCalls()
    run(calls)
    assert calls.calls.index("wait for the end of V01") + 1 == calls.calls.index("recorder/stop")
    assert calls.timeouts_s["recorder/stop"] > COMPLETION_TIMEOUT_S


@pytest.mark.parametrize("failing", ["hardware on", "executor/execute", "wait for the end of V01", "recorder/stop"])
@pytest.mark.parametrize("error", [NodeError("refused"), SafetyError("interrupted")])
def test_torque_goes_off_after_any_failed_request(failing: str, error: Exception) -> None:
    calls = RecordedCalls(failing=failing, error=error)
    with pytest.raises(type(error)):
        run(calls)
    after = calls.calls[calls.calls.index(failing) + 1 :]
    assert after[0] == "hardware off"
    assert "recorder/stop" in after


def test_incomplete_bag_is_an_error() -> None:
    calls = RecordedCalls(failing="recorder/stop", error=NodeError("recorder/stop: the bag is incomplete: no room"))
    with pytest.raises(NodeError, match="the bag is incomplete: no room"):
        run(calls)
    assert calls.calls[-2:] == ["hardware off", "recorder/stop"]


def test_an_earlier_motion_is_not_mistaken_for_the_recorded_one() -> None:
    """It may end while the nodes find each other."""
    calls = RecordedCalls()
    calls.trigger("executor/execute")
    before = calls.experiment
    calls.answers = False
    with pytest.raises(AssertionError, match="others must not"):
        run(calls)
    assert before is not None and calls.experiment is None


@pytest.mark.parametrize(
    ("reported", "words"),
    [
        (
            {("recorder", UNMATCHED): "joint_commands, reports of executor"},
            "^after 20 s the recorder has not discovered joint_commands, reports of executor: .*; bag holds no motion$",
        ),
        ({("recorder", BAG): "another"}, "the recorder's diagnostics do not report the recording"),
        (
            {("hardware", COMMANDERS): "0"},
            "commands do not reach the hardware node: the executor's commands reach hardware, rec",
        ),
        ({("executor", COMMANDED): "hardware_2, recorder"}, "do not reach the hardware node: .* hardware_2, recorder"),
        ({("executor", COMMANDED): ""}, "the executor's commands reach no node"),
        ({("recorder", GIVEN_UP): "no room"}, "the bag is incomplete: no room"),
    ],
)
def test_nothing_moves_before_the_nodes_have_discovered_each_other(
    reported: dict[tuple[str, str], str], words: str
) -> None:
    calls = RecordedCalls()
    calls.reports = reported
    with pytest.raises(NodeError, match=words):
        run(calls)
    assert calls.calls[-3:] == ["recorder/start", DISCOVERY, "recorder/stop"]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (COMMANDERS, "", "^after 45 s the hardware node does not report: is it active"),
        (RATE, f"{ON_TRIAL}: no cycles yet", "^after 45 s the driver's cycle rate is on trial: no cycles yet"),
    ],
)
def test_nothing_is_recorded_before_the_cycle_rate_is_decided(key: str, value: str, words: str) -> None:
    calls = RecordedCalls()
    calls.reports = {("hardware", key): value}
    with pytest.raises(NodeError, match=words):
        run(calls)
    assert "recorder/start" not in calls.calls and "hardware on" not in calls.calls


def test_chain_starts_no_motion_before_discovery() -> None:
    chain, calls = Chain.__new__(Chain), RecordedCalls()
    chain._supervisor = calls  # type: ignore[assignment]
    calls.reports = {("recorder", UNMATCHED): "joint_states"}
    with pytest.raises(NodeError, match="has not discovered joint_states"):
        chain.run_trajectory("V01", "limited", Path("bag"), lambda *_: None)
    assert "executor/execute" not in calls.calls
    calls.reports = {}
    assert chain.run_trajectory("V01", "limited", Path("bag"), lambda *_: None) == 14.4


def test_an_interrupt_during_discovery_closes_the_bag() -> None:
    calls = RecordedCalls(failing=DISCOVERY, error=SafetyError("interrupted"))
    with pytest.raises(SafetyError):
        run(calls)
    assert calls.calls[-1] == "recorder/stop" and "hardware on" not in calls.calls


def test_a_cancelled_motion_is_an_error() -> None:
    calls = RecordedCalls(end="cancelled")
    with pytest.raises(NodeError, match="cancelled"):
        run(calls)
    assert "hardware off" in calls.calls


def test_a_motion_that_lasts_too_long_is_an_error_with_its_state_and_the_usual_reason() -> None:
    calls = RecordedCalls(end="rest")
    with pytest.raises(NodeError, match=r"V01 did not happen .* \(state: rest\): if other programs load this host"):
        run(calls)
    assert "hardware off" in calls.calls


def test_nothing_is_enabled_when_the_output_is_refused() -> None:
    calls = RecordedCalls(failing="recorder ['output']")
    with pytest.raises(NodeError):
        run(calls)
    assert "hardware on" not in calls.calls

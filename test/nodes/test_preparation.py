"""Work in a separate thread: one job at a time, result on request, withdrawal in time."""

import threading

import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from dynid.errors import ConfigurationError, DynidError, NodeError, SafetyError
from dynid.nodes.preparation import Preparation


class Job:
    """Job that ends on request."""

    def __init__(self, preparation: Preparation, result: object) -> None:
        self.go, self.outcomes = threading.Event(), []
        self.result, self.preparation = result, preparation
        preparation.start(self.run, self.outcomes.append)

    def run(self) -> object:
        assert self.go.wait(10.0)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def finish(self) -> object:
        self.go.set()
        self.preparation._thread.join(10.0)
        assert self.outcomes == []  # only `poll` hands over
        self.preparation.poll()
        (outcome,) = self.outcomes
        return outcome


def test_results_and_errors_are_handed_over_by_poll() -> None:
    preparation: Preparation[str] = Preparation()
    preparation.poll()
    assert Job(preparation, "plan").finish() == "plan" and not preparation.busy
    refused = ConfigurationError("no")
    assert Job(preparation, refused).finish() is refused
    defect = Job(preparation, ZeroDivisionError("what")).finish()
    assert isinstance(defect, NodeError) and "internal error: ZeroDivisionError('what')" in str(defect)


def test_one_job_runs_at_a_time_and_can_be_withdrawn() -> None:
    preparation: Preparation[str] = Preparation()
    preparation.withdraw(SafetyError("nothing there"))  # does not touch the next one
    job = Job(preparation, "plan")
    with pytest.raises(NodeError, match="another motion is being checked"):
        Job(preparation, "other")
    preparation.poll()
    assert preparation.busy and job.outcomes == []
    preparation.withdraw(SafetyError("cancelled"))
    outcome = job.finish()
    assert isinstance(outcome, DynidError) and str(outcome) == "cancelled"
    assert Job(preparation, "next").finish() == "next"

"""Processor time of a cycle: assigned to parts, counted once, and summarised by medians."""

import time

import pytest
from benchmarks.chain.cost import medians_of, with_rest
from benchmarks.chain.cost_floor import bus_floor
from benchmarks.chain.cost_node import PARTS, PartTimes


def spend(ms: float) -> None:
    end_ns = time.thread_time_ns() + int(ms * 1e6)
    while time.thread_time_ns() < end_ns:
        pass


def test_time_of_an_inner_part_is_not_counted_for_the_outer_one() -> None:
    times = PartTimes()
    inner = times.counted("inner", lambda: spend(4.0))

    def work() -> str:
        spend(2.0)
        inner()
        return "done"

    began_ns = time.thread_time_ns()
    assert times.counted("outer", work)() == "done"
    whole = time.thread_time_ns() - began_ns
    assert times.ns["inner"] >= 4_000_000 and times.ns["outer"] >= 2_000_000
    assert times.ns["inner"] + times.ns["outer"] <= whole


def test_time_of_a_call_that_fails_counts() -> None:
    times = PartTimes()

    def fail() -> None:
        spend(1.0)
        raise KeyError

    with pytest.raises(KeyError):
        times.counted("part", fail)()
    assert times.ns["part"] >= 1_000_000


def test_every_timed_part_names_an_existing_callable() -> None:
    pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")
    from importlib import import_module

    for _, module, path in PARTS:
        owner = import_module(module)
        for name in path.split("."):
            owner = getattr(owner, name)
        assert callable(owner), path


def test_rest_is_the_whole_cost_minus_the_parts() -> None:
    found = with_rest({"driver": {"bus": 100.0, "guard": 50.0, "arm": 0.0}}, {"driver": 400.0})
    assert found == {"driver": {"middleware and the rest": 250.0, "bus": 100.0, "guard": 50.0}}


def test_medians_are_taken_over_the_runs() -> None:
    assert medians_of([{"driver": 3.0}, {"driver": 1.0}, {"driver": 2.0}]) == {"driver": 2.0}


def test_exchange_over_a_pseudo_terminal_takes_time() -> None:
    assert 0.0 < bus_floor(0.2, 100)

"""Diagnostics of a control loop that the kernel's limit of real-time programs stalls."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from driven_arm import driven
from geared_arms import variant

from dynid.hardware.loop import cycle as loop_module
from dynid.hardware.loop.cycle import ControlLoop
from dynid.hardware.loop.diagnostics import OK, THROTTLED, WARN, loop_status
from dynid.hardware.safety.guard import SafetyGuard, SafetySettings
from dynid.recording.messages import DiagnosticStatus
from dynid.recording.periodic_gaps import DEFAULT_LIMIT

RUN_S, PERIOD_S, HOLE_S = 6.5, 1.0, 0.05


@pytest.fixture
def diagnosed(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[DiagnosticStatus, str]]:
    """Run a loop whose clock jumps periodically; return its status, and the prefix for an aborted motion."""

    def run(hole_s: float, fifo: bool) -> tuple[DiagnosticStatus, str]:
        @contextlib.contextmanager
        def scheduled(_: int | None) -> Iterator[bool]:
            yield fifo

        monkeypatch.setattr(loop_module, "fifo_scheduling", scheduled)
        monkeypatch.setattr(loop_module, "read_limit", lambda: DEFAULT_LIMIT)
        setup = driven(variant("direct", tmp_path / f"{hole_s}{fifo}"))
        clock, next_hole_s = setup.line.clock, PERIOD_S
        began_ns, wait = clock.monotonic_ns(), clock.wait_until

        def wait_until(deadline_ns: int, awaits: Callable[[], bool]) -> None:
            nonlocal next_hole_s
            wait(deadline_ns, awaits)
            if (clock.monotonic_ns() - began_ns) * 1e-9 > next_hole_s:
                next_hole_s += PERIOD_S
                clock.sleep(hole_s)  # nothing of the process runs meanwhile

        def end(*_: object) -> None:
            if (clock.monotonic_ns() - began_ns) * 1e-9 > RUN_S:
                loop.stop()

        monkeypatch.setattr(clock, "wait_until", wait_until)
        loop = ControlLoop(setup.driver, SafetyGuard(setup.robot, SafetySettings()), on_cycle=end)
        loop.run()
        assert loop.error is None
        return loop_status(loop, 0, 0, 0), loop.complaint

    return run


@pytest.mark.slow
def test_holes_of_a_starved_loop_are_named_in_its_diagnostics(diagnosed) -> None:
    status, complaint = diagnosed(HOLE_S, fifo=True)
    assert status.level == WARN
    assert "sched_rt_runtime_us" in status.values[THROTTLED]
    assert "give the executor another processor" in status.values[THROTTLED]
    assert complaint.startswith(status.values[THROTTLED])


@pytest.mark.slow
@pytest.mark.parametrize(("hole_s", "fifo"), [(HOLE_S, False), (0.002, True)])
def test_short_holes_or_normal_scheduling_do_not_name_the_limit(diagnosed, hole_s: float, fifo: bool) -> None:
    status, complaint = diagnosed(hole_s, fifo)
    assert status.level == OK and THROTTLED not in status.values and not complaint

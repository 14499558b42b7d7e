"""Cycle times of the chain on the emulated bus at the real line's rate, while it publishes and records."""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chain.realtime_layout import RealtimeLayout
from dynid.hardware.loop.diagnostics import IN_FORCE, LINE, THROTTLED
from dynid.nodes.chain import Chain, ChainOptions
from dynid.nodes.collect import begin_recording
from dynid.recording.bag_reader import read_bag
from dynid.recording.completeness import DRIVER, completeness
from dynid.recording.messages import decode_diagnostics
from dynid.recording.series import joint_series, strings
from dynid.recording.settings import HardwareSettings, parse_settings
from dynid.recording.topics import DIAGNOSTICS, HARDWARE_SETTINGS, JOINT_STATES, find_topics
from dynid.robot import Robot, load_robot

MOTION, PROFILE = "demo_identification", "limited"
ROUNDING_CYCLES = 3  # allowed difference of counts, as the loop runs while a report is made
Progress = Callable[[float], None]  # seconds recorded so far


@dataclass(frozen=True)
class BusFigures:
    """Figures of a run.

    Attributes:
        rate_hz: states published and recorded per second.
        chosen_rate_hz: the cycle rate that the driver chose for this line, or that was fixed.
        missed_share: share of the planned states that were missed.
        drift_ms: delay of the last states relative to that rate; time that the driver caught up does not count.
        cycle_p50_us: median duration of a control cycle (read, guard, write, publish) since the driver's start.
        cycle_p99_us: 99th percentile of the same.
        cycle_p999_us: 99.9th percentile.
        missed_states: planned states that the driver counted as missed.
        uncounted_missed_states: states that are neither in the bag nor counted as missed or as still to come.
        seconds: recorded time.
        realtime: the requested real-time settings, and whether each was permitted.
        throttled: explanation of gaps that the kernel's limit of real-time programs causes; "" if there were none.
        not_kept: reason why the arm could not be driven at this rate on this machine; "" if it could.
    """

    rate_hz: float
    chosen_rate_hz: float
    missed_share: float
    drift_ms: float
    cycle_p50_us: float
    cycle_p99_us: float
    cycle_p999_us: float
    missed_states: int
    uncounted_missed_states: int
    seconds: float
    realtime: dict[str, bool]
    throttled: str = ""
    not_kept: str = ""


class _BusChain(Chain):
    """The chain, with the simulated servos at the robot's own baud rate instead of the simulation's."""

    def __init__(self, robot_name: str, logs: Path, realtime: bool, adapter: str, rate_hz: int) -> None:
        robot = load_robot(robot_name)
        rate = {"baudrate": robot.file.bus.baudrate}
        file = robot.file.model_copy(update={"simulation": robot.file.simulation.model_copy(update=rate)})
        self.layout = RealtimeLayout() if realtime else None
        options = ChainOptions(
            robot_name,
            identification=False,
            layout=self.layout,
            wire_time=True,
            paused_clock=False,
            adapter=adapter,
            rate_hz=rate_hz,
        )
        super().__init__(Robot(file, robot.folder), options, logs)

    @property
    def executor_error(self) -> str:
        """Reason in the executor's log why it aborted a motion; "" if the log has none."""
        return self._reason("executor")

    def __enter__(self) -> "_BusChain":
        super().__enter__()
        return self


def measure(
    robot: str,
    seconds: float,
    output: Path | None,
    progress: Progress,
    *,
    realtime: bool = True,
    adapter: str = "uart",
    rate_hz: int = 0,
) -> BusFigures:
    """Run the whole chain for some time, executing one motion after the other, and evaluate its bag.

    Args:
        robot: robot name or folder.
        seconds: recorded time [s].
        output: new folder for logs and bag; None keeps neither.
        progress: function that is called regularly with the recorded time [s].
        realtime: whether to use the real-time settings that this machine permits.
        adapter: see `ChainOptions`.
        rate_hz: see `ChainOptions`.

    Raises:
        NodeError: a node refused, or ended.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = output or Path(temporary)
        with _BusChain(robot, folder / "logs", realtime, adapter, rate_hz) as chain, _punctual(chain) as stay_punctual:
            chain.bring_up()

            def tick(elapsed_s: float) -> None:
                stay_punctual()
                progress(elapsed_s)

            not_kept = _record(chain, folder / "bag", seconds, tick)
            chain.supervisor.wait(lambda: LINE in chain.supervisor.reports, 10.0, "a report of the line")
            values = {pair.key: pair.value for pair in chain.supervisor.reports[DRIVER].values}
            settings = _realtime_settings(chain)
            chain.supervisor.set_enabled("hardware", False)
        return _figures(folder / "bag", values, settings, not_kept)


def _punctual(chain: _BusChain) -> contextlib.AbstractContextManager[Callable[[], None]]:
    return contextlib.nullcontext(lambda: None) if chain.layout is None else chain.layout.kernel_workers()


def _record(chain: _BusChain, bag: Path, seconds: float, progress: Progress) -> str:
    """Move the arm and record its states for a time [s]; return why a motion was aborted, "" if none was."""
    call = chain.supervisor
    call.set_parameters("recorder", {"completion_timeout_s": 0.0})  # the recorder is stopped within a motion
    begin_recording(call, MOTION, PROFILE, bag)
    began_s = time.monotonic()
    elapsed_s, given_up = 0.0, ""
    while elapsed_s < seconds and not given_up:
        call.experiment = None
        call.trigger("executor/execute")

        def over() -> bool:
            nonlocal elapsed_s, given_up
            elapsed_s = time.monotonic() - began_s
            progress(elapsed_s)
            state = call.experiment.state if call.experiment else None
            if state == "cancelled":
                given_up = chain.executor_error or f"the motion {MOTION} was cancelled"
            return bool(given_up) or state == "done" or elapsed_s >= seconds

        call.wait(over, seconds + 300.0, f"the end of {MOTION}")
    call.trigger("recorder/stop")
    return given_up


def _realtime_settings(chain: _BusChain) -> dict[str, bool]:
    """Return the requested real-time settings by name, and whether each is in force."""
    if chain.layout is None:
        return {}
    driver = ("SCHED_FIFO", "CPU idle disabled")
    return chain.layout.in_force | {name: chain.supervisor.reported(LINE, name) == IN_FORCE for name in driver}


def _figures(bag: Path, driver: Mapping[str, str], realtime: dict[str, bool], not_kept: str) -> BusFigures:
    found = completeness(bag)
    topics = find_topics(read_bag(bag), None, (JOINT_STATES, DIAGNOSTICS, HARDWARE_SETTINGS))
    cycle_s = parse_settings(HARDWARE_SETTINGS, strings(topics[HARDWARE_SETTINGS])[-1], HardwareSettings).cycle_s
    stamps = joint_series(topics[JOINT_STATES]).stamp_ns
    recorded_s = float(stamps[-1] - stamps[0]) * 1e-9
    reported_s, behind = _between_reports(topics[DIAGNOSTICS].messages)
    planned = reported_s / cycle_s
    uncounted = max(0, round(planned) - found.published - found.missed - behind - ROUNDING_CYCLES)
    return BusFigures(
        rate_hz=round((len(stamps) - 1) / recorded_s, 3),
        chosen_rate_hz=round(1.0 / cycle_s, 1),
        missed_share=found.missed / max(1, found.published + found.missed),
        drift_ms=round(1e3 * cycle_s * (planned - found.published - found.missed), 3),
        cycle_p50_us=float(driver["run_p50_us"]),
        cycle_p99_us=float(driver["run_p99_us"]),
        cycle_p999_us=float(driver["run_p999_us"]),
        missed_states=found.missed,
        uncounted_missed_states=found.lost + uncounted,
        seconds=round(recorded_s, 3),
        realtime=realtime,
        throttled=driver.get(THROTTLED, ""),
        not_kept=not_kept,
    )


def _between_reports(messages: Iterable[bytes]) -> tuple[float, int]:
    """Return the time between the last states of the first and last report [s], and the cycles lost meanwhile."""
    reports = [
        (int(status.values["last_state_stamp_ns"]), int(status.values["behind"]))
        for raw in messages
        for status in decode_diagnostics(raw)[1]
        if status.name == DRIVER and status.values.get("states_published", "0") != "0"
    ]
    if not reports:  # the motion was given up before the first one
        return 0.0, 0
    (first_ns, behind_first), (last_ns, behind_last) = reports[0], reports[-1]
    return (last_ns - first_ns) * 1e-9, behind_last - behind_first

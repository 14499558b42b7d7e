"""Delay, reliability and accuracy of detected forces at the tool, and the rate of false alarms.

Forces have random directions. A moving arm runs the validation motions under computed torque and is pulled about once a
second; a still arm is held at a random pose and pulled. Two detectors, with the identified model and with the nominal
model without friction, observe the same runs with the same thresholds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contact.scenes import PROFILE, Scene, Touched
from dynid.contact.contact_sense import ContactSense
from dynid.control.sway import STANDSTILL_S
from dynid.errors import SafetyError
from dynid.robot import FloatArray

FORCES_N = (2.0, 5.0, 10.0)
MOTIONS = ("V01", "V02", "V03")
PULL_S, JUDGED_S, APART_S, SETTLED_S = 0.3, 0.15, 0.6, 0.8
SOON_MS, SURELY = 20.0, 0.95
NINETY = 1.6449  # half width of a 90 % interval in standard deviations
INNER = 0.8  # share of the joint ranges in which start postures are drawn
MOVING_SEED, STILL_SEED, FREE_SEED, DIRECTION_SEED = 1000, 2000, 3000, 77  # the model's recording has another


@dataclass(frozen=True, eq=False)
class Pulls:
    """Detections of two detectors: first alarms [ms], infinite without one, and RMS errors [N], (pulls, 2).

    `inside` is the share of the force's components in their 90 % intervals, (pulls, 2). `early` counts alarms before
    the pulls, (2,); None if they were not counted.
    """

    found_ms: FloatArray
    error_n: FloatArray
    inside: FloatArray
    early: NDArray[np.int64] | None = None

    def figures(self, which: int) -> dict[str, Any]:
        """Return the figures of the identified model (0) or of the nominal one (1)."""
        found, error = self.found_ms[:, which], self.error_n[:, which]
        seen = found[np.isfinite(found)]
        return {
            "pulls": len(found),
            "found_share": float(np.isfinite(found).mean()),
            "found_in_20_ms_share": float((found <= SOON_MS).mean()),
            "median_ms": float(np.median(seen)) if len(seen) else None,
            "surely_ms": _finite(float(np.sort(found)[int(np.ceil(SURELY * len(found))) - 1])),
            "rms_n": float(np.sqrt(np.mean(error**2))),
            "in_90_percent_interval_share": float(self.inside[:, which].mean()),
        } | ({} if self.early is None else {"alarms_before": int(self.early[which])})


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


Row = tuple[FloatArray, FloatArray, FloatArray]


def pulled(run: Touched, force: FloatArray, seconds: float) -> Row:
    """Pull for a time [s]; return first alarms [ms], RMS force errors at the end [N], and the share in 90 % intervals.

    If the executor's safety checks end the run, it counts up to that time. A contact detected before the pull is no
    alarm.
    """
    senses, begin = run.senses, np.nan
    before = np.array([sense.contact for sense in senses])
    found, squares, inside, judged = np.full(len(senses), np.inf), np.zeros(len(senses)), np.zeros(len(senses)), 0
    try:
        for _ in range(round(seconds / run.cycle_s)):
            felt = np.array(run.cycle(force))
            before &= felt
            begin = run.time_s if np.isnan(begin) else begin  # the pull acts from this cycle's reading on
            passed = run.time_s - begin
            found = np.where(np.isinf(found) & felt & ~before, 1e3 * passed, found)
            if passed > seconds - JUDGED_S:
                told = [sense.force() for sense in senses]
                squares += [float(((one - force) ** 2).sum()) for one, _ in told]
                inside += [float(np.mean(np.abs(one - force) <= NINETY * np.sqrt(np.diag(C)))) for one, C in told]
                judged += 1
    except SafetyError:
        pass
    if not judged:
        return found, np.full(len(senses), np.nan), np.full(len(senses), np.nan)
    return found, np.sqrt(squares / judged), inside / judged


def directions(size_n: float) -> Iterator[FloatArray]:
    """Yield forces of one size [N] in random directions, (3,) [N]."""
    random = np.random.default_rng([DIRECTION_SEED, round(10 * size_n)])
    while True:
        one = random.normal(size=3)
        yield size_n * one / np.linalg.norm(one)


def runs(scene: Scene, senses: Sequence[ContactSense], first_seed: int) -> Iterator[Touched]:
    """Yield arms that begin the validation motions in turn, each with its own seed."""
    for number in count():
        run = Touched(scene, senses, first_seed + number)
        motion = scene.excitation.trajectory(MOTIONS[number % len(MOTIONS)], PROFILE)
        run.motion.begin(motion, run.plant.measure(), run.plant.stamp_ns)
        run.plant.command(np.zeros(scene.robot.size))
        yield run


def _gathered(rows: list[Row]) -> Pulls:
    kept = [row for row in rows if np.isfinite(row[1]).all()]
    return Pulls(np.array([row[0] for row in rows]), np.array([row[1] for row in kept]), np.array([r[2] for r in kept]))


def moving(scene: Scene, senses: Sequence[ContactSense], size_n: float, places: int) -> Pulls:
    """Return detections of pulls while the arm moves."""
    rows: list[Row] = []
    forces, random = directions(size_n), np.random.default_rng(DIRECTION_SEED)
    for run in runs(scene, senses, MOVING_SEED):
        while len(rows) < places:
            free = APART_S + random.uniform(0.0, 0.4) + (1.5 if run.time_s < 1.0 else 0.0)
            try:
                for _ in range(round(free / run.cycle_s)):
                    run.cycle()
            except SafetyError:
                break
            if run.motion.phase not in ("approach", "trajectory", "rest"):
                break
            rows.append(pulled(run, next(forces), PULL_S))
        if len(rows) >= places:
            return _gathered(rows)
    raise AssertionError("runs never end")


def still(scene: Scene, senses: Sequence[ContactSense], size_n: float, places: int, sways: bool = False) -> Pulls:
    """Return detections of pulls at a held arm, or at one that sways about its posture."""
    lower, upper = scene.excitation.limits(PROFILE)
    random, forces = np.random.default_rng(STILL_SEED), directions(size_n)
    rows, early = [], np.zeros(len(senses), dtype=np.int64)
    for number in range(places):
        q0 = 0.5 * (lower + upper) + INNER * random.uniform(-0.5, 0.5, len(lower)) * (upper - lower)
        run = Touched(scene, senses, STILL_SEED + number, q0, sways=sways)
        run.start()
        before = np.zeros(len(senses), dtype=bool)
        for _ in range(round((SETTLED_S + STANDSTILL_S * sways) / run.cycle_s)):
            felt = np.array(run.cycle())
            early, before = early + (felt & ~before), felt
        rows.append(pulled(run, next(forces), PULL_S + JUDGED_S))
    return replace(_gathered(rows), early=early)


def false_alarms(scene: Scene, senses: Sequence[ContactSense], minutes: float) -> tuple[list[int], float]:
    """Return each detector's alarms in `minutes` of free motion, and its largest statistic over its threshold."""
    felt, before, left, nearest = [0] * len(senses), [False] * len(senses), minutes * 60.0, 0.0
    for run in runs(scene, senses, FREE_SEED):
        while run.motion.phase != "done" and left > 0.0:
            now = run.cycle()
            left -= run.cycle_s
            felt = [one + (a and not b) for one, a, b in zip(felt, now, before, strict=True)]
            before = now
            with np.errstate(invalid="ignore"):
                share = np.abs(senses[0].observer.torque) / senses[0].bars.threshold
            nearest = max(nearest, float(np.nan_to_num(share).max()))
        if left <= 0.0:
            return felt, nearest
    raise AssertionError("runs never end")


def benchmark_feeling(
    scene: Scene, places: int, minutes: float, progress: Callable[[str], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the figures with the identified model, and those with the nominal one."""
    senses = scene.senses()
    found: dict[str, dict[str, Pulls]] = {"moving": {}, "still": {}, "swaying": {}}
    for size in FORCES_N:
        progress(f"pulling at a moving arm with {size:g} N")
        found["moving"][f"{size:g}"] = moving(scene, senses, size, places)
        progress(f"pulling at a still arm with {size:g} N")
        found["still"][f"{size:g}"] = still(scene, senses, size, places)
        progress(f"pulling at a swaying arm with {size:g} N")
        found["swaying"][f"{size:g}"] = still(scene, senses, size, places, sways=True)
    progress("moving freely")
    alarms, nearest = false_alarms(scene, senses, minutes)
    both = []
    for which in (0, 1):
        figures = {state: {size: one.figures(which) for size, one in rows.items()} for state, rows in found.items()}
        slowest = [figures[state]["2"]["surely_ms"] for state in ("moving", "still")]
        rms = {
            state: float(np.sqrt(np.mean(np.concatenate([one.error_n[:, which] for one in rows.values()]) ** 2)))
            for state, rows in found.items()
        }
        both.append(
            {
                "detect_ms": None if None in slowest else max(slowest),
                "false_alarms": alarms[which],
                "force_rms_still_n": rms["still"],
                "force_rms_moving_n": rms["moving"],
                "force_rms_swaying_n": rms["swaying"],
                "force_in_90_percent_interval_share": {
                    state: float(np.mean(np.concatenate([one.inside[:, which] for one in rows.values()])))
                    for state, rows in found.items()
                },
                "by_force": figures,
                "smallest_n_in_20_ms": {
                    state: next(
                        (float(size) for size, one in rows.items() if one["found_in_20_ms_share"] >= SURELY), None
                    )
                    for state, rows in figures.items()
                },
            }
        )
    both[0]["nearest_to_false_alarm"] = nearest
    return both[0], both[1]

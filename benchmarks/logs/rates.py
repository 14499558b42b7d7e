"""A fast recording as if it had been logged slowly: the weak form against least squares, at one rate after the other.

The first part of the time is thinned to each rate and identified from; the rest, at the recorded rate, judges. Nothing
is filtered before rows are taken, because nobody filters a log: what folds back, folds back.
"""

from dataclasses import dataclass

import numpy as np

from dynid.errors import DynidError
from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.data.sources import Source
from dynid.identification.estimators.table import estimator
from dynid.identification.logs.identify import identify_logs
from dynid.identification.logs.judge import log_errors
from dynid.identification.logs.rows import FRICTION, START, Point, RowSettings
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.model.dynamics import ArmModel
from dynid.recording.log import Log
from dynid.robot import FloatArray, Robot

RATES_HZ = (50.0, 25.0, 12.5)
ROWS, SHORTEST_S, GRID_S = 4.0, 0.08, 0.004  # rows under a test function, its least support, grid of a fast arm
JUDGE = RowSettings(grid_s=0.002, window_s=0.04)
HELD_ROWS_S = 0.001


@dataclass(frozen=True)
class Rate:
    """Held-out relative torque errors of what was identified at a rate; None where nothing came out.

    Attributes:
        hz: rows per second.
        weak: of the weak form.
        consistent: of the physically consistent model next to it.
        differences: of least squares with central differences of the rows.
        pipeline: of `dynid identify` with its filter below the rate's Nyquist frequency.
        published: how many base parameters the weak form publishes.
    """

    hz: float
    weak: float
    consistent: float
    differences: float | None
    pipeline: float | None
    published: int


def rates(robot: Robot, source: Source, fitted: float, rates_hz: tuple[float, ...] = RATES_HZ) -> list[Rate]:
    """One row per rate.

    Args:
        source: a recording that is much faster than the rates.
        fitted: share of its time that is identified from.
    """
    settings = load_identification(robot)
    signals, model = source.signals(settings), ArmModel.of(robot)
    whole = Log(source.name, robot.joint_names, signals.time, signals.q, signals.tau)
    period, cut = whole.interval_s, int(fitted * len(whole.time))
    held = whole.rows(slice(cut, None, max(1, round(HELD_ROWS_S / period))))
    found = []
    for hz in rates_hz:
        log = whole.rows(slice(0, cut, round(1.0 / (hz * period))))
        window = max(SHORTEST_S, ROWS / hz)
        result = identify_logs(robot, [log], mount=source.mount, settings=RowSettings(GRID_S, window))
        points = result.fit.point, result.point
        weak, consistent = (log_errors(model, point, held, JUDGE).relative for point in points)
        differences = _judged(model, _differences(model, log), held)
        plain = _judged(model, _pipeline(model, robot, log, settings), held)
        found.append(Rate(hz, weak, consistent, differences, plain, len(result.published)))
    return found


def _judged(model: ArmModel, phi: FloatArray | None, held: Log) -> float | None:
    none = np.tile(START, (model.axes, 1))
    assert len(FRICTION) == none.shape[1]
    return None if phi is None else log_errors(model, Point(phi, none), held, JUDGE).relative


def _differences(model: ArmModel, log: Log) -> FloatArray:
    """Ordinary least squares on the rows as they are, (p,)."""
    assert log.tau is not None
    dq = np.gradient(log.q, log.time, axis=0)
    W = model.regressor(log.q, dq, np.gradient(dq, log.time, axis=0))[2:-2]
    return np.asarray(np.linalg.lstsq(W.reshape(-1, W.shape[2]), log.tau[2:-2].ravel(), rcond=None)[0])


def _pipeline(model: ArmModel, robot: Robot, log: Log, settings: IdentificationSettings) -> FloatArray | None:
    """The plain pipeline's estimate, (p,); None where it refuses the rate."""
    assert log.tau is not None
    own = settings.model_copy(update={"sampling_interval_s": log.interval_s})
    try:
        samples = recording_from_arrays(robot, log.time, log.q, log.tau, name=log.name).samples(own)
        return estimator(own.estimator).estimate(model, samples, own.coulomb_friction).base.values
    except DynidError:
        return None

"""Identification from a fast recording that is thinned to lower rates, with `dynid identify` at each rate.

The first part of the time is thinned to each rate and identified from; the rest, at the recorded rate, validates the
model. Rows are thinned without a filter, because loggers do not filter, so aliasing is included.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.logs.judge import JudgeSettings, log_errors
from dynid.errors import DynidError
from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.data.recordings import Recording
from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.recording.log import Log
from dynid.robot import FloatArray, Robot
from dynid.runtime.model import Model

RATES_HZ = (50.0, 25.0, 12.5)
JUDGE = JudgeSettings(grid_s=0.002, window_s=0.04)
HELD_ROWS_S = 0.001


@dataclass(frozen=True)
class Rate:
    """Held-out relative torque errors of the models identified at a rate; None if there is no result.

    Attributes:
        hz: rows per second.
        rows: kind of regression rows that `dynid identify` chose.
        consistent: error of the physically consistent model.
        estimate: error of the estimate before the projection.
        filtered: error of the result if rows are filtered below the rate's Nyquist frequency.
        differences: error of least squares with central differences of the rows.
        accepted: whether the result is accepted.
    """

    hz: float
    rows: str
    consistent: float
    estimate: float
    filtered: float | None
    differences: float
    accepted: bool


def rates(
    robot: Robot,
    source: Recording,
    fitted: float,
    rates_hz: tuple[float, ...] = RATES_HZ,
    progress: Callable[[str], None] = lambda stage: None,
) -> list[Rate]:
    """Return one row per rate; the first row is for the recorded rate.

    Args:
        robot: the robot.
        source: a recording that is much faster than the rates.
        fitted: share of its time that is identified from.
        rates_hz: rates of the thinned recordings [Hz].
        progress: function that is called with the name of each rate.
    """
    settings = load_identification(robot)
    signals = source.signals(settings)
    whole = Log(source.name, robot.joint_names, signals.time, signals.q, signals.tau)
    period, cut = whole.interval_s, int(fitted * len(whole.time))
    held = whole.rows(slice(cut, None, max(1, round(HELD_ROWS_S / period))))
    found = []
    for hz in (1.0 / period, *rates_hz):
        progress(f"{hz:g} rows per second")
        log = whole.rows(slice(0, cut, round(1.0 / (hz * period))))
        result = _identified(robot, source, log, settings)
        model = result.model
        own = max(settings.sampling_interval_s, log.interval_s)
        below = settings.model_copy(update={"rows": "filtered", "sampling_interval_s": own})
        found.append(
            Rate(
                hz,
                "averaged" if "averages" in result.rows else "filtered",
                _judged(robot, model, result.base.values, result.friction, held),
                _judged(robot, model, result.estimate.base.values, result.estimate.friction, held),
                _filtered(robot, source, log, below, held),
                _judged(robot, model, _differences(model, log), None, held),
                result.verdict.accepted,
            )
        )
    return found


def _identified(robot: Robot, source: Recording, log: Log, settings: IdentificationSettings) -> Identification:
    assert log.tau is not None
    recording = recording_from_arrays(robot, log.time, log.q, log.tau, mount=source.mount, name=log.name)
    return identify(robot, [recording], settings=settings)


def _filtered(robot: Robot, source: Recording, log: Log, settings: IdentificationSettings, held: Log) -> float | None:
    """Return the error of the result from filtered rows; None if such rows are refused."""
    try:
        result = _identified(robot, source, log, settings)
    except DynidError:
        return None
    return _judged(robot, result.model, result.base.values, result.friction, held)


def _judged(robot: Robot, model: ArmModel, phi: FloatArray, law: FrictionLaw | None, held: Log) -> float:
    return log_errors(Model(robot, BaseParameters(model.names, phi), law), held, JUDGE).relative


def _differences(model: ArmModel, log: Log) -> FloatArray:
    """Return the ordinary least-squares solution on the unfiltered rows, (p,)."""
    assert log.tau is not None
    dq = np.gradient(log.q, log.time, axis=0)
    W = model.regressor(log.q, dq, np.gradient(dq, log.time, axis=0))[2:-2]
    return np.asarray(np.linalg.lstsq(W.reshape(-1, W.shape[2]), log.tau[2:-2].ravel(), rcond=None)[0])

"""From logs to a model and to what the logs do not determine."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from dynid.errors import DataError
from dynid.identification.data.curves import Curves, curves_through
from dynid.identification.feasibility.consistent import ConsistentModel, consistent_projection
from dynid.identification.logs.delays import GoalDelay, goal_delay, torque_delay
from dynid.identification.logs.fit import GROUPS, KNOWN, LogFit, Triangles, fit, step
from dynid.identification.logs.rows import EXTRA, FRICTION, Point, RowSettings, Stretch, joint_rows, stretches
from dynid.identification.logs.together import Reading, common_mount
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.parallel import Map, watched
from dynid.recording.log import Log
from dynid.robot import FloatArray, Robot
from dynid.runtime.model import Model
from dynid.threads import on_one_thread

PUBLISHED, QUANTILE = 0.1, 1.959964  # of its value; of the normal distribution, 95 % on both sides
WINDOW_ROWS = 6.0  # support of the test functions, in rows of a slow log
FAST_S = 0.01  # between rows: no rate to speak of is lost
SAME_DELAY_S = 0.05  # stretches begin and end by the delay; torques do not reach beyond by more than that
KEPT_S = 2400.0  # of all logs: regressors of more are made anew in each round
RATE_SHARE = 0.25  # of what half the rows change, which stands for what the missing rows would
SHORTEST_CUT, WINDOWS_CUT = 100, 4.0  # rows, and test functions, that a piece of a log has at least
DELAY_LOGS = 4  # that the first guess of the delay looks at
TASK_LOGS = 8  # at most in a piece of work: its triangle is sent once


def _log(reading: Reading) -> Log:
    """What is in memory, or is read now."""
    return reading if isinstance(reading, Log) else reading()


@dataclass(frozen=True)
class Task:
    """Some logs to reduce, or what reads them, as a piece of work for any process."""

    readings: tuple[Reading, ...]
    group: int
    model: ArmModel
    settings: RowSettings
    point: Point
    delay_s: float
    every: int


@dataclass(frozen=True, eq=False)
class _Part:
    """A stretch of a log: its grid (M,) [s], its states, and the torques' curves."""

    time: FloatArray
    stretch: Stretch
    tau: Curves


class Prepared:
    """A log in memory, whose regressors are kept from round to round."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._kept: dict[tuple[float, int], list[_Part]] = {}

    def __call__(self) -> Log:
        """The log."""
        return self.log

    @cached_property
    def curves(self) -> list[tuple[Curves, Curves]]:
        """Of positions and torques, of every piece between gaps."""
        return [
            (curves_through(one.time, one.q), curves_through(one.torque_time, one.tau))
            for one in self.log.pieces()
            if one.tau is not None
        ]

    def parts(self, model: ArmModel, settings: RowSettings, delay_s: float, every: int) -> Iterator[_Part]:
        """All stretches, or every so many, at times at which torques of this delay are known."""
        for q, tau in self.curves:
            begin, end = max(q.begin, tau.begin - delay_s), min(q.end, tau.end - delay_s)
            for time in list(stretches(begin, end, settings))[::every]:
                yield _Part(time, Stretch.of(model, q.states(time)), tau)

    def kept(self, model: ArmModel, settings: RowSettings, delay_s: float, every: int) -> list[_Part]:
        """`parts`, made once for delays that differ by less than `SAME_DELAY_S`."""
        for (delay, thin), parts in self._kept.items():
            if thin == every and abs(delay - delay_s) < SAME_DELAY_S:
                return parts
        self._kept.clear()
        parts = list(self.parts(model, settings, delay_s, every))
        self._kept[delay_s, every] = parts
        return parts


@dataclass(frozen=True)
class _Halved:
    """A reading with every other row."""

    reading: Reading

    @property
    def digest(self) -> str | None:
        """Of what it reads, where that says so."""
        own = getattr(self.reading, "digest", None)
        return own and f"every other row of {own}"

    def __call__(self) -> Log:
        return _log(self.reading).halved()


def reduced(task: Task) -> tuple[int, FloatArray, FloatArray]:
    """The group, triangles (n, c, c) and numbers of rows (n,) of some logs, one after the other."""
    columns = len(task.model.names) + len(FRICTION) + EXTRA
    found = Triangles.empty(1, task.model.axes, columns)
    how = task.model, task.settings, task.delay_s, task.every
    for reading in task.readings:
        ready = reading if isinstance(reading, Prepared) else None
        for part in Prepared(_log(reading)).parts(*how) if ready is None else ready.kept(*how):
            tau = part.tau.states(part.time + task.delay_s)[0]
            found.add(0, joint_rows(part.stretch, tau, task.point, task.settings))
    return task.group, found.R[0], found.rows[0]


def reduce_all(
    readings: Sequence[Reading], model: ArmModel, settings: RowSettings, mapper: Map
) -> Callable[[Point, float, int], Triangles]:
    """What `fit` calls: all logs as triangles, by way of a mapper such as `map` or a pool's.

    Which logs make a piece of work, and in which order the pieces are merged, does not depend on the mapper: for
    readings that are not `Prepared`, the result is the same but for rounding, wherever it was made.
    """

    def reduce(point: Point, delay_s: float, every: int) -> Triangles:
        whole = Triangles.empty(GROUPS, model.axes, len(model.names) + len(FRICTION) + EXTRA)
        # few logs are thinned by stretches, many by logs
        skip = every if len(readings) >= GROUPS * every else 1
        within = 1 if skip > 1 else every
        tasks = (
            Task(tuple(mine[first : first + TASK_LOGS]), group, model, settings, point, delay_s, within)
            for group in range(GROUPS)
            for mine in [readings[::skip][group::GROUPS]]
            for first in range(0, len(mine), TASK_LOGS)
        )
        for group, R, rows in mapper(reduced, tasks):
            whole.merge(group, R, rows)
        return whole

    return reduce


@dataclass(frozen=True, eq=False)
class LogModel:
    """A model from logs.

    Attributes:
        model: what predicts torques.
        fit: before the projection to a consistent model.
        consistent: the consistent model next to it.
        interval_s: median time between rows [s].
        goals: delay of goals and the servos' gains; None where goals were not logged.
        published: names of the base parameters whose 95 % interval is narrower than 10 % of the value on each side;
            viscous friction only where no other friction falls with speed.
        refused: the others, with that share.
        point: the consistent base parameters, with the friction that fits best beside them.
    """

    model: Model
    fit: LogFit
    consistent: ConsistentModel
    interval_s: float
    goals: GoalDelay | None
    published: tuple[str, ...]
    refused: dict[str, float]
    point: Point

    @property
    def base(self) -> BaseParameters:
        """The consistent base parameters."""
        return self.consistent.base


def settings_for(interval_s: float) -> RowSettings:
    """Test functions that reach over enough rows of logs with this interval [s]."""
    window = max(RowSettings.window_s, WINDOW_ROWS * interval_s)
    return RowSettings(window_s=math.ceil(window / (4 * RowSettings.grid_s) - 1e-9) * 4 * RowSettings.grid_s)


def cut(log: Log, pieces: int, window_s: float) -> list[Log]:
    """A long log as at most so many logs of equal length, of enough rows and test functions (of `window_s`) each."""
    longest = int((log.time[-1] - log.time[0]) / (WINDOWS_CUT * window_s))
    count = max(1, min(pieces, len(log.time) // SHORTEST_CUT, longest))
    edges = np.linspace(0, len(log.time), count + 1).astype(int)
    return [log.rows(slice(a, b)) for a, b in pairwise(edges.tolist())]


@on_one_thread
def identify_logs(
    robot: Robot,
    logs: Sequence[Reading],
    *,
    mount: str | None = None,
    settings: RowSettings | None = None,
    mapper: Map = map,
    known: Mapping[str, float] = KNOWN,
    progress: Callable[[str], None] | None = None,
) -> LogModel:
    """Identify a model from logs.

    Args:
        logs: in memory, or functions that read one each time they are called; at least one. Few long ones are cut, so
            that there are groups of time for the deviations to rest on.
        mount: how the arm was mounted; None is what the logs say, or the robot's default.
        settings: of the rows; None chooses by the logs' rate.
        mapper: how pieces of work are spread, such as `map` or that of a process pool.
        known: of friction beforehand, as deviations, see `fit.KNOWN`; a tiny one leaves a term out.
        progress: called with one line four times per round.

    Raises:
        DataError: no torques were logged, joints are not the robot's, a joint hardly moves, or see `common_mount`.
        InfeasibleError: no consistent model within the robot's physical bounds.
    """
    few = len(logs) < GROUPS  # so all of them are kept in memory
    sources = logs if few else logs[:DELAY_LOGS]
    read = [_log(one) for one in sources]
    mount = common_mount(logs, {id(one): log for one, log in zip(sources, read, strict=True)}, mount)
    first = read[:DELAY_LOGS]
    for log in read:
        if log.tau is None:
            raise DataError(
                f"{log.name} holds no torques or currents; a model cannot be identified from positions alone"
            )
        if log.joint_names != robot.joint_names:
            raise DataError(
                f"{log.name} has the joints {', '.join(log.joint_names)}, expected {', '.join(robot.joint_names)}"
            )
    model, interval = ArmModel.of(robot, mount=mount), float(np.median([one.interval_s for one in first]))
    chosen = settings or settings_for(interval)
    delay = torque_delay(model, first, chosen)
    readings: list[Reading] = list(logs)
    if few:
        readings = [piece for one in read for piece in cut(one, -(-GROUPS // len(read)), chosen.window_s)]
    in_memory = [one for one in readings if isinstance(one, Log)]
    if mapper is map and sum(float(one.time[-1] - one.time[0]) for one in in_memory) < KEPT_S:
        readings = [Prepared(one) if isinstance(one, Log) else one for one in readings]
    mapper = mapper if progress is None else watched(mapper, progress)
    found = fit(model, robot, reduce_all(readings, model, chosen, mapper), delay, known)
    if interval > FAST_S:
        halved = reduce_all([_Halved(one) for one in readings], model, chosen, mapper)
        change = step(model, robot, found, halved(found.point, found.delay_s, 1), known) - found.point.phi
        found = replace(found, rate_change=change, deviations=np.hypot(found.deviations, RATE_SHARE * change))
    p = len(model.names)
    base = BaseParameters(model.names, found.point.phi, np.diag(found.deviations**2))
    consistent = consistent_projection(model, base, robot.file.physical_bounds, metric=found.metric(p))
    point = found.given(consistent.base.values)
    law = friction_law(model, point)
    share = QUANTILE * found.deviations / np.maximum(np.abs(consistent.base.values), 1e-12)
    trading = _trading(model.names, point.friction)
    share[trading] = np.maximum(share[trading], 1.0)
    published = tuple(name for name, one in zip(model.names, share, strict=True) if one <= PUBLISHED)
    refused = {name: float(one) for name, one in zip(model.names, share, strict=True) if one > PUBLISHED}
    return LogModel(
        Model(robot, consistent.base, law, mount, unconstrained=found.point.phi),
        found,
        consistent,
        interval,
        goal_delay(first[0], found.delay_s),
        published,
        refused,
        point,
    )


def _trading(names: Sequence[str], friction: FloatArray) -> list[int]:
    """Which base parameters are viscous friction of a joint whose friction (n, 7) also falls with speed.

    Over the speeds of a motion a fall is nearly a line, too: with hours of data both are precise, and each may be wrong
    by more than half while their sum is right.
    """
    falling = friction[:, [FRICTION.index(name) for name in ("fs", "kms", "kes")]]
    axes = set(np.nonzero(falling)[0].tolist())
    kinds = (kind_and_number(name) for name in names)
    return [k for k, (kind, number) in enumerate(kinds) if kind == "FV" and number - 1 in axes]


def friction_law(model: ArmModel, point: Point) -> FrictionLaw:
    """Friction beside the base parameters as the law of `dynid.model.friction`."""
    figures = {name: point.friction[:, k] for k, name in enumerate(FRICTION)}
    return FrictionLaw.of(model.axes, figures | {"a": np.ones(model.axes)})

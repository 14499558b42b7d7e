"""Search for changes of an arm during its recordings, and for constant offsets of its torques.

Every property of the arm that may change (a tested quantity) is combined with several functions of time, called
courses: steps at the borders of windows, and a straight line. Torque offsets may also be constant. The search selects
the quantity and course that reduce the squared error most. Before this comparison, a multiple of the reduction that
noise alone gives, which increases with the number of columns, is subtracted. If the change is significant, it becomes
part of the fit, and the search is repeated, at most `MOST` times by default. So a change is reported once, and not
again as a change of a quantity that resembles it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from dynid.identification.data.samples import Samples
from dynid.identification.diagnosis.nuisance_columns import weighted_residual
from dynid.identification.estimators.regression import Regression
from dynid.identification.steadiness.columns import (
    BODY,
    FRICTION,
    LOAD_FRICTION,
    OFFSET,
    TestedQuantity,
    gravity_columns,
    tested_quantities,
)
from dynid.identification.steadiness.fit import ChangeFit, Information
from dynid.identification.steadiness.windows import Windows
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Robot

Course = Literal["step", "drift", "constant"]
MOMENTS = 23  # number of evenly spaced times at which a step is tested
CHANCE = 1e-3  # false-alarm probability, of all changes together and of all constants together
CHANCE_BESIDE_FRICTION = 5e-3  # the same for an offset, in a fit that also has a change of the joint's friction
MOST = 3  # largest number of steps of the search, and so of reported changes
LEAST_GRAVITY = 0.05  # least divisor of relative changes of gravity, over the size of all torques
NEGLIGIBLE = 0.002  # relative change of gravity or of all torques, below which a change is not reported
DEVIATIONS = 2.0  # size of a hidden offset, in its standard deviations
RELEVANT_SHARE = 0.01  # relative change of gravity by a hidden offset, above which offsets of the joint are relevant
POSTURES = 300  # random postures at which gravity torques are compared
MARGIN = 2  # number of windows at either end in which no step is tested
NEAR = 0.5  # least explained squared error, over the largest one, of quantities that are fitted
RARE = 0.8  # factor of the explained squared error of a body that changes gradually; bodies come and go at once
COST = 2.0  # multiple of the squared error explained by noise that is subtracted before quantities are compared


@dataclass(frozen=True)
class Change:
    """A change of the arm during its recordings, or a constant torque offset that the model does not have.

    Attributes:
        kind: kind of the property that changes, such as a body, a joint zero or friction.
        axes: joints, from 0; () for all joints together, for a body and for the mount.
        course: kind of the change's function of time, "step", "drift" (a straight line) or "constant".
        values: size of the change, as factors of the property's regressor columns.
        chance: probability that a change this large is found in any tested property if nothing changed.
        explained: fraction of the squared error that the change removes.
        gravity: relative difference of gravity torques (root mean square over random postures). It is the larger of two
            differences: between the arm before and after the change, and between a model from a fit that includes the
            change and one from a fit without it.
        torque: relative difference of the torques along the recorded motions (root mean square), between a model from a
            fit that includes the change and one from a fit without it.
        at: time of a step [s] on the axis of its recording.
        recording: index of the recording that contains the step.
        into: whether the arm changed between two recordings; the step is then at the start of the recording with the
            index `recording`.
    """

    kind: str
    axes: tuple[int, ...]
    course: Course
    values: tuple[float, ...]
    chance: float
    explained: float
    gravity: float
    torque: float
    at: float = 0.0
    recording: int = 0
    into: bool = False

    @property
    def moved(self) -> float:
        """Relative size of the change.

        It is the larger of two values: that for gravity torques in random postures, and that for all torques along the
        recorded motions.
        """
        return max(self.gravity, self.torque)


class _Tried(NamedTuple):
    """Combination of a tested property of the arm and a function of time, with the squared error that it explains.

    Attributes:
        reading: the tested property.
        columns: indices of the regressor columns of the property, among the columns of all tested properties.
        course: kind of the function of time.
        over: values of the function of time, one per window, (w,).
        window: window at which a step begins; 0 for other functions.
        explained: squared error that the change removes.
    """

    reading: TestedQuantity
    columns: list[int]
    course: Course
    over: FloatArray
    window: int
    explained: float

    @property
    def plausible(self) -> float:
        """Weight of the explained squared error in comparisons: `RARE` for a gradual change of a body, else 1.

        A body's mass seldom changes gradually, because bodies are usually attached or removed at once.
        """
        return RARE if self.reading.kind == BODY and self.course == "drift" else 1.0


def _without(tried: Sequence[_Tried], one: _Tried) -> list[_Tried]:
    """Return all combinations except those with the same property and kind of function of time as `one`."""
    return [other for other in tried if other.columns != one.columns or other.course != one.course]


class HiddenOffset(NamedTuple):
    """Constant offset of a joint's measured torque that the data do not exclude.

    Attributes:
        axis: index of the joint, from 0.
        size: size of the offset [N m]: `DEVIATIONS` times the standard deviation of its estimate.
        moved: relative change of the model's gravity torques (root mean square over random postures) if an offset of
            this size is subtracted from the measured torque before the fit.
    """

    axis: int
    size: float
    moved: float


class Search:
    """Search for changes of an arm over time that the fit of a regression does not contain.

    Args:
        robot: the robot, whose joint ranges contain the random postures in which gravity torques are compared.
        model: model of the arm.
        samples: the fitted samples.
        regression: regression of the samples.
    """

    def __init__(self, robot: Robot, model: ArmModel, samples: Samples, regression: Regression) -> None:
        """Compute the regressor columns of all tested properties of the arm, and their products by time windows."""
        self.model, self.samples, self.regression = model, samples, regression
        self.windows = Windows.of(samples)
        self.tried = tested_quantities(model, samples, regression)
        # later rows belong to joints at rest, whose torque may be hidden by friction: no quantity has columns there
        rows = slice(0, len(samples) * model.axes)
        own, weights, y = (one[rows] for one in weighted_residual(samples, regression))
        columns = np.concatenate([one.columns for one in self.tried], axis=2).reshape(len(y), -1)
        whole = np.concatenate([own, columns * weights[:, None], y[:, None]], axis=1)
        self.information = Information(self.windows.products(whole, model.axes), own.shape[1], self.windows.lags)
        sizes = np.cumsum([0, *(one.columns.shape[2] for one in self.tried)])
        self.places = [list(range(a, b)) for a, b in pairwise(sizes.tolist())]
        solution = regression.solve()
        self.phi = solution.phi
        self.first_phi = int(solution.sliding[: regression.friction_size].sum())
        still, size = np.zeros((POSTURES, model.axes)), model.chain_size
        self.postures, random = still.copy(), np.random.default_rng(0)
        drawn = random.uniform(robot.audit_lower, robot.audit_upper, (POSTURES, len(robot.audit_lower)))
        self.postures[:, :size] = drawn
        smooth = [not one.startswith(("FC", "FS", "OF")) for one in model.names]
        self.gravity = model.regressor(self.postures, still, still) * np.array(smooth)

    def courses(self) -> Iterator[tuple[Course, FloatArray, int]]:
        """Yield the functions of time that a change of the arm may follow: a straight line, and steps.

        The samples are divided into w consecutive windows of time, and a function has one value per window. The line
        rises from 0 at the first to 1 at the last sample. A step is 0 before one of the windows and 1 from it on.

        Yields:
            Kind of the function, its values, (w,) [-], and the index of the window at which a step begins; 0 for the
            line.
        """
        share = self.windows.share
        yield "drift", share, 0
        starts = np.flatnonzero(np.diff(self.windows.recording)) + 1
        evenly = np.rint(np.linspace(MARGIN, len(share) - MARGIN, MOMENTS)).astype(int)
        for k in np.unique([*starts, *evenly]).tolist():
            if MARGIN <= k <= len(share) - MARGIN:
                yield "step", (np.arange(len(share)) >= k).astype(float), k

    def changes(self, most: int = MOST) -> tuple[Change, ...]:
        """Return the significant changes of the arm over time, in the order in which the search finds them.

        Changes with an effect on the model's torques below `NEGLIGIBLE` are left out.

        Args:
            most: largest number of significant changes to search for, including those that are left out.
        """
        information, found = self.information, list[Change]()
        total = float(information.products[:, -1, -1].sum())
        courses = list(self.courses())
        constant = np.ones(len(self.windows))
        count = len(self.tried) * len(courses)
        for _ in range(most):
            tried = self._all(information, courses, constant)
            chosen = self._best(tried, information)
            while chosen is not None and self._may_be_friction(chosen[0], information, count):
                tried = _without(tried, chosen[0])
                chosen = self._best(tried, information)
            if chosen is None:
                break
            best, fit = chosen
            chance = min(1.0, (self._constants(best) if best.course == "constant" else count) * fit.chance)
            if chance > CHANCE:
                break
            change = self._change(best, fit, chance, total)
            if change.moved >= NEGLIGIBLE:
                found.append(change)
            information = information.with_course(best.columns, best.over)
        return tuple(found)

    def _may_be_friction(self, one: _Tried, information: Information, count: int) -> bool:
        """Return whether a tried change is a torque offset that a change of the joint's friction may explain.

        The errors of a friction law that lacks a part of the friction resemble an offset if the joint moves in one
        direction only, or if its load keeps its sign. So an offset is fitted again, together with a free change of the
        joint's friction. If the offset is insignificant in this fit, friction may explain it.

        Args:
            one: property and function of time.
            information: products of the regression rows by window.
            count: number of tested changes, for the correction of the probability.
        """
        if one.reading.kind != OFFSET:
            return False
        constant = one.course == "constant"
        fit = self._with_free_friction(information, one.reading.axes, one.over).fit(one.columns, one.over, not constant)
        return (self._constants(one) if constant else count) * fit.chance > CHANCE_BESIDE_FRICTION

    def _with_free_friction(self, information: Information, axes: tuple[int, ...], over: FloatArray) -> Information:
        """Return products of a fit that also has a change of one joint's friction and of its friction by load.

        Args:
            information: products of the regression rows by window.
            axes: index of the joint.
            over: function of time of the change, one value per window, (w,).
        """
        rubs = [
            k
            for one, columns in zip(self.tried, self.places, strict=True)
            for k in columns
            if one.kind in (FRICTION, LOAD_FRICTION) and one.axes == axes
        ]
        return information.with_course(rubs, over)

    def _all(
        self, information: Information, courses: Sequence[tuple[Course, FloatArray, int]], constant: FloatArray
    ) -> list[_Tried]:
        """Return all combinations of tested property and function of time, with the squared errors that they explain.

        Args:
            information: products of the regression rows by window.
            courses: functions of time, each with its kind, its value in every window, (w,), and the window at which it
                begins.
            constant: values of the function of time of a constant torque offset, one per window, (w,). Such an offset
                is also tested.
        """
        found, every = [], np.array([over for _, over, _ in courses])
        for one, columns in zip(self.tried, self.places, strict=True):
            removed = information.explains(columns, every, True).tolist()
            for (course, over, window), explained in zip(courses, removed, strict=True):
                found.append(_Tried(one, columns, course, over, window, explained))
            if one.kind == OFFSET:
                explained = float(information.explains(columns, constant, False))
                found.append(_Tried(one, columns, "constant", constant, 0, explained))
        return found

    def _best(self, tried: Sequence[_Tried], information: Information) -> tuple[_Tried, ChangeFit] | None:
        """Return the combination of property and function of time that explains most beyond noise, with its fit.

        Noise alone also explains some squared error; a multiple of its expectation is subtracted before the comparison.
        For a body whose mass changes gradually, the difference is multiplied by `RARE`, because such a change is
        unlikely, but a gradual loss of torque resembles it. None is returned if nothing was tested.

        Args:
            tried: combinations of a tested property of the arm and a function of time.
            information: products of the regression rows by window.
        """
        best: dict[int, _Tried] = {}
        for one in tried:
            own = best.get(one.columns[0])
            if own is None or one.explained * one.plausible > own.explained * own.plausible:
                best[one.columns[0]] = one
        most = max((one.explained for one in best.values()), default=0.0)
        fits = [
            (one, information.fit(one.columns, one.over, one.course != "constant"))
            for one in best.values()
            if one.explained > NEAR * most
        ]

        def worth(pair: tuple[_Tried, ChangeFit]) -> float:
            """Return the squared error beyond noise that a fit explains, less for a rare kind of change."""
            one, fit = pair
            gain = fit.explained - COST * fit.by_noise
            return min(gain, gain * one.plausible)

        return max(fits, key=worth, default=None)

    def _change(self, one: _Tried, fit: ChangeFit, chance: float, total: float) -> Change:
        """Return the description of a fitted change of the arm.

        Args:
            one: property and function of time.
            fit: fit of the change.
            chance: probability that a change this large is found in any tested property if nothing changed.
            total: squared error before the change was fitted.
        """
        of_gravity, of_torque = self._moved(fit)
        if one.course != "constant":
            of_gravity = max(of_gravity, self._difference_of_gravity(one.reading, fit.values))
        return Change(
            one.reading.kind,
            one.reading.axes,
            one.course,
            tuple(fit.values.tolist()),
            chance,
            fit.explained / max(total, np.finfo(float).tiny),
            of_gravity,
            of_torque,
            at=float(self.windows.begin[one.window]),
            recording=int(self.windows.recording[one.window]),
            into=bool(one.window and self.windows.recording[one.window] != self.windows.recording[one.window - 1]),
        )

    def _constants(self, best: _Tried) -> int:
        """Return the number of tests in the Bonferroni correction of a constant torque offset, one test per joint.

        A joint is relevant if an offset of `DEVIATIONS` standard deviations changes the model's gravity torques by more
        than `RELEVANT_SHARE`. If `best` is an offset of a relevant joint, only relevant joints count. Otherwise all
        joints count.
        """
        matter = [one.axis for one in self.hidden if one.moved > RELEVANT_SHARE]
        return len(matter) if best.reading.axes[0] in matter else self.samples.tau.shape[1]

    @cached_property
    def hidden(self) -> tuple[HiddenOffset, ...]:
        """Constant torque offset of each joint that the data do not exclude, with its effect on the model's gravity.

        The fit may conceal such an offset in its gravity parameters. The size of the offset is `DEVIATIONS` times the
        standard deviation of its estimate. Together with the offset, the fit estimates a deviation of the joint's
        friction from the friction law. This deviation is constant in time, too.
        """
        constant, found = np.ones(len(self.windows)), []
        for one, columns in zip(self.tried, self.places, strict=True):
            if one.kind != OFFSET:
                continue
            fit = self._with_free_friction(self.information, one.axes, constant).fit(columns, constant, False)
            size = DEVIATIONS * float(fit.deviations[0])
            moved = self._moved(fit)[0] / max(abs(float(fit.values[0])), np.finfo(float).tiny) * size
            found.append(HiddenOffset(one.axes[0], size, moved))
        return tuple(found)

    def _difference_of_gravity(self, reading: TestedQuantity, values: FloatArray) -> float:
        """Return the relative difference of the arm's gravity torques before and after a change, in random postures.

        It is the norm of the difference, divided by the norm of the model's gravity torques (`_size_of_gravity`).

        Args:
            reading: the property that changes.
            values: size of the change, as factors of the property's columns, (k,).
        """
        base = BaseParameters(self.model.names, self.phi)
        change = gravity_columns(self.model, base, reading, self.postures) @ values
        return float(np.linalg.norm(change)) / self._size_of_gravity

    @cached_property
    def _size_of_gravity(self) -> float:
        """Norm of the model's gravity torques in all random postures [N m], the divisor of relative changes.

        The root mean square of the gravity torques is taken as at least `LEAST_GRAVITY` times that of the recorded
        torques. So relative changes stay finite for arms that bear hardly any weight.
        """
        torques = self.regression.torques
        rms = float(np.linalg.norm(torques)) / np.sqrt(max(torques.size, 1))
        least = LEAST_GRAVITY * rms * float(np.sqrt(self.postures.size))
        return float(max(np.linalg.norm(self.gravity @ self.phi), least, 1e-12))

    def _moved(self, fit: ChangeFit) -> tuple[float, float]:
        """Return the relative differences that a fitted change makes to the model's gravity torques and to all torques.

        The model without the change is compared with two models from the fit that contains it. One describes the arm at
        the start of the recordings, the other at their end. The larger difference is returned.
        """
        p, first = len(self.phi), self.first_phi
        size = float(np.linalg.norm(self.regression.torques))
        rows = len(self.samples) * self.regression.axes
        W = self.regression.W[:rows]
        at = [one[first : first + p] for one in (fit.theta_at_start, fit.theta_at_end)]
        of_gravity = max(float(np.linalg.norm(self.gravity @ one)) for one in at) / self._size_of_gravity
        of_torque = max(float(np.linalg.norm(W @ one)) for one in at) / max(size, 1e-12)
        return of_gravity, of_torque

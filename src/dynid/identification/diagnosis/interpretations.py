"""Alternative interpretations of recorded data and their fits: signs, columns, gears, mounts, delays.

Each interpretation assumes one fault, such as a wrong sign or gear ratio, and corrects states or torques for it.
Parameters of links, and friction that opposes motion, are fitted to a few hundred samples of moving joints. The gain
of an interpretation is the sum over the axes of log(relative error as recorded / relative error of the interpretation).
The gain is significant if the reduction of the squared errors is large relative to its scatter over blocks of time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from dynid.identification.data.delayed_torques import interpolate_later
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.sliding_rows import sliding_states
from dynid.identification.estimators.torque_errors import MOVING_RAD_S
from dynid.identification.estimators.triangles import bounded
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import physical_lower_bounds
from dynid.robot import FloatArray

MOST_SAMPLES = 250
RIDGE = 1e-6  # ridge over a column's length, which keeps undetermined parameters at 0
FEWEST = 30  # least number of sliding samples of an axis that is used
BLOCKS = 24  # blocks of time over which a difference must repeat
WEIGHT_FLOOR, LEAST = 0.02, 0.05  # relative errors below which weights stop growing, and errors count as equal
LoadOf = Literal["joint", "links", "motor"]
OWN = ("FV", "FC", "FS", "OF")  # friction parameters, which are replaced by `_friction` for all structures
LOWER = (0.0, 0.0, 0.0, -np.inf, -np.inf)  # bounds of the columns of `_friction`
SLOW_RAD_S = 0.2
GEARS = (0.5, 2.0)
MOUNT_SHARE = 0.8  # share of gravity along a base axis, above which gravity along this axis is not tried
DELAYS_S = (-0.06, -0.02, 0.02, 0.06)
EXTRAPOLATED = (0.5, 1.0, 1.5)  # factors of the linear estimate that are fitted


@dataclass(frozen=True, eq=False)
class Data:
    """States and torques of a recording under one interpretation, such as with a flipped sign.

    Attributes:
        q: positions, (N, n) [rad or m].
        dq: velocities, (N, n) [rad/s or m/s].
        ddq: accelerations, (N, n) [rad/s^2 or m/s^2].
        tau: torques, (N, n) [N m or N].
        gravity: gravity vector in the frame of the base, (3,) [m/s^2].
        slides: mask of the states in which a joint moves and cannot stick, (N, n).
        speed: velocities from which friction is computed, (N, n) [rad/s or m/s]. They differ from `dq` in two
            interpretations: a changed gear ratio does not scale them, and a delay shifts them together with the
            torques. Friction thus fits about equally well with and without these two changes, so errors of the
            friction model hardly affect the comparison.
        recorded: recorded torques, (N, n) [N m or N], to which relative errors refer if the interpretation adds
            computed gravity torques to `tau`; else None.
    """

    q: FloatArray
    dq: FloatArray
    ddq: FloatArray
    tau: FloatArray
    gravity: FloatArray
    slides: NDArray[np.bool_]
    speed: FloatArray
    recorded: FloatArray | None = None

    @property
    def block(self) -> NDArray[np.int64]:
        """Index of the block of time that contains each sample, (N,), from 0 to `BLOCKS` - 1."""
        return BLOCKS * np.arange(len(self.tau)) // len(self.tau)

    def with_factors(self, positions: FloatArray, torques: FloatArray) -> "Data":
        """Return the data with the motion and the torques of each joint multiplied by factors.

        Args:
            positions: factors of positions, velocities and accelerations, (n,) [-].
            torques: factors of the torques, (n,) [-].
        """
        q, dq, ddq = (one * positions for one in (self.q, self.dq, self.ddq))
        return replace(self, q=q, dq=dq, ddq=ddq, tau=self.tau * torques)

    def with_zero(self, axis: int, offset: float) -> "Data":
        """Return the data with an offset [rad or m] added to the positions of one axis."""
        return replace(self, q=self.q + offset * (np.arange(self.q.shape[1]) == axis))

    def reordered(self, order: list[int], *, torques_only: bool) -> "Data":
        """Return the data with exchanged columns.

        Args:
            order: index of the joint whose values each column gets, (n,).
            torques_only: whether only the torques are exchanged, not the motion.
        """
        if torques_only:
            return replace(self, tau=self.tau[:, order])
        q, dq, ddq, tau = (one[:, order] for one in (self.q, self.dq, self.ddq, self.tau))
        return Data(q, dq, ddq, tau, self.gravity, self.slides[:, order], self.speed[:, order])


@dataclass(frozen=True, eq=False)
class Fit:
    """Errors of a fit to one interpretation of the data.

    Attributes:
        relative: rms torque error of each axis divided by the rms of its whole torque, (n,); NaN if the axis hardly
            slides.
        links: rms of the links' torque in the fit divided by the rms of the axis's whole torque, at most 1, (n,); 0 if
            the axis hardly slides.
        blocks: squared relative errors of all axes in each block of time, (b,).
        phi: base parameters, (p,) [SI]; those of friction are 0.
    """

    relative: FloatArray
    links: FloatArray
    blocks: FloatArray
    phi: FloatArray


class LinearFit(NamedTuple):
    """Fit of link and friction parameters to the samples of one interpretation in which joints move.

    Attributes:
        left: torque errors by axis, in the samples in which this axis moves and cannot stick [N m]; axes with too few
            of these samples are missing.
        links: link torques in all samples, (N, n) [N m].
        phi: base parameters, (p,) [SI]; those of friction are 0.
    """

    left: dict[int, FloatArray]
    links: FloatArray
    phi: FloatArray


@dataclass(frozen=True)
class Interpretation:
    """An alternative interpretation of the data, compared with the data as recorded.

    Attributes:
        kind: "sign" (torques with flipped signs), "torque columns" (the torques of two joints exchanged), "joints" (the
            torques and the motions of two joints exchanged), "gear", "mount", "delay", "torque scale", "position zero"
            or "position scale"; or a meaning of all efforts, see `effort_meaning.KINDS`.
        axes: indices of the changed axes, from 0; () for all axes.
        value: by kind. "gear", "position scale": assumed true position / recorded position [-]. "torque scale": assumed
            recorded torque / true torque [-]. "position zero": assumed true minus recorded position [rad or m].
            "delay": assumed delay of the torques, positive if they are late [s]. 0 for all other kinds.
        gain: sum over the axes of log(error as recorded / error of this interpretation). For a delay, each axis is
            weighted by the links' share of its torque, because an axis with friction alone may show a false delay.
        significance: reduction of the squared relative errors, divided by the standard error of this reduction. The
            standard error is estimated from blocks of time.
        axis: index of the axis with the largest gain, from 0.
        before: relative torque error of `axis` with the data as recorded.
        after: relative torque error of `axis` with this interpretation.
        along: assumed direction of gravity if the kind is "mount", such as "-z"; "" if gravity is reversed, and for all
            other kinds.
    """

    kind: str
    axes: tuple[int, ...]
    value: float
    gain: float
    significance: float
    axis: int
    before: float
    after: float
    along: str = ""


class Trials:
    """Fits of alternative interpretations of one set of samples, compared with a fit to the samples as recorded.

    Args:
        model: the arm.
        samples: the fitted samples.
        most: largest number of samples that are used.

    Attributes:
        chosen: slice of the samples that are used.
    """

    def __init__(self, model: ArmModel, samples: Samples, most: int = MOST_SAMPLES) -> None:
        self.model, self.samples = model, samples
        self._links = np.array([kind_and_number(name)[0] not in OWN for name in model.names])
        self._rotors = np.array([kind_and_number(name)[0] == "IA" for name in np.array(model.names)[self._links]])
        self._lower = np.append(physical_lower_bounds(model.names)[self._links], np.tile(LOWER, model.axes))
        self.chosen = slice(None, None, max(1, -(-len(samples) // most)))

    @cached_property
    def given(self) -> Data:
        """States and torques of the used samples as recorded, without an alternative interpretation."""
        s = self.samples
        width = 2 * round(0.5 / (s.settings.cutoff_hz * s.settings.interval_s)) + 1
        slides = sliding_states(s.dq, MOVING_RAD_S, width) > 0.0
        q, dq, ddq, tau = (one[self.chosen] for one in (s.q, s.dq, s.ddq, s.tau))
        return Data(q, dq, ddq, tau, self.model.gravity, slides[self.chosen], dq)

    @cached_property
    def as_given(self) -> Fit:
        """Fit to the samples as recorded, without an alternative interpretation."""
        return self.fit(self.given)

    def fit(self, data: Data) -> Fit:
        """Return the errors of a fit to the states and torques of one interpretation."""
        found = self.linear(data)
        n, at = data.tau.shape[1], data.slides
        relative, blocks, links = np.full(n, np.nan), np.zeros(BLOCKS), np.zeros(n)
        place = data.block
        for i, left in found.left.items():
            rms = _rms((data.tau if data.recorded is None else data.recorded)[at[:, i], i])
            if rms == 0.0:
                continue  # a joint without recorded torque gives no evidence, even if gravity was added to it
            relative[i] = max(_rms(left) / rms, LEAST)
            blocks += np.bincount(place[at[:, i]], (left / rms) ** 2 / len(left), minlength=BLOCKS)
            links[i] = min(1.0, _rms(found.links[at[:, i], i]) / rms)
        return Fit(relative, links, blocks, found.phi)

    def links(self, data: Data, phi: FloatArray) -> FloatArray:
        """Return the torques of links and rotors, without friction, (N, n) [N m].

        Args:
            data: states and gravity.
            phi: base parameters, (p,) [SI].
        """
        W = self.model.under(data.gravity).regressor(data.q, data.dq, data.ddq)
        return np.asarray(W[..., self._links] @ phi[self._links])

    def linear(self, data: Data, rounds: int = 2, least: float = WEIGHT_FLOOR, load_of: LoadOf = "joint") -> LinearFit:
        """Return the fit of link and friction parameters to sliding samples.

        Args:
            data: the data of one interpretation.
            rounds: number of successive fits. Each fit uses the loads and the error sizes of the previous fit. The
                first fit has no load-dependent friction, and assumes errors proportional to the torque.
            least: lower bound of an axis's rms error for its weight 1 / error, as a fraction of its rms torque.
            load_of: load that friction grows with: "joint" (torques of links and rotors), "links" (links alone) or
                "motor".
        """
        W = self.model.under(data.gravity).regressor(data.q, data.dq, data.ddq)[..., self._links]
        n, at = data.tau.shape[1], data.slides
        rms = np.array([_rms(data.tau[at[:, i], i]) for i in range(n)])
        seen = [i for i in range(n) if at[:, i].sum() >= FEWEST and rms[i] > 0.0]
        sigma, links, load = rms[seen], np.zeros_like(data.tau), np.zeros_like(data.tau)
        phi = np.zeros(len(self._links))
        left: dict[int, FloatArray] = {}
        for _ in range(rounds if seen else 0):  # no fit without enough sliding samples
            rows = [_rows(W[at[:, i], i], data, i, load) for i in seen]
            triangles = [qr(own, mode="r", check_finite=False)[0][: own.shape[1]] for own in rows]
            theta = _solved(np.concatenate([R / one for R, one in zip(triangles, sigma, strict=True)]), self._lower)
            left = {i: own[:, :-1] @ theta - own[:, -1] for i, own in zip(seen, rows, strict=True)}
            sigma = np.maximum([_rms(one) for one in left.values()], least * rms[seen])
            phi[self._links] = theta[: W.shape[2]]
            links = W @ phi[self._links]
            load = links if load_of == "joint" else W @ np.where(self._rotors, 0.0, theta[: W.shape[2]])
            if load_of == "motor":
                for i, own in zip(seen, rows, strict=True):
                    load[at[:, i], i] = own[:, :-1] @ theta
        return LinearFit(left, links, phi)

    def compare(self, kind: str, axes: tuple[int, ...], data: Data, value: float = 0.0) -> Interpretation:
        """Fit an alternative interpretation, and compare the fit with that of the data as recorded.

        Args:
            kind: kind of the interpretation.
            axes: indices of the changed axes, from 0; () for all axes.
            data: states and torques of this interpretation.
            value: factor [-], offset of the position zero [rad or m] or delay [s] of the interpretation.
        """
        fit, own = self.fit(data), self.as_given
        gains = np.nan_to_num(np.log(own.relative / fit.relative))
        if kind == "delay":
            gains = gains * own.links  # an axis with friction alone may show a false delay
        difference, best = own.blocks - fit.blocks, int(np.argmax(gains))
        error = max(float(difference.std(ddof=1)) * np.sqrt(len(difference)), np.finfo(float).tiny)
        errors = float(own.relative[best]), float(fit.relative[best])
        return Interpretation(kind, axes, value, float(gains.sum()), float(difference.sum()) / error, best, *errors)

    def as_extrapolated(self, kind: str, axis: int, value: float) -> Iterator[Interpretation]:
        """Yield interpretations with several values of one axis's torque scale, position offset or position scale.

        The assumed changes are `EXTRAPOLATED` times an estimate that is linear in the change, and may therefore be
        inaccurate for a large one. Scales that would not be positive are omitted.

        Args:
            kind: "torque scale", "position zero" or "position scale".
            axis: index of the axis, from 0.
            value: linear estimate of the change, [-] for scales and [rad or m] for a zero.
        """
        one = np.ones(self.model.axes)
        for share in EXTRAPOLATED:
            scale = 1.0 + share * value
            if kind == "position zero":
                yield self.compare(kind, (axis,), self.given.with_zero(axis, share * value), share * value)
            elif scale <= 0.0:
                continue  # the extrapolated scale is impossible
            elif kind == "position scale":
                own = np.where(np.arange(self.model.axes) == axis, scale, one)
                yield self.compare(kind, (axis,), self.given.with_factors(own, one), scale)
            else:
                own = np.where(np.arange(self.model.axes) == axis, 1.0 / scale, one)
                yield self.compare(kind, (axis,), self.given.with_factors(one, own), scale)

    def set_up_faults(self) -> Iterator[Interpretation]:
        """Yield interpretations that each assume one frequent fault of the arm's description or recording.

        The faults are another gear ratio, another mount, two exchanged neighbouring joints, and a delay. Such a fault
        may cause only small errors at each joint, which other checks may miss.
        """
        one = np.ones(self.model.axes)
        for k in range(self.model.chain_size):
            for factor in GEARS:
                own = np.where(np.arange(self.model.axes) == k, factor, one)
                yield self.compare("gear", (k,), self.given.with_factors(own, 1.0 / own), factor)
        yield from self._mounts()
        for k in range(self.model.axes - 1):
            yield self._exchanged("joints", k, k + 1)
        for delay in DELAYS_S:
            yield self.compare("delay", (), self._shifted(delay), delay)

    def _mounts(self) -> Iterator[Interpretation]:
        """Yield interpretations with another direction of gravity.

        Gravity is reversed, or along an axis of the base that is not close to the given direction, as for an arm on a
        wall. Some parameters have no effect on the torques with the given mount, such as first moments of a link that
        turns about a vertical axis. The model does not contain these parameters. Their small effect with another
        gravity is neglected.
        """
        given = self.model.gravity
        size = float(np.linalg.norm(given))
        if not size:
            return
        yield self.compare("mount", (), replace(self.given, gravity=-given))
        for axis, name in enumerate("xyz"):
            if abs(given[axis]) > MOUNT_SHARE * size:
                continue
            for sign in (-1.0, 1.0):
                gravity = sign * size * np.eye(3)[axis]
                tried = self.compare("mount", (), replace(self.given, gravity=gravity))
                yield replace(tried, along=f"{'-' if sign < 0.0 else '+'}{name}")

    def _exchanged(self, kind: str, i: int, j: int) -> Interpretation:
        order = list(range(self.model.axes))
        order[i], order[j] = j, i
        return self.compare(kind, (i, j), self.given.reordered(order, torques_only=kind == "torque columns"))

    def exchanges(self) -> Iterator[Interpretation]:
        """Yield interpretations with flipped torque signs, exchanged torque columns or exchanged joints.

        The signs of all torques or of a single one are flipped.

        If all signs are wrong, links of negative mass fit the torques as well as positive masses fit the correct
        torques. Only rotors and friction reveal this fault: their parameters cannot become negative in the fit, so its
        error is larger for the wrong signs.
        """
        n = self.model.axes
        if n > 1:
            yield self.compare("sign", (), self.given.with_factors(np.ones(n), -np.ones(n)))
        for k in range(n):
            own = np.where(np.arange(n) == k, -1.0, 1.0)
            yield self.compare("sign", (k,), self.given.with_factors(np.ones(n), own))
        for i, j in combinations(range(n), 2):
            yield self._exchanged("torque columns", i, j)
            if j > i + 1:  # `set_up_faults` exchanges neighbours
                yield self._exchanged("joints", i, j)

    def _shifted(self, delay: float) -> Data:
        """Return the data with torques and friction velocities at time t replaced by those at t + `delay` [s].

        A positive delay thus corrects torques that are late. Each recording is shifted separately.
        """
        tau, speed = (interpolate_later(self.samples.time, one, delay) for one in (self.samples.tau, self.samples.dq))
        return replace(self.given, tau=tau[self.chosen], speed=speed[self.chosen])


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else 0.0


def _rows(W: FloatArray, data: Data, axis: int, load: FloatArray) -> FloatArray:
    """Return the regression rows of one axis, one row per sliding sample, (K, columns) [SI].

    The columns are those of the links, those of the friction of all axes (zero except for this axis), and the torque.

    Args:
        W: link columns of the sliding samples, (K, columns).
        data: states and torques.
        axis: index of the axis, from 0.
        load: load that friction grows with, (N, n) [N m].
    """
    at, first = data.slides[:, axis], W.shape[1] + len(LOWER) * axis
    rows = np.zeros((len(W), W.shape[1] + len(LOWER) * data.tau.shape[1] + 1))
    rows[:, : W.shape[1]], rows[:, -1] = W, data.tau[at, axis]
    rows[:, first : first + len(LOWER)] = _friction(data.speed[at, axis], load[at, axis])
    return rows


def _friction(speed: FloatArray, load: FloatArray) -> FloatArray:
    """Return the friction columns of one axis (K, 5): Coulomb, viscous, load-dependent, Stribeck, and a constant.

    Args:
        speed: velocities, (K,) [rad/s or m/s].
        load: load of the joint, (K,) [N m].
    """
    sign = np.sign(speed)
    near = sign * np.exp(-np.abs(speed) / SLOW_RAD_S)
    return np.stack([sign, speed, sign * np.abs(load), near, np.ones_like(speed)], axis=1)


def _solved(rows: FloatArray, lower: FloatArray) -> FloatArray:
    """Return the least-squares solution with lower bounds, (k,), any unit; undetermined parameters stay near 0.

    Args:
        rows: weighted rows [columns, target], (rows, k + 1).
        lower: lower bounds of the parameters, (k,).
    """
    scale = np.maximum(np.linalg.norm(rows[:, :-1], axis=0), np.finfo(float).tiny)
    held = np.column_stack([RIDGE * np.diag(scale), np.zeros(len(scale))])
    R = qr(np.concatenate([rows, held]), mode="r", check_finite=False)[0][: rows.shape[1]]
    found = solve_triangular(R[:-1, :-1] / scale, R[:-1, -1], check_finite=False) / scale
    return np.asarray(found) if (found >= lower).all() else bounded(R, lower, np.full(len(lower), np.inf))

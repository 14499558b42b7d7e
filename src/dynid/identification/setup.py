"""Estimation of set-up unknowns: encoder zeros, tilt of the base, torque constants and a torque delay.

The "set-up" of an arm consists of these properties, which a recording does not show directly. Each unknown is an
additional column of the regression, see `diagnosis.nuisance_columns`. The chosen unknowns are estimated together with
the base parameters, and the data are corrected by the estimates. Both steps are repeated until the estimates settle
(Gauss-Newton):

    q <- q + zero,    tau(t) <- tau(t + delay) / ratio,    g <- |g| h / |h|,    h = g + |g| tilt

The ratio is that of recorded to true torques. The tilt is a vector perpendicular to g, whose length is the tangent of
the angle by which g is turned. All torques have the same delay, which is positive if they are later than the positions.
The iteration starts at the delay that a scan finds (`torque_delay`). A delay is a property of the recordings, so it is
compensated in them, and the arm needs no correction.

The result is a model of the arm after the correction of its set-up. Until the user corrects the set-up, the model is
not accepted, because a controller would still use the wrong zeros, constants and gravity.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from dynid.errors import ConfigurationError, DataError, UnknownNameError
from dynid.identification.data.fine_states import FineStates, grid_step_s
from dynid.identification.data.recordings import Recording
from dynid.identification.data.sample_sets import join
from dynid.identification.data.signals import Signals
from dynid.identification.diagnosis.nuisance_columns import Columns, nuisance_columns, perpendicular_axes
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.table import estimator
from dynid.identification.settings import IdentificationSettings
from dynid.identification.torque_delay import scanned_delay
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, Robot

Kind = Literal["position zero", "torque scale", "gravity", "delay"]
WORDS: dict[str, Kind] = {"zero": "position zero", "torque-constant": "torque scale", "tilt": "gravity"}
ALL = {"zeros": "zero", "torque-constants": "torque-constant"}
LARGEST = {
    "position zero": 0.3,
    "torque scale": 0.4,
    "gravity": 0.2,
    "delay": 0.02,
}  # largest step [rad or m, -, -, s], because the columns are only linearised
MOST_STEPS = 15
SETTLED, SMALLEST = 0.1, 1e-4  # step at which the iteration ends: share of the standard deviation, absolute value
# The same for the last step, which chooses the structure of friction anew. Two structures that fit alike take turns
# without end if their estimates differ by more than a small share of the deviation.
SETTLED_ANEW = 1.0
MOST_SCANNED = 4  # largest number of recordings in which a delay is searched
MEMORY = 2  # number of earlier steps from which the next step is extrapolated
MOST_DEVIATION = {
    "position zero": 0.01,
    "torque scale": 0.05,
    "gravity": 0.05,
    "delay": 0.02,
}  # largest standard deviations [rad or m, -, -, s]; unknowns beyond them are dropped unless requested by name
CORRECTION_Z = 3.0  # difference from the given value that requires a correction, in standard deviations
LEAST_CORRECTION = {
    "position zero": 0.006,
    "torque scale": 0.01,
    "gravity": 0.004,
    "delay": 0.0005,
}  # least difference that requires a correction [rad or m, -, rad, s]


class Choice(NamedTuple):
    """One unknown of an arm's set-up that is to be estimated, such as the zero of a joint.

    Attributes:
        kind: "position zero", "torque scale", "gravity" (tilt of the base) or "delay".
        axis: index of the joint from 0; for "gravity" that of the tilt component, 0 or 1; -1 for "delay".
        asked: whether the unknown was requested individually, such as by "zero:JOINT", not by a word for all joints.
    """

    kind: Kind
    axis: int
    asked: bool


@dataclass(frozen=True)
class SetupEstimate:
    """Estimate of one unknown of an arm's set-up, such as the zero of a joint.

    Attributes:
        kind: "position zero", "torque scale", "gravity" (tilt of the base) or "delay".
        joint: name of the joint; "" for gravity and delay.
        value: by kind: "position zero", offset to add to the positions [rad or m]; "torque scale", ratio of recorded to
            true torques [-]; "gravity", tilt of the base [rad]; "delay", delay of torques relative to positions [s].
        deviation: standard deviation of the value.
        correction: instruction to the user; for a delay, a statement that it is compensated.
        unit: unit of a position zero, "rad" or "m".
    """

    kind: Kind
    joint: str
    value: float
    deviation: float
    correction: str
    unit: str = "rad"

    @property
    def differs(self) -> bool:
        """Whether the estimate differs significantly from the set-up in robot.yaml."""
        nominal = 1.0 if self.kind == "torque scale" else 0.0
        return abs(self.value - nominal) > max(CORRECTION_Z * self.deviation, LEAST_CORRECTION[self.kind])

    @property
    def needs_correction(self) -> bool:
        """Whether the arm or its description must be corrected.

        A delay needs no correction, because it is compensated in the recordings.
        """
        return self.differs and self.kind != "delay"

    @property
    def sentence(self) -> str:
        """Sentence with the estimate of the set-up unknown, its standard deviation and the correction."""
        if self.kind == "delay":
            what = f"torques lag {1e3 * self.value:.1f} ms (+-{1e3 * self.deviation:.1f}) behind positions"
            return f"{what}: {self.correction if self.differs else 'not sure, so they are used as recorded'}"
        if self.kind == "gravity":
            what = f"the base leans by {np.degrees(self.value):.2f} deg (+-{np.degrees(self.deviation):.2f})"
        elif self.kind == "torque scale":
            what = f"torques of {self.joint} are {self.value:.3f} (+-{self.deviation:.3f}) of the true ones"
        else:
            what = f"positions of {self.joint} lack {self.value:+.4f} {self.unit} (+-{self.deviation:.4f})"
        return f"{what}: {self.correction}" if self.differs else f"{what}: as given"


@dataclass(frozen=True, eq=False)
class Setup:
    """Set-up of an arm, stated or estimated: encoder zeros, torque scales, gravity direction and torque delay.

    Attributes:
        zeros: offsets that are added to positions, (n,) [rad or m].
        scales: ratios of recorded to true torques, (n,) [-].
        gravity: gravity vector in the frame of the base link, (3,) [m/s^2].
        delay_s: delay of torques relative to positions [s].
    """

    zeros: FloatArray
    scales: FloatArray
    gravity: FloatArray
    delay_s: float = 0.0

    @classmethod
    def given(cls, robot: Robot, mount: str) -> "Setup":
        """Return the set-up that robot.yaml states for a mount, with no correction of positions and torques."""
        return cls(np.zeros(robot.size), np.ones(robot.size), robot.gravity(mount))

    def robot(self, robot: Robot, mount: str) -> Robot:
        """Return a copy of the robot in which the named mount has the gravity vector of this set-up."""
        mounts = robot.file.mounts_gravity_m_s2 | {mount: tuple(self.gravity.tolist())}
        return Robot(robot.file.model_copy(update={"mounts_gravity_m_s2": mounts}), robot.folder)

    def read(self, source: Recording) -> Recording:
        """Return a recording that is corrected by the joint zeros, torque scales and torque delay of this set-up."""
        constants = tuple((np.array(source.torque_constants) / self.scales).tolist()) if source.torque_constants else ()
        return replace(source, signals=_AsSetUp(self, source.signals), torque_constants=constants, driver=None)

    @classmethod
    def of(cls, robot: Robot, mount: str, choices: Sequence[Choice], x: FloatArray) -> "Setup":
        """Return the set-up that a vector of estimated unknowns describes.

        Args:
            robot: the robot as robot.yaml describes it.
            mount: name of the mount.
            choices: the unknowns, k of them.
            x: values of the unknowns, (k,): encoder zeros [rad or m], logarithms of torque scales, tangents of the
                tilt, delay [s].
        """
        given = cls.given(robot, mount)
        zeros, scales, lean, delay = np.zeros(robot.size), np.ones(robot.size), np.zeros(3), 0.0
        for (kind, axis, _), value in zip(choices, x.tolist(), strict=True):
            if kind == "position zero":
                zeros[axis] = value
            elif kind == "torque scale":
                scales[axis] = np.exp(value)
            elif kind == "delay":
                delay = value
            else:
                lean += value * perpendicular_axes(given.gravity)[axis]
        size = float(np.linalg.norm(given.gravity))
        gravity = given.gravity + size * lean
        return cls(zeros, scales, gravity * size / np.linalg.norm(gravity) if size else given.gravity, delay)


@dataclass(frozen=True, eq=False)
class _AsSetUp:
    """Picklable callable that returns a recording's signals, corrected by estimated zeros, torque scales and delay.

    Attributes:
        setup: the estimated joint zeros, torque scales and torque delay; its gravity direction is not used.
        read: function that returns the recorded signals.
    """

    setup: Setup
    read: Callable[[IdentificationSettings], Signals]

    def __call__(self, settings: IdentificationSettings) -> Signals:
        """Return the recording's signals with corrected positions, torques and torque delay."""
        own, setup = self.read(settings), self.setup
        other = own.other and replace(own.other, tau=own.other.tau / setup.scales)
        delay = own.torque_delay_s - setup.delay_s
        return replace(own, q=own.q + setup.zeros, tau=own.tau / setup.scales, torque_delay_s=delay, other=other)


def choose(words: Sequence[str], robot: Robot) -> tuple[Choice, ...]:
    """Return the unknowns of the set-up, such as joint zeros or torque constants, that the user requests by words.

    The words are zero:JOINT, torque-constant:JOINT, tilt and delay. The words zeros and torque-constants stand for all
    joints. No motion reveals a common scale of all torque constants, so torque-constants requests all joints except the
    one that `reference` returns.

    Raises:
        ConfigurationError: a word is unknown, or the torque constants of all joints are requested.
        UnknownNameError: a joint is not in the chain.
    """
    names = robot.joint_names[: robot.chain_size]
    found: dict[tuple[Kind, int], Choice] = {}
    for word in words:
        key, _, joint = word.partition(":")
        if word == "tilt":
            chosen = [Choice("gravity", axis, asked=True) for axis in range(2)]
        elif word == "delay":
            chosen = [Choice("delay", -1, asked=True)]
        elif word in ALL:
            skipped = reference(robot) if word == "torque-constants" else -1
            chosen = [Choice(WORDS[ALL[word]], k, asked=False) for k in range(len(names)) if k != skipped]
        elif key in WORDS and joint:
            if joint not in names:
                raise UnknownNameError("joint", joint, names)
            chosen = [Choice(WORDS[key], names.index(joint), asked=True)]
        else:
            raise ConfigurationError(
                f"'{word}' is no part of a set-up; expected tilt, zeros, torque-constants, delay, zero:JOINT or "
                "torque-constant:JOINT"
            )
        for one in chosen:
            if (one.kind, one.axis) not in found or one.asked:
                found[one.kind, one.axis] = one
    if sum(one.kind == "torque scale" and one.asked for one in found.values()) == len(names):
        raise ConfigurationError("the torque constants of all joints have one unknown scale: leave one joint out")
    return tuple(found.values())


def _refuse_coupled(chosen: Sequence[Choice], robot: Robot) -> None:
    """Raise ConfigurationError if a requested torque constant belongs to a joint that coupled motors move.

    A wrong constant of a coupled motor distorts the torques of several joints, and is no scale of one of them.
    """
    apart = (robot.coupling != 0.0) & ~np.eye(robot.size, dtype=bool)
    coupled = apart.any(axis=0) | apart.any(axis=1)
    names = [robot.joint_names[one.axis] for one in chosen if one.kind == "torque scale" and coupled[one.axis]]
    if names:
        raise ConfigurationError(
            f"coupled motors move {', '.join(names)}, so no scale of a joint's torque shows the torque constant of one "
            "of them: request those of other joints, as torque-constant:JOINT, and check these motors uncoupled from "
            "the arm"
        )


def reference(robot: Robot) -> int:
    """Return the index from 0 of the joint with the largest torque limit, whose torque constant is assumed correct."""
    return int(np.argmax(robot.torque_limits[: robot.chain_size]))


def estimate_setup(
    robot: Robot,
    sources: Sequence[Recording],
    settings: IdentificationSettings,
    words: Sequence[str],
    progress: Callable[[str], None] = lambda stage: None,
    *,
    delay: bool = False,
) -> tuple[Setup, tuple[SetupEstimate, ...]]:
    """Estimate unknowns of an arm's set-up from its recordings; return the set-up and the estimates.

    The set-up consists of joint zeros, torque scales, gravity direction and a torque delay. If the estimate of an
    unknown does not differ significantly from robot.yaml, the set-up keeps the value stated there.

    Args:
        robot: the robot as robot.yaml describes it.
        sources: the recordings, all with the mount and torque constants of the first one.
        settings: settings of the identification.
        words: requested unknowns of the set-up, in the words of `choose`, such as "tilt" or "zero:JOINT".
        progress: function that is called with the name of each step.
        delay: whether the torque delay is estimated, too, if the motion reveals it.

    Raises:
        ConfigurationError: a word is unknown, or the torque constants of all joints are requested, or that of a joint
            that coupled motors move; or a delay is to be estimated, but the settings give the samples without
            states at a higher rate, which are needed to shift torques in time.
        UnknownNameError: a word names a joint that is not in the chain.
        DataError: the motion does not show an unknown that was requested by name, or does not separate the unknowns; or
            the steps do not converge.
    """
    chosen, mount = choose(words, robot), sources[0].mount
    if sources[0].torque_constants:
        _refuse_coupled(chosen, robot)
    if delay and not any(one.kind == "delay" for one in chosen):
        chosen = (*chosen, Choice("delay", -1, asked=False))
    x = _first_guess(robot, sources, settings, chosen)
    setup, past = Setup.of(robot, mount, chosen, x), Steps()
    estimate: Estimate | None = None
    settled = False
    for count in range(MOST_STEPS):
        progress(f"set-up, step {count + 1}")
        model = ArmModel.of(setup.robot(robot, mount), mount=mount)
        samples = join([setup.read(one).samples(settings) for one in sources])
        # the friction structure is chosen anew near the start and at the end, and kept in the steps between
        last = settled
        start = None if estimate is None or count < 2 or last else estimate.regression.known_start
        estimate = estimator(settings.estimator).estimate(model, samples, settings.coulomb_friction, start)
        columns = nuisance_columns(model, samples, estimate.regression)
        if count == 0:
            shown = _shown(chosen, columns, robot, needed=bool(words))
            x = x[[chosen.index(one) for one in shown]]
            chosen = shown
            if not chosen:
                return Setup.given(robot, mount), ()
        values, covariance = columns.together([columns.kinds.index((one.kind, one.axis)) for one in chosen])
        deviations = np.sqrt(np.diag(covariance))
        values = _in_given_directions(values, chosen, setup.gravity, robot.gravity(mount))
        largest = np.array([LARGEST[one.kind] for one in chosen])
        step = np.clip(values, -largest, largest)
        share = SETTLED_ANEW if last else SETTLED
        settled = bool((np.abs(step) <= np.maximum(share * deviations, SMALLEST)).all())
        if settled and start is None:
            found = Setup.of(robot, mount, chosen, x + step)
            estimates = _estimates(robot, mount, found, chosen, deviations, sources[0].torque_constants)
            wrong = {(one.kind, one.joint) for one in estimates if one.differs}
            kept = [(one.kind, _joint(one, robot)) in wrong for one in chosen]
            return Setup.of(robot, mount, chosen, np.where(kept, x + step, 0.0)), estimates
        x = past.beyond(x, step, deviations, largest)
        setup = Setup.of(robot, mount, chosen, x)
    moving = ", ".join(_name(one, robot) for one, more in zip(chosen, step, strict=True) if abs(more) > SMALLEST)
    raise DataError(
        f"the estimate of the set-up does not converge in {MOST_STEPS} steps ({moving} still changes): estimate fewer "
        "unknowns at once"
    )


def _first_guess(
    robot: Robot, sources: Sequence[Recording], settings: IdentificationSettings, chosen: Sequence[Choice]
) -> FloatArray:
    """Return the values (k,) at which the iterative estimation of joint zeros, torque scales, tilt and delay starts.

    The torque delay starts at the value that a scan over many delays finds [s]. All other unknowns start at 0, which
    stands for no deviation from robot.yaml.

    Args:
        robot: the robot.
        sources: the recordings.
        settings: settings of the identification.
        chosen: the unknowns that are estimated, k of them.

    Raises:
        ConfigurationError: a delay is to be estimated, but the recordings have no states at a higher rate than the
            samples. The scan shifts torques in time by interpolation between such states.
    """
    if not any(one.kind == "delay" for one in chosen):
        return np.zeros(len(chosen))
    parts: list[FineStates] = []
    model, grid = ArmModel.of(robot, mount=sources[0].mount), 0.0
    for source in sources[:MOST_SCANNED]:
        samples = source.samples(settings)
        if not samples.fine:
            raise ConfigurationError(
                "to find a delay, states must be finer than the samples: set filter.state_cutoff_ratio in "
                "identification.yaml, or average rows (--rows averaged)"
            )
        parts += samples.fine
        grid = grid_step_s(samples.settings.interval_s, samples.fine[0])
    found = scanned_delay(model, parts, grid, settings.coulomb_friction.slow_rad_s)
    return np.array([found if one.kind == "delay" else 0.0 for one in chosen])


class Steps:
    """Anderson acceleration of a fixed-point iteration x <- x + f(x), with a memory of two previous steps.

    In `estimate_setup`, a step without acceleration reduces the error by only a third. The reason is that the
    regression is linearised at parameters that have absorbed a part of the unknown.
    """

    def __init__(self) -> None:
        self._x: list[FloatArray] = []
        self._f: list[FloatArray] = []

    def beyond(self, x: FloatArray, f: FloatArray, scale: FloatArray, largest: FloatArray) -> FloatArray:
        """Return the next x (k,) of the iteration, computed from the present step and at most two previous ones.

        Args:
            x: present values, (k,), any unit.
            f: step of the iteration without acceleration, which would lead to x + f, (k,).
            scale: size by which each value is divided in the least-squares fit of the steps, (k,).
            largest: largest permitted change of each value, (k,).
        """
        self._x, self._f = [*self._x[-MEMORY:], x], [*self._f[-MEMORY:], f]
        df, dx = (np.diff(np.array(one), axis=0).T for one in (self._f, self._x))
        move = f
        if df.size:
            gamma = np.linalg.lstsq(df / scale[:, None], f / scale, rcond=1e-6)[0]
            move = f - (dx + df) @ gamma
        return np.asarray(x + np.clip(move, -largest, largest))


def _in_given_directions(
    values: FloatArray, chosen: Sequence[Choice], now: FloatArray, given: FloatArray
) -> FloatArray:
    """Return unknowns of the set-up (k,), any unit, with the tilt of the base given along other axes.

    The unknowns are joint zeros, torque scales, the tilt of the base and a torque delay. A tilt has two components,
    along the two axes that `perpendicular_axes` returns for a gravity vector. The components for the gravity vector
    `now` are converted to those for the gravity vector `given`. All other unknowns stay unchanged.

    Args:
        values: values of the unknowns, (k,), with the tilt components for `now`.
        chosen: the unknowns, k of them.
        now: gravity vector of the present iteration's set-up, (3,) [m/s^2].
        given: gravity vector of robot.yaml, (3,) [m/s^2].
    """
    lean = [k for k, one in enumerate(chosen) if one.kind == "gravity"]
    if not lean:
        return values
    turned = values.copy()
    turned[lean] = perpendicular_axes(given) @ (values[lean] @ perpendicular_axes(now))
    return turned


def _joint(choice: Choice, robot: Robot) -> str:
    """Return the name of the joint that an unknown belongs to; "" for gravity and the delay."""
    return "" if choice.kind in ("gravity", "delay") else robot.joint_names[choice.axis]


def _name(choice: Choice, robot: Robot) -> str:
    """Return the name of an unknown for messages: a joint's zero or torque constant, the base's tilt, or the delay."""
    if choice.kind == "gravity":
        return "the base's lean"
    if choice.kind == "delay":
        return "the torques' delay"
    return f"the {'zero' if choice.kind == 'position zero' else 'torque constant'} of {robot.joint_names[choice.axis]}"


def _shown(chosen: Sequence[Choice], columns: Columns, robot: Robot, *, needed: bool) -> tuple[Choice, ...]:
    """Return those of the requested unknowns of the set-up that the motion determines precisely enough.

    Unknowns are joint zeros, torque scales, the tilt of the base and a torque delay.

    Args:
        chosen: the requested unknowns.
        columns: regression columns of all unknowns.
        robot: the robot.
        needed: whether an empty result is an error.

    Raises:
        DataError: the motion does not show an unknown that was requested by name; or no unknown remains although
            `needed` is set.
    """
    shown = {key: bool(seen) for key, seen in zip(columns.kinds, columns.seen, strict=True)}
    for one in chosen:
        if one.asked and not shown.get((one.kind, one.axis), False):
            raise DataError(f"the motion does not show {_name(one, robot)}: leave it out, or record another motion")
    left = [one for one in chosen if shown.get((one.kind, one.axis), False)]
    while left:  # drop the most uncertain one by one, because it makes the others uncertain, too
        covariance = columns.together([columns.kinds.index((one.kind, one.axis)) for one in left])[1]
        vague = np.sqrt(np.diag(covariance)) / [MOST_DEVIATION[one.kind] for one in left]
        vague[[one.asked for one in left]] = 0.0
        if vague.max() <= 1.0:
            return tuple(left)
        left.pop(int(np.argmax(vague)))
    if not needed:
        return ()
    raise DataError("the motion shows none of the set-up's unknowns: record another motion")


def _estimates(
    robot: Robot,
    mount: str,
    setup: Setup,
    chosen: Sequence[Choice],
    deviations: FloatArray,
    constants: tuple[float, ...],
) -> tuple[SetupEstimate, ...]:
    """Return the estimates of joint zeros, torque scales, tilt of the base and torque delay, as far as requested.

    The two components of the tilt form one estimate.

    Args:
        robot: the robot as robot.yaml describes it.
        mount: name of the mount.
        setup: the estimated set-up.
        chosen: the unknowns, k of them.
        deviations: standard deviations of the unknowns, (k,).
        constants: torque per ampere at the joints, (n,) [N m/A]; () if torques were recorded.
    """
    found, leans = [], []
    for one, deviation in zip(chosen, deviations.tolist(), strict=True):
        if one.kind == "gravity":
            leans.append(deviation)
            continue
        if one.kind == "delay":
            found.append(SetupEstimate(one.kind, "", setup.delay_s, deviation, "this is compensated"))
            continue
        joint = robot.joint_names[one.axis]
        if one.kind == "position zero":
            zero, unit = float(setup.zeros[one.axis]), robot.position_units[one.axis]
            correction = f"add {zero:+.5f} {unit} to the offset of this joint's positions in the mapping"
            if unit == "rad":
                total = robot.file.joints[one.axis].zero_offset_rad + zero
                own = f"give this joint zero_offset_rad: {total:.5f} in robot.yaml"
                correction = f"if dynid's driver recorded it, {own}; else {correction}"
            found.append(SetupEstimate(one.kind, joint, zero, deviation, correction, unit))
            continue
        scale, correction = float(setup.scales[one.axis]), "divide the recorded torques by it"
        if constants:
            constant = constants[one.axis] / scale / abs(float(robot.gear_ratios[one.axis]))  # on the motor's side
            correction = f"give this joint torque_constant_nm_per_a: {constant:.5g} in robot.yaml"
        found.append(SetupEstimate(one.kind, joint, scale, scale * deviation, correction))
    if leans:
        given, now = robot.gravity(mount), setup.gravity
        cosine = float(given @ now) / max(float(given @ given), np.finfo(float).tiny)
        vector = [round(value, 5) for value in now.tolist()]
        correction = f"add a mount with gravity {vector} to mounts_gravity_m_s2 in robot.yaml, and use it"
        lean = float(np.arccos(np.clip(cosine, -1.0, 1.0)))
        found.append(SetupEstimate("gravity", "", lean, float(np.hypot(*leans) / np.sqrt(2.0)), correction))
    return tuple(found)

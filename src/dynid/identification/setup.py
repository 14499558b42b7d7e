"""Set-up unknowns estimated beside the parameters: encoder zeros, the lean of the base, torque constants.

Each is a column of the regression, see `diagnosis.nearby`. Here chosen ones are estimated at once, the data are read
again as they then are, and so on until nothing moves (Gauss-Newton):

    q <- q + zero,    tau <- tau / ratio,    g <- |g| (g + lean) / |g + lean|

What comes out is a model of the arm as it will be once its set-up is mended. It is not accepted before: a controller
that is given the old positions and constants would be wrong by as much.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from dynid.errors import ConfigurationError, DataError, UnknownNameError
from dynid.identification.data.sample_sets import join
from dynid.identification.data.signals import Signals
from dynid.identification.data.sources import Source
from dynid.identification.diagnosis.nearby import Columns, across, columns_beside
from dynid.identification.estimators.table import estimator
from dynid.identification.settings import IdentificationSettings
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, Robot

Kind = Literal["position zero", "torque scale", "gravity"]
WORDS: dict[str, Kind] = {"zero": "position zero", "torque-constant": "torque scale", "tilt": "gravity"}
ALL = {"zeros": "zero", "torque-constants": "torque-constant"}
LARGEST = {"position zero": 0.3, "torque scale": 0.4, "gravity": 0.2}  # of one step [rad, -, -]: lines are not straight
MOST_STEPS = 15
SETTLED, SMALLEST = 0.1, 1e-4  # a step that moves nothing: of its deviation, and at least
MEMORY = 2  # earlier steps that the next one is extrapolated from
VAGUE = {"position zero": 0.01, "torque scale": 0.05, "gravity": 0.05}  # deviations of what is left out, unless named
MENDED = 3.0  # deviations from "as given" beyond which a set-up has to be mended,
WORTH = {"position zero": 0.006, "torque scale": 0.01, "gravity": 0.004}  # and at least so much [rad or m, -, rad]


class Choice(NamedTuple):
    """One unknown: its kind and axis, counted from 0; `asked` is whether it was asked for by the joint's name."""

    kind: Kind
    axis: int
    asked: bool


@dataclass(frozen=True)
class SetupEstimate:
    """One set-up unknown as it was found.

    Attributes:
        kind: what it is.
        joint: its name; "" of gravity.
        value: zero to be added to positions [rad or m]; torques over true ones [-]; lean of the base [rad].
        deviation: of it.
        mend: what to write where, in words.
    """

    kind: Kind
    joint: str
    value: float
    deviation: float
    mend: str

    @property
    def differs(self) -> bool:
        """Whether the data contradict the set-up as it is given."""
        nominal = 1.0 if self.kind == "torque scale" else 0.0
        return abs(self.value - nominal) > max(MENDED * self.deviation, WORTH[self.kind])

    @property
    def sentence(self) -> str:
        """The estimate in words."""
        if self.kind == "gravity":
            what = f"the base leans by {np.degrees(self.value):.2f} deg (+-{np.degrees(self.deviation):.2f})"
        elif self.kind == "torque scale":
            what = f"torques of {self.joint} are {self.value:.3f} (+-{self.deviation:.3f}) of the true ones"
        else:
            what = f"positions of {self.joint} lack {self.value:+.4f} rad (+-{self.deviation:.4f})"
        return f"{what}: {self.mend}" if self.differs else f"{what}: as given"


@dataclass(frozen=True, eq=False)
class Setup:
    """A set-up as the data imply it.

    Attributes:
        zeros: added to positions, (n,) [rad or m].
        scales: torques over true ones, (n,) [-].
        gravity: in the base link's frame, (3,) [m/s^2].
    """

    zeros: FloatArray
    scales: FloatArray
    gravity: FloatArray

    @classmethod
    def given(cls, robot: Robot, mount: str) -> "Setup":
        """As robot.yaml and the recordings say."""
        return cls(np.zeros(robot.size), np.ones(robot.size), robot.gravity(mount))

    def robot(self, robot: Robot, mount: str) -> Robot:
        """The robot with this gravity at its mount."""
        mounts = robot.file.mounts_gravity_m_s2 | {mount: tuple(self.gravity.tolist())}
        return Robot(robot.file.model_copy(update={"mounts_gravity_m_s2": mounts}), robot.folder)

    def read(self, source: Source) -> Source:
        """A recording as this set-up would have recorded it."""

        def signals(settings: IdentificationSettings) -> Signals:
            own = source.signals(settings)
            other = own.other and replace(own.other, tau=own.other.tau / self.scales)
            return replace(own, q=own.q + self.zeros, tau=own.tau / self.scales, other=other)

        constants = tuple((np.array(source.torque_constants) / self.scales).tolist()) if source.torque_constants else ()
        return replace(source, signals=signals, torque_constants=constants, recording=None)

    @classmethod
    def of(cls, robot: Robot, mount: str, choices: Sequence[Choice], x: FloatArray) -> "Setup":
        """With unknowns x (k,): zeros [rad or m], logarithms of scales, the lean's tangents in two directions."""
        given = cls.given(robot, mount)
        zeros, scales, lean = np.zeros(robot.size), np.ones(robot.size), np.zeros(3)
        for (kind, axis, _), value in zip(choices, x.tolist(), strict=True):
            if kind == "position zero":
                zeros[axis] = value
            elif kind == "torque scale":
                scales[axis] = np.exp(value)
            else:
                lean += value * across(given.gravity)[axis]
        size = float(np.linalg.norm(given.gravity))
        gravity = given.gravity + size * lean
        return cls(zeros, scales, gravity * size / np.linalg.norm(gravity) if size else given.gravity)


def choose(words: Sequence[str], robot: Robot) -> tuple[Choice, ...]:
    """The unknowns that are asked for: zero:JOINT, torque-constant:JOINT, tilt; zeros, torque-constants for all joints.

    Torque constants have one scale in common, which nothing shows: of all joints means all but `reference`.

    Raises:
        ConfigurationError: another word, or all torque constants where no joint is left to compare with.
        UnknownNameError: no such joint in the chain.
    """
    names = robot.joint_names[: robot.chain_size]
    found: dict[tuple[Kind, int], Choice] = {}
    for word in words:
        key, _, joint = word.partition(":")
        if word == "tilt":
            chosen = [Choice("gravity", axis, asked=True) for axis in range(2)]
        elif word in ALL:
            skipped = reference(robot) if word == "torque-constants" else -1
            chosen = [Choice(WORDS[ALL[word]], k, asked=False) for k in range(len(names)) if k != skipped]
        elif key in WORDS and joint:
            if joint not in names:
                raise UnknownNameError("joint", joint, names)
            chosen = [Choice(WORDS[key], names.index(joint), asked=True)]
        else:
            raise ConfigurationError(
                f"'{word}' is no part of a set-up; expected tilt, zeros, torque-constants, zero:JOINT or "
                "torque-constant:JOINT"
            )
        for one in chosen:
            if (one.kind, one.axis) not in found or one.asked:
                found[one.kind, one.axis] = one
    if sum(one.kind == "torque scale" and one.asked for one in found.values()) == len(names):
        raise ConfigurationError("the torque constants of all joints have one unknown scale: leave one joint out")
    return tuple(found.values())


def reference(robot: Robot) -> int:
    """The joint that all torque constants are compared with, counted from 0: the one with the largest torque limit."""
    return int(np.argmax(robot.torque_limits[: robot.chain_size]))


def estimate_setup(
    robot: Robot,
    sources: Sequence[Source],
    settings: IdentificationSettings,
    words: Sequence[str],
    progress: Callable[[str], None] = lambda stage: None,
) -> tuple[Setup, tuple[SetupEstimate, ...]]:
    """The set-up that recordings of one arm imply, and its unknowns in words; what does not differ stays as given.

    Args:
        robot: as it is described.
        sources: the recordings, all with the first one's mount and torque constants.
        settings: of the identification.
        words: what is unknown, see `choose`.
        progress: called with the name of each step.

    Raises:
        ConfigurationError, UnknownNameError: as in `choose`.
        DataError: the motion does not show an unknown that was asked for by name, or does not separate them; or the
            steps do not settle.
    """
    chosen, mount = choose(words, robot), sources[0].mount
    setup, past = Setup.given(robot, mount), Steps()
    for count in range(MOST_STEPS):
        progress(f"set-up, step {count + 1}")
        model = ArmModel.of(setup.robot(robot, mount), mount=mount)
        samples = join([setup.read(one).samples(settings) for one in sources])
        estimate = estimator(settings.estimator).estimate(model, samples, settings.coulomb_friction)
        columns = columns_beside(model, samples, estimate.regression)
        if count == 0:
            chosen = _shown(chosen, columns, robot)
            x = np.zeros(len(chosen))
        values, covariance = columns.together([columns.kinds.index((one.kind, one.axis)) for one in chosen])
        deviations = np.sqrt(np.diag(covariance))
        values = _in_given_directions(values, chosen, setup.gravity, robot.gravity(mount))
        largest = np.array([LARGEST[one.kind] for one in chosen])
        step = np.clip(values, -largest, largest)
        if (np.abs(step) <= np.maximum(SETTLED * deviations, SMALLEST)).all():
            found = Setup.of(robot, mount, chosen, x + step)
            estimates = _estimates(robot, mount, found, chosen, deviations, sources[0].torque_constants)
            wrong = {(one.kind, one.joint) for one in estimates if one.differs}
            kept = [(one.kind, _joint(one, robot)) in wrong for one in chosen]
            return Setup.of(robot, mount, chosen, np.where(kept, x + step, 0.0)), estimates
        x = past.beyond(x, step, deviations, largest)
        setup = Setup.of(robot, mount, chosen, x)
    moving = ", ".join(_name(one, robot) for one, last in zip(chosen, step, strict=True) if abs(last) > SMALLEST)
    raise DataError(f"the set-up does not settle in {MOST_STEPS} steps ({moving}): estimate fewer unknowns at once")


class Steps:
    """Anderson's acceleration of a fixed-point iteration x <- x + f(x), over the last step or two.

    The columns are taken at parameters that have absorbed part of the unknown, so plain steps shrink by a third only.
    """

    def __init__(self) -> None:
        self._x: list[FloatArray] = []
        self._f: list[FloatArray] = []

    def beyond(self, x: FloatArray, f: FloatArray, scale: FloatArray, largest: FloatArray) -> FloatArray:
        """The next x (k,) after a step f (k,) from x; no unknown goes further than `largest` (k,) at once."""
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
    """Values (k,) with the lean along the directions across the given gravity instead of across the present one."""
    lean = [k for k, one in enumerate(chosen) if one.kind == "gravity"]
    if not lean:
        return values
    turned = values.copy()
    turned[lean] = across(given) @ (values[lean] @ across(now))
    return turned


def _joint(choice: Choice, robot: Robot) -> str:
    """The joint of an unknown; "" of gravity."""
    return "" if choice.kind == "gravity" else robot.joint_names[choice.axis]


def _name(choice: Choice, robot: Robot) -> str:
    """An unknown in words."""
    if choice.kind == "gravity":
        return "the base's lean"
    return f"the {'zero' if choice.kind == 'position zero' else 'torque constant'} of {robot.joint_names[choice.axis]}"


def _shown(chosen: Sequence[Choice], columns: Columns, robot: Robot) -> tuple[Choice, ...]:
    """The unknowns that the motion shows; DataError where one that was asked for by name is not among them."""
    shown = {key: bool(seen) for key, seen in zip(columns.kinds, columns.seen, strict=True)}
    for one in chosen:
        if one.asked and not shown.get((one.kind, one.axis), False):
            raise DataError(f"the motion does not show {_name(one, robot)}: leave it out, or record another motion")
    left = [one for one in chosen if shown.get((one.kind, one.axis), False)]
    while left:  # leave out the vaguest, one by one: it takes certainty from the others
        covariance = columns.together([columns.kinds.index((one.kind, one.axis)) for one in left])[1]
        vague = np.sqrt(np.diag(covariance)) / [VAGUE[one.kind] for one in left]
        vague[[one.asked for one in left]] = 0.0
        if vague.max() <= 1.0:
            return tuple(left)
        left.pop(int(np.argmax(vague)))
    raise DataError("the motion shows none of the set-up's unknowns: record another motion")


def _estimates(
    robot: Robot,
    mount: str,
    setup: Setup,
    chosen: Sequence[Choice],
    deviations: FloatArray,
    constants: tuple[float, ...],
) -> tuple[SetupEstimate, ...]:
    """The unknowns as they were found; both directions of the lean are one."""
    found, leans = [], []
    for one, deviation in zip(chosen, deviations.tolist(), strict=True):
        if one.kind == "gravity":
            leans.append(deviation)
            continue
        joint = robot.joint_names[one.axis]
        if one.kind == "position zero":
            total = robot.file.joints[one.axis].zero_offset_rad + float(setup.zeros[one.axis])
            mend = f"give this joint zero_offset_rad: {total:.5f} in robot.yaml (of a CSV file: offset in its mapping)"
            found.append(SetupEstimate(one.kind, joint, float(setup.zeros[one.axis]), deviation, mend))
            continue
        scale, mend = float(setup.scales[one.axis]), "divide the recorded torques by it"
        if constants:
            mend = f"give this joint torque_constant_nm_per_a: {constants[one.axis] / scale:.5g} in robot.yaml"
        found.append(SetupEstimate(one.kind, joint, scale, scale * deviation, mend))
    if leans:
        given, now = robot.gravity(mount), setup.gravity
        cosine = float(given @ now) / max(float(given @ given), np.finfo(float).tiny)
        vector = [round(value, 5) for value in now.tolist()]
        mend = f"add a mount with gravity {vector} to mounts_gravity_m_s2 in robot.yaml, and use it"
        lean = float(np.arccos(np.clip(cosine, -1.0, 1.0)))
        found.append(SetupEstimate("gravity", "", lean, float(np.hypot(*leans) / np.sqrt(2.0)), mend))
    return tuple(found)

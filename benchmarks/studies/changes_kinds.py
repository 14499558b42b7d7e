"""Kinds of changes of a recording, and their random sizes, joints, moments and rates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from benchmarks.studies import changed_arms as changed
from benchmarks.studies.changed_arms import Log, Subject
from benchmarks.studies.changes_table import UNCHANGED
from dynid.errors import UnknownNameError
from dynid.identification.diagnosis.effort_meaning import EXTERNAL, NET_OF_GRAVITY, UNSIGNED
from dynid.identification.steadiness.columns import BODY, FRICTION, MOUNT, OFFSET, SCALE, ZERO
from dynid.model.gear_presets import VISCOUS
from dynid.robot import FloatArray, Robot

DRAWS, OTHER_DRAWS = 41, 43  # streams of random numbers: changes, and recordings without a change
RATES_HZ = (100.0, 200.0, 1000.0)
HELD_RATE_HZ = 200.0  # rate of positions if torques are renewed less often [Hz]
HELD_OUT_SHARE = 0.3
EARLIEST, LATEST = 0.2, 0.8  # range of a step's moment, as a share of the time
NOISE = "noise"  # cause that is named if the recorded torques have more noise than the verdict allows
DRIVERS = "held efforts"  # cause that a note names if torques are renewed less often than positions


@dataclass(frozen=True)
class Draw:
    """Random properties of one change and of its recording.

    Attributes:
        size: size with its sign, in the unit of its kind.
        axis: the joint, from 0; it matters for changes of one joint alone.
        when: moment of a step, as a share of the time.
        angle_rad: direction in which a mount tilts [rad].
        rate_hz: rate of the recording [Hz].
    """

    size: float
    axis: int
    when: float
    angle_rad: float
    rate_hz: float


@dataclass(frozen=True)
class Kind:
    """Kind of a change.

    Attributes:
        apply: function that returns the changed recording.
        cause: kind of the sentence that names the true cause.
        low, high: smallest and largest size in `unit`; sizes are drawn log-uniformly. 0 if there is only one size.
        unit: unit of the size.
        over: function of time, see `course`.
        joint: whether one joint changes.
        signed: whether the sign is drawn.
        rate_hz: rate of the recording [Hz]; 0 if it is drawn.
    """

    apply: Callable[[Subject, Draw, FloatArray], Log]
    cause: str
    low: float = 0.0
    high: float = 0.0
    unit: str = ""
    over: str = "constant"
    joint: bool = False
    signed: bool = False
    rate_hz: float = 0.0


def _body(one: Subject, draw: Draw, over: FloatArray) -> Log:
    return changed.with_body(one, draw.size, over)


def _zero(one: Subject, draw: Draw, over: FloatArray) -> Log:
    return changed.with_zero(one, draw.axis, draw.size, over)


def _scale(one: Subject, draw: Draw, over: FloatArray) -> Log:
    return changed.with_scale(one, draw.size, over)


def _own_scale(one: Subject, draw: Draw, over: FloatArray) -> Log:
    return changed.with_scale(one, draw.size, over, draw.axis)


def _offset(one: Subject, draw: Draw, over: FloatArray) -> Log:
    return changed.with_offset(one, draw.axis, draw.size, over)


def _friction(one: Subject, draw: Draw, over: FloatArray) -> Log:
    return changed.with_friction(one, draw.axis, 1.0 + draw.size, over)


def _tilt(one: Subject, draw: Draw, over: FloatArray) -> Log:
    return changed.with_tilt(one, float(np.radians(draw.size)), draw.angle_rad, over)


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "body-from": Kind(_body, BODY, 0.02, 0.5, "kg", "step"),
        "body-until": Kind(_body, BODY, 0.02, 0.5, "kg", "until"),
        "zero-drift": Kind(_zero, ZERO, 0.01, 0.2, "rad", "drift", joint=True, signed=True),
        "zero-step": Kind(_zero, ZERO, 0.01, 0.2, "rad", "step", joint=True, signed=True),
        "scale-drift": Kind(_scale, SCALE, 0.02, 0.3, "", "drift", signed=True),
        "scale-step": Kind(_scale, SCALE, 0.02, 0.3, "", "step", signed=True),
        "joint-scale-drift": Kind(_own_scale, SCALE, 0.02, 0.3, "", "drift", joint=True, signed=True),
        "joint-scale-step": Kind(_own_scale, SCALE, 0.02, 0.3, "", "step", joint=True, signed=True),
        "offset": Kind(_offset, OFFSET, 0.05, 0.6, "N m", joint=True, signed=True),
        "offset-step": Kind(_offset, OFFSET, 0.05, 0.6, "N m", "step", joint=True, signed=True),
        "friction-step": Kind(_friction, FRICTION, 0.2, 1.0, "", "step", joint=True),
        "mount-step": Kind(_tilt, MOUNT, 1.0, 10.0, "deg", "step"),
        "net-of-gravity": Kind(lambda one, draw, over: changed.net_of_gravity(one), NET_OF_GRAVITY),
        "external": Kind(lambda one, draw, over: changed.external(one), EXTERNAL),
        "unsigned": Kind(lambda one, draw, over: changed.unsigned(one), UNSIGNED),
        "held-efforts": Kind(
            lambda one, draw, over: changed.held(one, draw.size), DRIVERS, 10.0, 50.0, "Hz", rate_hz=HELD_RATE_HZ
        ),
    }
)


def chosen_kinds(names: Sequence[str]) -> tuple[str, ...]:
    """Return these names of kinds, without repetitions; all of them if there are none.

    Raises:
        UnknownNameError: there is no such kind.
    """
    known = (UNCHANGED, *KINDS)
    for name in names:
        if name not in known:
            raise UnknownNameError("kind of change", name, known)
    return tuple(dict.fromkeys(names)) or known


def drawn(robot: Robot, kind: str, seed: int, repeat: int, joints: int) -> Draw:
    """Return the random change of an arm.

    Offsets are proportional to the joint's torque limit; the stated range is that of the strongest joint.

    Args:
        robot: the robot.
        kind: name of the kind.
        seed: seed of the arm.
        repeat: number of the case among those of this arm and kind, from 0.
        joints: number of joints of the kinematic chain.
    """
    one, random = KINDS[kind], np.random.default_rng([seed, list(KINDS).index(kind), repeat, DRAWS])
    share, sign, axis = random.random(), random.choice([-1.0, 1.0]), int(random.integers(joints))
    size = one.low * (one.high / one.low) ** share if one.low else 0.0
    if one.cause == OFFSET:
        size *= robot.torque_limits[axis] / robot.torque_limits.max()
    return Draw(
        size=float(size * (sign if one.signed else 1.0)),
        axis=axis,
        when=float(random.uniform(EARLIEST, LATEST)),
        angle_rad=float(random.uniform(0.0, 2.0 * np.pi)),
        rate_hz=one.rate_hz or float(random.choice(RATES_HZ)),
    )


def held_out_of(seed: int, seconds: float, rate_hz: float) -> float:
    """Return the share of the time that is held out of an arm's recordings of a length [s] at a rate [Hz].

    Half of them have none. It is the same for all changes, so that one unchanged model is compared with all of them.
    """
    random = np.random.default_rng([seed, round(seconds), round(rate_hz), OTHER_DRAWS])
    return float(random.choice([0.0, HELD_OUT_SHARE]))


def gears_of(seed: int) -> str:
    """Return the friction model of an arm: viscous and Coulomb friction for even seeds, friction M6 for odd ones."""
    return "M6" if seed % 2 else VISCOUS

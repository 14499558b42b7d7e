"""What may be wrong with recorded data: suspicions, and what no suspicion could find."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.identification.data.preprocessing import Samples
from dynid.identification.diagnosis.delays import DelaySearch, followed
from dynid.identification.diagnosis.gear_losses import SAMPLES, OtherLosses, other_losses
from dynid.identification.diagnosis.nearby import Unknown, doubt_of_delays, unknowns
from dynid.identification.diagnosis.readings import Reading, Trials
from dynid.identification.estimators.regression import Regression
from dynid.identification.settings import CoulombSettings, SuspicionLimits
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray

MOST_NAMED = 3
LOSSES_GAIN = 2.0  # of the limit: friction of other laws than both may fit a little better with either
SURE = 2.0  # standard errors against other losses, beyond which they are ruled out
# what is named though models absorb most of it, beyond so many deviations; friction of another kind passes for a zero
NAMED = {"gravity": (0.01, 3.0), "position zero": (0.02, 6.0)}
SURE_SCALE, MUCH = 4.0, 0.1  # deviations and part of the squared error, with which a scale beyond its limit is tried
SURER = 5.0 / 3.0  # times the deviations: a wrist's friction passes for another scale of its positions at times
EXCHANGES = ("sign", "torque columns", "joints")
SCALE_FAULT = 0.3  # the scale of a joint's torque that a suspicion should find
# as far as one straight line leads, [-], rad and [-]; where friction is most of a torque, hardly at all for a scale
STRAIGHT = {"torque scale": 0.6, "position zero": 0.5, "position scale": 0.03}


@dataclass(frozen=True)
class Suspicion:
    """Something that explains the data better than they are as given.

    Attributes:
        kind: that of an unknown or a reading.
        joints: by name; () where it is of all.
        strength: over its limits; above 1 it is named.
        words: with both errors, or with the deviation.
        gain: of a reading that was fitted.
        explained: part of the squared error that an unknown takes away.
    """

    kind: str
    joints: tuple[str, ...]
    strength: float
    words: str
    gain: float = 0.0
    explained: float = 0.0


@dataclass(frozen=True)
class Diagnosis:
    """Everything that was tried.

    Attributes:
        suspicions: with a strength above 1, the most telling first.
        strongest: strength of the strongest reading, named or not.
        unseen: joints whose torques could have another scale without contradicting the others, with the deviation.
        losses: friction that grows with another load than the model's, where the model has such friction; else None.
        small: a tilt of gravity or a zero of a joint that is sure but below its limit, in words; "" without one.
    """

    suspicions: tuple[Suspicion, ...]
    strongest: float
    unseen: tuple[tuple[str, float], ...]
    losses: OtherLosses | None = None
    small: str = ""

    @property
    def measured(self) -> tuple[float, str]:
        """For the check: the strongest, and what is suspected."""
        return self.strongest, "; ".join(self.sentences)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is too small to be refused, or open, in words."""
        found, one = [self.small] if self.small else [], self.losses
        if self.unseen:
            found.append(
                f"a torque constant that is {100 * SCALE_FAULT:.0f} % off is not seen at "
                f"{', '.join(joint for joint, _ in self.unseen)}: no other joint's torque shows its scale, or too much "
                "of its own is unexplained; a known mass shows it"
            )
        named = any(own.kind == "losses" for own in self.suspicions)
        if one is not None and not one.alike and not named and one.significance >= -SURE:
            found.append(
                "the data do not say whether friction grows with the motor's torque, as in the model, or with what the "
                f"links take: then masses and inertias would be {one.links:.2f} times as large; a known mass decides"
            )
        return tuple(found)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The suspicions to be named, in words; the strongest, by which the check fails, is among them."""
        named = list(self.suspicions[:MOST_NAMED])
        strongest = max(self.suspicions, key=lambda one: one.strength, default=None)
        if strongest is not None and strongest not in named:
            named[-1] = strongest
        return tuple(one.words for one in named)


def diagnose(
    model: ArmModel,
    samples: Samples,
    regression: Regression,
    limits: SuspicionLimits,
    coulomb: CoulombSettings,
    *,
    thorough: bool,
) -> Diagnosis:
    """Try what may be wrong with the data.

    Args:
        model: the arm.
        samples: that were fitted.
        regression: of them.
        limits: of suspicions.
        coulomb: how friction was treated.
        thorough: also whether signs or columns are wrong, which the errors of joints show first.
    """
    trials, joints = Trials(model, samples), samples.joint_names
    doubt = doubt_of_delays(samples, regression)
    free = unknowns(model, samples, regression)
    delays = followed(DelaySearch(model, samples, regression, coulomb, free), limits, doubt)
    free = (*(one for one in free if one.kind != "delay"), *delays)
    readings = [*trials.usual(), *(trials.exchanges() if thorough else ())]
    sure = [one for one in free if confirmed(one, trials, limits)]
    found = _told_once([_weighed(one, trials, limits, joints, doubt) for one in sure])
    found += [suspicion_of(one, limits, joints) for one in readings]
    losses = _losses(model, samples, regression)
    found += [] if losses is None or losses.alike else [_of_losses(losses, limits)]
    # what was fitted is more certain than what was extrapolated; limits of different kinds do not compare
    named = sorted(
        (one for one in found if one.strength > 1.0), key=lambda one: (-one.gain, -one.explained, -one.strength)
    )
    hidden = [
        (joints[one.axis], one.deviation)
        for one in free
        if one.kind == "torque scale" and SCALE_FAULT < limits.torque_scale + limits.deviations * one.deviation
    ]
    strongest = max(0.0, *(one.strength for one in found))
    return Diagnosis(tuple(named), strongest, tuple(hidden), losses, _small(model, free, limits, joints))


def _weighed(
    one: Unknown, trials: Trials, limits: SuspicionLimits, joints: Sequence[str], doubt: FloatArray
) -> Suspicion:
    """An unknown as a suspicion, of the strength that its deviation leaves or that a trial gives it."""
    suspicion = replace(_of_unknown(one, limits, joints, doubt), explained=one.explained)
    return replace(suspicion, strength=max(suspicion.strength, tried_scale(one, trials, limits)))


def tried_scale(one: Unknown, trials: Trials, limits: SuspicionLimits) -> float:
    """Strength of a joint's torque scale that explains much of the error and does so when it is fitted; 0 without.

    Three deviations below its estimate such a scale may be within its limit: one of 1.3 looks 0.25 +- 0.06 away.
    """
    if one.kind != "torque scale" or not np.isfinite(one.deviation):
        return 0.0
    sizes = (
        abs(one.value) / limits.torque_scale,
        abs(one.value) / (SURE_SCALE * max(one.deviation, np.finfo(float).tiny)),
        one.explained / MUCH,
    )
    if min(sizes) <= 1.0:
        return 0.0
    tried = [own for own in trials.as_extrapolated(one.kind, one.axis, one.value) if own.gain >= 0.0]
    significance = max((own.significance for own in tried), default=0.0)
    return float(min(*sizes, significance / limits.significance))


def _told_once(found: Sequence[Suspicion]) -> list[Suspicion]:
    """Without delays of single joints, where the torques of all are late."""
    all_late = any(one.kind == "delay" and not one.joints and one.strength > 1.0 for one in found)
    return [one for one in found if not (all_late and one.kind == "delay" and one.joints)]


def confirmed(one: Unknown, trials: Trials, limits: SuspicionLimits) -> bool:
    """Whether an unknown is within reach of a straight line; one that is not must explain the data when it is tried."""
    if abs(one.value) <= STRAIGHT.get(one.kind, np.inf) or abs(one.value) <= limits.deviations * one.deviation:
        return True
    tried = trials.as_extrapolated(one.kind, one.axis, one.value)
    return any(own.gain > 0.0 and own.significance > limits.significance for own in tried)


def _small(model: ArmModel, free: Sequence[Unknown], limits: SuspicionLimits, joints: Sequence[str]) -> str:
    """What explains most of the tilts and zeros that are sure and not refused, in words; "" where none is."""
    sure = [
        one
        for one in free
        if one.kind in NAMED and abs(one.value) - NAMED[one.kind][1] * one.deviation > NAMED[one.kind][0]
    ]
    one = max(sure, key=lambda one: one.explained, default=None)
    if one is None or abs(one.value) - limits.deviations * one.deviation > _limit(one.kind, limits):
        return ""
    if one.kind == "gravity":
        return f"{_tilted(one)}, which is below the limit: '--estimate-setup tilt' shows how the base leans"
    unit = "m" if model.prismatic[one.axis] else "rad"
    return (
        f"the zero of {joints[one.axis]}, or of a joint beside it, seems to be {one.value:+.2g} {unit} away, which is "
        f"below the limit: '--estimate-setup zero:{joints[one.axis]}' shows it"
    )


def _losses(model: ArmModel, samples: Samples, regression: Regression) -> OtherLosses | None:
    """See `other_losses`; None for friction among the parameters, which grows with no load."""
    if regression.beside is None:
        return None
    solution, law = regression.solve(), regression.beside.fit.point.law
    misfit = regression.misfit(solution.phi, solution.friction)
    return other_losses(Trials(model, samples, SAMPLES), solution.phi, law, misfit)


def _of_losses(losses: OtherLosses, limits: SuspicionLimits) -> Suspicion:
    words = (
        "friction grows with what the links take, and the model has it grow with the motor's torque: masses and "
        f"inertias look {losses.links:.2f} times as large as in the model"
    )
    strength = min(losses.gain / (LOSSES_GAIN * limits.gain), losses.significance / limits.significance)
    return Suspicion("losses", (), strength, words, losses.gain)


def _limit(kind: str, limits: SuspicionLimits) -> float:
    """What an unknown of a kind may be, in its own unit."""
    return {
        "torque scale": limits.torque_scale,
        "position zero": limits.position_zero_rad,
        "position scale": limits.position_scale,
        "gravity": limits.gravity_rad,
        "delay": limits.delay_s,
    }[kind]


def _tilted(one: Unknown) -> str:
    return f"gravity seems to be tilted by {np.degrees(np.arctan(abs(one.value))):.2g} deg"


def _ms(seconds: float) -> str:
    """A time, without an exponent where it is long."""
    return f"{1e3 * seconds:.0f} ms" if seconds >= 0.001 else f"{1e3 * seconds:.1g} ms"


def _of_unknown(one: Unknown, limits: SuspicionLimits, joints: Sequence[str], doubt: FloatArray) -> Suspicion:
    """An unknown as a suspicion; the limit of one joint's delay is multiplied by its `doubt`, (n,)."""
    surer = SURER if one.kind == "position scale" else 1.0
    size = abs(one.value) - surer * limits.deviations * one.deviation
    limit = _limit(one.kind, limits)
    if one.kind == "delay":
        late = f"{_ms(abs(one.value))} (+-{_ms(one.deviation)}) {'late' if one.value > 0 else 'early'}"
        named, limit = ((), limit) if one.axis < 0 else ((joints[one.axis],), float(doubt[one.axis]) * limit)
        what = f"the torques{''.join(f' of {name}' for name in named)} look {late} against the positions"
        return Suspicion(one.kind, named, size / limit, f"{what}: check the stamps and delays")
    if one.kind == "gravity":
        return Suspicion(one.kind, (), size / limit, f"{_tilted(one)}: check the mount")
    joint = joints[one.axis]
    if one.kind == "position scale":
        words = (
            f"the positions of {joint} look {1.0 - one.value:.2f} (+-{one.deviation:.2f}) of what the torques imply: "
            "check its gear ratio and its encoder's counts"
        )
    elif one.kind == "torque scale":
        words = (
            f"the torques of {joint} look {1.0 + one.value:.2f} (+-{one.deviation:.2f}) of what the other joints imply"
            ": check its torque constant"
        )
    else:
        words = (
            f"the position of {joint} looks {one.value:+.2f} rad (+-{one.deviation:.2f}) from where the torques imply: "
            "check its zero"
        )
    return Suspicion(one.kind, (joint,), size / limit, words)


def suspicion_of(one: Reading, limits: SuspicionLimits, joints: Sequence[str]) -> Suspicion:
    """A reading as a suspicion: the weaker of gain and significance decides."""
    named = tuple(joints[k] for k in one.axes)
    both = " and ".join(named)
    what = {
        "sign": f"the torque of {both} with its sign flipped"
        if both
        else "the torques of all joints with signs flipped",
        "torque columns": f"the torques of {both} exchanged",
        "joints": f"the joints {both} exchanged",
        "gear": f"positions of {both} times {one.value:g} and its torques divided by it (a gear ratio)",
        "mount": f"gravity {f'along {one.along} of the base' if one.along else 'the other way round'} (another mount)",
        "delay": f"torques {1e3 * abs(one.value):g} ms {'earlier' if one.value > 0 else 'later'} against positions",
    }[one.kind]
    words = (
        f"{what} would leave {100 * one.after:.2g} % instead of {100 * one.before:.2g} % of the torque of "
        f"{joints[one.axis]} unexplained"
    )
    gain = limits.gain_of_exchange if one.kind in EXCHANGES else limits.gain
    strength = min(one.gain / gain, one.significance / limits.significance)
    return Suspicion(one.kind, named, strength, words, one.gain)

"""Diagnosis of recorded data: suspected faults, and faults that the data cannot reveal.

A fault is an error of the recording or the set-up, such as a wrong sign, scale, zero, mount or delay.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.identification.data.preprocessing import Samples
from dynid.identification.diagnosis.delays import DelaySearch, iterated_delays
from dynid.identification.diagnosis.effort_meaning import KINDS as MEANINGS
from dynid.identification.diagnosis.effort_meaning import meanings, words_of
from dynid.identification.diagnosis.gear_losses import SAMPLES, OtherLosses, other_losses
from dynid.identification.diagnosis.interpretations import Interpretation, Trials
from dynid.identification.diagnosis.nuisance_columns import Unknown, doubt_of_delays, unknowns
from dynid.identification.estimators.regression import Regression
from dynid.identification.settings import CoulombSettings, SuspicionLimits
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

MOST_NAMED = 3
# least gain for losses of the links' torque, over the gain limit: other friction may favour either law slightly
LOSSES_GAIN = 2.0
SURE = 2.0  # standard errors beyond which losses of the links' torque are ruled out
# least size [rad], after subtraction of a number of standard deviations, of a fault that is noted below its limit; the
# number is larger for a position zero, because friction outside the law resembles it
NOTE_LIMITS = {"gravity": (0.01, 3.0), "position zero": (0.02, 6.0)}
SURE_SCALE, FITTED_SHARE = 4.0, 0.1  # standard deviations and explained share for which a torque scale is fitted
POSITION_SCALE_FACTOR = 5.0 / 3.0  # factor of the deviations: a wrist's friction may resemble a position scale
MAX_STRENGTH = 100.0  # strength of a suspicion that is certain
CONTRADICTED_Z = 2.5  # standard deviations between estimated and tried delay, beyond which the tried one counts half
EXCHANGES = ("sign", "torque columns", "joints")
SCALE_FAULT = 0.3  # error of a torque constant that a suspicion should find
# largest linear estimates that need no confirmation by a fit, [-], [rad] and [-]
LINEAR_RANGE = {"torque scale": 0.6, "position zero": 0.5, "position scale": 0.03}


@dataclass(frozen=True)
class Suspicion:
    """Suspected fault of the recorded data: a model that assumes this fault fits the data better.

    It comes from an `Unknown`, the size of a fault that is estimated as an additional parameter, or from an
    `Interpretation`, a fit to data after correction of an assumed fault.

    Attributes:
        kind: kind of the `Unknown` or `Interpretation`; "losses" if gear losses may grow with another torque
            than the model assumes (`OtherLosses`).
        joints: names of the joints; () for all joints.
        strength: size of the fault less its uncertainty, divided by the limit of the size. For an `Interpretation` and
            for gear losses, it is the smaller of gain (reduction of the torque errors) and significance, each divided
            by its limit. A fault with a strength above 1 is reported.
        words: description of the fault, with the errors with and without the fault, or with the standard deviation of
            the estimate.
        gain: error reduction by an `Interpretation` or by `OtherLosses`, as a sum of logarithms; else 0.
        explained: share of the squared error that an `Unknown` removes; else 0.
    """

    kind: str
    joints: tuple[str, ...]
    strength: float
    words: str
    gain: float = 0.0
    explained: float = 0.0


@dataclass(frozen=True)
class Diagnosis:
    """Results of all tested interpretations of the data, each of which assumes one fault.

    Attributes:
        suspicions: reported suspicions, which are those with a strength (size or significance over limit) above 1.
            Suspicions that the efforts are not motor torques come first; the others follow by error reduction.
        strongest: strength of the strongest suspicion, whether reported or not.
        unseen: joints at which the data would not reveal a wrong torque constant, each with the standard deviation of
            its torque scale.
        losses: result of the test whether gear losses grow with the links' torque, while the model assumes that they
            grow with the motor's torque; None if the model has no gear losses.
        small: sentence about a tilt of gravity or an offset of a joint's zero that is significant but below its limit;
            "" if there is none.
    """

    suspicions: tuple[Suspicion, ...]
    strongest: float
    unseen: tuple[tuple[str, float], ...]
    losses: OtherLosses | None = None
    small: str = ""

    @property
    def measured(self) -> tuple[float, str]:
        """Value for the check of the diagnosis, and a text with the reported suspicions.

        The value is the strength of the strongest suspicion: size or significance of the fault, divided by its limit.
        """
        return self.strongest, "; ".join(self.sentences)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about faults below their limits, and about faults that the data cannot reveal or rule out."""
        found, one = [self.small] if self.small else [], self.losses
        if self.unseen:
            found.append(
                f"a torque constant that is {100 * SCALE_FAULT:.0f} % off would not be detected at "
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
    def of_efforts(self) -> tuple[str, ...]:
        """Sentences about suspicions that the recorded efforts are not motor torques; () if there are none."""
        return tuple(one.words for one in self.suspicions if one.kind in MEANINGS)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences about the first `MOST_NAMED` suspicions, or about all if there are fewer.

        If the strongest suspicion is not among them, it replaces the last of them, because its strength is the value
        that the check of the diagnosis compares with a limit.
        """
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
    nominal: BaseParameters | None = None,
) -> Diagnosis:
    """Return the suspected faults of recorded data.

    Args:
        model: the arm.
        samples: the fitted samples.
        regression: regression of the samples.
        limits: limits beyond which faults are suspected.
        coulomb: settings of the friction treatment.
        thorough: whether wrong signs and exchanged columns are tested, too. The caller requests this only if the errors
            of the joints are large, because these faults cause large errors.
        nominal: base parameters of the nominal arm, to test whether a driver has subtracted gravity; None if there are
            none.
    """
    trials, joints = Trials(model, samples), samples.joint_names
    doubt = doubt_of_delays(samples, regression)
    free = unknowns(model, samples, regression)
    delays = iterated_delays(DelaySearch(model, samples, regression, coulomb, free), limits, doubt)
    free = (*(one for one in free if one.kind != "delay"), *delays)
    readings = [*trials.set_up_faults(), *(trials.exchanges() if thorough else ())]
    sure = [one for one in free if confirmed(one, trials, limits)]
    found = _without_repeats([_weighed(one, trials, limits, joints, doubt) for one in sure])
    found += [suspicion_of(one, limits, joints, delays[0]) for one in (*meanings(trials, nominal), *readings)]
    losses = _losses(model, samples, regression)
    found += [] if losses is None or losses.alike else [_of_losses(losses, limits)]
    # the meaning of all efforts comes first, then fitted interpretations, as they are more certain than extrapolated
    # ones; strengths of different kinds are not comparable
    named = sorted(
        (one for one in found if one.strength > 1.0),
        key=lambda one: (one.kind not in MEANINGS, -one.gain, -one.explained, -one.strength),
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
    """Return the suspicion for a fault whose size was estimated.

    The strength (size over limit) is the larger of two values. One comes from the estimate and its standard deviation,
    the other, for torque scales only, from fits with changed torque scales (`tried_scale`).

    Args:
        one: the estimated unknown.
        trials: fits of alternative interpretations.
        limits: limits beyond which faults are suspected.
        joints: names of the joints, (n,).
        doubt: factor by which the limit of each axis's delay is multiplied, (n,) [-]; it exceeds 1 if the axis has
            friction, because friction resembles a delay.
    """
    suspicion = _of_unknown(one, limits, joints, doubt, _position_unit(trials.model, one.axis))
    suspicion = replace(suspicion, explained=one.explained)
    return replace(suspicion, strength=max(suspicion.strength, tried_scale(one, trials, limits)))


def tried_scale(one: Unknown, trials: Trials, limits: SuspicionLimits) -> float:
    """Return the strength of a wrong torque scale if a trial fit confirms it and it explains much of the error; else 0.

    A fault with a strength above 1 is reported as a suspicion. Most faults reach this strength only if their estimate
    minus three standard deviations exceeds the limit. For torque scales this condition is too strict: a true error of
    0.3 may be estimated as 0.25 +- 0.06. So this function compares the estimate itself with the limit. In addition, it
    requires that trial fits with a changed torque scale reduce the error significantly.

    Args:
        one: the estimated unknown; the result is 0 if it is not a torque scale.
        trials: fits of alternative interpretations.
        limits: limits beyond which faults are suspected.
    """
    if one.kind != "torque scale" or not np.isfinite(one.deviation):
        return 0.0
    sizes = (
        abs(one.value) / limits.torque_scale,
        abs(one.value) / (SURE_SCALE * max(one.deviation, np.finfo(float).tiny)),
        one.explained / FITTED_SHARE,
    )
    if min(sizes) <= 1.0:
        return 0.0
    tried = [own for own in trials.as_extrapolated(one.kind, one.axis, one.value) if own.gain >= 0.0]
    significance = max((own.significance for own in tried), default=0.0)
    return float(min(*sizes, significance / limits.significance))


def _without_repeats(found: Sequence[Suspicion]) -> list[Suspicion]:
    """Return the suspicions without delays of single joints if the torques of all joints are suspected to be late."""
    all_late = any(one.kind == "delay" and not one.joints and one.strength > 1.0 for one in found)
    return [one for one in found if not (all_late and one.kind == "delay" and one.joints)]


def confirmed(one: Unknown, trials: Trials, limits: SuspicionLimits) -> bool:
    """Return whether the estimated size of a fault is reliable enough for a suspicion.

    The estimate is linear in the size, so it may be wrong for a large fault. It is reliable if it is small or not
    significant, or if a fit to data that are corrected for a fault of about this size has significantly smaller errors.

    Args:
        one: the estimated unknown.
        trials: fits of alternative interpretations.
        limits: limits beyond which faults are suspected.
    """
    if abs(one.value) <= LINEAR_RANGE.get(one.kind, np.inf) or abs(one.value) <= limits.deviations * one.deviation:
        return True
    tried = trials.as_extrapolated(one.kind, one.axis, one.value)
    return any(own.gain > 0.0 and own.significance > limits.significance for own in tried)


def _position_unit(model: ArmModel, axis: int) -> str:
    """Return the unit of an axis's position: "m" for a prismatic axis, else "rad".

    `axis` is the index of the axis, from 0. For -1, which stands for all axes, the result is "rad".
    """
    return "m" if 0 <= axis < len(model.prismatic) and model.prismatic[axis] else "rad"


def _small(model: ArmModel, free: Sequence[Unknown], limits: SuspicionLimits, joints: Sequence[str]) -> str:
    """Return a sentence about a significant tilt of gravity or offset of a joint's zero that is below its limit.

    The sentence is about the significant fault that explains most of the squared error. The result is "" without a
    significant fault. It is also "" if the fault exceeds its limit, because the fault is then reported as a suspicion.

    Args:
        model: the arm.
        free: the estimated unknowns.
        limits: limits beyond which faults are suspected.
        joints: names of the joints, (n,).
    """
    sure = [
        one
        for one in free
        if one.kind in NOTE_LIMITS
        and abs(one.value) - NOTE_LIMITS[one.kind][1] * one.deviation > NOTE_LIMITS[one.kind][0]
    ]
    one = max(sure, key=lambda one: one.explained, default=None)
    if one is None or abs(one.value) - limits.deviations * one.deviation > _limit(one.kind, limits):
        return ""
    if one.kind == "gravity":
        return f"{_tilted(one)}, which is below the limit: '--estimate-setup tilt' shows how the base leans"
    unit = _position_unit(model, one.axis)
    return (
        f"the zero of {joints[one.axis]}, or of a joint beside it, seems to be {one.value:+.2g} {unit} away, which is "
        f"below the limit: '--estimate-setup zero:{joints[one.axis]}' shows it"
    )


def _losses(model: ArmModel, samples: Samples, regression: Regression) -> OtherLosses | None:
    """Test whether gear losses grow with the links' or the motor's torque; return None without a friction law.

    Without a friction law, all friction is in the base parameters and does not depend on a load.
    """
    if regression.joint_friction is None:
        return None
    solution, law = regression.solve(), regression.joint_friction.fit.point.law
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
    """Return the size above which a fault of one kind is suspected, in the unit of `Unknown.value`."""
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
    """Return a time [s] as text in whole milliseconds, or with one significant digit if it is below 1 ms."""
    return f"{1e3 * seconds:.0f} ms" if seconds >= 0.001 else f"{1e3 * seconds:.1g} ms"


def _of_unknown(
    one: Unknown, limits: SuspicionLimits, joints: Sequence[str], doubt: FloatArray, unit: str = "rad"
) -> Suspicion:
    """Return the suspicion for a fault, from the estimate of its size and the standard deviation of this estimate.

    Args:
        one: the estimated unknown.
        limits: limits beyond which faults are suspected.
        joints: names of the joints, (n,).
        doubt: factor by which the limit of each axis's delay is multiplied, (n,) [-]; it exceeds 1 if the axis has
            friction, because friction resembles a delay.
        unit: unit of the position of the joint concerned, "rad" or "m".
    """
    surer = POSITION_SCALE_FACTOR if one.kind == "position scale" else 1.0
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
            f"the position of {joint} looks {abs(one.value):.2f} {unit} (+-{one.deviation:.2f}) too "
            f"{'small' if one.value > 0.0 else 'large'} for its torques: check its zero"
        )
    return Suspicion(one.kind, (joint,), size / limit, words)


def suspicion_of(
    one: Interpretation, limits: SuspicionLimits, joints: Sequence[str], estimated: Unknown | None = None
) -> Suspicion:
    """Return the suspected fault that an alternative interpretation of the data implies.

    The interpretation has a gain and a significance. The gain measures the reduction of the torque errors if the fault
    is assumed: the sum over the joints of log(error with the data as recorded / error with the fault), weighted for a
    delay (see `Interpretation.gain`). The significance is the reduction of the squared errors, divided by its standard
    error. The strength of the fault is the smaller of both, each divided by its limit.

    If the interpretation is a delay and contradicts the estimated delay, the strength is halved, because shifted
    torques may explain friction that the model lacks. The estimate alone cannot rule out a delay, because the
    parameters absorb most of a long delay.

    Args:
        one: the interpretation, compared with the data as recorded.
        limits: limits beyond which faults are suspected.
        joints: names of the joints, (n,).
        estimated: estimated delay of all torques; None if there is none.
    """
    named = tuple(joints[k] for k in one.axes)
    if one.kind in MEANINGS:
        strength = min(one.gain / limits.gain, one.significance / limits.significance, MAX_STRENGTH)
        return Suspicion(one.kind, named, strength, words_of(one, tuple(joints)), one.gain)
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
    if one.kind == "delay" and estimated is not None:
        if abs(one.value - estimated.value) > CONTRADICTED_Z * estimated.deviation:
            strength *= 0.5
    return Suspicion(one.kind, named, strength, words, one.gain)

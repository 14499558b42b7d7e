"""Checks that decide whether an identified model is accepted, each with a measured value, a limit and a text.

A check is an entry of one of the tables below; adding an entry is enough to add a check. The `id` of a check is for
programs and is stable, its `name` is for people, and `group` is the topic under which it is shown. The checks of a
table are applied to "facts", the measurements of one step of the identification, such as preprocessing or the fit:

    DATA                       quality of the raw signals of one recording
    FRICTION                   regression of an identification: whether its motion is sufficient to identify friction
    FITTED                     an identification; for a campaign, that of the run chosen to represent all runs
    PREDICTED                  predicted torques of a fitted motion
    SETUP                      set-up unknowns that were estimated together with the parameters
    TO_THE_END                 changes of the arm during whole recordings, including ends that were not fitted
    HELD_OUT                   predicted torques of a held-out motion

Set-up unknowns are encoder zeros, tilt of the base, torque constants and a torque delay. A campaign identifies every
bag at every sampling interval. Further checks are in `campaign/checks.py` for campaigns, and in `dynid.demo.checks` for
the demo.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np

from dynid.identification.data.preprocessing import Samples
from dynid.identification.data.signals import DataQuality
from dynid.identification.diagnosis.diagnosis import Diagnosis
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.regression import Regression
from dynid.identification.estimators.torque_errors import TorqueErrors
from dynid.identification.feasibility.audit import AuditResult
from dynid.identification.feasibility.pull import BoundsPull
from dynid.identification.prediction import Motion
from dynid.identification.settings import IdentificationSettings, TorqueSource
from dynid.identification.setup import SetupEstimate
from dynid.identification.steadiness.steadiness import Steadiness
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray
from dynid.verdict import Check, Group, Verdict

Facts = TypeVar("Facts")
Measured = float | tuple[float, str] | None


@dataclass(frozen=True)
class Rule(Generic[Facts]):
    """Definition of one check, which can be applied to measurements ("facts") of one step, such as the data or the fit.

    Attributes:
        id: identifier of the check.
        group: topic of the check.
        name: name of the check, with placeholders for attributes of the facts, such as `{0.name}`.
        value: function that returns the value to compare, alone or with a detail in words. The function returns None if
            the check does not apply.
        limit: limit of the value, as a number, as the path of a field of the settings, or as a function of the facts.
        sense: comparison of value and limit that is true for a passed check: "at most", "at least" or "equals".
        unit: unit of value and limit; "" if they have none.
        meaning: possible causes of a failure, in words, which are added to the detail of a failed check.
    """

    id: str
    group: Group
    name: str
    value: Callable[[Facts], Measured]
    limit: float | str | Callable[[Facts], float]
    sense: Literal["at most", "at least", "equals"] = "at most"
    unit: str = ""
    meaning: str = ""

    def check(self, facts: Facts, settings: IdentificationSettings | None, of: str = "") -> Check | None:
        """Return the result of this check for one set of measurements ("facts"); None if it does not apply.

        Args:
            facts: the measurements to compare with the limit.
            settings: settings that hold the limit; None if the limit does not come from settings.
            of: name of what was measured, which is appended to the check's name; "" appends nothing.
        """
        measured = self.value(facts)
        if measured is None:
            return None
        value, detail = measured if isinstance(measured, tuple) else (measured, "")
        limit = self.limit
        if not isinstance(limit, float):
            limit = attrgetter(limit)(settings) if isinstance(limit, str) else limit(facts)
        name = self.name.format(facts) + (f", {of}" if of else "")
        own = {"id": self.id, "group": self.group, "name": name, "sense": self.sense, "unit": self.unit}
        found = Check.model_validate(own | {"value": value, "limit": limit, "detail": detail})
        if found.passed or not self.meaning:
            return found
        return found.model_copy(update={"detail": "; ".join(filter(None, (detail, self.meaning)))})


def judge(
    rules: Sequence[Rule[Facts]], facts: Iterable[Facts], settings: IdentificationSettings | None = None, of: str = ""
) -> Verdict:
    """Return the results of all checks of a table, applied to each set of measurements.

    Args:
        rules: checks of the table.
        facts: sets of measurements, to each of which every check is applied.
        settings: settings that hold the limits; may be None if no rule of the table takes its limit from them.
        of: name of what was measured, which is appended to the names of the checks.
    """
    found = [rule.check(one, settings, of) for one in facts for rule in rules]
    return Verdict(tuple(check for check in found if check is not None))


DATA: tuple[Rule[DataQuality], ...] = (
    Rule(
        "missed_cycles", "Data", "cycles missed in the samples", lambda q: q.missed_cycles, "data.missed_cycles_share"
    ),
    Rule("stamp_jitter", "Data", "stamp jitter", lambda q: q.jitter, "data.jitter_of_period"),
    Rule("dropped_samples", "Data", "samples dropped near gaps", lambda q: q.dropped, "data.dropped_samples_share"),
    Rule(
        "joint_motion", "Data", "smallest joint motion", lambda q: q.motion, "data.joint_range_rad", "at least", "rad"
    ),
    Rule(
        "peak_torque",
        "Data",
        "peak torque / limit",
        lambda q: q.peak_torque,
        "data.torque_of_limit",
        "at least",
        meaning="torques in another unit, or a torque limit in robot.yaml that is a URDF's placeholder",
    ),
    Rule(
        "joint_torque",
        "Data",
        "smallest torque range of a moving joint / limit",
        lambda q: q.torque_range,
        "data.torque_range_of_limit",
        "at least",
        meaning="a joint does not move without torque: was its current recorded?",
    ),
    Rule("saturated_current", "Data", "saturated current", lambda q: q.saturated, "data.saturated_share"),
    Rule("velocity_ratio", "Data", "recorded over derived velocity", lambda q: q.velocity, "data.velocity_ratio"),
)
# saturation does not matter for a prediction, because a current at its limit is measured as well as any other
DATA_TO_PREDICT = tuple(rule for rule in DATA if rule.id != "saturated_current")


class Fitted(NamedTuple):
    """Results of an identification, with the data that they are based on.

    Attributes:
        model: the arm.
        settings: settings of the identification.
        samples: the fitted samples.
        estimate: the unconstrained estimate.
        audit: smallest eigenvalue of the result's inertia matrix over randomly drawn poses.
        fit: torque errors of the result on the samples.
        refined: 1.0 if a closed-loop refinement converged, else 0.0, with a text about its end; None without a
            refinement.
        pseudo_inertia: smallest pseudo-inertia eigenvalue of a refined result, and its limit; None without a
            refinement.
        diagnosis: alternative interpretations of the data, such as a wrong sign or scale of a joint; None if the
            diagnosis did not run.
        droop: largest amount by which each joint's viscous friction can be higher if identified from goal (commanded)
            instead of present (measured) currents, (n,) [N m s/rad]; None if it is unknown.
        pull: change of the parameters due to the physical bounds, relative to their standard deviations; None if the
            standard deviations are not known.
        steadiness: changes of the arm during the recordings; None if the search for them did not run.
    """

    model: ArmModel
    settings: IdentificationSettings
    samples: Samples
    estimate: Estimate
    audit: AuditResult
    fit: TorqueErrors
    refined: tuple[float, str] | None = None
    pseudo_inertia: tuple[float, float] | None = None
    diagnosis: Diagnosis | None = None
    droop: FloatArray | None = None
    pull: BoundsPull | None = None
    steadiness: Steadiness | None = None

    @property
    def other_source(self) -> str:
        """Motor current that the fit did not use: "goal" if it used the present (measured) current, else "present"."""
        return str(next(one for one in get_args(TorqueSource) if one != self.settings.torque_source))


class OneRegression(NamedTuple):
    """A regression, and the name of the joint that each of its axes belongs to."""

    regression: Regression
    joints: Sequence[str]


def time_at_speed(one: OneRegression) -> Measured:
    """Return the total time [s] in motion of the axis that moves least, and the name of its joint.

    An axis is in motion if its speed is at least the settings' slow and transition velocities. The friction of a joint
    that hardly leaves standstill cannot be identified. The condition number of the base parameters' regressor does not
    show this: this regressor has no column for Coulomb friction that is estimated in addition to the base parameters.
    The result is None if Coulomb friction is not estimated.
    """
    if one.regression.moving is None or not one.regression.has_coulomb_friction:
        return None
    seconds = one.regression.moving.sum(axis=0) * one.regression.interval_s
    idle = int(np.argmin(seconds))
    return float(seconds[idle]), one.joints[idle]


def friction_separability(one: OneRegression) -> Measured:
    """Return the smallest separability of viscous from Coulomb friction, and the name of the viscous parameter.

    Separability is the share of a viscous column of the regressor that Coulomb friction cannot reproduce, from 0 to 1.
    It is small if a joint moves at one speed only: its viscous torque FV dq and Coulomb torque FC sign(dq) are then
    proportional. The result is None if the model lacks one of the two kinds of friction.
    """
    if one.regression.moving is None or not one.regression.has_coulomb_friction:
        return None
    shares = [
        (share, name) for name, share in one.regression.independence_from_coulomb().items() if name.startswith("FV")
    ]
    return min(shares, default=None)


def friction_settled(one: OneRegression) -> Measured:
    """Return 1 if the iterative fit of the friction law converged, else 0, with a text about its last step.

    The result is None if the fit has no friction law in addition to the base parameters, or if the law was fitted to
    other samples.
    """
    joint_friction = one.regression.joint_friction
    if joint_friction is None or not joint_friction.fit.structure.terms or joint_friction.given:
        return None
    fit = joint_friction.fit
    detail = f"a further step would change torques by {fit.change:.2g} of their residual's standard deviation"
    return (1.0, detail) if fit.settled else (0.0, detail)


def torque_source_difference(found: Fitted) -> Measured:
    """Return the relative torque difference between models of present and of goal currents, with a text about it.

    The difference is || W (phi_other - phi) || / || tau ||, with the regressor W and the torques tau. phi are the base
    parameters identified from the motor current that the settings choose: present (measured) or goal (commanded).
    phi_other are those identified from the other current. The result is None if the other current was not recorded.

    The two sets should agree, because the closed-loop refinement predicts commands even if the regression uses measured
    currents. They differ if a servo's current loop does not follow its goal, or if one of the currents has another
    unit, sign or delay. A servo may have a known droop: its present current falls below the goal in proportion to
    speed. The part of the difference in viscous friction that this droop can explain is subtracted first.
    """
    if found.estimate.regression.other is None:
        return None
    regression = replace(found.estimate.regression, reduced=None)  # of other currents, only rows in memory are known
    again = regression.of_other_current()
    change, detail = again.solve().phi - regression.solve().phi, "relative difference in torque"
    if found.droop is not None:
        sign = 1.0 if found.other_source == "goal" else -1.0
        kinds = [kind_and_number(name) for name in found.model.names]
        columns = [k for k, (kind, _) in enumerate(kinds) if kind == "FV"]
        most = found.droop[[kinds[k][1] - 1 for k in columns]]
        droop = np.clip(sign * change[columns], 0.0, most)
        change[columns] -= sign * droop
        detail += f", beside a droop of up to {droop.max(initial=0.0):.2g} N m s/rad"
    phi = regression.solve().phi
    moved = regression.misfit(phi) - regression.misfit(phi + change)
    return float(np.linalg.norm(moved) / np.linalg.norm(regression.torques)), detail


def of_moving(errors: TorqueErrors) -> tuple[float, str]:
    """Return the relative torque error of joints in motion, and a text with the error that includes joints at rest.

    Checks limit the first value, because no model predicts the torque of a joint that sticks.
    """
    return errors.moving, f"of joints in motion; {errors.relative:.3g} with those at rest"


def worst_joint(
    errors: TorqueErrors, joints: Sequence[str], limits: FloatArray | None, *, with_rest: bool = False
) -> Measured:
    """Return the largest relative torque error of a joint, and the name of this joint.

    The result is None if no joint moves, or if the names of the joints are not known.

    The error is divided by the joint's root mean square torque, but at least by the fraction `NEGLIGIBLE` of its torque
    limit. The lower bound is needed because the torque of an unloaded joint is mostly noise.

    Args:
        errors: torque errors of all joints.
        joints: names of the joints, (n,); () if they are not known.
        limits: torque limits, (n,) [N m]; None if they are not known.
        with_rest: whether the error includes samples at rest.
    """
    torque = errors.torque_rms_per_axis if with_rest else errors.moving_torque_rms
    relative = errors.relative_per_axis if with_rest else errors.moving_per_axis
    if not joints or np.isnan(relative).all():
        return None
    floor = np.zeros_like(torque) if limits is None else NEGLIGIBLE * limits
    share = np.where(torque > 0.0, torque / np.maximum(floor, torque), 1.0)
    judged = np.where(np.isnan(relative), -np.inf, relative * share)
    joint = int(np.argmax(judged))
    return float(judged[joint]), joints[joint]


def worst_dynamics(motion: Motion) -> Measured:
    """Return the largest error of a joint's dynamic torque in excess of noise, with a sentence about this joint.

    The dynamic torque is the torque without gravity and friction; errors are relative to it. The excess over the error
    that noise may cause is reduced further if the noise is large, see `DynamicError.judged`. The result is None if the
    motion has no such errors, because they were not computed or because the motion does not show them.
    """
    if not motion.dynamics:
        return None
    worst = max(motion.dynamics, key=lambda one: one.judged)
    return worst.judged, worst.sentence(motion.joints[worst.joint] if motion.joints else f"joint {worst.joint + 1}")


def error_of_joints(key: str, of: str, facts: Callable[[Facts], Measured], *, with_rest: bool = False) -> Rule[Facts]:
    """Return a check that limits the relative torque error of the worst joint.

    Args:
        key: identifier of the check.
        of: name of the data, for the check's name.
        facts: function that returns the worst joint's error.
        with_rest: whether the error includes samples at rest, for which another limit applies.
    """
    name = "the same with samples at rest" if with_rest else "relative torque error of the worst joint"
    limit = f"acceptance.relative_joint_error{'_with_rest' if with_rest else ''}"
    return Rule(key, "Prediction", f"{name}, {of}", facts, limit, meaning=MEANINGS)


NEGLIGIBLE = 0.005  # least torque that errors are divided by, over the joint's torque limit
MEANINGS = (
    "it may be a wrong sign, columns of two joints exchanged, a wrong torque constant, unit or gear ratio, a joint "
    "that sticks, an effort that is no torque, or one event in time"
)
FRICTION: tuple[Rule[OneRegression], ...] = (
    Rule(
        "time_at_speed", "Data", "shortest time at speed", time_at_speed, "acceptance.time_at_speed_s", "at least", "s"
    ),
    Rule(
        "friction_separability",
        "Estimation",
        "viscous/Coulomb separability",
        friction_separability,
        "acceptance.friction_separation",
        "at least",
    ),
    Rule(
        "friction_settled",
        "Estimation",
        "fit of friction settled",
        friction_settled,
        1.0,
        "at least",
        meaning="friction is of another kind, or the motion hardly shows its shape: move faster, at several speeds",
    ),
)
FITTED: tuple[Rule[Fitted], ...] = (
    Rule(
        "condition_number",
        "Estimation",
        "condition number of the regressor",
        lambda found: found.estimate.condition_number,
        "acceptance.condition_number",
    ),
    Rule(
        "refinement_converged",
        "Estimation",
        "closed-loop refinement converged",
        lambda found: found.refined,
        1.0,
        "at least",
    ),
    Rule(
        "pseudo_inertia",
        "Physics",
        "smallest pseudo-inertia eigenvalue",
        lambda found: found.pseudo_inertia and found.pseudo_inertia[0],
        lambda found: found.pseudo_inertia[1] if found.pseudo_inertia else float("nan"),
        "at least",
    ),
    Rule(
        "inertia_eigenvalue",
        "Physics",
        "smallest eigenvalue of M(q) over {0.audit.poses_checked} poses",
        lambda found: found.audit.lambda_min,
        "acceptance.lambda_min_kg_m2",
        "at least",
        "kg m^2",
    ),
    Rule(
        "bounds_pull",
        "Physics",
        "pull of the physical bounds on all parameters",
        lambda found: None if found.pull is None else (found.pull.value, found.pull.detail),
        lambda found: found.pull.limit if found.pull else float("nan"),
        meaning="masses or boxes of robot.yaml, a set-up, or friction contradict the data",
    ),
    Rule(
        "torque_error_fitted",
        "Prediction",
        "relative torque error, identification",
        lambda found: of_moving(found.fit),
        "acceptance.relative_torque_error",
    ),
    error_of_joints(
        "joint_error_fitted",
        "identification",
        lambda found: worst_joint(found.fit, found.samples.joint_names, found.samples.torque_limits),
    ),
    error_of_joints(
        "joint_error_with_rest_fitted",
        "identification",
        lambda found: worst_joint(found.fit, found.samples.joint_names, found.samples.torque_limits, with_rest=True),
        with_rest=True,
    ),
    Rule(
        "same_arm",
        "Data",
        "change of the arm during the recordings, of the model's torques",
        lambda found: None if found.steadiness is None else found.steadiness.measured,
        "acceptance.change_of_arm",
    ),
    Rule(
        "suspicion",
        "Data",
        "best alternative interpretation / its limit",
        lambda found: None if found.diagnosis is None else found.diagnosis.measured,
        1.0,
    ),
    Rule(
        "torque_source",
        "Estimation",
        "parameters from {0.other_source} instead of {0.settings.torque_source} current",
        torque_source_difference,
        "acceptance.torque_source_difference",
    ),
)


def over_noise(key: str, of: str) -> Rule[Motion]:
    """Return a check that limits the ratio of torque errors to the noise of the data.

    Args:
        key: identifier of the check.
        of: name of the data, for the check's name.
    """
    return Rule(
        key,
        "Prediction",
        f"torque error over the noise of the data, {of}",
        lambda motion: None if np.isnan(motion.over_noise) else motion.over_noise,
        "acceptance.error_over_noise",
        meaning="the model leaves what is no noise: a torque constant, a zero, a mount, or friction of another kind",
    )


PREDICTED: tuple[Rule[Motion], ...] = (over_noise("error_over_noise_fitted", "{0.name}"),)
SETUP: tuple[Rule[Sequence[SetupEstimate]], ...] = (
    Rule(
        "setup",
        "Data",
        "parts of the set-up that must be corrected first",
        lambda found: (
            float(sum(one.needs_correction for one in found)),
            "; ".join(one.sentence for one in found if one.needs_correction),
        ),
        0.0,
    ),
)
TO_THE_END: tuple[Rule[Steadiness], ...] = (
    Rule(
        "same_arm_to_the_end",
        "Data",
        "sudden change of the arm up to the end of the recordings, of the model's torques",
        lambda found: found.sudden.measured,
        "acceptance.change_of_arm",
    ),
)
HELD_OUT: tuple[Rule[Motion], ...] = (
    over_noise("error_over_noise_held_out", "{0.name}"),
    Rule(
        "dynamic_error_held_out",
        "Prediction",
        "error of the dynamic torque of the worst joint, less what noise makes, {0.name}",
        worst_dynamics,
        "acceptance.dynamic_error",
        meaning="a rotor, an inertia or a mass of that joint or beyond it is wrong, or the load is another one",
    ),
    Rule(
        "torque_error_held_out",
        "Prediction",
        "relative torque error, {0.name}",
        lambda motion: of_moving(motion.errors),
        "acceptance.relative_torque_error",
    ),
    error_of_joints(
        "joint_error_held_out",
        "{0.name}",
        lambda motion: worst_joint(motion.errors, motion.joints, motion.torque_limits),
    ),
    error_of_joints(
        "joint_error_with_rest_held_out",
        "{0.name}",
        lambda motion: worst_joint(motion.errors, motion.joints, motion.torque_limits, with_rest=True),
        with_rest=True,
    ),
)

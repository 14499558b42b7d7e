"""Recorded efforts that are not motor torques: without gravity, without a sign, or external torques alone.

Some drivers subtract gravity, report only the absolute value of a load, or report the residual of their own model. Each
case concerns the efforts of all joints, so these cases are tested before faults of single joints.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dynid.identification.diagnosis.interpretations import Data, Interpretation, Trials
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

NET_OF_GRAVITY, UNSIGNED, EXTERNAL = "net of gravity", "unsigned", "external"
KINDS = (NET_OF_GRAVITY, UNSIGNED, EXTERNAL)
NEGATIVE = 0.02  # largest torque of the opposite sign, over the largest torque, for a torque that counts as unsigned
FEWEST = 3  # least number of joints that must support the meaning "unsigned" or "external"
UNEXPLAINED = 0.8  # least median relative error of all joints for efforts that hardly depend on the motion
UNEXPLAINED_OF_SMALL = 0.35  # least median relative error if the efforts are too small to hold the nominal arm
UNEXPLAINED_WITHOUT_FRICTION = 0.1  # least median relative error if such small efforts contain no friction either
MORE_IF_SMALL = 1.5  # factor of the significance of missing gravity if the efforts are too small for the nominal arm
NO_LOSS = 0.2  # largest share of a joint's mechanical work that is lost if its efforts contain no friction
SMALL_EFFORT = 0.9  # largest norm of too small efforts, over the norm of the nominal arm's gravity torques
LARGE_ERROR = 0.3  # least relative error of the worst joint whose torque may lack a sign
# Largest share of the nominal arm's gravity that efforts net of gravity may show: if gravity is omitted from the fit,
# and if the nominal arm's gravity is added to the efforts (an arm may be much heavier than its nominal model)
MOST_GRAVITY, MOST_GRAVITY_BESIDE = 0.5, 0.8

WORDS = {
    NET_OF_GRAVITY: (
        "the efforts look net of gravity, as if the driver had subtracted it: {after:.2g} % instead of {before:.2g} % "
        "of the torque of {joint} remain unexplained without gravity, or with that of the nominal arm added; name the "
        "topic or columns of the motors' whole torque in a mapping, or switch the driver's gravity compensation off"
    ),
    UNSIGNED: (
        "the efforts have no sign: {joints} move to both sides, and none of their efforts ever changes its sign; "
        "record the motors' current or torque with its sign, and name its topic or columns in a mapping"
    ),
    EXTERNAL: (
        "the efforts hardly depend on the motion, or contain no friction: {before:.2g} % of the torque of {joint} "
        "remain unexplained with and without gravity. They look like external torques, the residual of a driver's own "
        "model; name the topic or columns of the motors' whole torque in a mapping"
    ),
}


def words_of(one: Interpretation, joints: tuple[str, ...]) -> str:
    """Return the sentence for the user about an alternative meaning of the efforts of all joints.

    Args:
        one: the interpretation of the efforts.
        joints: names of all joints, (n,).
    """
    named = {"joint": joints[one.axis], "joints": ", ".join(joints[k] for k in one.axes)}
    return WORDS[one.kind].format(before=100 * one.before, after=100 * one.after, **named)


def meanings(trials: Trials, nominal: BaseParameters | None) -> Iterator[Interpretation]:
    """Yield alternative interpretations of the efforts of all joints, in which they are not motor torques.

    Args:
        trials: fits of the samples.
        nominal: base parameters of the nominal arm, which give the gravity torques that the efforts may lack; None if
            there are none. Missing gravity is then tested only by a fit without gravity, which also omits gravity from
            the load that friction depends on.
    """
    given, own = trials.given, trials.as_given
    seen = np.isfinite(own.relative)
    if not seen.any():
        return
    gravity = _NominalGravity.of(trials, nominal)
    # efforts that are too small for the nominal arm need less other evidence
    too_small = gravity is not None and gravity.exceeds_efforts
    net = _net_of_gravity(trials, gravity)
    if net is not None:
        yield replace(net, significance=net.significance * (MORE_IF_SMALL if too_small else 1.0))
    unsigned = _without_sign(given)
    if len(unsigned) >= FEWEST and np.nanmax(own.relative[unsigned]) > LARGE_ERROR:
        yield _certain(UNSIGNED, tuple(unsigned), own.relative)
    least, gain = (UNEXPLAINED_OF_SMALL, 0.0) if too_small else (UNEXPLAINED, 1.0)
    if too_small and _lost(given) < NO_LOSS:
        least, gain = UNEXPLAINED_WITHOUT_FRICTION, 1.0
    unexplained = np.median(own.relative[seen]) > least and (net is None or net.gain < gain)
    if unexplained and not unsigned and seen.sum() >= FEWEST:
        yield _certain(EXTERNAL, (), own.relative)


@dataclass(frozen=True, eq=False)
class _NominalGravity:
    """Gravity torques of the nominal arm, compared with the recorded efforts.

    Attributes:
        torques: gravity torques of the nominal arm at the samples, (N, n) [N m].
        share: least-squares factor from the nominal arm's gravity torques to those of the fitted model [-].
        effort: norm of the efforts divided by the norm of `torques` [-].
    """

    torques: FloatArray
    share: float
    effort: float

    @property
    def exceeds_efforts(self) -> bool:
        """Whether the nominal arm's gravity torques are too large for the efforts.

        Two conditions must hold: the efforts are smaller than these torques, and a fit to the efforts has less than
        half of the nominal arm's gravity.
        """
        return abs(self.share) < MOST_GRAVITY and self.effort < SMALL_EFFORT

    @classmethod
    def of(cls, trials: Trials, nominal: BaseParameters | None) -> "_NominalGravity | None":
        """Compare the efforts with the nominal arm's gravity torques; return None without a nominal arm or gravity."""
        given = trials.given
        if nominal is None or np.linalg.norm(given.gravity) == 0.0:
            return None
        torques = trials.model.gravity_torque(given.q, nominal, given.gravity)
        shown = trials.model.gravity_torque(given.q, replace(nominal, values=trials.as_given.phi), given.gravity)
        squared = max(float(np.sum(torques**2)), float(np.finfo(float).tiny))
        effort = float(np.sqrt(np.sum(given.tau**2) / squared))
        return cls(np.asarray(torques), float(np.sum(shown * torques) / squared), effort)


def _net_of_gravity(trials: Trials, nominal: _NominalGravity | None) -> Interpretation | None:
    """Return the interpretation that a driver has subtracted gravity from the efforts; None if this is ruled out.

    It is ruled out if the mount has no gravity, or if a fit to the efforts has most of the nominal arm's gravity. In
    the second case, a fit without gravity might still be better, because load-dependent friction changes with the
    assumed load.

    Args:
        trials: fits of the samples.
        nominal: gravity of the nominal arm; None if it is not known.
    """
    given = trials.given
    if np.linalg.norm(given.gravity) == 0.0:
        return None
    found = []
    if nominal is None or nominal.share <= MOST_GRAVITY:
        found.append(trials.compare(NET_OF_GRAVITY, (), replace(given, gravity=np.zeros(3))))
    if nominal is not None and nominal.share <= MOST_GRAVITY_BESIDE:
        whole = replace(given, tau=given.tau + nominal.torques, recorded=given.tau)
        found.append(trials.compare(NET_OF_GRAVITY, (), whole))
    return max(found, key=lambda one: one.gain, default=None)


def _certain(kind: str, axes: tuple[int, ...], relative: FloatArray) -> Interpretation:
    """Return an interpretation that is certain from the recorded data, so that it is not fitted.

    Its gain (reduction of the torque errors) and its significance are infinite.

    Args:
        kind: kind of the interpretation.
        axes: indices of the axes that it concerns, from 0; () for all axes.
        relative: rms torque error of each axis, as a fraction of its rms torque, if the data are fitted as recorded,
            (n,) [-].
    """
    worst = int(np.nanargmax(relative))
    return Interpretation(kind, axes, 0.0, np.inf, np.inf, worst, float(relative[worst]), 0.0)


def _lost(data: Data) -> float:
    """Return the share of the joints' mechanical work that is lost, as the median of all moving joints [-].

    The work of a motor on a joint that returns to its start is lost to friction. The share is the integral of torque
    times velocity, divided by the integral of its absolute value. It is nearly 0 if a driver has subtracted friction
    from the efforts, and negative if it has subtracted too much, or if the sign of torques or velocities is wrong.

    Args:
        data: states and torques as recorded.
    """
    power = data.tau * data.dq * data.slides
    size = np.abs(power).sum(axis=0)
    return float(np.median(power.sum(axis=0)[size > 0.0] / size[size > 0.0])) if size.any() else np.nan


def _without_sign(data: Data) -> list[int]:
    """Return the indices of the joints that move in both directions, but whose torque has only one sign.

    The result is [] if any joint that moves in both directions has a torque of both signs.

    Args:
        data: states and torques as recorded.
    """
    found = []
    for k, own in enumerate(data.tau.T):
        here, speed = own[data.slides[:, k]], data.dq[data.slides[:, k], k]
        if not len(here) or (speed > 0.0).all() or (speed < 0.0).all():
            continue
        if min(-here.min(), here.max()) > NEGATIVE * np.abs(here).max():
            return []
        found.append(k)
    return found

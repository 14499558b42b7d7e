"""Efforts that are no motor torques: net of gravity, without a sign, or external torques alone.

Some drivers subtract gravity, report the size of a load alone, or report the residual of their own model. Each of these
is another meaning of all efforts, so it explains a bad fit before any fault of a single joint does.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dynid.identification.diagnosis.readings import Reading, Trials
from dynid.robot import FloatArray

NET_OF_GRAVITY, UNSIGNED, EXTERNAL = "net of gravity", "unsigned", "external"
KINDS = (NET_OF_GRAVITY, UNSIGNED, EXTERNAL)
NEGATIVE = 0.02  # largest torque of the other sign, over the largest torque, of a joint whose torque has no sign
CROSSES = 0.25  # largest 5 % quantile of a torque's size over its root mean square, if it goes down to zero
FEWEST = 2  # least number of joints whose torque goes down to zero without another sign
UNEXPLAINED = 0.8  # least relative error of joints whose torque hardly depends on the motion
MUCH = 0.3  # least relative error of joints whose torque may lack a sign

WORDS = {
    NET_OF_GRAVITY: (
        "the efforts look net of gravity, as if the driver had subtracted it: without gravity {after:.2g} % instead of "
        "{before:.2g} % of the torque of {joint} remain unexplained; name the topic or columns of the motors' whole "
        "torque in a mapping, or switch the driver's gravity compensation off"
    ),
    UNSIGNED: (
        "the efforts have no sign: no joint's effort ever changes it, and those of {joints} go down to zero; record "
        "the motors' current or torque with its sign, and name its topic or columns in a mapping"
    ),
    EXTERNAL: (
        "the efforts hardly depend on the motion: {before:.2g} % of the torque of {joint} remain unexplained with and "
        "without gravity. They look like external torques, the residual of a driver's own model; name the topic or "
        "columns of the motors' whole torque in a mapping"
    ),
}


def words_of(one: Reading, joints: tuple[str, ...]) -> str:
    """Return the sentence about a reading of all efforts, given the names of all joints."""
    named = {"joint": joints[one.axis], "joints": " and ".join(joints[k] for k in one.axes)}
    return WORDS[one.kind].format(before=100 * one.before, after=100 * one.after, **named)


def meanings(trials: Trials) -> Iterator[Reading]:
    """Yield what the efforts of all joints may be instead of motor torques."""
    given, own = trials.given, trials.as_given
    seen = np.isfinite(own.relative)
    if not seen.any():
        return
    net = None
    if np.linalg.norm(given.gravity) > 0.0:
        net = trials.compare(NET_OF_GRAVITY, (), replace(given, gravity=np.zeros(3)))
        yield net
    folded = _folded(given.tau, given.slides)
    if len(folded) >= FEWEST and np.nanmax(own.relative[folded]) > MUCH:
        yield _certain(UNSIGNED, tuple(folded), own.relative)
    least = float(np.median(own.relative[seen]))
    if least > UNEXPLAINED and not folded and (net is None or net.gain < 1.0) and seen.sum() >= FEWEST:
        yield _certain(EXTERNAL, (), own.relative)


def _certain(kind: str, axes: tuple[int, ...], relative: FloatArray) -> Reading:
    """Return a meaning that needs no fit of its own, from the relative errors (n,) of the data as given."""
    worst = int(np.nanargmax(relative))
    return Reading(kind, axes, 0.0, np.inf, np.inf, worst, float(relative[worst]), 0.0)


def _folded(tau: FloatArray, slides: NDArray[np.bool_]) -> list[int]:
    """Return joints whose torque (N, n) [N m] goes down to zero without a change of sign; [] if any joint changes it.

    Args:
        tau: torques of all joints.
        slides: mask (N, n) of the sliding states.
    """
    found = []
    for k, own in enumerate(tau.T):
        here = own[slides[:, k]]
        if not len(here) or not (size := float(np.abs(here).max())):
            continue
        if min(float(-here.min()), float(here.max())) > NEGATIVE * size:
            return []
        if np.quantile(np.abs(here), 0.05) < CROSSES * np.sqrt(np.mean(here**2)):
            found.append(k)
    return found

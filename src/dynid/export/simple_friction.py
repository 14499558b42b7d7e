"""Approximation of a friction law for simulators with two values per joint, damping and constant friction.

Friction of real gears also falls with speed and grows with load. The two values are a least-squares fit to it. The fit
covers the loads of gravity and springs within the joints' limits, and speeds up to half of the speed limits, with the
motor carrying the load in both directions.
"""

from dataclasses import replace

import numpy as np

from dynid.errors import DataError
from dynid.model.friction import TERMS, FrictionLaw
from dynid.model.mdh import MdhChain
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.model.regressor import standard_regressor
from dynid.model.standard import springs_among
from dynid.robot import FloatArray, Robot

STANDARD_KINDS = ("FV", "FC", "OF", "FS")  # friction terms that standard parameters may contain
POSES, SEED = 100, 20261122
SPEEDS = np.linspace(0.05, 1.0, 12)  # speeds of the fit, relative to half the joint's speed limit


def whole_friction(
    robot: Robot, parameters: StandardParameters | BaseParameters, separate: FrictionLaw | None
) -> FrictionLaw:
    """Return the friction law of all axes: friction terms of the parameters plus the additional law `separate`.

    Raises:
        DataError: both have Stribeck curves, which differ in shape.
    """
    axes, shape = robot.size, robot.file.structure.stribeck
    law = separate or FrictionLaw.of(axes, {})
    own = dict(zip(parameters.names, parameters.values, strict=True))
    added = {
        term.symbol: law[term.symbol] + [own.get(f"{term.prefix}{axis + 1}", 0.0) for axis in range(axes)]
        for term in TERMS
        if term.prefix in STANDARD_KINDS
    }
    if shape is None or not any(own.get(f"FS{axis + 1}") for axis in range(axes)):
        return law.with_values(added)
    curve = {"ws": np.full(axes, shape.velocity_rad_s), "a": np.full(axes, shape.exponent)}
    if law["ws"].any() and not all((law[symbol] == curve[symbol]).all() for symbol in curve):
        raise DataError(
            "two Stribeck curves are given, structure.stribeck in robot.yaml and an identified one; remove stribeck "
            "from the structure"
        )
    return law.with_values(added | curve)


def loads(robot: Robot, mdh: MdhChain, standard: StandardParameters, mount: str) -> FloatArray:
    """Return the torques of gravity and springs at random poses within the joints' limits, (POSES, n) [N m]."""
    rng, chain = np.random.default_rng(SEED), mdh.size
    poses = rng.uniform(robot.lower, robot.upper, (POSES, robot.size))
    still, found = np.zeros((POSES, chain)), np.zeros_like(poses)
    columns = standard_regressor(mdh, poses[:, :chain], still, still, robot.gravity(mount))
    found[:, :chain] = -columns @ standard.values[: 10 * chain]
    for spring in springs_among(robot, standard):
        found[:, spring.joint] -= spring.torque(poses[:, spring.joint])
    return found


def two_figures(law: FrictionLaw, load: FloatArray, fastest: FloatArray) -> FrictionLaw:
    """Return the viscous and Coulomb friction that approximates a law best.

    Args:
        law: law of n axes; one with only viscous and Coulomb friction stays unchanged.
        load: torques that act on the joints, (N, n) [N m].
        fastest: upper end of the speed range of every axis, (n,) [rad/s].
    """
    if set(law.terms) <= {"fv", "fb"}:
        return law.with_values({})
    sharp = replace(law.with_values({"of": 0.0}), transition_rad_s=0.0)
    resisting = np.empty((len(SPEEDS), law.axes))
    for k, share in enumerate(SPEEDS):
        rate = np.broadcast_to(share * fastest, load.shape)
        given = [sharp.motor_torque(sign * rate, -load, load) + load for sign in (1.0, -1.0)]
        resisting[k] = 0.5 * (given[0] - given[1]).mean(axis=0)
    figures = np.array([_line(SPEEDS * fastest[i], resisting[:, i]) for i in range(law.axes)])
    return FrictionLaw.of(law.axes, {"fv": figures[:, 0], "fb": figures[:, 1]})


def _line(speed: FloatArray, torque: FloatArray) -> tuple[float, float]:
    """Return non-negative slope and intercept of the line fitted to torques (K,) [N m] over speeds (K,) [rad/s]."""
    slope, height = np.polyfit(speed, torque, 1)
    if slope < 0.0:
        return 0.0, max(float(torque.mean()), 0.0)
    if height < 0.0:
        return max(float(speed @ torque / (speed @ speed)), 0.0), 0.0
    return float(slope), float(height)


def simplified(
    robot: Robot, mdh: MdhChain, standard: StandardParameters, law: FrictionLaw, mount: str
) -> StandardParameters:
    """Return standard parameters with FV and FC set to the two-value approximation of a friction law."""
    simple = two_figures(law, loads(robot, mdh, standard, mount), 0.5 * robot.velocity_limits)
    values = np.array(standard.values)
    for prefix, symbol in (("FV", "fv"), ("FC", "fb")):
        places = [standard.names.index(f"{prefix}{axis + 1}") for axis in range(robot.size)]
        values[places] = simple[symbol]
    return replace(standard, values=values)


def beyond_two_figures(law: FrictionLaw) -> str:
    """Return a sentence on the terms of a law that damping and friction do not hold; '' if they hold all of it."""
    more = [term.prefix for term in TERMS if term.symbol in law.terms and term.symbol not in ("fv", "fb")]
    if not more:
        return ""
    return (
        f"The joints' friction also has {', '.join(more)}, which this file cannot hold: its two values approximate the "
        "friction best at gravity loads. model.yaml and the folder bam hold all of it."
    )

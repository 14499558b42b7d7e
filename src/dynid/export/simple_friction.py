"""Approximation of a friction law for simulators with two values per joint, damping and constant friction.

Friction of real gears also falls with speed and grows with load. The two values are a least-squares fit to this
friction. The fit covers the loads of gravity and springs within the joints' limits, and motions in both directions with
speeds up to half of the speed limits.
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
    """Return the friction law of all axes: the friction terms among parameters plus an additional law.

    Args:
        robot: the robot. If the parameters contain Stribeck friction, robot.yaml gives the shape of its curve.
        parameters: base or standard parameters.
        separate: friction law in addition to the parameters; None if there is none.

    Raises:
        DataError: parameters and additional law have Stribeck curves of different shapes.
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


def refuse_coupled_motors(parameters: BaseParameters, purpose: str) -> None:
    """Raise DataError if parameters contain friction of motors that move several joints, which no law of joints has.

    Args:
        parameters: base parameters.
        purpose: for what a law of all friction is needed, as the start of the error message.
    """
    pairs = zip(parameters.names, parameters.values, strict=True)
    if coupled := [name for name, value in pairs if name.startswith(("FVM", "FCM")) and value]:
        raise DataError(
            f"{purpose} needs the friction of every joint, but the model has friction of coupled motors "
            f"({', '.join(coupled)}), which is not supported"
        )


def loads(robot: Robot, mdh: MdhChain, standard: StandardParameters, mount: str) -> FloatArray:
    """Return the torques that gravity and springs exert on the joints at random postures, (POSES, n) [N m].

    The postures are within the position limits.

    Args:
        robot: the robot.
        mdh: geometry of the chain.
        standard: standard parameters of links and springs.
        mount: mount that determines gravity.
    """
    rng, chain = np.random.default_rng(SEED), mdh.size
    poses = rng.uniform(robot.lower, robot.upper, (POSES, robot.size))
    still, found = np.zeros((POSES, chain)), np.zeros_like(poses)
    columns = standard_regressor(mdh, poses[:, :chain], still, still, robot.gravity(mount))
    found[:, :chain] = -columns @ standard.values[: 10 * chain]
    for spring in springs_among(robot, standard):
        found[:, spring.joint] -= spring.torque(poses[:, spring.joint])
    return found


def two_figures(law: FrictionLaw, load: FloatArray, fastest: FloatArray) -> FrictionLaw:
    """Return a law of viscous and Coulomb friction only, fitted to a friction law by least squares.

    The fit covers the given loads, and speeds up to the given limits in both directions.

    Args:
        law: friction law of n axes; one with only viscous and Coulomb friction stays unchanged.
        load: torques of gravity and springs on the joints at N poses, (N, n) [N m].
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
    """Return slope [N m s/rad] and intercept [N m], both at least 0, of a line fitted to torque as a function of speed.

    Args:
        speed: speeds, (K,) [rad/s].
        torque: torques, (K,) [N m].
    """
    slope, height = np.polyfit(speed, torque, 1)
    if slope < 0.0:
        return 0.0, max(float(torque.mean()), 0.0)
    if height < 0.0:
        return max(float(speed @ torque / (speed @ speed)), 0.0), 0.0
    return float(slope), float(height)


def simplified(
    robot: Robot, mdh: MdhChain, standard: StandardParameters, law: FrictionLaw, mount: str
) -> StandardParameters:
    """Return standard parameters whose viscous and Coulomb friction FV and FC approximate a friction law.

    The law covers all friction of the arm. Of `standard`, only FV and FC change.

    Args:
        robot: the robot.
        mdh: geometry of the chain.
        standard: standard parameters.
        law: friction law of all axes, including friction terms of the standard parameters.
        mount: mount that determines gravity, and thereby the loads for which the approximation holds.
    """
    simple = two_figures(law, loads(robot, mdh, standard, mount), 0.5 * robot.velocity_limits)
    values = np.array(standard.values)
    for prefix, symbol in (("FV", "fv"), ("FC", "fb")):
        places = [standard.names.index(f"{prefix}{axis + 1}") for axis in range(robot.size)]
        values[places] = simple[symbol]
    return replace(standard, values=values)


def beyond_two_figures(law: FrictionLaw) -> str:
    """Return a sentence that lists the terms of a friction law other than viscous and Coulomb friction; '' if none."""
    more = [term.prefix for term in TERMS if term.symbol in law.terms and term.symbol not in ("fv", "fb")]
    if not more:
        return ""
    return (
        f"The joints' friction also has {', '.join(more)}, which this file cannot hold: its two values approximate the "
        "friction best at gravity loads. model.yaml and the folder bam hold all of it."
    )

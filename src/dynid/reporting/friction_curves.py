"""Curves of each joint's friction torque over speed, without load and under the largest gravity torque."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.export.simple_friction import whole_friction
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.reporting.result_folder import Result
from dynid.robot import FloatArray

WIDTH, HEIGHT, EDGE = 260.0, 150.0, 14.0
POINTS, POSES, SEED = 121, 200, 20261122


@dataclass(frozen=True, eq=False)
class FrictionCurves:
    """Friction torques of all joints over speed.

    Attributes:
        speed: speeds, (K, n) [rad/s].
        load: largest gravity torques at the joints, (n,) [N m].
        free: friction torques without load, (K, n) [N m].
        loaded: friction torques while the motor carries `load`, (K, n) [N m].
    """

    speed: FloatArray
    load: FloatArray
    free: FloatArray
    loaded: FloatArray


def friction_curves(result: Result) -> FrictionCurves | None:
    """Compute each joint's friction torque without and with load, at speeds up to half of the speed limit.

    The load is the joint's largest gravity torque in random poses. The result is None if no friction law was estimated
    in addition to the base parameters.
    """
    content, robot = result.content, result.robot
    separate = content.friction()
    if separate is None:
        return None
    model = ArmModel.of(robot, mount=content.mount, lengths_m=content.geometry_overrides_m)
    phi = content.base_parameters(model)
    law = whole_friction(robot, phi, FrictionLaw(separate.values))
    poses = np.random.default_rng(SEED).uniform(robot.lower, robot.upper, (POSES, robot.size))
    still = np.zeros_like(poses)
    gravity = model.inverse_dynamics(poses, still, still, of_kinds(phi, KINDS, others=True))
    load = np.abs(gravity).max(axis=0)
    speed = np.linspace(-0.5, 0.5, POINTS)[:, None] * robot.velocity_limits
    held = np.broadcast_to(load, speed.shape)
    return FrictionCurves(speed, load, law.motor_torque(speed, 0.0 * held), law.motor_torque(speed, held, -held) - held)


def drawings(result: Result, labels: Sequence[str]) -> list[dict[str, str]]:
    """Return for each joint its label, the axis ranges and the load as text, and SVG points of the friction curves.

    Each joint has two curves: without load, and under the largest gravity torque. The list is empty if no friction law
    was estimated in addition to the base parameters. `labels` are the labels of the joints.
    """
    curves = friction_curves(result)
    if curves is None:
        return []
    made = []
    for j, label in enumerate(labels):
        rate, unit = ("m/s", "N") if result.robot.prismatic[j] else ("rad/s", "N m")
        speed, free, loaded = curves.speed[:, j], curves.free[:, j], curves.loaded[:, j]
        largest = max(float(np.abs([free, loaded]).max()), 1e-9)
        words = f"to ±{speed[-1]:.2g} {rate}, ±{largest:.2g} {unit}; load {curves.load[j]:.2g} {unit}"
        points = {"free": _points(speed, free, largest), "loaded": _points(speed, loaded, largest)}
        made.append({"label": label, "words": words} | points)
    return made


def _points(speed: FloatArray, torque: FloatArray, largest: float) -> str:
    x = 0.5 * WIDTH + (0.5 * WIDTH - EDGE) * speed / speed[-1]
    y = 0.5 * HEIGHT - (0.5 * HEIGHT - EDGE) * torque / largest
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))

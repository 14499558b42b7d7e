"""A PUMA-type arm of three joints with springs: a linear one at the elbow, and one of three powers at the shoulder."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import yaml

from dynid.robot import FloatArray, Robot, load_robot

SHOULDER, ELBOW = 1, 2
# by joint: where positions count from [deg], and coefficients by power [N m/rad^power]
SPRINGS: dict[int, tuple[float, dict[int, float]]] = {
    SHOULDER: (-60.0, {0: 4.0, 1: 35.0, 3: -6.0}),
    ELBOW: (40.0, {1: 20.0}),
}
NO_FRICTION = {"coulomb_friction_nm": [0.0] * 3, "torque_noise_nm": [0.0] * 3, "encoder_counts_per_turn": None}


def plain_arm() -> Robot:
    """The arm without springs."""
    return spring_arm(())


@cache
def spring_arm(springs: tuple[int, ...] = (SHOULDER, ELBOW)) -> Robot:
    """The arm with the springs of some joints, in a robot folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="dynid-springs-"))
    source = load_robot("puma_3dof").folder
    content = yaml.safe_load((source / "robot.yaml").read_text(encoding="utf-8"))
    content["name"], content["urdf"] = "spring_arm", str((source / content["urdf"]).resolve())
    content["springs"] = [
        {"joint": f"joint_{axis + 1}", "about_deg": SPRINGS[axis][0], "powers": list(SPRINGS[axis][1])}
        for axis in springs
    ]
    content["structure"]["coulomb_friction"] = False  # it is estimated beside the base parameters
    content["simulation"] = {"nuisances": NO_FRICTION}
    content["rest_posture_deg"] = [0, -45, 30]
    (folder / "robot.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    settings = yaml.safe_load((source / "identification.yaml").read_text(encoding="utf-8"))
    settings["acceptance"]["condition_number"] = 1e6  # three powers beside gravity are nearly alike
    (folder / "identification.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    nominal = yaml.safe_load((source / "models" / "nominal.yaml").read_text(encoding="utf-8"))
    nominal["robot"] = "spring_arm"
    for axis in springs:
        nominal["axes"][axis]["spring_coefficients"] = SPRINGS[axis][1]
    (folder / "models").mkdir()
    (folder / "models" / "nominal.yaml").write_text(yaml.safe_dump(nominal), encoding="utf-8")
    return load_robot(folder)


def potential(q: FloatArray, axis: int) -> FloatArray:
    """Energy (N,) [J] of the spring of one joint at positions q (N, 3) [rad]."""
    about, coefficients = SPRINGS[axis]
    away = np.asarray(q)[..., axis] - np.deg2rad(about)
    return np.asarray(sum(k * away ** (power + 1) / (power + 1) for power, k in coefficients.items()))


def spring_torques(q: FloatArray, step: float = 1e-4) -> FloatArray:
    """Motor torques (N, 3) [N m] against all springs at q (N, 3) [rad], by central differences of the potential.

    The error of a quartic potential is of the order step^2.
    """
    torques = np.zeros_like(q)
    for axis in SPRINGS:
        moved = step * np.eye(3)[axis]
        torques[:, axis] = (potential(q + moved, axis) - potential(q - moved, axis)) / (2.0 * step)
    return torques

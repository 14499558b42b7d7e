"""The same small arm, described three ways: driven directly, through gears, and by motors that move two joints."""

import shutil
from pathlib import Path
from typing import Any

import yaml

from dynid.resources import share_folder
from dynid.robot import Robot, load_robot

CONSTANTS = (8.0, 5.0, 2.5)  # at the joints [N m/A]
RATIOS = {"direct": (1.0, 1.0, 1.0), "geared": (-2.0, 1.5, -0.75), "coupled": (1.5, -1.25, -1.5)}
COUPLING = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.5, 1.0))  # motor 3 turns with joints 2 and 3


def variant(kind: str, folder: Path, **changes: Any) -> Robot:
    """Return the planar arm with three joints as `RATIOS` names it; the mechanics behind the servos are the same."""
    source = share_folder() / "config" / "planar_3r"
    own = folder / kind
    shutil.copytree(source, own)
    content = yaml.safe_load((own / "robot.yaml").read_text(encoding="utf-8"))
    content["urdf"] = str((source / content["urdf"]).resolve())
    content["servos"] = {"XM": {"model_number": 1020, "torque_constant_nm_per_a": 2.0, "factory_current_limit_a": 3.2}}
    for k, joint in enumerate(content["joints"]):
        joint |= {"lower_deg": -60, "upper_deg": 60, "servo_id": k + 1, "servo_model": "XM", "current_limit_a": 2.5}
        joint |= {"gear_ratio": RATIOS[kind][k], "torque_constant_nm_per_a": CONSTANTS[k] / abs(RATIOS[kind][k])}
    if kind == "coupled":
        content["coupling"] = [list(row) for row in COUPLING]
    content["structure"]["rotor_inertia"] = False  # of a coupled motor it lies elsewhere than of one that is not
    content["rest_posture_deg"] = [-50, 20, 10]
    content["bus"] = {"cycle_s": 0.002}
    content["simulation"] = {
        "friction": "viscous",
        "nuisances": {"coulomb_friction_nm": [0.0, 0.0, 0.0], "torque_noise_nm": [0.02, 0.02, 0.01]},
    }
    (own / "robot.yaml").write_text(yaml.safe_dump(content | changes), encoding="utf-8")
    path = own / "models" / "nominal.yaml"
    standard = yaml.safe_load(path.read_text(encoding="utf-8"))
    for axis in standard["axes"]:
        axis["rotor_inertia_kg_m2"] = 0.0
    path.write_text(yaml.safe_dump(standard), encoding="utf-8")
    return load_robot(own)

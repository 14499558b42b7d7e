"""Peer figaroh: its identification workflow with the physically consistent fit that its TIAGo example selects."""

from typing import Any

import numpy as np
import yaml

from benchmarks.peers.exchange import Array, Found, Given

INERTIAL = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
CUTOFF_HZ, DECIMATION = 5.0, 10


def configuration(given: Given) -> dict[str, Any]:
    """Return a configuration in figaroh's unified format."""
    zeros = [0.0] * len(given.joints)
    mechanics = {
        "reduction_ratios": [1.0] * len(zeros),
        "friction_coefficients": {"viscous": zeros, "static": zeros},
        "actuator_inertias": zeros,
        "joint_offsets": zeros,
    }
    properties = {
        "joints": {"active_joints": list(given.joints)},
        "mechanics": mechanics,
        "coupling": {"has_coupled_wrist": False},
    }
    rate = 1.0 / given.step_s
    task = {
        "enabled": True,
        "problem": {
            "model_components": {"friction": True, "actuator_inertia": True, "joint_offset": True},
            "wls": True,
        },
        "signal_processing": {"sampling_frequency": rate, "cutoff_frequency": CUTOFF_HZ, "filter_order": 4},
        "physical_fit": {"enabled": True},
        "select_stage": "physical_fit",
    }
    robot = {"name": "arm", "properties": properties}
    return {"schema_version": "2.0", "robot": robot, "tasks": {"identification": task}}


def identify(given: Given) -> Found:
    """Return figaroh's selected estimate; the note states which estimates it rejects."""
    from figaroh.identification.base_identification import BaseIdentification
    from figaroh.tools.robot import Robot

    class Arm(BaseIdentification):  # type: ignore[misc]
        """Recording in the form that figaroh expects."""

        def load_trajectory_data(self, data_source: str | None = None) -> dict[str, Any]:
            """Return positions and torques; figaroh differentiates."""
            given_here = {"timestamps": given.time, "positions": given.q, "torques": given.tau}
            return given_here | {"velocities": None, "accelerations": None}

        def process_torque_data(self, **_: Any) -> Array:
            """Return torques after the same filter as the positions."""
            found = self._apply_filters(self.raw_data["torques"], **self.filter_config["filter_params"])
            self.processed_data["torques"] = found
            return np.asarray(found)

    file = given.folder / "figaroh.yaml"
    file.write_text(yaml.safe_dump(configuration(given)), encoding="utf-8")
    robot = Robot(str(given.urdf), package_dirs=str(given.folder))
    robot.model.gravity.linear = given.gravity
    fit = Arm(robot, str(file))
    places = list(range(len(given.joints)))  # all joints of the file are active; figaroh's examples set these, too
    fit.identif_config |= {"act_idxq": places, "act_idxv": places}
    fit.initialize()
    fit.solve(decimate=True, decimation_factor=DECIMATION, plotting=False, wls=True)
    chosen = fit.selected
    if chosen is None or chosen.values is None:
        raise ValueError(f"figaroh selected no standard parameters: {getattr(chosen, 'reason', 'no stage ran')}")
    values = dict(zip(chosen.names, map(float, chosen.values), strict=True))
    links = np.array([[values.get(f"{key}_{joint}", 0.0) for key in INERTIAL] for joint in given.joints])
    drives = [
        np.array([values.get(f"{key}_{joint}", 0.0) for joint in given.joints]) for key in ("Ia", "fv", "fs", "off")
    ]
    note = "" if chosen.status == "accepted" else f"figaroh {chosen.status} it: {chosen.reason}"
    return Found(links, drives[0], drives[1], drives[2], drives[3], note)

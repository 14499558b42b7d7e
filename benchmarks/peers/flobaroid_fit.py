"""Peer FloBaRoID: its program identifier.py in a checkout and with a Python that the user names."""

import re
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.peers.exchange import Array, Found, Given
from benchmarks.peers.excitation.flobaroid_settings import IDENTIFICATION, OUTPUT
from benchmarks.peers.flobaroid_program import command, environment, found_program, last_line
from benchmarks.peers.rows import filtered

ROWS_HZ, EDGE_S = 100.0, 0.5
FIT: dict[str, Any] = {
    "exciteMethod": None,
    "useDeg": 0,
    "frictionRegularization": 0,  # this and frictionFvRegularizationRelative would pull friction to the URDF's: zero
    "postIdentifyFriction": 1,
    "frictionVelocityDeadZone": 0.05,
    "frictionFvRegularizationRelative": 0.0,
    "identifyClosestToCAD": 1,
    "cadRegularizationMode": "observability",
    "sdpSolver": "clarabel",
    "limitCOMToApriori": 0,
    "limitOverallMass": 0,
    "limitMassVal": None,
    "limitMassRange": 0.3,
    "limitMassToApriori": 1,
    "limitMassAprioriBoundary": 0.5,
    "noChangeThresh": 400,
    "useSymmetryConstraints": 0,
    "symmetryTolerance": 0.05,
    "useTrajectoryWeighting": 0,
    "outputBarycentric": 0,
    "showStandardParams": 1,
    "showTriangleConsistency": 0,
}


def identify(given: Given) -> Found:
    """Return the parameters of the URDF that FloBaRoID writes, with the offsets that it prints.

    Raises:
        ModuleNotFoundError: no checkout is named, or it does not exist.
        RuntimeError: it wrote no URDF; quotes its last line.
    """
    program, folder = found_program(given.programs, "identifier.py"), given.folder / "flobaroid"
    folder.mkdir()
    urdf, config, recording = folder / "arm.urdf", folder / "config.yaml", folder / "measurements.npz"
    result = folder / "identified.urdf"
    urdf.write_text(completed(given.urdf), encoding="utf-8")
    np.savez(recording, **measurements(given))  # type: ignore[arg-type]
    config.write_text(yaml.safe_dump(settings(given)), encoding="utf-8")
    files = {"config": config, "model": urdf, "measurements": recording, "output": result}
    ended = subprocess.run(
        command(given.programs, program, files),
        cwd=program.parent,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    (folder / "output.txt").write_text(ended.stdout, encoding="utf-8")
    if not result.exists():
        raise RuntimeError(f"ended with {ended.returncode}: {last_line(ended.stdout)}")
    return found_in(result, given, offsets(ended.stdout, len(given.joints)))


def settings(given: Given) -> dict[str, Any]:
    """Return the configuration of identifier.py; links that no joint of the chain moves directly keep their values."""
    root = ElementTree.parse(given.urdf).getroot()
    moved = children(one for one in root.findall("joint") if one.get("type") != "fixed")
    still = [str(one.get("name")) for one in root.findall("link") if one.get("name") not in moved]
    return IDENTIFICATION | OUTPUT | FIT | {"dontChangeLinks": still}


def completed(urdf: Path) -> str:
    """Return the text of a URDF with what identifier.py needs to write a result.

    It writes friction only over friction, so moving joints get some of zero. It takes a base link without mass for an
    impossible body, so the base link gets one, which has no effect on torques.
    """
    root = ElementTree.parse(urdf).getroot()
    for joint in root.findall("joint"):
        if joint.get("type") != "fixed":
            for old in joint.findall("dynamics"):
                joint.remove(old)
            ElementTree.SubElement(joint, "dynamics", damping="0", friction="0")
    moved = children(root.findall("joint"))
    for link in root.findall("link"):
        if link.get("name") not in moved and link.find("inertial") is None:
            inertial = ElementTree.SubElement(link, "inertial")
            ElementTree.SubElement(inertial, "origin", xyz="0 0 0", rpy="0 0 0")
            ElementTree.SubElement(inertial, "mass", value="1")
            moments = {"ixx": "0.01", "ixy": "0", "ixz": "0", "iyy": "0.01", "iyz": "0", "izz": "0.01"}
            ElementTree.SubElement(inertial, "inertia", moments)
    return ElementTree.tostring(root, encoding="unicode")


def children(joints: Iterable[ElementTree.Element]) -> set[str | None]:
    """Return the names of the links that joints move."""
    return {child.get("link") for one in joints for child in one.findall("child")}


def measurements(given: Given) -> dict[str, Array]:
    """Return the recording in its form: filtered like the rows of the pinocchio scripts, at a higher rate."""
    q, tau = filtered(given, given.q), filtered(given, given.tau)
    dq = np.gradient(q, given.step_s, axis=0)
    ddq = np.gradient(dq, given.step_s, axis=0)
    hop, edge = round(1.0 / (ROWS_HZ * given.step_s)), round(EDGE_S / given.step_s)
    columns = {"positions": q, "velocities": dq, "accelerations": ddq, "torques": tau, "times": given.time}
    kept = {key: np.asarray(values[edge:-edge:hop]) for key, values in columns.items()}
    return kept | {"frequency": np.array(ROWS_HZ)}


def offsets(output: str, n: int) -> Array:
    """Return the offsets (n,) [N m] of a printed table; those that it does not have are zero."""
    found = np.zeros(n)
    for value, joint in re.findall(r"^\|[^|]*\|\s*([-+.\de]+)\s*\|.*: off_(\d+) ", output, re.MULTILINE):
        found[int(joint)] = float(value)
    return found


def found_in(urdf: Path, given: Given, offset: Array) -> Found:
    """Return the links and the friction of a URDF; FloBaRoID has no rotor inertia."""
    import pinocchio

    model = pinocchio.buildModelFromUrdf(str(urdf))
    if tuple(model.names)[1:] != given.joints:
        raise ValueError(f"pinocchio reads the joints {tuple(model.names)[1:]}, expected {given.joints}")
    links = np.array([np.asarray(one.toDynamicParameters()) for one in model.inertias[1:]])
    joints = {one.get("name"): one.find("dynamics") for one in ElementTree.parse(urdf).getroot().findall("joint")}
    friction = [joints[name] for name in given.joints]
    viscous, coulomb = (
        np.array([float(one.get(key, "0")) for one in friction if one is not None]) for key in ("damping", "friction")
    )
    return Found(links, np.zeros(len(given.joints)), viscous, coulomb, offset)

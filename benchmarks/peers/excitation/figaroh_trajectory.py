"""Peer figaroh: its optimal trajectory, cubic splines through waypoints that IPOPT moves, segment by segment."""

import itertools
import logging
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import yaml

from benchmarks.peers.excitation.exchange import Designed, Given

SEGMENT_S, STEP_S = 12.0, 2.0  # six intervals of 2 s, as in the example of the UR10
RATE_HZ, FINE_HZ = 10.0, 100.0  # rate of its optimisation; rate of the motion that is handed back
SOFT_LIMIT, ITERATIONS, ATTEMPTS = 0.02, 30, 3
# Its default clearance of 1 cm is more than some links of CRANE-X7 ever have. Below the screen, distances are exact.
MARGIN_M, SCREEN_M = 0.001, 0.02


def configuration(given: Given) -> dict[str, Any]:
    """Return a configuration in figaroh's unified format."""
    joints = given.task.joints
    zeros = [0.0] * len(joints)
    mechanics = {
        "reduction_ratios": [1.0] * len(joints),
        "friction_coefficients": {"viscous": zeros, "static": zeros},
        "actuator_inertias": zeros,
        "joint_offsets": zeros,
    }
    properties = {"joints": {"active_joints": joints}, "mechanics": mechanics, "coupling": {"has_coupled_wrist": False}}
    identification = {
        "enabled": True,
        "problem": {"model_components": {"friction": True, "actuator_inertia": True, "joint_offset": True}},
        "signal_processing": {"sampling_frequency": RATE_HZ, "cutoff_frequency": RATE_HZ / 4.0, "filter_order": 4},
    }
    design = {
        "enabled": True,
        "problem": {
            "soft_lim": SOFT_LIMIT,
            "max_iterations": ITERATIONS,
            "segment_attempts": ATTEMPTS,
            "collision_margin": MARGIN_M,
            "collision_screen": SCREEN_M,
            "srdf": str(given.folder / "arm.srdf"),
        },
        "trajectory": {"waypoints": round(SEGMENT_S / STEP_S) + 1, "frequency": RATE_HZ, "segment_duration": STEP_S},
    }
    robot = {"name": "arm", "properties": properties}
    tasks = {"identification": identification, "optimal_trajectory": design}
    return {"schema_version": "2.0", "robot": robot, "tasks": tasks}


def design(given: Given) -> Designed:
    """Return figaroh's motion.

    Raises:
        ValueError: the duration is no multiple of a segment's.
        RuntimeError: figaroh found no motion for a segment; quotes what it said last.
    """
    from figaroh.optimal.base_optimal_trajectory import BaseOptimalTrajectory, BaseTrajectoryIPOPTProblem
    from figaroh.tools.robot import Robot

    class Arm(BaseOptimalTrajectory):  # type: ignore[misc]
        """Design with figaroh's own problem."""

        def create_ipopt_problem(self, *arguments: Any) -> Any:
            """Return the problem of a segment."""
            return BaseTrajectoryIPOPTProblem(self, *arguments)

    segments = round(given.task.duration_s / SEGMENT_S)
    if abs(segments * SEGMENT_S - given.task.duration_s) > 1e-9:
        raise ValueError(f"a motion of {given.task.duration_s:g} s, expected a multiple of {SEGMENT_S:g} s")
    heard = listener()
    file = given.folder / "figaroh.yaml"
    file.write_text(yaml.safe_dump(configuration(given)), encoding="utf-8")
    robot = Robot(str(given.urdf), package_dirs=str(given.urdf.parent))
    robot.model.gravity.linear = np.array(given.task.gravity)
    write_srdf(given)
    np.random.seed(0)
    arm = Arm(robot, given.task.joints, str(file))
    places = list(range(len(given.task.joints)))  # all joints of the file are active; figaroh's examples set these, too
    arm.identif_config |= {"act_idxq": places, "act_idxv": places}
    arm.initialize()
    results = arm.solve(stack_reps=segments)
    found = len(results["T_F"])
    if found < segments:
        raise RuntimeError(f"{found} of {segments} segments, {ATTEMPTS} attempts for each: {'; '.join(heard.said)}")
    return sampled(arm, results)


def sampled(arm: Any, results: dict[str, Any]) -> Designed:
    """Return the segments of a result as one motion, sampled finely by figaroh's own splines between its waypoints."""
    hop, count = round(STEP_S * RATE_HZ), round(SEGMENT_S / STEP_S) + 1
    active, parts = arm.CB.act_idxq, []
    for segment, q in enumerate(results["P_F"]):
        waypoints = np.array(q)[::hop, active].T
        stamps = np.matrix(segment * SEGMENT_S + STEP_S * np.arange(count)).T  # figaroh indexes a column
        rest = np.zeros_like(waypoints)
        t, *states = arm.CB.get_full_config(FINE_HZ, stamps, waypoints, rest, rest)
        first = 1 if segment else 0  # a segment begins where the last one ended
        parts.append([np.ravel(t)[first:], *(np.array(one)[first:, active] for one in states)])
    time, q, dq, ddq = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Designed(time, q, dq, ddq)


def write_srdf(given: Given) -> None:
    """Write a file that excludes all pairs of links which may touch."""
    links = [str(one.get("name")) for one in ElementTree.parse(given.urdf).getroot().findall("link")]
    apart, root = {frozenset(pair) for pair in given.task.apart}, ElementTree.Element("robot", name="arm")
    for pair in itertools.combinations(links, 2):
        if frozenset(pair) not in apart:
            ElementTree.SubElement(root, "disable_collisions", link1=pair[0], link2=pair[1], reason="Adjacent")
    ElementTree.ElementTree(root).write(given.folder / "arm.srdf", encoding="unicode")


class Listener(logging.Handler):
    """Keeps what figaroh says about the end of its solver.

    Attributes:
        said: messages with a status of IPOPT, and errors.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message if it states an end."""
        if record.levelno >= logging.ERROR or record.getMessage().startswith("Status"):
            self.said.append(record.getMessage())


def listener() -> Listener:
    """Return a listener to all that figaroh logs."""
    made, log = Listener(), logging.getLogger("figaroh")
    log.setLevel(logging.INFO)
    log.addHandler(made)
    return made

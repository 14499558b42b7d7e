"""Writer of a simulated run as a bag, with the topics, types and timestamps of a run on the real-time driver.

The true joint angles and motor torques, which a real driver does not have, are not written.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynid import __version__
from dynid.control.controller import Gained
from dynid.recording.bag_metadata import Topic
from dynid.recording.bag_writer import BagWriter, Batch, Rows, Storage
from dynid.recording.completeness import DRIVER
from dynid.recording.messages import (
    DIAGNOSTIC_ARRAY,
    JOINT_STATE,
    JOINT_TRAJECTORY,
    STRING,
    DiagnosticStatus,
    JointStateEncoder,
    ReferenceEncoder,
    encode_diagnostics,
    encode_string,
)
from dynid.recording.settings import ExperimentSettings, HardwareSettings, recorded_current_unit
from dynid.robot import Robot
from dynid.robot.urdf_text import read_urdf_text
from dynid.simulation.lockstep.run import SimulatedRun

START_NS = 1_767_225_600_000_000_000  # 2026-01-01 00:00 UTC: fixed, so that equal seeds give equal bags
PORT = "lock-step"
REPORT_NS = 1_000_000_000

TOPICS = (
    Topic("/joint_states", JOINT_STATE),
    Topic("/joint_commands", JOINT_STATE),
    Topic("/applied_commands", JOINT_STATE),
    Topic("/reference", JOINT_TRAJECTORY),
    Topic("/robot_description", STRING, "latched"),
    Topic("/hardware_settings", STRING, "latched"),
    Topic("/experiment", STRING, "latched"),
    Topic("/diagnostics", DIAGNOSTIC_ARRAY),
)


def write_bag(
    run: SimulatedRun,
    robot: Robot,
    controller: Gained,
    folder: Path | str,
    *,
    profile: str,
    law: str = "ff_pd",
    storage: Storage = "mcap",
    start_ns: int = START_NS,
) -> None:
    """Write a simulated run as a rosbag2.

    Args:
        run: the run.
        robot: the robot.
        controller: controller that moved the arm; its gains are written to the bag.
        folder: the bag's folder; it must not exist yet.
        profile: name of the trajectory's profile (variant) in excitation.yaml, or the source of a motion without one,
            such as "file" or "joint".
        law: name of the control law that moved the arm.
        storage: "mcap" or "sqlite3".
        start_ns: time of the first state [ns since the epoch].

    Raises:
        OutputExistsError: the folder exists.
        BagWriteError: the bag cannot be written.
    """
    writer = BagWriter(folder, TOPICS, storage)
    writer.open()
    try:
        writer.write("/hardware_settings", start_ns, encode_string(_hardware(run, robot).model_dump_json()))
        writer.write("/robot_description", start_ns, encode_string(read_urdf_text(robot.urdf_path)))
        for stamp_ns, settings in _experiments(run, controller, profile, law, start_ns):
            writer.write("/experiment", stamp_ns, encode_string(settings.model_dump_json()))
        stamps = run.stamps_ns + start_ns
        for index in np.flatnonzero(np.diff(run.stamps_ns // REPORT_NS)).tolist():
            writer.write("/diagnostics", int(stamps[index]), _report(index + 1, int(stamps[index])))
        writer.write("/diagnostics", int(stamps[-1]), _report(len(stamps), int(stamps[-1])))
        writer.write_many(_streams(run, stamps))
    finally:
        writer.close()


def _streams(run: SimulatedRun, stamps: NDArray[np.int64]) -> dict[str, Batch]:
    """Return the messages of all topics that have one message per cycle, by topic, for `BagWriter.write_many`.

    The entry of a topic is a pair: the log times `stamps` (N,) [ns] of the N cycles of `run`, and a function. This
    function takes a slice of K cycles and returns their serialized messages as bytes (K, size).
    """
    state = JointStateEncoder(run.joint_names)
    effort = JointStateEncoder(run.joint_names, fields=("effort",))
    reference = ReferenceEncoder(run.joint_names)

    def states(part: slice) -> Rows:
        return state.encode_many(
            stamps[part], position=run.q[part], velocity=run.dq[part], effort=run.torque_present[part]
        )

    def references(part: slice) -> Rows:
        return reference.encode_many(stamps[part], run.q_ref[part], run.dq_ref[part], run.ddq_ref[part])

    rows = {
        "/joint_states": states,
        "/joint_commands": lambda part: effort.encode_many(stamps[part], effort=run.torque_command[part]),
        "/applied_commands": lambda part: effort.encode_many(stamps[part], effort=run.torque_goal[part]),
        "/reference": references,
    }
    return {topic: (stamps, messages) for topic, messages in rows.items()}


def _hardware(run: SimulatedRun, robot: Robot) -> HardwareSettings:
    x, y, z = robot.gravity(run.mount).tolist()
    return HardwareSettings(
        robot=robot.name,
        joint_names=robot.joint_names,
        torque_constants_nm_per_a=tuple(robot.joint_constants.tolist()) if robot.has_torque_constants else (),
        mount=run.mount,
        gravity_m_s2=(x, y, z),
        current_unit_a=recorded_current_unit(robot),
        cycle_s=robot.file.bus.cycle_s,
        simulated=True,
        port=PORT,
        dynid_version=__version__,
    )


def _experiments(
    run: SimulatedRun, controller: Gained, profile: str, law: str, start_ns: int
) -> Iterator[tuple[int, ExperimentSettings]]:
    """Yield log time [ns] and experiment settings at the start of every phase; each contains all phases so far."""
    settings = ExperimentSettings(
        trajectory=run.trajectory,
        profile=profile,
        controller=law,
        gains=controller.gains(),
        duration_s=run.trajectory_duration,
    )
    for name, stamp_ns in run.phases:
        settings = settings.entered(name, stamp_ns + start_ns)
        yield stamp_ns + start_ns, settings


def _report(states: int, stamp_ns: int) -> bytes:
    values = {"states_published": str(states), "last_state_stamp_ns": str(stamp_ns), "missed": "0"}
    return encode_diagnostics(stamp_ns, [DiagnosticStatus(DRIVER, 0, "simulated in lock-step", "", values)])

"""Fixtures of recordings: experiments written as bags."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.recording.bag_writer import BagWriter, Topic
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
from dynid.recording.settings import ExperimentSettings, HardwareSettings

NAMES = ("shoulder", "elbow", "wrist_long_name")
START = 1_700_000_000_000_000_000
CYCLE = 1_000_000

Message = tuple[str, int, bytes]
TYPES = {
    "joint_states": Topic("/joint_states", JOINT_STATE),
    "joint_commands": Topic("/joint_commands", JOINT_STATE),
    "applied_commands": Topic("/applied_commands", JOINT_STATE),
    "reference": Topic("/reference", JOINT_TRAJECTORY),
    "hardware_settings": Topic("/hardware_settings", STRING, "latched", 1),
    "experiment": Topic("/experiment", STRING, "latched", 1),
    "robot_description": Topic("/robot_description", STRING, "latched", 1),
    "diagnostics": Topic("/diagnostics", DIAGNOSTIC_ARRAY),
    "estop": Topic("/estop", "std_msgs/msg/Bool", "latched", 1),
}


def hardware_settings(**changes: Any) -> HardwareSettings:
    values = {
        "robot": "three",
        "joint_names": NAMES,
        "torque_constants_nm_per_a": (2.0, 3.0, 1.0),
        "mount": "upright",
        "gravity_m_s2": (0.0, 0.0, -9.80665),
        "current_unit_a": 0.00269,
        "cycle_s": 0.001,
        "simulated": True,
        "port": "/dev/null",
        "dynid_version": "0.1.0",
    }
    return HardwareSettings.model_validate({**values, **changes})


def experiment_settings() -> ExperimentSettings:
    return ExperimentSettings(
        trajectory="AG01",
        profile="paper",
        controller="ff_pd",
        gains={"K_P": (1.0, 2.0, 3.0), "Tf": 0.002},
        duration_s=0.1,
    )


class Experiment:
    """Data of a short experiment, and the messages of a bag of it by topic."""

    def __init__(self, samples: int = 200) -> None:
        random = np.random.default_rng(3)
        self.stamps = START + CYCLE * np.arange(samples) + random.integers(0, 50_000, samples)
        self.q, self.dq, self.tau, self.command, self.applied, self.ddq = random.standard_normal((6, samples, 3))
        self.settings = hardware_settings()
        plan = experiment_settings().entered("approach", START)
        running = plan.entered("trajectory", START + 50 * CYCLE)
        self.phases = [plan, running, running.entered("rest", START + 150 * CYCLE)]
        self.messages: dict[str, list[tuple[int, bytes]]] = {name: [] for name in TYPES}
        self.fill()

    def fill(self) -> None:
        effort = JointStateEncoder(NAMES, fields=("effort",))
        state = JointStateEncoder(NAMES).encode_many(self.stamps, position=self.q, velocity=self.dq, effort=self.tau)
        command = effort.encode_many(self.stamps + 500_000, effort=self.command)
        applied = effort.encode_many(self.stamps + 700_000, effort=self.applied)
        reference = ReferenceEncoder(NAMES).encode_many(self.stamps, self.q + 0.1, self.dq + 0.1, self.ddq)
        rows = {"joint_states": state, "joint_commands": command, "applied_commands": applied, "reference": reference}
        for name, messages in rows.items():
            log = self.stamps + 100_000
            self.messages[name] = [(int(t), m.tobytes()) for t, m in zip(log, messages, strict=True)]
        status = DiagnosticStatus("bus", 1, "slow", "arm", {"missed_cycles": "3"})
        self.messages["hardware_settings"] = [(START, encode_string(self.settings.model_dump_json()))]
        self.messages["robot_description"] = [(START, encode_string("<robot name='three'/>"))]
        self.messages["experiment"] = [(p.phases[-1].stamp_ns, encode_string(p.model_dump_json())) for p in self.phases]
        self.messages["diagnostics"] = [(START + CYCLE, encode_diagnostics(START, [status]))]
        self.messages["estop"] = [(START, b"\0\1\0\0\0")]

    def write(self, folder: Path, storage: str = "mcap", namespace: str = "", without: tuple[str, ...] = ()) -> Path:
        names = [name for name in self.messages if name not in without]
        topics = {name: TYPES[name] for name in names}
        writer = BagWriter(
            folder,
            [Topic(namespace + t.name, t.message_type, t.qos, t.depth) for t in topics.values()],
            storage,  # type: ignore[arg-type]
        )
        writer.open()
        try:
            everything = [(stamp, name, raw) for name in names for stamp, raw in self.messages[name]]
            for stamp, name, raw in sorted(everything, key=lambda entry: entry[0]):
                writer.write(f"{namespace}/{name}", stamp, raw)
        finally:
            writer.close()
        return folder


@pytest.fixture
def experiment() -> Experiment:
    return Experiment()


@pytest.fixture(params=["mcap", "sqlite3"])
def storage(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_experiment() -> Callable[..., Experiment]:
    return Experiment

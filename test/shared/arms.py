"""Arms that many tests use: each is made once per process, together with all derived objects."""

from functools import cache

from dynid.identification.data.preprocessing import SampleSettings
from dynid.identification.feasibility.audit import Auditor
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import read_model_file
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.model.standard import from_file, load_standard
from dynid.robot import load_robot
from dynid.simulation.plant.arm import plant_standard

# How samples were made that a test makes up: of no recording, one every 20 ms.
RECORD = SampleSettings(
    interval_s=0.02,
    grid_s=0.001,
    filter_order=4,
    cutoff_hz=20,
    torque_source="present",
    torque_delay_s=0,
    window_s=(0, 1),
    trimmed_s=(0, 0),
    missed_cycles=0,
    dropped_samples=0,
    samples=1,
)


@cache
def arm(name: str) -> ArmModel:
    """The model of a shipped robot as it is mounted by default."""
    return ArmModel.of(load_robot(name))


@cache
def nominal_standard(name: str) -> StandardParameters:
    """The standard parameters of its `models/nominal.yaml`, by the names that its model has."""
    model = arm(name)
    return load_standard(load_robot(name).folder / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)


@cache
def nominal(name: str) -> BaseParameters:
    """Base parameters of the nominal arm."""
    return arm(name).base_parameters(nominal_standard(name))


@cache
def plant(name: str) -> BaseParameters:
    """Base parameters of the simulated arm, mounted by default."""
    model = arm(name)
    return model.base_parameters(from_file(plant_standard(load_robot(name)), model.mdh, model.regrouping.standard))


@cache
def published() -> BaseParameters:
    """The paper's model of CRANE-X7."""
    return read_model_file(load_robot("crane_x7").folder / "models" / "paper.yaml").base_parameters(arm("crane_x7"))


@cache
def auditor(name: str) -> Auditor:
    """Of the poses that the robot's limits allow."""
    robot = load_robot(name)
    return Auditor(arm(name), robot.audit_lower, robot.audit_upper)

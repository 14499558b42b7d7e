"""What is published as JSON in std_msgs/String so that a bag can be identified from later, on its own."""

from typing import Annotated, Literal, TypeVar

import numpy as np
from pydantic import Field, ValidationError, model_validator

from dynid.documents import refuse_large
from dynid.errors import DataError
from dynid.resources import invalid_fields
from dynid.robot import Positive, Robot, Strict, Vector3

Settings = TypeVar("Settings", bound=Strict)
SHORTEST_CYCLE_S, LONGEST_CYCLE_S = 0.0005, 0.02
MOST_TEXT_BYTES = 2**20  # of such a message: of an arm of eight joints it has some hundred
PhaseName = Literal["approach", "trajectory", "rest", "done", "cancelled"]


class HardwareSettings(Strict):
    """Topic `hardware_settings` (latched): what the driver of the arm did with currents and time.

    torque_constants_nm_per_a: () where drives are commanded by torque and report torque.
    current_unit_a: size of a count of current, of all servos or by joint.
    boot_id: of the host whose monotonic clock the stamps follow; "" if they follow another time, such as a simulated
        arm's that is paused.
    stamp_offset_ns: stamps less that clock [ns].
    """

    robot: str
    joint_names: Annotated[tuple[str, ...], Field(min_length=1)]
    torque_constants_nm_per_a: tuple[Positive, ...]
    mount: str
    gravity_m_s2: Vector3
    current_unit_a: Positive | tuple[Positive, ...]
    cycle_s: Positive
    simulated: bool
    port: str
    dynid_version: str
    boot_id: str = ""
    stamp_offset_ns: int = 0

    @model_validator(mode="after")
    def _consistent(self) -> "HardwareSettings":
        if len(set(self.joint_names)) != len(self.joint_names):
            raise ValueError("joint_names must be unique")
        if len(self.torque_constants_nm_per_a) not in (0, len(self.joint_names)):
            got, want = len(self.torque_constants_nm_per_a), len(self.joint_names)
            raise ValueError(f"torque_constants_nm_per_a has {got} entries, expected {want}, one per joint")
        if isinstance(self.current_unit_a, tuple) and len(self.current_unit_a) != len(self.joint_names):
            got, want = len(self.current_unit_a), len(self.joint_names)
            raise ValueError(f"current_unit_a has {got} entries, expected {want}, one per joint, or a single number")
        return self


def recorded_current_unit(robot: Robot) -> float | tuple[float, ...]:
    """Return `HardwareSettings.current_unit_a` of a robot: one figure if all its servos count alike."""
    units = tuple(robot.current_units.tolist())
    return units[0] if len(set(units)) == 1 else units


class Phase(Strict):
    """A phase of an experiment and the time at which it started [ns, the clock of the joint states' stamps]."""

    name: PhaseName
    stamp_ns: Annotated[int, Field(ge=0)]


class ExperimentSettings(Strict):
    """Topic `experiment` (latched): what the executor does; published again, with all phases so far, at every change.

    gains: by name, as the controller's equation has them (K_P, K_V, M_hat, D_hat: one value per joint; Tf [s]).
    duration_s: length of the trajectory motion alone [s].
    series: motions of one series in a bag are one recording, with what is between them; "" is no series.
    """

    trajectory: str
    profile: str
    controller: str
    gains: dict[str, float | tuple[float, ...]]
    duration_s: Positive
    series: str = ""
    phases: tuple[Phase, ...] = ()

    @model_validator(mode="after")
    def _ordered(self) -> "ExperimentSettings":
        stamps = [phase.stamp_ns for phase in self.phases]
        if stamps != sorted(stamps):
            raise ValueError("phases must be in the order of their stamps")
        return self

    @property
    def state(self) -> PhaseName | None:
        """The phase that was entered last."""
        return self.phases[-1].name if self.phases else None

    @property
    def ended_ns(self) -> int | None:
        """When it was done or cancelled [ns]; None while it goes on."""
        return self.phases[-1].stamp_ns if self.state in ("done", "cancelled") else None

    def entered(self, name: PhaseName, stamp_ns: int) -> "ExperimentSettings":
        """These settings with one phase more."""
        return self.model_validate({**self.model_dump(), "phases": (*self.phases, Phase(name=name, stamp_ns=stamp_ns))})

    def continues(self, earlier: "ExperimentSettings") -> bool:
        """Whether this is a later state of the same experiment: the same settings, the earlier phases kept."""
        kept = self.phases[: len(earlier.phases)]
        return self.model_copy(update={"phases": kept}) == earlier

    def trajectory_span_ns(self) -> tuple[int, int] | None:
        """Start and end of the trajectory motion [ns]; None if it never started.

        The end is where the next phase started, at the latest `duration_s` after the start.
        """
        for index, phase in enumerate(self.phases):
            if phase.name == "trajectory":
                planned = phase.stamp_ns + round(self.duration_s * 1e9)
                after = self.phases[index + 1].stamp_ns if index + 1 < len(self.phases) else planned
                return phase.stamp_ns, min(after, planned)
        return None


def reported_settings(text: str, robot: Robot) -> HardwareSettings:
    """What a driver of this robot reports in `hardware_settings`.

    Raises:
        DataError: not valid, of another robot, other joints or torque constants, a cycle that no driver has, or with a
            gravity that is not the mount's in robot.yaml.
        UnknownNameError: no such mount.
    """
    settings = parse_settings("hardware_settings", text, HardwareSettings)
    if settings.robot != robot.name:
        raise DataError(f"hardware_settings are from robot '{settings.robot}', but this robot is '{robot.name}'")
    if settings.joint_names != robot.joint_names:
        raise DataError(
            f"hardware_settings name the joints {', '.join(settings.joint_names)}; robot '{robot.name}' has "
            f"{', '.join(robot.joint_names)}"
        )
    if settings.torque_constants_nm_per_a and (notes := constants_note(settings, robot)):
        raise DataError(f"hardware_settings: {notes[0]}; start driver and executor with the same robot.yaml")
    if not SHORTEST_CYCLE_S <= settings.cycle_s <= LONGEST_CYCLE_S:
        raise DataError(
            f"hardware_settings: cycle_s is {settings.cycle_s}, expected {SHORTEST_CYCLE_S} to {LONGEST_CYCLE_S}"
        )
    refuse_other_gravity(settings, robot, "the driver states")
    return settings


def refuse_other_gravity(settings: HardwareSettings, robot: Robot, who: str) -> None:
    """Raise DataError where a mount of robot.yaml is not what it was for the driver, or when a bag was recorded."""
    today = robot.gravity(settings.mount)
    if not np.allclose(today, settings.gravity_m_s2, atol=1e-6):
        raise DataError(
            f"{who} gravity {settings.gravity_m_s2} for mount '{settings.mount}', but robot.yaml now says "
            f"{today.tolist()}: restore that mount, or give the new one another name"
        )


def constants_note(hardware: HardwareSettings, robot: Robot | None) -> list[str]:
    """Torque constants scale every parameter; others than today's are used as recorded, and said so."""
    recorded = hardware.torque_constants_nm_per_a
    if robot is None or not recorded or np.allclose(robot.joint_constants, recorded):
        return []
    return [f"recorded with torque constants {recorded} N m/A, robot.yaml now says {robot.joint_constants.tolist()}"]


def parse_settings(topic: str, text: str, schema: type[Settings]) -> Settings:
    """Return the settings that a topic's JSON holds; anybody may have sent it.

    Raises:
        DataError: too long or not valid; names the topic, the field, the value and what was expected.
    """
    refuse_large(len(text), MOST_TEXT_BYTES, f"topic '{topic}'", "settings", DataError)
    try:
        return schema.model_validate_json(text)  # which refuses what is nested too deep
    except ValidationError as error:
        raise DataError(f"topic '{topic}' holds no valid settings: {invalid_fields(error, schema)}") from error

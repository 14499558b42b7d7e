"""Schemas of the settings that nodes publish as JSON in std_msgs/String, so that a bag contains them."""

from typing import Annotated, Literal, TypeVar

import numpy as np
from pydantic import Field, ValidationError, model_validator

from dynid.documents import refuse_large
from dynid.errors import DataError
from dynid.resources import invalid_fields
from dynid.robot import Positive, Robot, Strict, Vector3

Settings = TypeVar("Settings", bound=Strict)
SHORTEST_CYCLE_S, LONGEST_CYCLE_S = 0.0005, 0.02
MOST_TEXT_BYTES = 2**20  # maximum size of a settings message [bytes]; some hundred suffice for eight joints
PhaseName = Literal["approach", "trajectory", "rest", "done", "cancelled"]


class HardwareSettings(Strict):
    """Settings of the arm's driver on the latched topic `hardware_settings`: torque constants, mount, cycle and clock.

    torque_constants_nm_per_a: torque constants; () if drives are commanded by torque and report torque.
    current_unit_a: size of one raw count of current [A], for all servos or per joint.
    boot_id: boot ID of the host whose monotonic clock gives the stamps; "" if the stamps come from another clock, such
        as a simulated clock that can pause.
    stamp_offset_ns: offset of the stamps from the host's monotonic clock [ns].
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
    """Return the size of one raw count of current of a robot's servos [A], for `HardwareSettings.current_unit_a`.

    The result is one number if all servos have the same size, else one number per joint.
    """
    units = tuple(robot.current_units.tolist())
    return units[0] if len(set(units)) == 1 else units


class Phase(Strict):
    """Phase of an experiment, with its start time on the clock of the joint states' stamps [ns]."""

    name: PhaseName
    stamp_ns: Annotated[int, Field(ge=0)]


class ExperimentSettings(Strict):
    """Settings and phases of an experiment, published on the latched topic `experiment` at every change.

    gains: gains of the controller, keyed by the symbols in the equation of its control law, such as K_P and Tf. A gain
        is one number, or has one value per joint.
    duration_s: length of the trajectory motion alone [s].
    series: name that several motions share if they are evaluated as one recording, which includes the time between
        them; "" for a single motion.
    phases: all phases entered so far, in order.
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
        """Name of the phase that was entered last; None before the first phase."""
        return self.phases[-1].name if self.phases else None

    @property
    def ended_ns(self) -> int | None:
        """Stamp at which the experiment was done or cancelled [ns]; None while it is running."""
        return self.phases[-1].stamp_ns if self.state in ("done", "cancelled") else None

    def entered(self, name: PhaseName, stamp_ns: int) -> "ExperimentSettings":
        """Return a copy of the settings with an additional phase that begins at the stamp `stamp_ns` [ns]."""
        return self.model_validate({**self.model_dump(), "phases": (*self.phases, Phase(name=name, stamp_ns=stamp_ns))})

    def continues(self, earlier: "ExperimentSettings") -> bool:
        """Return whether these settings are a later state of the same experiment as `earlier`.

        This is the case if all settings are equal and `phases` begins with the phases of `earlier`.
        """
        kept = self.phases[: len(earlier.phases)]
        return self.model_copy(update={"phases": kept}) == earlier

    def trajectory_span_ns(self) -> tuple[int, int] | None:
        """Return start and end of the trajectory motion [ns]; None if it never started.

        The end is the start of the next phase, but at most `duration_s` after the start.
        """
        for index, phase in enumerate(self.phases):
            if phase.name == "trajectory":
                planned = phase.stamp_ns + round(self.duration_s * 1e9)
                after = self.phases[index + 1].stamp_ns if index + 1 < len(self.phases) else planned
                return phase.stamp_ns, min(after, planned)
        return None


def reported_settings(text: str, robot: Robot) -> HardwareSettings:
    """Parse the settings that a driver of this robot reports on `hardware_settings`.

    Raises:
        DataError: the text is invalid, or robot, joints, torque constants, cycle time or gravity do not match
            robot.yaml.
        UnknownNameError: robot.yaml lacks the mount.
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
    """Raise DataError if robot.yaml and the driver's settings state different gravity vectors for the mount.

    Args:
        settings: settings of the driver, as received or from a bag.
        robot: the robot.
        who: beginning of the error message, which states the source of the settings.
    """
    today = robot.gravity(settings.mount)
    if not np.allclose(today, settings.gravity_m_s2, atol=1e-6):
        raise DataError(
            f"{who} gravity {settings.gravity_m_s2} for mount '{settings.mount}', but robot.yaml now says "
            f"{today.tolist()}: restore that mount, or give the new one another name"
        )


def constants_note(hardware: HardwareSettings, robot: Robot | None) -> list[str]:
    """Return a list with a note if the torque constants of a recording differ from robot.yaml, else [].

    The recorded torque constants are used; they scale all identified parameters. They are stated on the motors' side of
    the gears, as in robot.yaml.
    """
    recorded = hardware.torque_constants_nm_per_a
    if robot is None or not recorded or np.allclose(robot.joint_constants, recorded):
        return []
    motors = robot.motor_constants(recorded)
    return [f"recorded with torque constants {motors} N m/A, robot.yaml now says {robot.torque_constants.tolist()}"]


def parse_settings(topic: str, text: str, schema: type[Settings]) -> Settings:
    """Parse and validate the settings in the JSON text of a topic, whose sender is unknown.

    Raises:
        DataError: the text is too long or invalid; the message names the topic, the field, the value and what was
            expected.
    """
    refuse_large(len(text), MOST_TEXT_BYTES, f"topic '{topic}'", "settings", DataError)
    try:
        return schema.model_validate_json(text)  # refuses text that is nested too deeply
    except ValidationError as error:
        raise DataError(f"topic '{topic}' holds no valid settings: {invalid_fields(error, schema)}") from error

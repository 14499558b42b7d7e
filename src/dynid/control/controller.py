"""What every controller and control law offers, and the settings of one robot's controller."""

from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field, model_validator

from dynid.errors import ConfigurationError
from dynid.resources import load_validated
from dynid.robot import FloatArray, NonNegative, Positive, Robot, Strict

# Sure not to drive a joint even where friction is overestimated by 40 %: warm gears rub a fifth less, which is 25 %.
# It halves the push of all joints but the loaded shoulder of the simulated CRANE-X7.
FRICTION_SHARE = 0.68
MOST_GAIN = 2e5  # more no arm has; what is beyond overflows sooner or later
Gains = dict[str, float | tuple[float, ...]]


class Gained(Protocol):
    """Whatever has gains that an experiment records."""

    def gains(self) -> Gains:
        """The gains, by the names of their equation."""
        ...


class TorqueLaw(Gained, Protocol):
    """State and reference in, torque out; without a memory, so that laws can take over from each other at any moment.

    Attributes:
        name: what the parameter `controller` and the record of an experiment call it.
        follows_reference: False where the arm goes wherever it is led.
    """

    name: str
    follows_reference: bool

    def torque(
        self, q: FloatArray, dq: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """The torque (n,) [N m] for measured q, estimated dq and the reference, all (n,) in SI; a new array."""
        ...


class Controller(Protocol):
    """A joint torque law: measured state and reference in, torque out; it keeps state, so one per arm."""

    def reset(self, q: FloatArray) -> None:
        """Forget the past and start at rest at the measured posture q, (n,) [rad]."""

    def update(
        self, dt: float, q: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """The torque (n,) [N m] of this cycle.

        Args:
            dt: time since the previous cycle [s], positive.
            q: measured positions, (n,) [rad].
            q_ref: reference positions, (n,) [rad].
            dq_ref: reference velocities, (n,) [rad/s].
            ddq_ref: reference accelerations, (n,) [rad/s^2].
        """
        ...


class ControllerSettings(Strict):
    """Settings of the FF+PD law, one value per joint in the robot's joint order (arXiv:2605.15949, eq. 2).

    `inertia` is M_hat and `damping` D_hat: they realise the motion and are no identification result. Computed torque
    takes the two gains and the filter from here, too. `friction_share` is how much of the friction gravity compensation
    takes off the hand that leads the arm. Efforts that come with a motion may be beyond the predicted torques by
    `effort_share` of the torque limit, and bend no joint by more than `effort_deflection_rad`. `sway_rad` and `sway_hz`
    say how an arm that is held sways, 0 rad not at all.
    """

    schema_version: Literal[1]
    proportional_gain_1_s2: tuple[NonNegative, ...]
    velocity_gain_1_s: tuple[Positive, ...]
    inertia_kg_m2: tuple[Positive, ...]
    damping_nm_s_rad: tuple[NonNegative, ...]
    pseudo_differentiation_s: Positive
    friction_share: float = Field(default=FRICTION_SHARE, ge=0.0, le=1.0)
    effort_share: float = Field(default=0.5, gt=0.0, le=1.0)
    effort_deflection_rad: Positive = 0.25
    sway_rad: NonNegative = 0.0
    sway_hz: Positive = 2.5

    @model_validator(mode="after")
    def _bounded(self) -> "ControllerSettings":
        own = zip(self.inertia_kg_m2, self.proportional_gain_1_s2, self.velocity_gain_1_s, strict=False)
        gains = [gain for m, p, v in own for gain in (m, m * p, m * v)] + list(self.damping_nm_s_rad)
        if max(gains, default=0.0) > MOST_GAIN:
            raise ValueError(
                f"M_hat K_P, M_hat K_V, M_hat or D_hat reaches {max(gains):.3g}, expected at most {MOST_GAIN:g} N m "
                "per rad, rad/s or rad/s^2"
            )
        return self

    @property
    def size(self) -> int:
        """Number of joints n."""
        return len(self.inertia_kg_m2)

    def gains(self) -> Gains:
        """The gains under the names that eq. 2 gives them, as an experiment records them."""
        return {
            "K_P": self.proportional_gain_1_s2,
            "K_V": self.velocity_gain_1_s,
            "M_hat": self.inertia_kg_m2,
            "D_hat": self.damping_nm_s_rad,
            "Tf": self.pseudo_differentiation_s,
        }


def load_controller(robot: Robot, path: Path | None = None) -> ControllerSettings:
    """The controller settings of a robot: its controller.yaml, or another file of the same schema.

    Raises:
        InputNotFoundError: no such file.
        ConfigurationError: not valid, or not one value per joint.
    """
    file = path or robot.folder / "controller.yaml"
    settings = load_validated(file, ControllerSettings)
    for key in ("proportional_gain_1_s2", "velocity_gain_1_s", "inertia_kg_m2", "damping_nm_s_rad"):
        values = getattr(settings, key)
        if len(values) != robot.size:
            raise ConfigurationError(f"{file}: {key} has {len(values)} entries, expected {robot.size}, one per joint")
    return settings

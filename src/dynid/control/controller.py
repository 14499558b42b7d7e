"""Interfaces of controllers and control laws, and the settings of a robot's controller."""

from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field, model_validator

from dynid.errors import ConfigurationError
from dynid.resources import load_validated
from dynid.robot import FloatArray, NonNegative, Positive, Robot, Strict

# Default share of friction that is compensated. It does not drive a joint even if the model overestimates friction by
# 40 %; warm gears, which have a fifth less friction, cause an overestimate of 25 %. The share halves the guiding force
# at all joints of the simulated CRANE-X7 except its loaded shoulder.
FRICTION_SHARE = 0.68
MOST_GAIN = 2e5  # largest accepted gain, above that of any real arm; larger values could overflow
Gains = dict[str, float | tuple[float, ...]]


class Gained(Protocol):
    """Interface of objects whose gains are recorded with an experiment."""

    def gains(self) -> Gains:
        """Return the gains, keyed by their symbols in the equation of the control law."""
        ...


class TorqueLaw(Gained, Protocol):
    """A control law from state and reference to torque, without memory, so that laws can be exchanged at any moment.

    Attributes:
        name: name in the parameter `controller` and in the record of an experiment.
        follows_reference: False if the law has no position feedback, so that the arm can be guided by hand.
        uses_model: whether the law computes its torques with a model of the arm, gravity included.
    """

    name: str
    follows_reference: bool
    uses_model: bool

    def torque(
        self, q: FloatArray, dq: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Return the torque (n,) [N m] of the control law as a new array.

        Args:
            q: measured positions, (n,) [rad].
            dq: estimated velocities, (n,) [rad/s].
            q_ref: reference positions, (n,) [rad].
            dq_ref: reference velocities, (n,) [rad/s].
            ddq_ref: reference accelerations, (n,) [rad/s^2].
        """
        ...


class Controller(Protocol):
    """A joint controller from measured state and reference to torque; it keeps state, so each arm needs its own."""

    def reset(self, q: FloatArray) -> None:
        """Clear the internal state and start at rest at the measured posture q, (n,) [rad]."""

    def update(
        self, dt: float, q: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Run one cycle of the controller; return the joint torques (n,) [N m].

        Args:
            dt: time since the previous cycle [s], positive.
            q: measured positions, (n,) [rad].
            q_ref: reference positions, (n,) [rad].
            dq_ref: reference velocities, (n,) [rad/s].
            ddq_ref: reference accelerations, (n,) [rad/s^2].
        """
        ...


class ControllerSettings(Strict):
    """Settings of a robot's control laws; symbols are those of the FF+PD law, arXiv:2605.15949, eq. 2.

    Tuples have one value per joint in the robot's joint order. M_hat and D_hat are design parameters of the controller,
    not identification results.

    Attributes:
        schema_version: version of the file's schema.
        proportional_gain_1_s2: gains K_P, also used by computed torque.
        velocity_gain_1_s: gains K_V, also used by computed torque.
        inertia_kg_m2: inertias M_hat.
        damping_nm_s_rad: damping constants D_hat.
        pseudo_differentiation_s: time constant Tf of the velocity filter.
        friction_share: fraction of the modelled friction that gravity compensation compensates during hand guiding.
        effort_share: amount by which feed-forward torques that come with a motion may exceed those predicted with the
            model, as a fraction of the torque limit.
        effort_deflection_rad: largest deflection of a joint that this excess of feed-forward torque may cause.
        sway_rad: amplitude of the small oscillation of a held arm; 0 switches it off.
        sway_hz: frequency of this oscillation.
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
        """Return the gains, keyed by their symbols in arXiv:2605.15949, eq. 2: K_P, K_V, M_hat, D_hat and Tf."""
        return {
            "K_P": self.proportional_gain_1_s2,
            "K_V": self.velocity_gain_1_s,
            "M_hat": self.inertia_kg_m2,
            "D_hat": self.damping_nm_s_rad,
            "Tf": self.pseudo_differentiation_s,
        }


def load_controller(robot: Robot, path: Path | None = None) -> ControllerSettings:
    """Return the controller settings of a robot, from its controller.yaml or from another file of the same schema.

    Args:
        robot: the robot.
        path: the file; None means controller.yaml in the robot's folder.

    Raises:
        InputNotFoundError: the file does not exist.
        ConfigurationError: the file is not valid, or does not have one value per joint.
    """
    file = path or robot.folder / "controller.yaml"
    settings = load_validated(file, ControllerSettings)
    for key in ("proportional_gain_1_s2", "velocity_gain_1_s", "inertia_kg_m2", "damping_nm_s_rad"):
        values = getattr(settings, key)
        if len(values) != robot.size:
            raise ConfigurationError(f"{file}: {key} has {len(values)} entries, expected {robot.size}, one per joint")
    return settings

"""Settings of the identification of one robot, from `config/<robot>/identification.yaml`."""

from typing import Annotated, Literal

from pydantic import Field

from dynid.errors import ConfigurationError
from dynid.resources import load_validated
from dynid.robot import NonNegative, Positive, Robot, Strict

Share = Annotated[float, Field(ge=0, le=1)]
TorqueSource = Literal["present", "goal"]
Rows = Literal["filtered", "averaged"]
FrictionStructure = Literal[
    "auto", "viscous", "Coulomb-viscous", "Stribeck", "load", "load and Stribeck", "directional", "quadratic"
]


class FilterSettings(Strict):
    """Zero-phase Butterworth low-pass; run forwards and backwards, so the attenuation at the cut-off is one half.

    state_cutoff_ratio: cut-off frequency of the states that the regressor is computed from over that of the low-pass,
        which it then passes together with the torques; None: states pass the low-pass instead, as in the paper.
    """

    order: Annotated[int, Field(ge=1, le=8)] = 4
    cutoff_of_nyquist: Annotated[float, Field(gt=0, lt=1)] = 0.8
    maximum_cutoff_hz: Positive | None = None
    state_cutoff_ratio: Annotated[float, Field(ge=1, le=10)] | None = None
    settling_periods: NonNegative = 3.0  # of the cut-off frequency; samples nearer to an end of the data are dropped

    def cutoff_hz(self, interval_s: float) -> float:
        """Cut-off frequency [Hz] for a target sampling interval [s]."""
        cutoff = self.cutoff_of_nyquist / (2.0 * interval_s)
        return cutoff if self.maximum_cutoff_hz is None else min(cutoff, self.maximum_cutoff_hz)


class DataLimits(Strict):
    """What a recording must satisfy; each limit is a check in the data-quality verdict."""

    missed_cycles_share: Share = 0.01
    longest_gap_s: Positive = 0.01  # samples around a longer gap are dropped
    dropped_samples_share: Share = 0.1
    jitter_of_period: Positive = 0.25
    saturated_share: Share = 0.01
    saturation_of_limit: Share = 0.98
    joint_range_rad: Positive = 0.05
    torque_range_of_limit: NonNegative = 0.001  # of each joint that moves: a smaller range is no torque
    torque_of_limit: Positive = 0.005  # the largest torque as a part of the joint's limit, over all joints
    velocity_ratio: Positive = 0.1  # deviation from 1 of recorded velocity over derived velocity
    minimum_samples: Annotated[int, Field(ge=10)] = 100


class SuspicionLimits(Strict):
    """When another reading of the data explains them so much better that the result is not accepted.

    torque_scale: of one joint's torques against what the other joints imply.
    position_zero_rad: of one joint.
    position_scale: of one joint's positions against what the torques of all joints imply.
    gravity_rad: tilt, as its tangent.
    delay_s: of torques against positions.
    deviations: that must be left of these when so many standard deviations are taken off.
    gain: sum over the joints of the logarithms by which a reading makes their errors smaller.
    gain_of_exchange: the same of a wrong sign or exchanged columns, which no own friction of a joint imitates.
    significance: of that, in standard errors over blocks of time.
    """

    torque_scale: Positive = 0.15
    position_zero_rad: Positive = 0.15
    position_scale: Positive = 0.03
    gravity_rad: Positive = 0.05
    delay_s: Positive = 0.01
    deviations: Positive = 3.0
    gain: Positive = 0.25
    gain_of_exchange: Positive = 0.15
    significance: Positive = 2.5


class Acceptance(Strict):
    """What an identified model must satisfy."""

    lambda_min_kg_m2: Positive = 1e-4
    fresh_poses: Annotated[int, Field(gt=0)] = 1_000_000
    relative_torque_error: Positive = 0.2
    condition_number: Positive = 1000.0
    time_at_speed_s: NonNegative = 0.5  # of the axis that moves least, where Coulomb friction is estimated
    friction_separation: Share = 0.1  # least share of a viscous friction's column that Coulomb friction cannot imitate
    torque_source_difference: Positive = 0.05  # of torques predicted from measured against written currents
    relative_joint_error: Positive = 0.6  # of each joint, in motion
    relative_joint_error_with_rest: Positive = 1.2  # of each joint, samples at rest included, where it may stick
    error_over_noise: Positive = 2.5  # of joints in motion, over the noise that the data show
    change_of_arm: Positive = 0.03  # of the model's torques, moved by a change of the arm during its recordings
    dynamic_error: Positive = 0.1  # of a joint's dynamic torque on held-out motions, what noise makes being taken off
    suspicion: SuspicionLimits = SuspicionLimits()


class Projection(Strict):
    """Margins of the positive-definiteness projections (paper eqs. 8 and 12)."""

    ladder_kg_m2: tuple[NonNegative, ...] = (0.001, 0.002, 0.005, 0.01)
    rescue_margin_kg_m2: NonNegative = 2e-4
    maximum_rounds: Annotated[int, Field(gt=0)] = 60


class Audit(Strict):
    """Effort of an audit inside the pipeline; the acceptance has its own number of fresh poses."""

    poses: Annotated[int, Field(gt=0)] = 65_536
    searches: Annotated[int, Field(gt=0)] = 1024
    seed: int = 1


class CoulombSettings(Strict):
    """How friction that the base parameters do not hold is treated; see `dynid.model.friction`.

    treatment: "estimated" beside the base parameters, or "ignored" as in the paper.
    structure: of friction: "auto" leaves the choice to the data; else a rung of `gear_ladder.LADDER`.
    sliding_share: what part of a row behind the low-pass sliding states must have; below it the row counts less.
    transition_rad_s: speed v of tanh(dq / v).
    slow_rad_s: below it a joint may stick, and its torque counts less.
    slow_weight: of such rows.
    loop_memory_s: how long around a standstill the closed loop's commands count less too.
    motion_cutoff_hz: of the low-pass through which the closed loop's friction is seen in the measured motion.
    """

    treatment: Literal["estimated", "ignored"] = "estimated"
    structure: FrictionStructure = "auto"
    sliding_share: Annotated[float, Field(ge=0, le=1)] = 0.5
    transition_rad_s: Positive = 0.02
    slow_rad_s: NonNegative = 0.05
    slow_weight: Annotated[float, Field(gt=0, le=1)] = 0.1
    loop_memory_s: NonNegative = 0.05
    motion_cutoff_hz: Positive = 25.0


class IdentificationSettings(Strict):
    """The schema of identification.yaml.

    sampling_interval_s: target sampling interval of the plain pipeline.
    rows: "filtered": low-pass and differences; "averaged" under test functions, which slow and uneven recordings need;
        "auto" chooses by rate and evenness.
    campaign_intervals_s: the target sampling intervals of a campaign.
    torque_source: which current the regression uses.
    goal_delay_s: from the stamp of a written torque to the middle of its effect at the bus's own control cycle:
        transmission and half the hold; None is half a control cycle, as if the transmission took no time. On a
        simulated line it takes none.
    """

    schema_version: Literal[1]
    estimator: str = "wls"
    sampling_interval_s: Positive = 0.04
    rows: Rows | Literal["auto"] = "auto"
    campaign_intervals_s: Annotated[tuple[Positive, ...], Field(min_length=1)] = (0.01, 0.02, 0.04, 0.08)
    torque_source: TorqueSource = "present"
    goal_delay_s: NonNegative | None = None
    coulomb_friction: CoulombSettings = CoulombSettings()
    filter: FilterSettings = FilterSettings()
    data: DataLimits = DataLimits()
    acceptance: Acceptance = Acceptance()
    projection: Projection = Projection()
    audit: Audit = Audit()

    def with_filtered_rows(self, method: str) -> "IdentificationSettings":
        """Return the settings for a method whose closed loop passes the low-pass of the rows.

        Raises:
            ConfigurationError: they ask for averages.
        """
        if self.rows == "averaged":
            raise ConfigurationError(
                f"method '{method}' compares filtered torques, and rows are to be averaged: leave 'averaged' out, or "
                "use method 'regression'"
            )
        return self.model_copy(update={"rows": "filtered"})

    def transmission(self, robot: Robot, *, simulated: bool) -> float:
        """From the stamp of a written torque to where it begins to act, `goal_delay_s` less half the hold [s].

        Raises:
            ConfigurationError: `goal_delay_s` is less than half the hold.
        """
        if simulated or self.goal_delay_s is None:
            return 0.0
        cycle_s = robot.file.bus.cycle_s
        if self.goal_delay_s < 0.5 * cycle_s:
            raise ConfigurationError(
                f"goal_delay_s of {robot.name} is {self.goal_delay_s:g} s, expected at least half of the control cycle "
                f"of {cycle_s:g} s: it is to the middle of a torque's effect"
            )
        return self.goal_delay_s - 0.5 * cycle_s

    def goal_delay(self, robot: Robot, cycle_s: float, *, simulated: bool) -> float:
        """From the stamp of a written torque to the middle of its effect at a control cycle [s]."""
        return self.transmission(robot, simulated=simulated) + 0.5 * cycle_s


def load_identification(robot: Robot) -> IdentificationSettings:
    """The robot's identification settings.

    Raises:
        InputNotFoundError: the robot's folder has no identification.yaml.
        ConfigurationError: it is not valid.
    """
    return load_validated(robot.folder / "identification.yaml", IdentificationSettings)

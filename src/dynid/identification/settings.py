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
    """Zero-phase Butterworth low-pass; it runs forwards and backwards, so its gain at the cut-off is one half.

    state_cutoff_ratio: cut-off frequency of an additional filter for the states, divided by that of the low-pass. The
        regressor is computed from the filtered states, and then passes the low-pass like the torques. If the ratio is
        None, the states pass the low-pass and the regressor passes no filter, as in arXiv:2605.15949.
    """

    order: Annotated[int, Field(ge=1, le=8)] = 4
    cutoff_of_nyquist: Annotated[float, Field(gt=0, lt=1)] = 0.8
    maximum_cutoff_hz: Positive | None = None
    state_cutoff_ratio: Annotated[float, Field(ge=1, le=10)] | None = None
    settling_periods: NonNegative = 3.0  # margin without samples at both ends of the data, in periods of the cut-off

    def cutoff_hz(self, interval_s: float) -> float:
        """Return the cut-off frequency [Hz] for a target sampling interval [s]."""
        cutoff = self.cutoff_of_nyquist / (2.0 * interval_s)
        return cutoff if self.maximum_cutoff_hz is None else min(cutoff, self.maximum_cutoff_hz)


class DataLimits(Strict):
    """Limits of the checks of a recording's data quality, and thresholds for the computation of the checked values."""

    missed_cycles_share: Share = 0.01
    longest_gap_s: Positive = 0.01  # samples around a longer gap are dropped
    dropped_samples_share: Share = 0.1
    jitter_of_period: Positive = 0.25
    saturated_share: Share = 0.01
    saturation_of_limit: Share = 0.98
    joint_range_rad: Positive = 0.05
    torque_range_of_limit: NonNegative = 0.001  # least range of each moving joint, over its torque limit
    torque_of_limit: Positive = 0.005  # least peak torque over torque limit, at the joint with the largest ratio
    velocity_ratio: Positive = 0.1  # largest deviation from 1 of the ratio of recorded to derived velocity
    minimum_samples: Annotated[int, Field(ge=10)] = 100


class SuspicionLimits(Strict):
    """Limits for suspected faults of the data; a fault beyond its limit prevents the acceptance of the model.

    torque_scale: relative error of one joint's torques, estimated from the torques of the other joints [-].
    position_zero_rad: position offset of one joint [rad, or m for a prismatic joint].
    position_scale: relative error of one joint's positions, estimated from the torques of all joints [-].
    gravity_rad: tangent of the angle by which gravity is tilted.
    delay_s: delay of torques relative to positions [s].
    deviations: number of standard deviations that are subtracted from an estimated value before it is compared with its
        limit.
    gain: sum over the joints of log(torque error with the data as recorded / error if the fault is assumed).
    gain_of_exchange: limit of the gain for a wrong sign or exchanged columns. It is lower, because an inaccurate
        friction model does not cause a gain for these faults.
    significance: reduction of the squared errors if the fault is assumed, divided by the standard error of this
        reduction. The standard error is estimated from blocks of time.
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
    """Requirements for the acceptance of an identified model."""

    lambda_min_kg_m2: Positive = 1e-4
    fresh_poses: Annotated[int, Field(gt=0)] = 1_000_000
    relative_torque_error: Positive = 0.2
    condition_number: Positive = 1000.0
    time_at_speed_s: NonNegative = 0.5  # least time of each axis above the slow speed, with Coulomb friction
    friction_separation: Share = 0.1  # least share of a viscous column that Coulomb friction cannot reproduce
    torque_source_difference: Positive = 0.05  # largest relative difference of torques by models of the two currents
    relative_joint_error: Positive = 0.6  # largest relative torque error of a joint in motion
    relative_joint_error_with_rest: Positive = 1.2  # the same with samples at rest, in which the joint may stick
    error_over_noise: Positive = 2.5  # largest ratio of torque errors of joints in motion to the noise of the data
    change_of_arm: Positive = 0.03  # largest relative change of torques by a change of the arm during its recordings
    dynamic_error: Positive = 0.1  # largest relative error of a held-out dynamic torque, in excess of the noise
    suspicion: SuspicionLimits = SuspicionLimits()


class Projection(Strict):
    """Margins of the projections to models with a positive-definite inertia matrix (arXiv:2605.15949, eqs. 8 and 12).

    ladder_kg_m2: smallest permitted eigenvalues of the inertia matrix in the projection before a closed-loop
        refinement. A campaign tries them in ascending order until a refinement succeeds; the refinement on all bags
        together uses only the smallest.
    rescue_margin_kg_m2: smallest permitted eigenvalue of the inertia matrix during and after the refinement.
    maximum_rounds: largest number of quadratic programs of one projection.
    """

    ladder_kg_m2: tuple[NonNegative, ...] = (0.001, 0.002, 0.005, 0.01)
    rescue_margin_kg_m2: NonNegative = 2e-4
    maximum_rounds: Annotated[int, Field(gt=0)] = 60


class Audit(Strict):
    """Size of a campaign's searches for the smallest eigenvalue of the inertia matrix over all poses (audits).

    A campaign identifies every bag at every sampling interval. Each of these identifications audits the parameters from
    least squares, from the projection and from the closed-loop refinement with these settings. The final check of the
    campaign's result draws other poses; their number is `Acceptance.fresh_poses`.

    poses: number of sampled poses.
    searches: number of local searches; each starts at the worst pose of one block of the sample.
    seed: seed of the sample.
    """

    poses: Annotated[int, Field(gt=0)] = 65_536
    searches: Annotated[int, Field(gt=0)] = 1024
    seed: int = 1


class CoulombSettings(Strict):
    """Treatment of friction that the base parameters do not contain; see `dynid.model.friction`.

    treatment: "estimated" together with the base parameters, or "ignored" as in arXiv:2605.15949.
    structure: name of the friction model, one of those in `gear_ladder.LADDER`; "auto" selects it from the data.
    sliding_share: required fraction of moving states among the states that the low-pass combines in one sample. Samples
        with a smaller fraction get the weight `slow_weight`.
    transition_rad_s: transition velocity v of tanh(dq / v) [rad/s].
    slow_rad_s: speed below which a joint may stick and its torque gets a lower weight [rad/s].
    slow_weight: weight of samples in which a joint may stick, relative to 1 for all others.
    loop_memory_s: time before and after a standstill [s] in which the closed-loop refinement gives commands a lower
        weight, too.
    motion_cutoff_hz: cut-off frequency [Hz] of the low-pass for the measured motion. The closed-loop refinement
        computes friction from this motion.
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
    """Schema of identification.yaml.

    estimator: name of the estimator.
    sampling_interval_s: target sampling interval of an identification that is not a campaign [s].
    rows: method that makes torque equations from a recording. "filtered": low-pass and differences; "averaged":
        averages weighted by test functions, for slow or unevenly sampled recordings; "auto": chosen by the sampling
        times.
    campaign_intervals_s: target sampling intervals of a campaign, which identifies every bag at each of them [s].
    torque_source: current that the regression uses, "present" (measured) or "goal" (commanded).
    goal_delay_s: time from the timestamp of a commanded torque to the middle of the time for which it acts [s]. It is
        the transmission time plus half a control cycle of the bus, because a command acts for one cycle. None means no
        transmission time. A simulated bus never has a transmission time.
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
        """Return a copy of the settings with `rows` set to "filtered", which closed-loop refinements need.

        Args:
            method: name of the method, for the message.

        Raises:
            ConfigurationError: `rows` is "averaged".
        """
        if self.rows == "averaged":
            raise ConfigurationError(
                f"method '{method}' compares filtered torques, and rows are to be averaged: leave 'averaged' out, or "
                "use method 'regression'"
            )
        return self.model_copy(update={"rows": "filtered"})

    def transmission(self, robot: Robot, *, simulated: bool) -> float:
        """Return the time from the stamp of a commanded torque to the start of its effect [s].

        A command acts for one control cycle, and `goal_delay_s` extends to the middle of this cycle. So the result is
        `goal_delay_s` minus half a cycle; it is 0 for a simulated bus, or if `goal_delay_s` is None.

        Raises:
            ConfigurationError: `goal_delay_s` is less than half a control cycle.
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
        """Return the time from the stamp of a commanded torque to the middle of its effect [s].

        It is the transmission time (see `transmission`) plus half of `cycle_s`. The transmission time is 0 for a
        simulated bus, or if the setting `goal_delay_s` is None.

        Args:
            robot: the robot.
            cycle_s: control cycle, for which a command acts [s].
            simulated: whether the bus is simulated.

        Raises:
            ConfigurationError: `goal_delay_s` is less than half a control cycle of the robot.
        """
        return self.transmission(robot, simulated=simulated) + 0.5 * cycle_s


def load_identification(robot: Robot) -> IdentificationSettings:
    """Return the robot's identification settings.

    Raises:
        InputNotFoundError: the robot's folder has no identification.yaml.
        ConfigurationError: the file is not valid.
    """
    return load_validated(robot.folder / "identification.yaml", IdentificationSettings)

"""Study of the identification of elastic joints: accuracy of all identifiable parameters, with and without noise.

The identifiable parameters are linear combinations of physical parameters, which are called groups.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.identification.elastic.classification import Classification, classify_structure
from dynid.identification.elastic.experiment import ElasticRecording, drawn_reference, measured, run
from dynid.identification.elastic.identification import ElasticEstimate, filtered, identify, relative_errors
from dynid.identification.elastic.model import ElasticModel, ElasticStates
from dynid.identification.elastic.settings import ElasticFile, Stribeck, load_elastic
from dynid.robot import FloatArray, Robot

NOISE_DB = (20.0, 70.0, 80.0, 100.0, 200.0)
STATIC = "FC"


@dataclass(frozen=True, eq=False)
class ElasticStudy:
    """Accuracy with which the parameters of a simulated arm with elastic joints are identified.

    Attributes:
        found: classification of all parameters as unidentifiable, independent or dependent, and the identifiable
            groups (linear combinations) of parameters.
        true: true values of the groups, (b,).
        estimate: estimate from the quantised recording.
        errors: relative error |p_hat - p| / |p| of every group p whose true value is not zero, by group name.
        errors_frictionless: relative errors by group name, for an arm that is simulated without Coulomb friction.
        noise: mean relative error with additional noise; the keys are signal-to-noise ratios [dB].
        deflection_deg: largest |q - theta| of every joint, (n,) [deg].
        samples: number of samples in the recording.
    """

    found: Classification
    true: FloatArray
    estimate: ElasticEstimate
    errors: dict[str, float]
    errors_frictionless: dict[str, float]
    noise: dict[float, float]
    deflection_deg: FloatArray
    samples: int

    @property
    def error(self) -> float:
        """Mean relative error of the identified linear combinations of parameters, without additional noise."""
        return mean(self.errors)

    @property
    def error_no_static_friction(self) -> float:
        """Mean relative error of the identified groups of parameters, except groups of Coulomb friction.

        A group is an identifiable linear combination of parameters. The value is the larger of two means. One is for
        the arm with Coulomb friction, over all groups except those of Coulomb friction. The other is for an arm that is
        simulated without Coulomb friction, over all groups.
        """
        others = {name: value for name, value in self.errors.items() if not name.startswith(STATIC)}
        return max(mean(others), mean(self.errors_frictionless))


def mean(errors: dict[str, float]) -> float:
    """Return the mean of the values of a dictionary, such as relative errors by parameter name."""
    return float(np.mean(list(errors.values())))


def with_noise(states: ElasticStates, ratio_db: float, seed: int) -> ElasticStates:
    """Return states with additional white noise on positions, velocities and accelerations of links and motors.

    The standard deviation of the noise is the root mean square of each signal divided by 10^(ratio_db / 20).

    Args:
        states: states without the additional noise.
        ratio_db: signal-to-noise ratio [dB].
        seed: seed of the noise.
    """
    rng = np.random.default_rng(seed)
    size = 10.0 ** (-ratio_db / 20.0)
    return ElasticStates(
        *(one + size * np.sqrt((one**2).mean(axis=0)) * rng.normal(size=one.shape) for one in states.arrays)
    )


def error_by_stribeck(robot: Robot, shapes: Sequence[tuple[float, float]]) -> dict[tuple[float, float], float]:
    """Return the mean relative error of the identified parameters for each of several Stribeck curves.

    The identified parameters are groups, identifiable linear combinations of physical parameters.

    Args:
        robot: robot with elastic joints.
        shapes: two numbers for each Stribeck curve. The first is the break-away torque divided by Coulomb friction. The
            second is the speed [rad/s] at which the excess over Coulomb friction has fallen to 1/e of its value at
            rest.

    Returns:
        The error for each curve; the keys are the two numbers of the curve.
    """
    file = load_elastic(robot)
    errors = {}
    for ratio, speed in shapes:
        curve = Stribeck(breakaway_ratio=ratio, velocity_rad_s=speed, smoothing_rad_s=file.stribeck.smoothing_rad_s)
        errors[ratio, speed] = study(robot, (), file=file.model_copy(update={"stribeck": curve})).error
    return errors


def study(
    robot: Robot, noise_db: tuple[float, ...] = NOISE_DB, seed: int = 0, file: ElasticFile | None = None
) -> ElasticStudy:
    """Return the accuracy with which an arm with elastic joints is identified from a simulated experiment.

    The experiment is simulated, its positions are quantised and filtered, and the parameters are identified.

    Args:
        robot: robot with elastic joints.
        noise_db: signal-to-noise ratios for which the identification is repeated [dB].
        seed: seed of the noise.
        file: replacement for the content of the robot's elastic.yaml; None reads elastic.yaml.

    Raises:
        ConfigurationError: if elastic.yaml is missing, invalid or for another number of joints, if the robot has
            springs in robot.yaml, prismatic or coupled joints, or axes outside the kinematic chain, or if MuJoCo
            rejects the arm.
    """
    model = ElasticModel(robot, file or load_elastic(robot))
    how, found = model.file.measurement, classify_structure(model)
    reference = drawn_reference(model)
    recording = run(model, reference)
    states, tau = filtered(measured(recording, model.file), how)
    estimate = identify(model, states, tau, found)
    noise = {}
    for ratio in noise_db:
        noisy = identify(model, with_noise(states, ratio, seed), tau, found)
        noise[ratio] = mean(relative_errors(found, noisy, model.nominal))
    smooth = model.nominal.copy()
    smooth[model.place(STATIC)] = 0.0
    second = _identified(model, run(model, reference, smooth), found)
    return ElasticStudy(
        found=found,
        true=found.K @ model.nominal,
        estimate=estimate,
        errors=relative_errors(found, estimate, model.nominal),
        errors_frictionless=relative_errors(found, second, smooth),
        noise=noise,
        deflection_deg=np.rad2deg(np.abs(recording.q - recording.theta).max(axis=0)),
        samples=len(recording.q),
    )


def _identified(model: ElasticModel, recording: ElasticRecording, found: Classification) -> ElasticEstimate:
    states, tau = filtered(measured(recording, model.file), model.file.measurement)
    return identify(model, states, tau, found)

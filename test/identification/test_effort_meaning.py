"""Efforts that are not motor torques are reported as such before any other cause."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from recordings import Change, motion, recorded, unchanged

from dynid.identification.diagnosis.diagnosis import Suspicion, diagnose, suspicion_of
from dynid.identification.diagnosis.effort_meaning import EXTERNAL, NET_OF_GRAVITY, UNSIGNED, meanings
from dynid.identification.diagnosis.interpretations import Trials
from dynid.identification.estimators.regression import Regression
from dynid.identification.pipeline import identify
from dynid.identification.settings import load_identification
from dynid.model.drive import RESISTING, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.model.standard import load_standard
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("aloha_class")
MODEL, SETTINGS = ArmModel.of(ROBOT), load_identification(ROBOT)
LIMITS = SETTINGS.acceptance.suspicion
PLAIN = SETTINGS.coulomb_friction.model_copy(update={"structure": "Coulomb-viscous"})
STANDARD = load_standard(ROBOT.folder / "models" / "nominal.yaml", MODEL.mdh, MODEL.regrouping.standard)


def gravity(scale: float, seed: int = 0) -> FloatArray:
    """Gravity torques (N, n) [N m] as a driver subtracts them, with masses times a scale."""
    _, q, _, _ = motion(ROBOT, 25.0, seed)
    base = MODEL.base_parameters(STANDARD)
    return np.asarray(MODEL.gravity_torque(q, base, scale * MODEL.gravity))


def trials(seed: int = 0, torques: Change = unchanged, coulomb: float = 0.1) -> Trials:
    return Trials(MODEL, recorded(ROBOT, seed=seed, torques=torques, coulomb=coulomb).samples(SETTINGS))


def told(of: Trials, nominal: BaseParameters | None = None) -> list[Suspicion]:
    """Meanings of the efforts that are reported."""
    found = [suspicion_of(one, LIMITS, ROBOT.joint_names) for one in meanings(of, nominal)]
    return [one for one in found if one.strength > 1.0]


@pytest.mark.parametrize("scale", [1.0, 0.9])
def test_efforts_net_of_gravity_are_named_so(scale: float) -> None:
    (found,) = told(trials(torques=lambda tau: tau - gravity(scale)))
    assert found.kind == NET_OF_GRAVITY and found.words.startswith("the efforts look net of gravity")


@pytest.mark.parametrize("of", [np.abs, lambda tau: -np.abs(tau)])
def test_efforts_without_a_sign_are_named_so(of: Callable[[FloatArray], FloatArray]) -> None:
    found = told(trials(torques=of))
    assert UNSIGNED in {one.kind for one in found}
    assert any("record the motors' current or torque with its sign" in one.words for one in found)


def test_external_torques_are_named_so() -> None:
    (found,) = told(trials(torques=lambda tau: np.random.default_rng(5).normal(0.0, 0.1, tau.shape)))
    assert found.kind == EXTERNAL and "They look like external torques" in found.words


@pytest.mark.parametrize(("seed", "coulomb"), [(0, 0.1), (1, 0.4), (2, 1.0)])
def test_motor_torques_are_not_suspected(seed: int, coulomb: float) -> None:
    for nominal in (None, MODEL.base_parameters(STANDARD)):
        assert told(trials(seed, coulomb=coulomb), nominal) == []


def test_missing_gravity_is_detected_with_the_nominal_arm() -> None:
    """Gear friction grows with the gravity that the efforts lack."""
    base = MODEL.base_parameters(STANDARD)
    loaded = recorded(ROBOT).samples(SETTINGS)
    worm = 0.3 * np.abs(gravity(1.0)) * np.sign(motion(ROBOT, 25.0, 0)[2])
    assert told(Trials(MODEL, loaded), base) == []
    (found,) = told(trials(torques=lambda tau: tau + worm - gravity(0.9)), base)
    assert found.kind == NET_OF_GRAVITY
    assert not told(trials(torques=lambda tau: tau + worm), base)


def test_missing_gravity_of_an_arm_that_is_much_heavier_than_its_nominal_model_is_detected() -> None:
    """What the driver's light model leaves of gravity is two thirds of what it subtracts."""
    base = MODEL.base_parameters(STANDARD)
    light = replace(base, values=0.6 * base.values)
    worm = 0.3 * np.abs(gravity(1.0)) * np.sign(motion(ROBOT, 25.0, 0)[2])
    (found,) = told(trials(torques=lambda tau: tau + worm - gravity(0.6)), light)
    assert found.kind == NET_OF_GRAVITY
    assert not told(trials(torques=lambda tau: tau + worm), light)


def test_external_torques_of_an_inaccurate_model_are_named_so() -> None:
    """A fifth of the torques remains, beside slow noise; efforts five times as large are not suspected."""
    base, (time, q, _, _) = MODEL.base_parameters(STANDARD), motion(ROBOT, 25.0, 0)
    noise = np.sin(np.outer(time, 5.3 + 0.7 * np.arange(q.shape[1]))) + np.sin(8.9 * time)[:, None]

    def rest(tau: FloatArray) -> FloatArray:
        return np.asarray(0.2 * tau + 0.15 * noise * np.sqrt(np.mean(tau**2, axis=0)))

    (found,) = told(trials(torques=rest), base)
    assert found.kind == EXTERNAL
    assert EXTERNAL not in {one.kind for one in told(trials(torques=rest), None)}
    assert EXTERNAL not in {one.kind for one in told(trials(torques=lambda tau: 5.0 * rest(tau)), base)}


def test_meaning_of_efforts_is_reported_before_joint_faults() -> None:
    samples = recorded(ROBOT, torques=lambda tau: tau - gravity(0.95)).samples(SETTINGS)
    regression = Regression.stack(MODEL, samples, PLAIN)
    found = diagnose(MODEL, samples, regression, LIMITS, PLAIN, thorough=True)
    assert found.suspicions[0].kind == NET_OF_GRAVITY
    assert found.of_efforts == found.sentences[:1]


@pytest.mark.slow
def test_held_efforts_come_first_if_the_model_is_refused() -> None:
    """Renewed at 10 Hz in a log of 100 Hz: ten rows a second are too few for this motion."""
    source = recorded(ROBOT, noise=0.3, torques=lambda tau: tau[np.arange(len(tau)) // 10 * 10])
    result = identify(ROBOT, [source])
    assert not result.verdict.accepted
    assert "efforts are held: they are renewed every 10 rows (10 Hz)" in result.suspicions[0]


def test_efforts_that_lose_no_work_and_are_too_small_are_external() -> None:
    """A quarter of the links' torques, with noise, but no motor moves gears without a loss."""
    base, (time, *states) = MODEL.base_parameters(STANDARD), motion(ROBOT, 25.0, 0)
    links = MODEL.inverse_dynamics(*states, of_kinds(base, RESISTING, others=True))
    size = np.sqrt(np.mean(links**2, axis=0))
    noise = 0.05 * size * np.sin(np.outer(time, 5.3 + 0.7 * np.arange(links.shape[1])))
    (found,) = told(trials(torques=lambda tau: 0.25 * links + noise), base)
    assert found.kind == EXTERNAL and "or contain no friction: " in found.words
    rubs = 0.5 * size * np.sign(states[1])
    assert EXTERNAL not in {one.kind for one in told(trials(torques=lambda tau: 0.25 * (links + rubs) + noise), base)}


def test_an_arm_of_joint_torque_sensors_that_is_lighter_than_its_nominal_model_is_not_suspected() -> None:
    """A sensor behind the gear measures no friction; the model explains its torques."""
    base, (_, *states) = MODEL.base_parameters(STANDARD), motion(ROBOT, 25.0, 0)
    links = MODEL.inverse_dynamics(*states, of_kinds(base, RESISTING, others=True))
    assert not told(trials(torques=lambda tau: 0.4 * links), base)


def test_efforts_net_of_gravity_without_friction_are_not_external() -> None:
    base, (_, *states) = MODEL.base_parameters(STANDARD), motion(ROBOT, 25.0, 0)
    links = MODEL.inverse_dynamics(*states, of_kinds(base, RESISTING, others=True))
    (found,) = told(trials(torques=lambda tau: links - gravity(1.0)), base)
    assert found.kind == NET_OF_GRAVITY

"""The friction law on arrays: equal to the scalar law, by functions that numpy and jax.numpy share."""

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynid.errors import DataError
from dynid.model import friction_arrays
from dynid.model.dynamics import ArmModel
from dynid.model.friction import SYMBOLS, FrictionLaw
from dynid.model.friction_arrays import ArrayFriction
from dynid.model.standard import load_nominal
from dynid.robot import load_robot
from dynid.runtime.model import Model

SHARED = ("asarray", "abs", "sign", "tanh", "exp", "where")  # of numpy and jax.numpy
N = 6


class Frozen(np.ndarray):
    """Array that cannot be changed, as those of jax, and has no functions of its own."""

    def __array_finalize__(self, parent: Any) -> None:
        self.flags.writeable = False

    def __bool__(self) -> bool:
        if self.ndim == 0:
            return super().__bool__()
        raise AssertionError("a traced array has no truth value")


def like_jax() -> SimpleNamespace:
    """Return a module with nothing but the shared functions, over arrays that cannot be changed."""

    def frozen(name: str) -> Any:
        return lambda *given: np.asarray(getattr(np, name)(*given), dtype=None).view(Frozen)

    return SimpleNamespace(**{name: frozen(name) for name in SHARED})


def drawn_law(seed: int, transition: float) -> FrictionLaw:
    random = np.random.default_rng(seed)
    values = {one: random.uniform(0.01, 0.3, N) for one in SYMBOLS} | {"ws": random.uniform(0.3, 3.0, N)}
    values |= {"a": random.uniform(0.6, 2.0, N), "of": random.normal(0.0, 0.1, N), "fa": random.uniform(0.0, 0.01, N)}
    left_out = {one: 0.0 for one in random.choice(SYMBOLS[2:-2], 3)}
    return FrictionLaw.of(N, values | left_out, transition)


def states(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return velocities, motor torques and loads (4, 50, N), some of them zero or equal."""
    dq, motor, load = np.random.default_rng(seed).normal(0.0, 2.0, (3, 4, 50, N))
    dq[0, :5], motor[1, :5], load[2, :5] = 0.0, 0.0, 0.0
    load[3, :5] = -motor[3, :5]
    return dq, motor, load


@pytest.mark.parametrize("transition", [0.0, 0.02])
@pytest.mark.parametrize("seed", range(5))
def test_arrays_equal_the_scalar_law(seed: int, transition: float) -> None:
    law, (dq, motor, load) = drawn_law(seed, transition), states(seed)
    for xp in (np, like_jax()):
        found = ArrayFriction.of(law, xp)
        given = [one if xp is np else one.copy().view(Frozen) for one in (dq, motor, load)]
        np.testing.assert_allclose(np.array(found.budget(*given)), law.budget(dq, motor, load), atol=1e-13)
        np.testing.assert_allclose(np.array(found.torque(*given)), law.torque(dq, motor, load), atol=1e-13)
        one = np.array(found.torque(*(part[0, 7] for part in given)))
        np.testing.assert_allclose(one, law.torque(dq, motor, load)[0, 7], atol=1e-13)


def test_axes_without_stribeck_velocity_fade_at_once() -> None:
    law = FrictionLaw.of(2, {"fb": 0.1})
    found = ArrayFriction.of(law, np)
    dq = np.array([[0.0, 1.0]])
    np.testing.assert_allclose(found.budget(dq, 0.0 * dq, 0.0 * dq), law.budget(dq))


def test_whole_friction_of_a_model_is_given() -> None:
    from benchmarks.speed.known_models import known_model

    model: Model = known_model("crane_x7")
    dq, load = np.random.default_rng(0).normal(0.0, 1.0, (2, 30, 8))
    found = model.friction_arrays(np)
    motor = load + model.friction(dq, load)  # `friction` counts the load as what the links take
    np.testing.assert_allclose(found.torque(dq, motor, -load), model.friction(dq, load), atol=1e-9)


def test_friction_of_coupled_motors_is_refused_and_not_left_out() -> None:
    robot = load_robot("tx40")
    arm = ArmModel.of(robot)
    base = arm.base_parameters(load_nominal(robot, arm.mdh, arm.regrouping.standard))
    assert any(name.startswith("FVM") and value for name, value in zip(base.names, base.values, strict=True))
    with pytest.raises(DataError, match="has friction of coupled motors"):
        Model(robot, base, None).friction_arrays(np)


def test_terms_that_are_not_written_here_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(friction_arrays, "SUPPORTED_TERMS", tuple(one for one in SYMBOLS if one != "km"))
    with pytest.raises(DataError, match="friction has the terms km, which"):
        ArrayFriction.of(FrictionLaw.of(2, {"km": 0.2}), np)


def test_jax_gives_the_same() -> None:
    jnp: ModuleType = pytest.importorskip("jax.numpy", reason="jax is not installed")
    law, (dq, motor, load) = drawn_law(1, 0.02), states(1)
    found = ArrayFriction.of(law, jnp)
    np.testing.assert_allclose(found.torque(dq, motor, load), law.torque(dq, motor, load), atol=1e-4)

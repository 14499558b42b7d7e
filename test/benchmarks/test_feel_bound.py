"""Lower bounds of contact detection: huge forces at once, tiny forces never, intermediate forces by bisection."""

from collections.abc import Callable

import numpy as np
import pytest
from benchmarks.contact.bound import (
    FORCES_N,
    LARGEST_N,
    ROUNDS,
    Ideal,
    compared,
    first_difference_ms,
    hidden_n,
    ideal_bound,
    least_rms_n,
    moving_arm,
    positions,
    registers,
    still_arm,
)
from benchmarks.contact.scenes import Scene, Touched
from test.shared.felt import ARM, ROBOT, N, control_model, model_file

from dynid.control.controller import load_controller
from dynid.control.dynamics_kernel import compile_single
from dynid.robot import FloatArray
from dynid.trajectory.families import load_excitation

WAY = np.array([0.6, 0.64, -0.48])


@pytest.fixture(scope="module")
def scene() -> Scene:
    """Return an arm with a known model, so that no identification is needed."""
    model = control_model()
    return Scene(
        ROBOT, load_controller(ROBOT), load_excitation(ROBOT), ARM, compile_single(ARM), model_file(), model, model
    )


@pytest.mark.slow
def test_large_pull_is_found_at_once_and_tiny_one_is_not(scene: Scene) -> None:
    huge, tiny = (compared(scene, moving_arm, 3, size * WAY) for size in (100.0, 1e-4))
    assert huge.register_ms <= huge.position_ms <= huge.ideal_ms <= huge.dynid_ms <= 6
    assert np.isinf([tiny.position_ms, tiny.ideal_ms, tiny.dynid_ms]).all()
    assert max(abs(huge.null), abs(tiny.null)) < ideal_bound()


@pytest.mark.parametrize("seen", [positions, registers])
def test_two_newtons_at_rest_change_no_reading_in_time_and_a_huge_pull_does(
    scene: Scene, seen: Callable[[Touched], FloatArray]
) -> None:
    """Not even a velocity register's, which rests while a joint moves within its play."""

    def after(size: float) -> float:
        return first_difference_ms(lambda: still_arm(scene, 1), size * WAY, 20, seen)

    assert np.isinf(after(2.0)) and 0.0 < after(100.0) < 10.0


@pytest.mark.slow
def test_the_ideal_statistic_is_normal_without_a_pull_and_grows_with_one(scene: Scene) -> None:
    found = []
    for pulls in (False, True):
        run = still_arm(scene, 2, sways=True)
        ideal = Ideal(run)
        for k in range(400):
            run.cycle(5.0 * WAY if pulls and k >= 350 else None)
            ideal.update()
            if k == 350:
                ideal.expect(5.0 * WAY)
        found.append(ideal.deviations)
    assert abs(found[0]) < 3.0 and found[1] > 3.0 * ideal_bound()


class Stiff:
    """An arm whose readings change where it is pulled by more than it hides."""

    def __init__(self, hides_n: float) -> None:
        self._hides_n, self.plant, self.position = hides_n, self, np.zeros(N)

    def cycle(self, force: FloatArray | None = None) -> list[bool]:
        self.position = self.position + (force is not None and np.linalg.norm(force) > self._hides_n)
        return []


@pytest.mark.parametrize("hides_n", [0.0, 0.7, 3.3, 19.0])
def test_the_largest_hidden_pull_is_found_by_bisection(hides_n: float) -> None:
    found = hidden_n(lambda: Stiff(hides_n), WAY, 5)  # type: ignore[arg-type,return-value]
    assert hides_n - LARGEST_N / 2**ROUNDS <= found <= hides_n + 1e-9


def test_hidden_pulls_are_errors_as_large_as_themselves() -> None:
    assert FORCES_N == (2.0, 5.0, 10.0)
    assert least_rms_n([0.0, 1.9]) == 0.0
    np.testing.assert_allclose(least_rms_n([20.0]), np.sqrt(129.0 / 3.0))
    np.testing.assert_allclose(least_rms_n([6.0, 0.0]), np.sqrt(29.0 / 6.0))

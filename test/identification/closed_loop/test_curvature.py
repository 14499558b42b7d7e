"""Secant estimate of the residual's curvature: its updates, when it is used, and the steps that it saves."""

import numpy as np
import pytest

from dynid.identification.closed_loop.curvature import ResidualCurvature
from dynid.robot import FloatArray


def torques(x: FloatArray) -> FloatArray:
    """Return four 'samples' of one axis that bend with both parameters, (4, 1)."""
    return np.array([[x[0] + x[1]], [x[0] * x[1]], [x[0] ** 2 + 0.5 * x[1]], [np.sin(x[1])]])


def jacobian(x: FloatArray) -> FloatArray:
    return np.array([[[1.0, 1.0]], [[x[1], x[0]]], [[2.0 * x[0], 0.5]], [[0.0, np.cos(x[1])]]])


MEASURED = torques(np.array([0.4, 0.6])) + np.array([[0.8], [-0.9], [0.7], [0.6]])  # residuals stay large


def exact(x: FloatArray) -> FloatArray:
    """Return - sum r times second derivatives at x, (2, 2)."""
    r = (MEASURED - torques(x)).ravel()
    return -np.array([[2.0 * r[2], r[1]], [r[1], -r[3] * np.sin(x[1])]])


def minimised(use: bool) -> tuple[FloatArray, int]:
    """Return the minimum and the number of steps, with the secant or by Gauss-Newton alone."""
    x, curvature = np.array([0.5, 0.5]), ResidualCurvature(2)
    for count in range(200):
        J, r = jacobian(x), MEASURED - torques(x)
        curvature.update(x, J, r, 4)
        rows = J.reshape(-1, 2)
        gradient, hessian = rows.T @ r.ravel(), rows.T @ rows
        if np.linalg.norm(gradient) < 1e-10:
            return x, count
        step = np.linalg.solve(hessian + (curvature.matrix if use and curvature.trusted else 0.0), gradient)
        promised = float(np.sum(r**2) - 2.0 * gradient @ step + step @ hessian @ step)
        x = x + step
        curvature.compare(step, promised, float(np.sum((MEASURED - torques(x)) ** 2)))
        if count == 0:
            curvature.trusted = True
    return x, 200


def test_jacobian_agrees_with_finite_differences() -> None:
    x, h = np.array([0.3, 0.7]), 1e-6
    columns = [(torques(x + h * e) - torques(x - h * e)) / (2.0 * h) for e in np.eye(2)]
    assert jacobian(x) == pytest.approx(np.stack(columns, axis=2), abs=1e-8)


def test_secant_meets_exact_curvature_along_a_small_step() -> None:
    x, step = np.array([0.4, 0.6]), 1e-5 * np.array([1.0, -2.0])
    curvature = ResidualCurvature(2)
    for point in (x, x + step):
        curvature.update(point, jacobian(point), MEASURED - torques(point), 4)
    assert curvature.matrix @ step == pytest.approx(exact(x) @ step, rel=1e-3)
    assert curvature.matrix == pytest.approx(curvature.matrix.T)


def test_jacobians_of_other_strides_give_no_curvature() -> None:
    x, step = np.array([0.4, 0.6]), np.array([0.1, -0.1])
    curvature = ResidualCurvature(2)
    curvature.update(x, jacobian(x), MEASURED - torques(x), 8)
    curvature.update(x + step, jacobian(x + step), MEASURED - torques(x + step), 4)
    assert not curvature.matrix.any()


def test_curvature_is_used_only_while_it_predicts_better() -> None:
    curvature, step = ResidualCurvature(2), np.array([0.1, 0.0])
    curvature.matrix = np.diag([10.0, 0.0])  # adds 0.1 to a promise
    curvature.compare(step, 1.0, 1.09)
    assert curvature.trusted
    curvature.compare(step, 1.0, 1.01)
    assert not curvature.trusted


def test_secant_needs_fewer_steps_in_a_curved_valley() -> None:
    plain, slow = minimised(use=False)
    bent, fast = minimised(use=True)
    assert bent == pytest.approx(plain, abs=1e-8)
    assert fast < slow

"""Generated kernels against `ArmModel`, the readable reference."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from compiled_arm import compile_forward_dynamics, compile_inertia_matrix

from dynid.codegen.compile import compile_inverse_dynamics, compile_pivots, compile_regressor
from dynid.errors import DataError
from dynid.model.dynamics import ArmModel
from dynid.model.mdh import MdhChain
from dynid.model.model_file import read_model_file
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Structure, load_robot

ROBOT = load_robot("crane_x7")


def crane() -> tuple[ArmModel, BaseParameters]:
    model = ArmModel.of(ROBOT, mount="hanging")
    return model, read_model_file(ROBOT.folder / "models" / "paper.yaml").base_parameters(model)


def skewed_arm() -> tuple[ArmModel, BaseParameters]:
    """Three joints at no special angle and two decoupled axes, with products of inertia."""
    tilt = np.eye(4)
    tilt[:3, :3] = [[0.6, 0.0, 0.8], [0.0, 1.0, 0.0], [-0.8, 0.0, 0.6]]
    arrays = [[0.3, -1.1, 0.7], [0.0, 0.2, -0.1], [0.1, 0.3, 0.2], [0.4, -0.2, 1.0]]
    alpha, d, r, offset = (np.array(a) for a in arrays)
    chain = MdhChain(alpha, d, r, offset, tilt, np.tile(np.eye(4), (3, 1, 1)))
    model = ArmModel(chain, 5, Structure(products_of_inertia=True), np.array([0.0, 3.0, -9.0]))
    values = np.random.default_rng(3).uniform(0.1, 1.0, len(model.names))
    return model, BaseParameters(model.names, values)


def smallest_pivot(M: FloatArray, eps: float) -> float:
    """Elimination from the last row up, stopped at the first pivot that is not positive."""
    rest, low = M - eps * np.eye(len(M)), np.inf
    for k in reversed(range(len(M))):
        low = min(low, rest[k, k])
        if low <= 0:
            return float(low)
        rest = rest - np.outer(rest[:, k], rest[k]) / rest[k, k]
    return float(low)


@pytest.mark.parametrize("arm", [crane, skewed_arm])
def test_pivots_are_those_of_the_inertia_matrix(arm: object) -> None:
    model, phi = arm()  # type: ignore[operator]
    q = np.random.default_rng(1).uniform(-3.4, 3.4, (403, model.axes))
    pivots = compile_pivots(model)
    for eps in (0.0, 3e-4, 5e-3):
        expected = [smallest_pivot(M, eps) for M in model.inertia_matrix(q, phi)]
        np.testing.assert_allclose(pivots(q, phi, eps), expected, rtol=1e-9, atol=1e-14)
        eigenvalues = np.linalg.eigvalsh(model.inertia_matrix(q, phi))[:, 0]
        np.testing.assert_array_equal(pivots(q, phi, eps) > 0, eigenvalues > eps)


def test_pivots_find_the_published_models_indefinite_pose() -> None:
    model, phi = crane()
    pose = np.deg2rad([[0, 56, 2, -124, 90, 90, 0, 0], [0, 0, 0, -90, 0, 0, 0, 0]])
    bad, good = compile_pivots(model)(pose, phi, 0.0)
    assert bad < 0 < good


def full_arm() -> tuple[ArmModel, BaseParameters]:
    """The shipped arm with products of inertia and Coulomb friction."""
    model = ArmModel.of(ROBOT, structure=Structure(products_of_inertia=True, coulomb_friction=True))
    heavy = model.regrouping.K @ np.concatenate([np.tile([1, 0, 0, 1, 0, 1, 0.02, 0.01, 0.03, 1], 7), np.full(24, 0.5)])
    return model, BaseParameters(model.names, heavy)


@pytest.mark.slow
@pytest.mark.parametrize("arm", [crane, skewed_arm, full_arm])
def test_dynamics_are_the_reference_models(arm: object) -> None:
    model, phi = arm()  # type: ignore[operator]
    q, dq, ddq = np.random.default_rng(2).uniform(-3.4, 3.4, (3, 37, model.axes))
    W = model.regressor(q, dq, ddq)
    np.testing.assert_allclose(compile_regressor(model)(q, dq, ddq), W, atol=1e-11 * np.abs(W).max())
    tau = model.inverse_dynamics(q, dq, ddq, phi)
    np.testing.assert_allclose(compile_inverse_dynamics(model)(q, dq, ddq, phi), tau, atol=1e-11 * np.abs(tau).max())
    M = model.inertia_matrix(q, phi)
    np.testing.assert_allclose(compile_inertia_matrix(model)(q, phi), M, atol=1e-12 * np.abs(M).max())
    definite = np.linalg.eigvalsh(M)[:, 0] > 1e-3
    assert definite.any()
    found = compile_forward_dynamics(model)(q, dq, tau, phi)[definite]
    np.testing.assert_allclose(found, ddq[definite], atol=1e-8)


def test_states_out_of_range_or_misshapen_are_refused() -> None:
    model, phi = crane()
    pivots = compile_pivots(model)
    q = np.zeros((40, 8))
    q[17, 3] = 3.6
    with pytest.raises(DataError, match=r"joint 4 is at 3\.6 rad in state 17"):
        pivots(q, phi, 0.0)
    q[17, 3] = np.nan
    with pytest.raises(DataError, match="joint 4 is at nan"):
        pivots(q, phi, 0.0)
    with pytest.raises(DataError, match=r"states must be \(N, 8\)"):
        pivots(np.zeros((4, 7)), phi, 0.0)
    with pytest.raises(DataError, match="another model"):
        pivots(np.zeros((4, 8)), BaseParameters(("A",), np.zeros(1)), 0.0)


def test_an_unusable_cache_folder_is_reported_and_replaced(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    code = (
        "import warnings, numpy as np; warnings.simplefilter('always')\n"
        "from dynid.codegen.cache import cache_folder\n"
        "folder = cache_folder(); print(folder, folder.is_dir())"
    )
    environment = {**os.environ, "DYNID_CACHE": str(in_the_way / "below")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "cannot be used" in done.stderr and "DYNID_CACHE" in done.stderr
    folder, usable = done.stdout.split()
    assert usable == "True" and not Path(folder).exists()  # it went with the process

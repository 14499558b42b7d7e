"""The quick audit finds the violations of the compiled audit, at its own poses."""

import numpy as np
import pytest
from arms import arm, nominal

from dynid.identification.feasibility import quick_audit as quick_audit_module
from dynid.identification.feasibility.audit import audit
from dynid.identification.feasibility.pose_kernels import InertiaFunctions
from dynid.identification.feasibility.quick_audit import quick_audit
from dynid.model.model_file import read_model_file
from dynid.model.standard import load_standard
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
BOX = (ROBOT.audit_lower, ROBOT.audit_upper)


@pytest.mark.parametrize("name", ["nominal", "paper"])
def test_both_audits_agree(name: str) -> None:
    path = ROBOT.folder / "models" / f"{name}.yaml"
    if name == "paper":
        phi = read_model_file(path).base_parameters(MODEL)
    else:
        phi = MODEL.base_parameters(load_standard(path, MODEL.mdh))
    quick = quick_audit(MODEL, phi, *BOX, poses=20_000, limit=1e-4)
    thorough = audit(MODEL, phi, *BOX, limit=1e-4)
    assert quick.lambda_min == pytest.approx(thorough.lambda_min, abs=2e-6)
    assert quick.certificate == thorough.certificate and quick.passed == (name == "nominal")
    M = MODEL.inertia_matrix(quick.pose[None], phi)[0]
    assert np.linalg.eigvalsh(M)[0] == pytest.approx(quick.lambda_min, abs=1e-12)
    assert (quick.pose[:7] >= BOX[0] - 1e-12).all() and (quick.pose[:7] <= BOX[1] + 1e-12).all()
    assert quick.poses_checked == 20_000


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [5000, 299, 7])
def test_every_sampled_pose_is_checked(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a pose stands in the sample does not matter: the twelve lowest are those by plain algebra."""
    monkeypatch.setattr(quick_audit_module, "CHUNK", chunk)
    phi, functions, poses, seed = nominal("crane_x7"), InertiaFunctions(MODEL), 300, 1175
    q = np.zeros((poses, 8))
    q[:, :7] = np.random.default_rng(seed).uniform(*BOX, (poses, 7))
    order = np.argsort(np.linalg.eigvalsh(MODEL.inertia_matrix(q, phi))[:, 0])[:12]
    assert {0, poses - 1} <= set(order)  # the first and the last pose are among them
    ends = [functions.local_minimum(pose, phi.values, range(7), *BOX) for pose in q[order]]
    ends.sort(key=lambda one: one[1])
    found = quick_audit(MODEL, phi, *BOX, poses=poses, limit=1.0, seed=seed)
    np.testing.assert_array_equal(found.worst_poses, [pose for pose, _ in ends])
    assert found.lambda_min == ends[0][1] and (found.worst_poses[:, 7] == 0.0).all()
    # a pose at the limit meets it
    values = [value for _, value in ends]
    below = quick_audit(MODEL, phi, *BOX, poses=poses, limit=values[3], seed=seed)
    assert len(below.worst_poses) == sum(value < values[3] for value in values) < 12


@pytest.mark.slow
def test_defaults_are_those_that_were_measured() -> None:
    found = quick_audit(MODEL, nominal("crane_x7"), *BOX)
    assert (found.poses_checked, found.seed, found.limit) == (50_000, 1, 0.0)

"""The quick audit finds what the compiled one finds, at poses of its own."""

import numpy as np
import pytest
from arms import arm

from dynid.identification.feasibility.audit import audit
from dynid.identification.feasibility.quick_audit import quick_audit
from dynid.model.model_file import load_model
from dynid.model.standard import load_standard
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
BOX = (ROBOT.audit_lower, ROBOT.audit_upper)


@pytest.mark.parametrize("name", ["nominal", "paper"])
def test_both_audits_agree(name: str) -> None:
    path = ROBOT.folder / "models" / f"{name}.yaml"
    if name == "paper":
        phi = load_model(path).base_parameters(MODEL)
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

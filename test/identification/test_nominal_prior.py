"""Slow recordings that do not determine all parameters: nominal values are used if held-out torques support them."""

import numpy as np
import pytest

from dynid.errors import UndeterminedError
from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.data.recordings import Recording
from dynid.identification.nominal_prior import nominal_prior
from dynid.identification.pipeline import identify
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_nominal
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("planar_3r")
MODEL = ArmModel.of(ROBOT)
SLOW = load_identification(ROBOT).model_copy(update={"rows": "averaged"})
HEAVIER, NOISE_NM = 1.25, 0.01


def truth() -> FloatArray:
    """A quarter more than nominal, without Coulomb friction, (p,)."""
    phi = MODEL.base_parameters(load_nominal(ROBOT, MODEL.mdh, MODEL.regrouping.standard)).values
    return HEAVIER * np.where([name.startswith("FC") for name in MODEL.names], 0.0, phi)


def recording(name: str, seed: int, still: int | None = None, rate_hz: float = 15.0) -> Recording:
    """Sums of sines; all joints move alike, or one stands."""
    time, random = np.arange(0.0, 60.0, 1.0 / rate_hz), np.random.default_rng(seed)
    omega, phase = random.uniform(0.3, 2.5, (2, ROBOT.size, 3))
    angle = omega * time[:, None, None] + phase
    shapes = (0.3 * np.sin(angle), 0.3 * omega * np.cos(angle), -0.3 * omega**2 * np.sin(angle))
    q, dq, ddq = (one.sum(axis=2) for one in shapes)
    for one, rest in ((q, 0.4), (dq, 0.0), (ddq, 0.0)):
        if still is None:
            one[:, 1:] = one[:, :1]
        else:
            one[:, still] = rest
    tau = MODEL.regressor(q, dq, ddq) @ truth() + NOISE_NM * random.standard_normal(q.shape)
    return recording_from_arrays(ROBOT, time, q, tau, name=name)


@pytest.mark.slow
def test_nominal_values_fill_in_if_held_out_torques_agree() -> None:
    fitted, held = recording("fitted", 1), recording("held", 2)
    with pytest.raises(UndeterminedError, match="hold out some of the time"):
        identify(ROBOT, [fitted], settings=SLOW)
    result = identify(ROBOT, [fitted], settings=SLOW, validation=[held])
    assert result.verdict.accepted, [check for check in result.verdict.checks if not check.passed]
    assert any("nominal values fill in" in note for note in result.notes)
    assert result.determined is not None and 0 < len(result.determined.determined) < len(MODEL.names)
    for name in result.determined.determined:
        assert result.base[name] == pytest.approx(truth()[MODEL.names.index(name)], rel=0.1), name
    deviations = result.estimate.base.standard_deviations
    prior = nominal_prior(ROBOT, MODEL)
    assert deviations is not None and prior is not None and prior.standard_deviations is not None
    assert (deviations <= 1.01 * prior.standard_deviations).all()


@pytest.mark.slow
def test_a_model_with_a_joint_that_never_moved_is_not_accepted() -> None:
    result = identify(ROBOT, [recording("one", 1, still=2)], settings=SLOW, held_out_share=0.3)
    assert "joint_motion" in {check.id for check in result.verdict.checks if not check.passed}
    assert result.determined is not None and {"ZZ3", "IA3", "FV3"} <= set(result.determined.others)


def test_filtered_rows_refuse_undetermined_parameters() -> None:
    filtered = SLOW.model_copy(update={"rows": "filtered"})
    with pytest.raises(UndeterminedError, match="cannot separate") as refusal:
        identify(ROBOT, [recording("one", 1, rate_hz=200.0)], settings=filtered, held_out_share=0.3)
    assert "hold out" not in str(refusal.value)

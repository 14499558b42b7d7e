"""`dynid.mujoco_model`: steps with friction, and the inverse dynamics."""

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
from benchmarks.speed.known_models import known_model
from tracked_sine import tracked

import dynid
from dynid.errors import DataError
from dynid.identification.estimators.torque_errors import in_motion
from dynid.model.model_file import ModelFile, friction_block, parameter_rows, save_model
from dynid.model.standard import to_file
from dynid.robot import FloatArray
from dynid.runtime.model import Model
from dynid.trajectory.families import load_excitation

RATE_HZ = 500.0


MODEL = known_model("crane_x7")  # its friction has every term, the offset included


def result_folder(model: Model, folder: Path) -> Path:
    """Write a model as `identify` does."""
    arm, robot = model.arm(), model.robot
    assert model.standard is not None
    content = ModelFile(
        robot=robot.name,
        structure_hash=arm.structure_hash,
        accepted=True,
        source="test",
        parameters=parameter_rows(arm, model.base),
        friction_law=friction_block(model.friction_law),
        standard=to_file(model.standard, arm.mdh, robot.name, robot.joint_names, "test"),
    )
    save_model(folder / "model.yaml", content)
    return folder


def inverse(arm: object, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
    """Return motor torques (N, n) [N m] of states by MuJoCo."""
    _, data, friction = arm  # type: ignore[misc]
    found = np.empty_like(q)
    for k, state in enumerate(zip(q, dq, ddq, strict=True)):
        data.qpos[friction.dofs], data.qvel[friction.dofs], data.qacc[friction.dofs] = state
        found[k] = friction.inverse(data)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("law", ["loaded", "plain"])
def test_inverse_dynamics_on_v01_are_those_of_the_model(law: str, tmp_path: Path) -> None:
    model = known_model("crane_x7", law)
    path = load_excitation(model.robot).trajectory("V01", "limited")
    q, dq, ddq = path.sample_all(np.arange(0.0, path.duration, 0.05))
    expected, moving = model.torques(q, dq, ddq), in_motion(dq)
    found = inverse(dynid.mujoco_model(result_folder(model, tmp_path)), q, dq, ddq)
    assert moving.mean() > 0.2
    assert np.linalg.norm((found - expected)[moving]) < 0.01 * np.linalg.norm(expected[moving])
    plain = dynid.mujoco_model(replace(model, friction_law=None))
    without = inverse(plain, q, dq, ddq)
    assert np.linalg.norm((without - expected)[moving]) > 0.05 * np.linalg.norm(expected[moving])


def test_result_steps_and_holds_by_its_friction(tmp_path: Path) -> None:
    model, data, friction = dynid.mujoco_model(result_folder(MODEL, tmp_path))
    assert [model.actuator(k).name for k in range(model.nu)] == list(MODEL.robot.joint_names)
    data.qpos[:] = 0.5 * (MODEL.robot.lower + MODEL.robot.upper)
    start = data.qpos.copy()
    for _ in range(300):
        data.ctrl[:] = MODEL.gravity(data.qpos)
        friction.update(data)
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(data.qpos, start, atol=1e-3)


def test_loop_of_the_controller_tracks_on_it() -> None:
    controller = MODEL.controller(RATE_HZ)

    def step(q: FloatArray, dq: FloatArray, *reference: FloatArray) -> FloatArray:
        return controller.step(q, *reference, dq=dq)

    worst = tracked(MODEL, RATE_HZ, step)
    assert worst.max() < 0.2, worst


def test_shapes_are_kept_for_a_viewer() -> None:
    bare, drawn = dynid.mujoco_model(MODEL), dynid.mujoco_model(MODEL, geometry=True)
    assert bare.model.ngeom == 0 and drawn.model.ngeom > 5
    assert len(drawn.friction.dofs) == MODEL.robot.size


def test_mount_decides_on_gravity() -> None:
    upright, hanging = dynid.mujoco_model(MODEL), dynid.mujoco_model(MODEL, mount="hanging")
    np.testing.assert_allclose(upright.model.opt.gravity, -hanging.model.opt.gravity)


def test_invalid_models_are_refused_with_the_reason() -> None:
    with pytest.raises(DataError, match="holds base parameters only, so no MuJoCo model"):
        dynid.mujoco_model(replace(MODEL, standard=None))
    with pytest.raises(DataError, match="replaces lengths of the URDF"):
        dynid.mujoco_model(replace(MODEL, lengths_m={"r3": 0.24}))


def test_torques_that_do_not_settle_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynid.export.mujoco_friction.MOST_ROUNDS", 2)
    arm = dynid.mujoco_model(MODEL)
    arm.data.qpos[:], arm.data.qvel[:], arm.data.qacc[:] = 0.5 * MODEL.robot.upper, -0.3, 0.0
    with pytest.raises(DataError, match="do not settle within 2 rounds"):
        arm.friction.inverse(arm.data)

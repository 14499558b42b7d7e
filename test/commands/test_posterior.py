"""`dynid posterior`: consistent arms as files, written completely or not at all, equal for equal seeds."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pinocchio
import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.commands.posterior import _undrawn
from dynid.errors import DataError, InputNotFoundError, OutputExistsError, UnknownNameError
from dynid.export.arms import Format, write_arms
from dynid.export.simple_friction import simplified, whole_friction
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import StandardParameters
from dynid.model.standard import LinkInertia, from_link_frame, load_nominal
from dynid.robot import load_robot

ROBOT = load_robot("planar_3r")
MODEL = ArmModel.of(ROBOT)


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


@pytest.fixture
def result(write_run: Callable[..., Path], tmp_path: Path) -> Path:
    path = write_run(ROBOT, noise=0.05)
    mapping, folder = str(tmp_path / "mapping.yaml"), tmp_path / "model"
    run("identify", str(path), "--mapping", mapping, "--robot", "planar_3r", "--out", str(folder), "--json")
    return folder


def table(folder: Path) -> tuple[list[str], list[str], np.ndarray]:
    with (folder / "parameters.csv").open(encoding="utf-8", newline="") as stream:
        head, *rows = csv.reader(stream)
    return head[1:], [row[0] for row in rows], np.array([[float(value) for value in row[1:]] for row in rows])


@pytest.mark.slow
def test_arms_as_mjcf_have_the_parameters_of_the_table(result: Path, tmp_path: Path) -> None:
    out = tmp_path / "arms"
    said = json.loads(run("posterior", str(result), "--arms", "12", "--out", str(out), "--json"))
    names, files, values = table(out)
    assert files == [f"arm_{k:04d}.xml" for k in range(1, 13)] and tuple(names) == MODEL.names
    assert json.loads((out / "posterior.json").read_text()) == said and said["arms"] == 12
    assert {one.name for one in out.iterdir()} == {*files, "parameters.csv", "posterior.json"}
    row = names.index("FV2")
    middle = np.quantile(values[:, row], (0.05, 0.5, 0.95))
    np.testing.assert_allclose([*said["quantiles"]["FV2"].values()], middle, rtol=1e-9)
    for file, line in zip(files, values, strict=True):
        arm = mujoco.MjModel.from_xml_path(str(out / file))
        links, axes = [], {}
        for j, name in enumerate(ROBOT.joint_names):
            joint = arm.joint(name)
            body, dof = arm.jnt_bodyid[joint.id], joint.dofadr[0]
            turn = np.zeros(9)
            mujoco.mju_quat2Mat(turn, arm.body_iquat[body])
            inertia = turn.reshape(3, 3) @ np.diag(arm.body_inertia[body]) @ turn.reshape(3, 3).T
            link = LinkInertia(float(arm.body_mass[body]), arm.body_ipos[body], inertia)
            links.append(from_link_frame(link, MODEL.mdh.in_link[j]))
            axes |= {f"IA{j + 1}": arm.dof_armature[dof], f"FC{j + 1}": arm.dof_frictionloss[dof]}
            axes |= {f"FV{j + 1}": float(np.ravel(arm.dof_damping[dof])[0])}
        drive = [float(axes[name]) for name in MODEL.regrouping.standard[30:]]
        standard = StandardParameters(MODEL.regrouping.standard, np.concatenate([*links, drive]), 3)
        np.testing.assert_allclose(MODEL.base_parameters(standard).values, line, atol=1e-9)


@pytest.mark.parametrize("form", ["mjcf", "urdf"])
def test_arms_have_all_friction_of_the_model_as_two_values_and_say_so(tmp_path: Path, form: Format) -> None:
    """Gears rub by load and by Stribeck's curve, which no simulator's joint holds."""
    standard = load_nominal(ROBOT, MODEL.mdh, MODEL.regrouping.standard)
    law = FrictionLaw.of(3, {"fs": 0.3, "ws": 0.2, "a": 1.0, "km": 0.1}, 0.02)
    simple = simplified(ROBOT, MODEL.mdh, standard, whole_friction(ROBOT, standard, law), ROBOT.file.default_mount)
    files = write_arms(tmp_path, ROBOT, MODEL.mdh, [standard], ROBOT.file.default_mount, form, law)
    text = (tmp_path / files[0]).read_text(encoding="utf-8")
    assert "which this file cannot hold" in text and (simple.axis("FC") > standard.axis("FC")).all()
    if form == "mjcf":
        arm = mujoco.MjModel.from_xml_path(str(tmp_path / files[0]))
        rubs = [arm.dof_frictionloss[arm.joint(name).dofadr[0]] for name in ROBOT.joint_names]
    else:
        rubs = [float(one) for one in re.findall(r'friction="([^"]+)"', text)]
    np.testing.assert_allclose(rubs, simple.axis("FC"), rtol=1e-6)


@pytest.mark.parametrize(("drawn", "left"), [((), [0.1, 0.2, 0.3]), (("FC1", "FC3"), [0.0, 0.2, 0.0])])
def test_coulomb_friction_that_arms_have_themselves_is_not_added_again(
    drawn: tuple[str, ...], left: list[float]
) -> None:
    law = _undrawn(FrictionLaw.of(3, {"fb": np.array([0.1, 0.2, 0.3]), "km": 0.1}), drawn)
    assert law is not None and law["fb"].tolist() == left and (law["km"] == 0.1).all()


@pytest.mark.slow
def test_equal_seeds_give_equal_arms_in_every_format(result: Path, tmp_path: Path) -> None:
    common = ("posterior", str(result), "--arms", "3")
    for name, more in {"a": (), "b": (), "c": ("--seed", "1"), "d": ("--format", "urdf")}.items():
        assert "3 consistent arms" in run(*common, "--out", str(tmp_path / name), *more)
    assert (tmp_path / "a" / "arm_0002.xml").read_bytes() == (tmp_path / "b" / "arm_0002.xml").read_bytes()
    assert (tmp_path / "a" / "parameters.csv").read_bytes() == (tmp_path / "b" / "parameters.csv").read_bytes()
    assert np.abs(table(tmp_path / "a")[2] - table(tmp_path / "c")[2]).max() > 1e-9
    np.testing.assert_array_equal(table(tmp_path / "a")[2], table(tmp_path / "d")[2])
    masses = [
        [inertia.mass for inertia in pinocchio.buildModelFromUrdf(str(tmp_path / "d" / file)).inertias][1:]
        for file in table(tmp_path / "d")[1]
    ]
    assert np.ptp(masses, axis=0).min() > 0.0 and np.min(masses) > 0.0


@pytest.mark.slow
def test_invalid_result_gives_no_folder(result: Path, tmp_path: Path) -> None:
    out = tmp_path / "arms"
    with pytest.raises(UnknownNameError, match="unknown format 'sdf'; known: mjcf, urdf"):
        run("posterior", str(result), "--out", str(out), "--format", "sdf")
    with pytest.raises(InputNotFoundError, match=r"holds no model\.yaml"):
        run("posterior", str(tmp_path / "nothing"), "--out", str(out))
    with pytest.raises(OutputExistsError):
        run("posterior", str(result), "--out", str(result))
    with pytest.raises(DataError, match="of 'planar_3r', not of 'puma560'"):
        run("posterior", str(result), "--out", str(out), "--robot", "puma560")
    belief = (result / "belief.npz").read_bytes()
    (result / "belief.npz").write_bytes(b"broken")
    with pytest.raises(DataError, match=r"belief\.npz is not a valid file of arrays, or is damaged"):
        run("posterior", str(result), "--out", str(out))
    (result / "belief.npz").unlink()
    with pytest.raises(InputNotFoundError, match=r"holds no belief\.npz .* identify again"):
        run("posterior", str(result), "--out", str(out))
    (result / "belief.npz").write_bytes(belief)
    content = yaml.safe_load((result / "model.yaml").read_text())
    (result / "model.yaml").write_text(yaml.safe_dump(content | {"robot": "nobody"}))
    with pytest.raises(UnknownNameError, match="unknown robot 'nobody'"):
        run("posterior", str(result), "--out", str(out))
    assert not out.exists() and not list(tmp_path.glob(".arms*"))

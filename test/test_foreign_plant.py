"""An arm that shares no code with dynid: pinocchio's inverse dynamics and separate friction, from URDF to verdict.

For any friction, an accepted model predicts a new motion, and a refused model is reported with the reason. With the
resulting URDF, pinocchio and MuJoCo compute the gravity torques of the true arm.
"""

import json
import shutil
from pathlib import Path

import mujoco
import numpy as np
import pinocchio
import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, load_robot
from dynid.runtime.model import Model, load_model

JOINTS = ("yaw", "shoulder", "elbow", "wrist")
LIMIT, RATE_HZ = 2.0, 200.0
AXES = ("0 0 1", "0 1 0", "0 1 0", "1 0 0")
OFFSETS = ("0 0 0.1", "0 0.05 0.12", "0 0 0.35", "0.25 0 0.03")
BODIES = (  # mass [kg], centre of mass [m], moments of inertia about it [kg m^2]
    (3.0, (0.01, 0.0, 0.06), (0.012, 0.012, 0.009)),
    (2.5, (0.0, 0.02, 0.17), (0.03, 0.03, 0.005)),
    (1.6, (0.12, 0.0, 0.01), (0.003, 0.011, 0.011)),
    (0.7, (0.05, 0.01, 0.0), (0.0008, 0.0012, 0.0012)),
)
ROTORS = np.array([0.08, 0.09, 0.04, 0.01])
COULOMB, VISCOUS = np.array([0.9, 1.2, 0.6, 0.12]), np.array([0.5, 0.7, 0.3, 0.05])


def urdf(path: Path, bodies: tuple[tuple[float, tuple[float, ...], tuple[float, ...]], ...]) -> Path:
    lines = ['<robot name="foreign"><link name="base"/>']
    for k, (mass, centre, (ixx, iyy, izz)) in enumerate(bodies):
        at = " ".join(map(str, centre))
        lines.append(
            f'<link name="l{k}"><inertial><origin xyz="{at}"/><mass value="{mass}"/><inertia ixx="{ixx}" ixy="0" '
            f'ixz="0" iyy="{iyy}" iyz="0" izz="{izz}"/></inertial></link><joint name="{JOINTS[k]}" type="revolute">'
            f'<parent link="{f"l{k - 1}" if k else "base"}"/><child link="l{k}"/><origin xyz="{OFFSETS[k]}"/>'
            f'<axis xyz="{AXES[k]}"/><limit lower="{-LIMIT}" upper="{LIMIT}" effort="60" velocity="3"/></joint>'
        )
    path.write_text("".join([*lines, "</robot>"]), encoding="utf-8")
    return path


def built(path: Path) -> pinocchio.Model:
    """The arm of a URDF under the standard gravity of robot.yaml, which is not pinocchio's."""
    model = pinocchio.buildModelFromUrdf(str(path))
    model.gravity.linear = np.array([0.0, 0.0, -9.80665])
    return model


def motion(seed: int, seconds: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Time (N,) and states (N, n) of sums of sines."""
    rng, time = np.random.default_rng(seed), np.arange(0.0, seconds, 1.0 / RATE_HZ)
    q, dq, ddq = np.zeros((3, len(time), 4))
    for w in (0.7, 1.3, 2.1, 3.2):
        w = w * rng.uniform(0.85, 1.15, 4)
        size, phase = rng.uniform(0.2, 0.45, 4), rng.uniform(0.0, 6.3, 4)
        q += size * np.sin(time[:, None] * w + phase)
        dq += size * w * np.cos(time[:, None] * w + phase)
        ddq -= size * w**2 * np.sin(time[:, None] * w + phase)
    return time, q, dq, ddq


def plant(model: pinocchio.Model, q: FloatArray, dq: FloatArray, ddq: FloatArray, friction: str) -> FloatArray:
    """Torques of the motors, (N, n)."""
    data = model.createData()
    links = np.array([pinocchio.rnea(model, data, *one) for one in zip(q, dq, ddq, strict=True)]) + ROTORS * ddq
    sign = np.sign(dq)
    if friction == "asymmetric":
        return links + (1.0 + 0.3 * sign) * COULOMB * sign + VISCOUS * dq
    tau = links + COULOMB * sign + VISCOUS * dq
    if friction == "efficiency":  # gears that lose a fifth when they drive, and a third when they are driven
        tau += np.where(links * dq > 0.0, 0.25 * links, -0.35 * links)
    if friction == "motor loses":  # a fifth of the motor's torque, which the law of friction holds
        tau /= 1.0 - 0.2 * sign * np.sign(tau)
    if friction == "ripple":
        tau += 0.5 * COULOMB * np.sin(9.0 * q)
    return tau


def record(path: Path, model: pinocchio.Model, seed: int, seconds: float, friction: str) -> None:
    rng, (time, q, dq, ddq) = np.random.default_rng(seed), motion(seed, seconds)
    tau = plant(model, q, dq, ddq, friction) + 0.05 * rng.normal(size=q.shape)
    step = 2.0 * np.pi / 2**16
    header = ",".join(["t", *(f"q{k}" for k in range(4)), *(f"tau{k}" for k in range(4))])
    np.savetxt(path, np.c_[time, np.round(q / step) * step, tau], delimiter=",", header=header, comments="")


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pinocchio.Model]:
    """A robot's folder made from a CAD model that is off, and the true arm."""
    folder = tmp_path_factory.mktemp("foreign")
    wrong = tuple((1.15 * m, (c[0] + 0.01, c[1], c[2]), tuple(0.9 * i for i in moments)) for m, c, moments in BODIES)
    path = urdf(folder / "cad.urdf", wrong)
    done = CliRunner().invoke(app, ["robot", "new", "foreign", "--urdf", str(path), "--out", str(folder / "foreign")])
    assert done.exit_code == 0, done.output
    content = yaml.safe_load((folder / "foreign" / "robot.yaml").read_text(encoding="utf-8"))
    content.pop("undecided")
    (folder / "foreign" / "robot.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    columns = {key: [f"{key}{k}" for k in range(4)] for key in ("q", "tau")}
    mapping = {
        "schema_version": 1,
        "time": {"column": "t"},
        "position": {"columns": columns["q"], "unit": "rad"},
        "torque": {"columns": columns["tau"], "unit": "N m"},
    }
    (folder / "mapping.yaml").write_text(yaml.safe_dump(mapping), encoding="utf-8")
    return folder, built(urdf(folder / "true.urdf", BODIES))


@pytest.mark.slow
@pytest.mark.parametrize("friction", ["Coulomb", "asymmetric", "efficiency", "ripple"])
def test_an_accepted_model_predicts_and_a_refused_one_says_why(
    arm: tuple[Path, pinocchio.Model], friction: str, tmp_path: Path
) -> None:
    folder, true = arm
    for name, seed, seconds in (("fitted", 1, 40.0), ("held_out", 2, 20.0)):
        record(tmp_path / f"{name}.csv", true, seed, seconds, friction)
    words = ["identify", str(tmp_path / "fitted.csv"), "--validate", str(tmp_path / "held_out.csv"), "--json"]
    words += ["--mapping", str(folder / "mapping.yaml"), "--robot", str(folder / "foreign")]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "model")])
    found = json.loads(done.stdout)
    failed = [one for one in found["checks"] if not one["passed"]]
    if friction in ("efficiency", "ripple"):  # no friction of this structure: the bar is that it is not accepted
        assert done.exit_code == 1 and any(one["detail"] for one in failed), failed
        return
    assert done.exit_code == 0, failed
    model = load_model(tmp_path / "model", load_robot(folder / "foreign"))
    _, q, dq, ddq = (one[::20] for one in motion(3, 20.0))
    error = model.torques(q, dq, ddq) - plant(true, q, dq, ddq, friction)
    assert np.linalg.norm(error) < 0.02 * np.linalg.norm(plant(true, q, dq, ddq, friction))
    _same_gravity(tmp_path / "model", true, q)
    assert _held(model, true) >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("friction", ["efficiency", "motor loses"])
def test_masses_that_only_a_wrong_law_of_friction_gives_are_not_accepted(
    arm: tuple[Path, pinocchio.Model], friction: str, tmp_path: Path
) -> None:
    """Losses of what links take look much like losses of the motor's torque, with masses 15 % too small."""
    folder, true = arm
    shutil.copytree(folder / "foreign", tmp_path / "foreign")
    content = yaml.safe_load((tmp_path / "foreign" / "robot.yaml").read_text(encoding="utf-8"))
    content["structure"] |= {"coulomb_friction": False, "friction_offset": False}  # the data choose the law
    (tmp_path / "foreign" / "robot.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    record(tmp_path / "fitted.csv", true, 1, 20.0, friction)
    words = ["identify", str(tmp_path / "fitted.csv"), "--hold-out", "0.3", "--out", str(tmp_path / "model"), "--json"]
    words += ["--mapping", str(folder / "mapping.yaml"), "--robot", str(tmp_path / "foreign")]
    done = CliRunner().invoke(app, words)
    found, model = json.loads(done.stdout), load_model(tmp_path / "model", load_robot(tmp_path / "foreign"))
    q = motion(3, 20.0)[1][::20]
    expected = np.array([pinocchio.computeGeneralizedGravity(true, true.createData(), one) for one in q])
    off = np.linalg.norm(model.gravity(q) - expected) / np.linalg.norm(expected)
    named = [one for one in found["suspicions"] if "friction grows with what the links take" in one]
    if friction == "efficiency":
        assert done.exit_code == 1 and named and off > 0.1
    else:
        assert done.exit_code == 0 and off < 0.02, found


def _same_gravity(folder: Path, true: pinocchio.Model, q: FloatArray) -> None:
    """The URDF in pinocchio and MuJoCo, against the true arm."""
    identified = built(folder / "model.urdf")
    simulated = mujoco.MjModel.from_xml_path(str(folder / "model.xml"))
    data, state = identified.createData(), mujoco.MjData(simulated)
    for one in q[::20]:
        expected = pinocchio.computeGeneralizedGravity(true, true.createData(), one)
        found = pinocchio.computeGeneralizedGravity(identified, data, one)
        np.testing.assert_allclose(found, expected, atol=0.15)
        state.qpos[:], state.qvel[:] = one, 0.0
        mujoco.mj_forward(simulated, state)
        np.testing.assert_allclose(state.qfrc_bias, found, atol=1e-4)


def _held(model: Model, true: pinocchio.Model) -> float:
    """The share of the links' and rotors' parameters whose 95 % interval holds the truth."""
    rng = np.random.default_rng(5)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, 200, 4))
    data = true.createData()
    tau = np.array([pinocchio.rnea(true, data, *one) for one in zip(q, dq, ddq, strict=True)]) + ROTORS * ddq
    geometry: ArmModel = model.arm()
    W = geometry.regressor(q, dq, ddq).reshape(-1, len(geometry.names))
    expected = np.linalg.lstsq(W, tau.ravel(), rcond=None)[0]
    links = np.array([not name.startswith(("FV", "FC", "OF")) for name in geometry.names])
    far = np.abs(model.base.values - expected) / model.base.standard_deviations
    return float(np.mean(far[links] < 1.96))

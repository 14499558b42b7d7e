"""`./run benchmark peers`: scripts of the compared programs, the judge, and rows of programs that fail."""

import contextlib
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.cli import app
from benchmarks.peers import flobaroid_fit, pinocchio_least_squares, pinocchio_sdp
from benchmarks.peers.benchmark import chain_urdf, missed, run_peer
from benchmarks.peers.exchange import Found, read_given, write_given
from benchmarks.peers.group_time import Late, output_within
from benchmarks.peers.judge import candidate_of, gravity_error, judge_candidate, own_candidate, true_candidate
from benchmarks.peers.rows import chain_model, prior
from benchmarks.peers.table import OWN, PEERS, Peer
from typer.testing import CliRunner

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DataError, UnknownNameError
from dynid.identification.data.recordings import Recording, load_recording
from dynid.model.dynamics import ArmModel
from dynid.model.standard import from_file, to_link_frame
from dynid.robot import load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.simulation.plant.arm import plant_standard
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("crane_x7")
CHAIN = slice(ROBOT.chain_size)
N = ROBOT.chain_size
DRIVES = {"armature": 0.01, "viscous": 0.2, "coulomb": 0.1, "offset": 0.02}


def given(folder: Path, seconds: float = 30.0) -> None:
    """Write a motion whose torques are those of the URDF's links with known drives, without noise."""
    import pinocchio

    time = np.arange(0.0, seconds, 0.001)
    random = np.random.default_rng(0)
    w, phase, size = random.uniform(1.0, 4.0, (3, N)), random.uniform(0, 6, (3, N)), random.uniform(0.1, 0.4, (3, N))
    parts = [(size[k] * np.sin(time[:, None] * w[k] + phase[k]), w[k]) for k in range(3)]
    q = sum(one for one, _ in parts)
    dq = np.gradient(q, 0.001, axis=0)
    ddq = np.gradient(dq, 0.001, axis=0)
    gravity, limits = np.array(ROBOT.gravity()), np.array(ROBOT.torque_limits[CHAIN])
    write_given(
        folder, chain_urdf(ROBOT), ROBOT.joint_names[CHAIN], gravity, limits, time=time, q=q, dq=dq, tau=0.0 * q
    )
    model = chain_model(read_given(folder, 1.0))
    data = model.createData()
    links = np.array([pinocchio.rnea(model, data, *state) for state in zip(q, dq, ddq, strict=True)])
    drives = DRIVES["armature"] * ddq + DRIVES["viscous"] * dq + DRIVES["coulomb"] * np.sign(dq) + DRIVES["offset"]
    columns = {"time": time, "q": q, "dq": dq, "tau": links + drives}
    write_given(folder, chain_urdf(ROBOT), ROBOT.joint_names[CHAIN], gravity, limits, **columns)


@pytest.mark.parametrize("script", [pinocchio_least_squares, pinocchio_sdp])
def test_scripts_recover_an_arm_without_noise(script: Any, tmp_path: Path) -> None:
    if script is pinocchio_sdp:
        pytest.importorskip("cvxpy")
    given(tmp_path)
    handed = read_given(tmp_path, 100.0)
    found = script.identify(handed)
    np.testing.assert_allclose(found.viscous, DRIVES["viscous"], atol=0.05)
    np.testing.assert_allclose(found.coulomb, DRIVES["coulomb"], atol=0.05)
    truth = Found(prior(handed).reshape(N, 10), *(np.full(N, one) for one in DRIVES.values()))
    own, expected = (candidate_of(ROBOT, one).model for one in (found, truth))
    q, dq, ddq = np.random.default_rng(1).uniform(-1.0, 1.0, (3, 50, ROBOT.size))
    error = own.torques(q, dq, ddq) - expected.torques(q, dq, ddq)
    assert np.linalg.norm(error) < 0.05 * np.linalg.norm(expected.torques(q, dq, ddq))


def test_flobaroid_gets_a_complete_arm_and_its_result_is_read(tmp_path: Path) -> None:
    given(tmp_path, 10.0)
    handed = read_given(tmp_path, 1.0)
    urdf = tmp_path / "completed.urdf"
    urdf.write_text(flobaroid_fit.completed(handed.urdf), encoding="utf-8")
    root = ElementTree.parse(urdf).getroot()
    for place, joint in enumerate(one for one in root.findall("joint") if one.get("type") != "fixed"):
        (friction,) = joint.findall("dynamics")
        friction.set("friction", str(0.1 * place))
        friction.set("damping", str(0.2 * place))
    ElementTree.ElementTree(root).write(urdf)
    found = flobaroid_fit.found_in(urdf, handed, np.ones(N))
    np.testing.assert_allclose(found.links, prior(handed).reshape(N, 10))
    np.testing.assert_allclose(found.coulomb, 0.1 * np.arange(N))
    np.testing.assert_allclose(found.viscous, 0.2 * np.arange(N))
    assert not found.armature.any()
    still = flobaroid_fit.settings(handed)["dontChangeLinks"]
    assert "base_link" in still and "crane_x7_gripper_base_link" not in still
    written = flobaroid_fit.measurements(handed)
    assert len(written["times"]) == len(written["torques"]) == 900 and written["frequency"] == 100.0
    np.testing.assert_allclose(
        np.gradient(written["positions"], 0.01, axis=0)[5:-5], written["velocities"][5:-5], atol=1e-3
    )


def test_offsets_of_flobaroid_are_read_from_its_table() -> None:
    printed = (
        "|   0.00000000|   0.34361716| 0.3436|      -|        |#100: Fc_1 - Coulomb friction of joint one\n"
        "|   0.00000000|  -0.75833732|-0.7583|      -|        |#115: off_1 - Torque offset of joint one\n"
        "|   0.00000000|   4.0e-05| 0.0000|      -|        |#116: off_2 - Torque offset of joint two\n"
    )
    assert flobaroid_fit.offsets(printed, 3).tolist() == [0.0, -0.75833732, 4.0e-05]


def test_links_of_peers_come_into_the_frames_of_dynid() -> None:
    arm = ArmModel.of(ROBOT)
    standard = from_file(plant_standard(ROBOT), arm.mdh, arm.regrouping.standard)
    links = []
    for j in range(N):
        body = to_link_frame(standard.link(j), arm.mdh.in_link[j])
        m, c = body.mass, body.centre_of_mass
        about = body.inertia + m * (c @ c * np.eye(3) - np.outer(c, c))
        links.append([m, *(m * c), *about[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])
    drives = [standard.axis(kind)[CHAIN] for kind in ("IA", "FV", "FC")]
    found = candidate_of(ROBOT, Found(np.array(links), *drives, np.zeros(N)))
    expected = arm.base_parameters(standard)
    chain = [name for name in arm.names if int(name.rstrip("0123456789") and name[-1]) <= N]
    for name in chain:
        assert found.model.base[name] == pytest.approx(expected[name], abs=1e-9)
    assert found.unphysical() == "" and gravity_error(ROBOT, found) < 1e-6


def test_parameters_that_no_body_has_are_named() -> None:
    links = np.tile([1.0, 0, 0, 0, 0.01, 0, 0.01, 0, 0, 0.01], (N, 1))
    links[2, 4] = 0.5  # more than the other two moments together
    ones = np.full(N, 0.1)
    assert candidate_of(ROBOT, Found(links, ones, ones, ones, ones)).unphysical().startswith("link 3: eigenvalue -")
    links[2, 4] = 0.01
    assert candidate_of(ROBOT, Found(links, ones, ones, -ones, ones)).unphysical() == "FC1 is negative"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A held-out motion of the simulated arm with viscous friction."""
    controller = load_controller(ROBOT)
    path = load_excitation(ROBOT).trajectory("V01", "limited")
    run = simulate(ROBOT, path, FeedforwardPd(controller), seed=1, friction="viscous")
    place = tmp_path_factory.mktemp("peers") / "V01"
    write_bag(run, ROBOT, controller, place, profile="limited")
    return load_recording(place, ROBOT)


def test_truth_is_judged_better_than_a_heavier_arm(recording: Recording) -> None:
    truth = true_candidate(ROBOT, "viscous")
    good = judge_candidate(ROBOT, truth, [recording], 500, True)
    assert truth.model.standard is not None
    scale = np.where(np.arange(len(truth.model.standard.names)) < 10 * N, 1.3, 1.0)
    heavier = replace(truth.model.standard, values=truth.model.standard.values * scale)
    model = replace(truth.model, standard=heavier, base=ArmModel.of(ROBOT).base_parameters(heavier))
    bad = judge_candidate(ROBOT, own_candidate(model), [recording], 500, True)
    assert good["moving"] < 0.05 and bad["moving"] > 0.1
    assert good["gravity_error"] < 1e-9 and bad["gravity_error"] > 0.2
    assert good["consistent"] and good["lambda_min"] > 0.0
    assert good["closed_loop_deg"] < 0.1 < bad["closed_loop_deg"]
    assert good["rollout_deg"] < bad["rollout_deg"]


def test_missing_and_late_peers_are_rows_with_a_message(tmp_path: Path) -> None:
    given(tmp_path, 5.0)
    missing = run_peer(Peer("x", "no_such_peer", "", ""), tmp_path, Path(sys.executable), 60.0)
    assert missing["error"].startswith("not installed: No module named")
    large = np.ones(2**27)  # a peer's memory must not contain the benchmark's own
    broken = run_peer(Peer("x", "table", "", ""), tmp_path, Path(sys.executable), 60.0)
    assert broken["error"].startswith("AttributeError") and broken["processor_s"] > 0.0
    assert 20.0 < broken["memory_mb"] < 8e-6 * large.size
    not_run = run_peer(Peer("x", "", "not run: no package", ""), tmp_path, Path(sys.executable), 60.0)
    assert not_run["error"] == "not run: no package" and not_run["processor_s"] is None
    given(tmp_path, 10.0)
    with np.load(tmp_path / "identification.npz") as columns:
        longer = {key: np.tile(columns[key], (300, 1)) if columns[key].ndim == 2 else columns[key] for key in columns}
    np.savez(tmp_path / "identification.npz", **longer)
    late = run_peer(PEERS[1], tmp_path, Path(sys.executable), 1.0)
    assert late["error"] == "no result in 1 s of processor time" and late["processor_s"] > 1.0


@contextlib.contextmanager
def started(program: str) -> Iterator["subprocess.Popen[str]"]:
    """Yield a running Python program that leads its own process group, and kill the group at the end."""
    command, pipe = [sys.executable, "-c", program], subprocess.PIPE
    child = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def test_processor_time_of_a_peers_workers_counts() -> None:
    """A limit for each process alone would let a pool start new workers without end."""
    busy = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    with started(busy) as child, pytest.raises(Late, match=r"no result in 0\.5 s of processor time"):
        output_within(child, 0.5)
    with started("print('found')") as child:
        assert output_within(child, 60.0) == ("found\n", "")


def test_promises_that_do_not_hold_are_named() -> None:
    def row(plant: str, peer: str, moving: float, seconds: float, error: str = "") -> dict[str, Any]:
        return {"plant": plant, "peer": peer, "moving": moving, "processor_s": seconds, "error": error}

    kept = [row("gear friction", OWN, 0.03, 6.0), row("gear friction", "figaroh", 0.2, 8.0)]
    kept += [row("viscous friction", OWN, 0.02, 6.0), row("viscous friction", "mujoco.sysid", 0.03, 300.0)]
    assert missed(kept) == []
    assert len(missed([*kept, row("gear friction", "other", 0.05, 1.0)])) == 1
    assert len(missed([*kept, row("viscous friction", "other", 0.01, 1.0)])) == 1
    assert "took" in missed([*kept, row("gear friction", "mujoco.sysid", 0.3, 60.0)])[0]
    assert missed([row("gear friction", OWN, 0.0, 1.0, "broken")]) == ["gear friction: dynid came to no result"]


def test_unknown_peers_and_poor_folders_are_refused(tmp_path: Path) -> None:
    command = ["benchmark", "peers", "--peer", "word"]
    assert isinstance(CliRunner().invoke(app, command).exception, UnknownNameError)
    alone = ["benchmark", "peers", "--data", str(tmp_path)]
    assert isinstance(CliRunner().invoke(app, alone).exception, DataError)

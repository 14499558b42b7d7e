"""`./run benchmark excitation`: the judge of motions, its limits, and programs that fail."""

import json
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.cli import app
from benchmarks.peers.excitation import figaroh_trajectory, flobaroid_settings
from benchmarks.peers.excitation.benchmark import designed_row, missed
from benchmarks.peers.excitation.exchange import (
    Designed,
    Limits,
    Task,
    load_designed,
    read_task,
    save_designed,
    write_task,
)
from benchmarks.peers.excitation.flobaroid_trajectory import repeated, slower
from benchmarks.peers.excitation.judge import Judge, independent_columns, information, judge_of, pieces_of
from benchmarks.peers.excitation.meshes import with_meshes
from benchmarks.peers.excitation.table import DESIGNERS, OWN, Designer
from benchmarks.peers.excitation.task import bounded_urdf, links_apart, task_of
from benchmarks.peers.flobaroid_start import zeroed
from typer.testing import CliRunner

from dynid.errors import DataError, UnknownNameError
from dynid.model.dynamics import ArmModel
from dynid.robot import Robot, load_robot

_BARE = load_robot("planar_3r")
PLANAR = Robot(_BARE.file.model_copy(update={"rest_posture_deg": (0.0,) * _BARE.size}), _BARE.folder)
CRANE = load_robot("crane_x7")
DURATION_S = 8.0
Make = Callable[..., Designed]


def task(robot: Robot, most: float = 2.0) -> Task:
    """Return a task whose limits are the same for all joints."""
    n = robot.chain_size
    limits = Limits([-most] * n, [most] * n, [3.0] * n, [12.0] * n, [1000.0] * n)
    joints, gravity = list(robot.joint_names[:n]), list(robot.gravity())
    return Task(robot.name, "limited", joints, gravity, DURATION_S, limits, [], {})


def waves(n: int, size: float = 0.5, faster: float = 1.0, seconds: float = DURATION_S) -> Designed:
    """Return a motion of n joints, each a sine of its own frequency."""
    t = np.linspace(0.0, seconds, 401)[:, None]
    w = faster * np.linspace(1.0, 2.0, n)
    return Designed(t[:, 0], size * np.sin(w * t), size * w * np.cos(w * t), -size * w**2 * np.sin(w * t))


@pytest.fixture(scope="module")
def planar(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """The judge of a small arm."""
    folder = tmp_path_factory.mktemp("planar")
    wanted = task(PLANAR)
    write_task(folder, wanted, bounded_urdf(PLANAR, wanted))
    return judge_of(PLANAR, wanted, folder / "arm.urdf")


def test_figures_are_those_of_numpy(planar: Judge) -> None:
    n = PLANAR.chain_size
    figures = planar.figures(waves(n))
    t = np.arange(0.0, DURATION_S, 0.04)[:, None]
    w = np.linspace(1.0, 2.0, n)
    model = ArmModel.of(PLANAR)
    W = model.regressor(0.5 * np.sin(w * t), 0.5 * w * np.cos(w * t), -0.5 * w**2 * np.sin(w * t))
    stacked = W.reshape(-1, len(model.names))
    assert figures["kappa"] == pytest.approx(np.linalg.cond(stacked), rel=1e-5)
    sign, log_det = np.linalg.slogdet(stacked.T @ stacked / len(t))
    assert sign == 1.0 and figures["log_det"] == pytest.approx(log_det, abs=1e-5)
    assert figures["position"] == pytest.approx(0.25, rel=1e-4)
    assert figures["velocity"] == pytest.approx(1.0 / 3.0, rel=1e-4)
    assert figures["acceleration"] == pytest.approx(2.0 / 12.0, rel=1e-4)
    assert figures["kept"] and figures["outside"] == ""


def test_regressor_of_all_parameters_has_its_rank(planar: Judge) -> None:
    q, dq, ddq = np.random.default_rng(2).uniform(-1.0, 1.0, (3, 200, PLANAR.chain_size))
    W = planar.full(q, dq, ddq)
    stacked = W.reshape(-1, W.shape[-1])
    assert np.linalg.matrix_rank(stacked) == W.shape[-1] >= planar.own(q, dq, ddq).shape[-1]
    a, b = np.random.default_rng(3).normal(size=(2, 20))
    columns = np.column_stack([a, 2.0 * a, np.zeros(20), b, a - b, 1e-17 * b])
    assert independent_columns(columns).tolist() == [True, False, False, True, False, False]


def test_motion_that_determines_nothing_has_no_determinant() -> None:
    W = np.zeros((5, 2, 3))
    W[..., 0] = 1.0
    kappa, log_det = information(W)
    assert kappa == float("inf") and log_det == float("-inf")


@pytest.mark.parametrize(
    ("motion", "phrase"),
    [
        ({"size": 2.1}, "5 % beyond the limit of position at joint"),
        ({"size": 0.5, "faster": 3.1}, "% beyond the limit of velocity at joint 3"),
        ({"size": 0.2, "faster": 7.0 / 2.0 * 1.3}, "% beyond the limit of acceleration at joint 3"),
        ({"seconds": 6.0}, "lasts 6 s, expected 8 s"),
    ],
)
def test_motions_beyond_a_limit_are_flagged(planar: Judge, motion: dict[str, float], phrase: str) -> None:
    figures = planar.figures(waves(PLANAR.chain_size, **motion))
    assert not figures["kept"] and phrase in figures["outside"]


def test_torques_beyond_their_limit_are_flagged(planar: Judge) -> None:
    used = planar.figures(waves(PLANAR.chain_size))["torque"]
    limits = planar.task.limits
    weak = replace(limits, torque=[0.9 * used * one for one in limits.torque])
    figures = replace(planar, task=replace(planar.task, limits=weak)).figures(waves(PLANAR.chain_size))
    assert figures["torque"] == pytest.approx(1.0 / 0.9) and "11 % beyond the limit of torque" in figures["outside"]


def test_motions_whose_arrays_do_not_fit_are_refused(planar: Judge) -> None:
    good, n = waves(PLANAR.chain_size), PLANAR.chain_size
    assert len(pieces_of(good, n).begins) == 400
    with pytest.raises(DataError, match="do not belong to the positions"):
        planar.figures(replace(good, dq=np.rad2deg(good.dq)))
    with pytest.raises(DataError, match="expected finite"):
        planar.figures(replace(good, q=good.q[:, :2]))
    with pytest.raises(DataError, match="expected finite"):
        planar.figures(replace(good, q=np.where(good.time[:, None] > 5.0, np.nan, good.q)))
    with pytest.raises(DataError, match="do not increase"):
        planar.figures(replace(good, time=good.time[::-1]))


def test_links_that_touch_are_flagged(tmp_path: Path) -> None:
    wanted = task(CRANE, most=3.0)
    write_task(tmp_path, wanted, bounded_urdf(CRANE, wanted))
    judge = judge_of(CRANE, wanted, tmp_path / "arm.urdf")
    still = np.array(CRANE.rest_posture)[: CRANE.chain_size]
    time = np.linspace(0.0, DURATION_S, 101)

    def bent(elbow: float, wrist: float) -> str:
        way = np.zeros_like(still)
        way[[3, 5]] = elbow - still[3], wrist - still[5]
        s = (0.5 - 0.5 * np.cos(np.pi * time / DURATION_S))[:, None]
        rate = np.pi / DURATION_S
        ds, dds = (0.5 * rate * np.sin(rate * time))[:, None], (0.5 * rate**2 * np.cos(rate * time))[:, None]
        return str(judge.figures(Designed(time, still + s * way, ds * way, dds * way))["contact"])

    assert bent(-1.0, 0.0) == ""
    assert "touches" in bent(-2.75, -1.5)


def test_task_has_the_limits_of_dynids_own_optimiser(tmp_path: Path) -> None:
    wanted = task_of(CRANE, "crane_x7", "limited", 24.0, {"flobaroid": "somewhere"})
    assert wanted.limits.velocity == pytest.approx([0.54 * 4.8] * 7)
    assert wanted.limits.upper[1] == pytest.approx(np.deg2rad(88.0)) and len(wanted.limits.torque) == 7
    assert ["base_link", "crane_x7_lower_arm_fixed_part_link"] in wanted.apart == links_apart(CRANE)
    write_task(tmp_path, wanted, bounded_urdf(CRANE, wanted))
    given = read_task(tmp_path, 10.0, "own")
    assert given.task == wanted and given.folder.is_dir()
    joints = {one.get("name"): one for one in ElementTree.parse(given.urdf).getroot().findall("joint")}
    limit = joints[wanted.joints[1]].find("limit")
    assert limit is not None and float(limit.get("velocity", "")) == pytest.approx(2.592)
    assert sum(one.get("type") != "fixed" for one in joints.values()) == 7


def test_adapters_state_the_task_in_their_programs_terms(tmp_path: Path) -> None:
    wanted = task_of(CRANE, "crane_x7", "limited", 24.0, {})
    write_task(tmp_path, wanted, bounded_urdf(CRANE, wanted))
    given = read_task(tmp_path, 10.0, "own")
    settings = flobaroid_settings.settings(given)
    assert settings["trajectoryPulseMin"] == settings["trajectoryPulseMax"] == pytest.approx(2.0 * np.pi / 12.0)
    assert [settings["trajectoryNf"][name] for name in wanted.joints] == [3, 4, 4, 4, 5, 6, 6]
    assert flobaroid_settings.periods(given) == 2
    ignored = {frozenset(pair) for pair in settings["ignoreLinkPairsForCollision"]}
    assert not ignored & {frozenset(pair) for pair in wanted.apart}
    assert frozenset(("base_link", "crane_x7_shoulder_fixed_part_link")) in ignored
    joints = ElementTree.fromstring(slower(given.urdf.read_text(encoding="utf-8"))).findall("joint/limit")
    assert [float(one.get("velocity", "")) for one in joints] == pytest.approx([2.592 - settings["minTolConstr"]] * 7)
    design = figaroh_trajectory.configuration(given)["tasks"]["optimal_trajectory"]
    assert design["trajectory"] == {"waypoints": 7, "frequency": 10.0, "segment_duration": 2.0}
    figaroh_trajectory.write_srdf(given)
    excluded = ElementTree.parse(given.folder / "arm.srdf").getroot()
    pairs = {frozenset((one.get("link1"), one.get("link2"))) for one in excluded}
    assert pairs == ignored


def test_meshes_hold_the_shapes_of_links(tmp_path: Path) -> None:
    urdf = tmp_path / "arm.urdf"
    shapes = (
        '<collision><origin xyz="0 0 1" rpy="0 1.5707963267948966 0"/>'
        '<geometry><box size="0.2 0.4 0.6"/></geometry></collision>'
        '<collision><geometry><sphere radius="0.1"/></geometry></collision>'
        '<collision><geometry><cylinder radius="0.3" length="0.2"/></geometry></collision>'
    )
    urdf.write_text(f'<robot name="a"><link name="one">{shapes}</link><link name="two"/></robot>', encoding="utf-8")
    root = ElementTree.fromstring(with_meshes(urdf, tmp_path))
    (mesh,) = root.findall("link/collision/geometry/mesh")
    lines = Path(mesh.get("filename", "")).read_text(encoding="ascii").split("\n")
    points = np.array([line.split()[1:] for line in lines if line.startswith("vertex")], dtype=float)
    np.testing.assert_allclose(points.max(axis=0)[2], 1.1)  # the box is turned: its length of 0.6 m lies along x
    assert 0.3 <= points.max(axis=0)[0] < 0.31 and points.min(axis=0)[2] == pytest.approx(-0.1)


def row_of(name: str, function: str, judge: Judge, folder: Path) -> dict[str, Any]:
    """Return the row of a program that runs in a process of its own."""
    return designed_row(Designer(name, function, "", ""), judge, folder, Path(sys.executable), 60.0)


def test_programs_that_fail_are_rows_with_a_message(planar: Judge, tmp_path: Path) -> None:
    write_task(tmp_path, planar.task, bounded_urdf(PLANAR, planar.task))
    assert row_of("x", "no_such.design", planar, tmp_path)["error"].startswith("not installed: No module named")
    lacking = row_of("FloBaRoID", "flobaroid_trajectory.design", planar, tmp_path)
    assert lacking["error"] == "not installed: no checkout: give its folder with --flobaroid"
    unasked = row_of("dynid", "dynid_own.condition", planar, tmp_path)  # this arm has no excitation.yaml
    assert "Error: " in unasked["error"] and unasked["processor_s"] > 0.0
    assert missed([{**unasked, "peer": OWN[0]}]) == [f"{OWN[0]}: {unasked['error']}"]


def test_flobaroid_is_run_in_its_checkout_with_its_python(planar: Judge, tmp_path: Path) -> None:
    """A small program with FloBaRoID's command line stands in for it."""
    checkout, work = tmp_path / "checkout", tmp_path / "work"
    (checkout / "idyntree").mkdir(parents=True)
    work.mkdir()
    stand_in = "class Vector6:\n    values = 7.0\n    def zero(self):\n        self.values = 0.0\n"
    (checkout / "idyntree" / "bindings.py").write_text(stand_in, encoding="utf-8")
    (checkout / "idyntree" / "__init__.py").write_text("", encoding="utf-8")
    save_designed(checkout / "motion.npz", waves(PLANAR.chain_size))
    program = (
        "import argparse, sys\nimport numpy as np\nfrom idyntree import bindings\nparser = argparse.ArgumentParser()\n"
        "for one in ('config', 'model', 'filename'):\n    parser.add_argument('--' + one)\n"
        "asked, made = parser.parse_args(), np.load('motion.npz')\nassert bindings.Vector6().values == 0.0\n"
        "names = dict(times='time', positions='q', velocities='dq', accelerations='ddq')\n"
        "np.savez(asked.filename, **{own: made[name] for own, name in names.items()})\n"
    )
    (checkout / "trajectory.py").write_text(program, encoding="utf-8")
    wanted = replace(planar.task, programs={"flobaroid": str(checkout)})
    write_task(work, wanted, bounded_urdf(PLANAR, wanted))
    row = row_of("FloBaRoID", "flobaroid_trajectory.design", planar, work)
    assert row["error"] == "not installed: No module named 'idyntree'" or row["error"].startswith("RuntimeError: ended")
    start = checkout / "sitecustomize.py"
    start.write_text("", encoding="utf-8")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={checkout} exec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    again = tmp_path / "again"
    again.mkdir()
    wanted = replace(wanted, programs={**wanted.programs, "flobaroid_python": str(python)})
    write_task(again, wanted, bounded_urdf(PLANAR, wanted))
    row = row_of("FloBaRoID", "flobaroid_trajectory.design", planar, again)
    assert row["error"] == "" and row["kept"]
    made = load_designed(again / "flobaroid_trajectory.design.npz")
    np.testing.assert_array_equal(made.q, waves(PLANAR.chain_size).q)


def test_periods_are_joined_without_a_gap() -> None:
    whole = waves(3, seconds=DURATION_S)
    half = Designed(*(one[:200] for one in (whole.time, whole.q, whole.dq, whole.ddq)), note="said")
    twice = repeated(half, 2)
    np.testing.assert_allclose(np.diff(twice.time), whole.time[1])
    np.testing.assert_array_equal(twice.q[200:], half.q)
    assert len(twice.dq) == 400 and twice.note == "said"


def test_only_vectors_without_values_are_zeroed() -> None:
    class Vector:
        def __init__(self, *values: float) -> None:
            self.values = list(values) or [1e300]

        def zero(self) -> None:
            self.values = [0.0]

    assert zeroed(Vector)().values == [0.0] and zeroed(Vector)(1.0, 2.0).values == [1.0, 2.0]


def test_motions_of_dynid_that_a_peer_surpasses_are_named() -> None:
    def row(peer: str, kappa: float, log_det: float, outside: str = "") -> dict[str, Any]:
        return {"peer": peer, "kappa": kappa, "log_det": log_det, "kept": not outside, "outside": outside, "error": ""}

    rows = [row(OWN[0], 10.0, 90.0), row(OWN[1], 20.0, 100.0), row("figaroh", 15.0, 95.0)]
    assert missed(rows) == []
    assert missed([*rows, row("FloBaRoID", 9.0, 95.0)]) == [f"{OWN[0]}: kappa 10, FloBaRoID has 9"]
    assert missed([*rows, row("FloBaRoID", 15.0, 101.0)]) == [f"{OWN[1]}: log_det 100, FloBaRoID has 101"]
    assert missed([*rows, row("FloBaRoID", 9.0, 101.0, "20 % beyond the limit of velocity at joint 1")]) == []
    assert "leaves limits" in missed([row(OWN[0], 10.0, 90.0, "lasts 2 s, expected 8 s")])[0]


def test_unknown_peers_are_refused_and_the_table_states_sources() -> None:
    result = CliRunner().invoke(app, ["benchmark", "excitation", "--peer", "word"])
    assert isinstance(result.exception, UnknownNameError)
    assert all(one.settings and one.source for one in DESIGNERS)
    json.dumps([one._asdict() for one in DESIGNERS])

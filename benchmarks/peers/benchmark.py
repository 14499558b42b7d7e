"""Benchmark `./run benchmark peers`: every peer identifies in its own process; the same rows compare all."""

import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.exchange import load_found, write_given, write_programs
from benchmarks.peers.judge import Candidate, candidate_of, judge_candidate, own_candidate, true_candidate
from benchmarks.peers.processes import run_process
from benchmarks.peers.table import OWN, PEERS, TRUTH, Peer
from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DataError, InputNotFoundError
from dynid.identification.data.recordings import Recording, load_recording
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.robot import Robot
from dynid.robot.meshes import tree_with_meshes
from dynid.robot.urdf_text import read_urdf_text
from dynid.runtime.model import load_model
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.families import load_excitation

IDENTIFICATION, HELD_OUT, PROFILE, SEED = "demo_identification", ("V01", "V02"), "limited", 1
PLANTS = {"gear friction": "M6", "viscous friction": "viscous"}
STEP_S = 0.001
Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Case:
    """Recordings of one arm: for identification and for validation."""

    name: str
    robot: Robot
    robot_name: str
    fitted: Path
    held_out: tuple[Recording, ...]
    friction: str | None  # friction of the simulated arm; None for recordings of other arms
    mapping: Path | None = None


def simulated_cases(robot: Robot, name: str, folder: Path, progress: Progress) -> list[Case]:
    """Record the simulated arm with both kinds of friction."""
    cases = []
    for plant, friction in PLANTS.items():
        progress(f"recording the arm with {plant}")
        controller, place = load_controller(robot), folder / friction
        for motion in (IDENTIFICATION, *HELD_OUT):
            path = load_excitation(robot).trajectory(motion, PROFILE)
            run = simulate(robot, path, FeedforwardPd(controller), seed=SEED, friction=friction)
            write_bag(run, robot, controller, place / motion, profile=PROFILE)
        held_out = tuple(load_recording(place / motion, robot) for motion in HELD_OUT)
        cases.append(Case(plant, robot, name, place / IDENTIFICATION, held_out, friction))
    return cases


def recorded_case(robot: Robot, name: str, folder: Path, mapping: Path | None) -> Case:
    """Return a folder of recordings as a case: the last by name judges, the one before it is identified from.

    Raises:
        DataError: it holds fewer than two recordings.
    """
    if not folder.is_dir():
        raise InputNotFoundError(f"no such folder: {folder}")
    paths = sorted(one for one in folder.iterdir() if one.is_dir() or one.suffix in (".csv", ".mcap", ".db3"))
    if len(paths) < 2:
        raise DataError(f"{folder} holds {len(paths)} recordings, expected two: one to identify from, one that judges")
    judges = tuple(load_recording(path, robot, mapping) for path in paths[1:])
    return Case(folder.name, robot, name, paths[0], judges, None, mapping)


def chain_urdf(robot: Robot, shapes: bool = False) -> str:
    """Return the robot's URDF with all joints but the chain's fixed.

    Args:
        robot: the robot.
        shapes: whether links keep their collision shapes; they lose all that is only drawn in either case.
    """
    path = robot.urdf_path
    root = tree_with_meshes(path).element if shapes else ElementTree.fromstring(read_urdf_text(path))
    chain = robot.joint_names[: robot.chain_size]
    for joint in root.findall("joint"):
        if joint.get("name") not in chain:
            joint.set("type", "fixed")
            for extra in ("mimic", "limit", "dynamics"):
                for one in joint.findall(extra):
                    joint.remove(one)
    for link in root.findall("link"):
        for shape in [*link.findall("visual"), *([] if shapes else link.findall("collision"))]:
            link.remove(shape)
    for other in [*root.findall("transmission"), *root.findall("gazebo"), *root.findall("material")]:
        root.remove(other)
    return ElementTree.tostring(root, encoding="unicode")


def hand_over(case: Case, folder: Path) -> None:
    """Write the input data of peers into a new folder."""
    folder.mkdir(parents=True)
    robot, chain = case.robot, slice(case.robot.chain_size)
    source = load_recording(case.fitted, robot, case.mapping)
    signals = source.usable_signals(load_identification(robot))
    begin, end = signals.window or (signals.time[0], signals.time[-1])
    time = np.arange(begin, end, STEP_S)
    columns = {
        key: np.column_stack([np.interp(time, stamps, column) for column in values.T[chain]])
        for key, stamps, values in (
            ("q", signals.time, signals.q),
            ("dq", signals.time, np.gradient(signals.q, signals.time, axis=0) if signals.dq is None else signals.dq),
            ("tau", signals.torque_time, signals.tau),
        )
    }
    gravity, limits = np.array(robot.gravity(source.mount)), np.array(robot.torque_limits[chain])
    write_given(folder, chain_urdf(robot), robot.joint_names[chain], gravity, limits, time=time - begin, **columns)
    lines = [case.robot_name, str(case.fitted), "" if case.mapping is None else str(case.mapping)]
    (folder / "recording.txt").write_text("\n".join(lines), encoding="utf-8")
    mdh = ArmModel.of(robot).mdh
    rows = [f"{r!r},{d!r},{a!r}" for r, d, a in zip(mdh.r.tolist(), mdh.d.tolist(), mdh.alpha.tolist(), strict=True)]
    (folder / "mdh.csv").write_text("\n".join(["d,a,alpha", *rows]) + "\n", encoding="utf-8")


def run_peer(peer: Peer, folder: Path, python: Path, seconds: float) -> dict[str, Any]:
    """Run a peer in a separate process; return processor time, memory, and an error ("" for a result)."""
    if not peer.module:
        return {"processor_s": None, "memory_mb": None, "error": peer.settings}
    own = sys.executable if peer.name == OWN else str(python)
    return run_process([own, "-m", "benchmarks.peers.child", peer.module, str(folder), str(seconds)], seconds)


def found_candidate(peer: Peer, case: Case, folder: Path) -> tuple[Candidate, str]:
    """Return a peer's result as a candidate, and the peer's note."""
    if peer.name == OWN:
        model = load_model(folder / "dynid", case.robot)
        return own_candidate(model), "" if model.accepted else "not accepted by its own checks"
    found = load_found(folder / f"{peer.module}.npz")
    return candidate_of(case.robot, found), found.note


def true_row(case: Case, poses: int) -> dict[str, Any]:
    """Return the row of the simulated arm's own parameters, for comparison."""
    assert case.friction is not None
    row: dict[str, Any] = {"plant": case.name, "peer": TRUTH, "settings": "what the simulated arm was made of"}
    row |= {"source": "config", "processor_s": None, "memory_mb": None, "error": "", "note": ""}
    return row | judge_candidate(case.robot, true_candidate(case.robot, case.friction), case.held_out, poses, True)


def judge_peer(peer: Peer, case: Case, folder: Path, python: Path, seconds: float, poses: int) -> dict[str, Any]:
    """Return the row of a peer: its figures, or its error."""
    row: dict[str, Any] = {"plant": case.name, "peer": peer.name, "settings": peer.settings, "source": peer.source}
    row |= run_peer(peer, folder, python, seconds) | {"note": ""}
    if row["error"]:
        return row
    try:
        candidate, row["note"] = found_candidate(peer, case, folder)
        row |= judge_candidate(case.robot, candidate, case.held_out, poses, case.friction is not None)
    except Exception as failed:  # a result that cannot be judged is a row, too
        row["error"] = f"not judged: {type(failed).__name__}: {failed}"
    return row


def benchmark_peers(
    cases: Sequence[Case],
    names: Sequence[str],
    work: Path,
    python: Path,
    seconds: float,
    poses: int,
    progress: Progress,
    programs: dict[str, str],
) -> list[dict[str, Any]]:
    """Return a row for every peer and case.

    Args:
        cases: recordings.
        names: names of peers; () takes all.
        work: folder for the input and output of peers.
        python: interpreter of the peers.
        seconds: processor time for each.
        poses: number of poses at which M is evaluated.
        progress: called with each step's name.
        programs: places of programs that no Python can import, by name.
    """
    rows = []
    for case in cases:
        if case.friction is not None:
            rows.append(true_row(case, poses))
        folder = work / "given" / case.name.replace(" ", "_")
        hand_over(case, folder)
        write_programs(folder, programs)
        for peer in (one for one in PEERS if not names or one.name in names):
            progress(f"{peer.name}, {case.name}")
            rows.append(judge_peer(peer, case, folder, python, seconds, poses))
    return rows


def missed(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return a sentence for every requirement that does not hold."""
    found = []
    for plant, share in (("gear friction", 0.5), ("viscous friction", 1.0)):
        here = {row["peer"]: row for row in rows if row["plant"] == plant and not row["error"]}
        others = [row["moving"] for name, row in here.items() if name not in (OWN, TRUTH)]
        if OWN not in here:
            if any(row["plant"] == plant and row["peer"] == OWN for row in rows):
                found.append(f"{plant}: dynid came to no result")
            continue
        if others and here[OWN]["moving"] > share * min(others):
            found.append(f"{plant}: error {here[OWN]['moving']:.3g}, at most {share:g} x {min(others):.3g}")
        other = here.get("mujoco.sysid")
        if other and here[OWN]["processor_s"] * 20.0 > other["processor_s"]:
            found.append(f"{plant}: {here[OWN]['processor_s']:.3g} s, mujoco.sysid took {other['processor_s']:.3g} s")
    return found

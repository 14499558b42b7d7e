"""A small arm without torque that a simulated hand moves, wired otherwise than its owner's robot.yaml says."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from geared_arms import variant
from plain_bus import IndependentAxesPlant, running_bus

from dynid.hardware.bus.clock import Clock
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.startup.hand_motions import HandMotions
from dynid.hardware.startup.hand_session import record_guided, watched_line
from dynid.hardware.startup.joint_match import Matcher, match_recording
from dynid.hardware.startup.match_blocks import Proposal, propose
from dynid.robot import FloatArray, Robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus

BAUDRATE = 3_000_000
LYING = np.deg2rad([-40.0, 25.0, 10.0])  # posture in which the arm lies [rad]
ZERO = np.zeros(3)
JOINT_PARTS = 6  # samples of a motion
# What the owner's robot.yaml does not know of the arm: IDs in another order, a reversed servo, an offset, two signs.
REAL: tuple[dict[str, Any], ...] = (
    {"servo_id": 3},
    {"servo_id": 1, "reverse_mode": True, "direction": -1},
    {"servo_id": 2, "centre_count": 1500},
)


class InstantClock(Clock):
    """A clock that sleeping advances; a hand may move the arm meanwhile."""

    def __init__(self, hand: Callable[[float], None] = lambda time_s: None) -> None:
        self.now_ns, self._hand = 0, hand

    def monotonic_ns(self) -> int:  # type: ignore[override]
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)
        self._hand(self.now_ns * 1e-9)


class Hand:
    """A person who moves the arm along one path per request, and then confirms."""

    def __init__(self, plant: IndependentAxesPlant, paths: Sequence[FloatArray]) -> None:
        self.plant, self.texts = plant, list[str]()
        self._paths, self._rows = iter(paths), iter(np.empty((0, plant.size)))

    def ask(self, text: str) -> None:
        self.texts.append(text)
        if text.endswith("press Enter"):
            self._rows = iter(next(self._paths))

    def confirmed(self) -> bool:
        row = next(self._rows, None)
        if row is not None:
            self.plant.q[:] = row
        return row is None


def path(*postures: FloatArray) -> FloatArray:
    """Return positions (N, n) along postures, in straight lines."""
    parts = [np.linspace(a, b, JOINT_PARTS) for a, b in pairwise(postures)]
    return np.vstack(parts)


def moved(axis: int, degrees: float, others: float = 0.0) -> FloatArray:
    """Return the path of one joint there and back, with a share of it at all others."""
    away = np.full(len(LYING), others)
    away[axis] = 1.0
    return path(LYING, LYING + np.deg2rad(degrees) * away, LYING)


def good_paths() -> list[FloatArray]:
    return [*(moved(axis, 22.0) for axis in range(3)), path(LYING, ZERO, ZERO)]


def real_arm(folder: Path, kind: str = "direct", fields: Sequence[dict[str, Any]] = REAL) -> Robot:
    """Return the arm with its true wiring of servos."""
    joints = [one.model_dump(exclude_unset=True) for one in variant(kind, folder / "plain").file.joints]
    return variant(kind, folder / "real", joints=[a | b for a, b in zip(joints, fields, strict=True)])


@contextmanager
def served(real: Robot) -> Iterator[tuple[EmulatedServoBus, IndependentAxesPlant]]:
    plant = IndependentAxesPlant(real, q=LYING)
    with running_bus(EmulatedServoBus(real, plant, baudrate=BAUDRATE, lock_step=True)) as bus:
        yield bus, plant


def guided(mine: Robot, real: Robot, paths: Sequence[FloatArray] | None = None) -> tuple[HandMotions, list[str]]:
    with served(real) as (bus, plant), watched_line(ServoBus(bus.port, BAUDRATE, ()), InstantClock()) as line:
        hand = Hand(plant, good_paths() if paths is None else paths)
        return record_guided(line, Matcher(mine, line.servos), hand, "the zero pose"), hand.texts


def proposed(mine: Robot, motions: HandMotions, pose: FloatArray = ZERO) -> Proposal:
    found, reference = match_recording(mine, motions)
    return propose(mine, motions, found, reference, pose)


def fields(proposal: Proposal, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(one.as_dict()[name] for name in names) for one in proposal.joints]

"""A rest posture for a drafted robot: where an upright arm without current lies lowest, as a proposal.

Among postures within the limits that the drives hold, the one of least potential energy, with every joint and the tool
above the base plane, and without contact between links where the URDF has shapes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import ConfigurationError
from dynid.model.chain import SerialChain
from dynid.model.link_shapes import LinkShapes
from dynid.model.pinocchio_library import pinocchio
from dynid.robot import FloatArray
from dynid.robot.draft_drives import CLEAR, reach

CLEARANCE_M = 0.03  # of joints and tool above the base plane
MOVED_M = 1e-6  # a joint's origin whose height changes less than this is fixed to the base
DRAWN, REFINED, STARTS = 3000, 250, 3  # postures: at random, near the best, and how many best ones are refined
ALWAYS = 0.95  # share of postures at which links touch that touch by design
SEEN = 64  # postures at which that is looked at
NEAR_ZERO = 1e-3  # weight of the distance to zero beside the energy: joints that lift nothing stay there
LEAST_TORQUE_NM = 1e-9


class _Postures:
    """What a posture of the chain costs and which postures are allowed."""

    def __init__(self, urdf: Path, chain: SerialChain, easy: FloatArray, clear: tuple[FloatArray, FloatArray]) -> None:
        self._chain, self._easy = chain, easy
        self._lower, self._upper = clear
        self._data = chain.model.createData()
        self.rng = np.random.default_rng(0)
        self.drawn = self.rng.uniform(self._lower, self._upper, (DRAWN, chain.size))
        self.drawn[0] = np.clip(0.0, *clear)
        heights = np.array([self._heights(q) for q in self.drawn[:SEEN]])
        self._moved = np.flatnonzero(np.ptp(heights, axis=0) > MOVED_M)
        energies = [self._energy(q) for q in self.drawn]
        self._span = max(float(np.ptp(energies)), LEAST_TORQUE_NM)
        try:
            self._shapes: LinkShapes | None = LinkShapes(urdf, tuple(chain.model.names)[1:])
        except ConfigurationError:  # meshes that are not there
            self._shapes = None
        self._by_design = self._always_touching()

    def _heights(self, q: FloatArray) -> FloatArray:
        """Heights of all joints and links above the base, (k,) [m]."""
        pinocchio.framesForwardKinematics(self._chain.model, self._data, q)
        return np.array([frame.translation[2] for frame in self._data.oMf])

    def _energy(self, q: FloatArray) -> float:
        return float(pinocchio.computePotentialEnergy(self._chain.model, self._data, q))

    def _always_touching(self) -> set[tuple[str, str]]:
        if self._shapes is None:
            return set()
        found = [set(self._shapes.touching(q)) for q in self.drawn[:SEEN]]
        return {pair for pair in set().union(*found) if sum(pair in one for one in found) >= ALWAYS * SEEN}

    def cost(self, q: FloatArray) -> float:
        """Return the potential energy as a share of what it varies by, and a little for the distance to zero."""
        away = (q - self.drawn[0]) / (self._upper - self._lower)
        return self._energy(q) / self._span + NEAR_ZERO * float(away @ away)

    def allowed(self, q: FloatArray) -> bool:
        """Whether a posture (chain,) keeps limits, is held with torque to spare, is above the plane and touches not."""
        if not ((q >= self._lower - 1e-9) & (q <= self._upper + 1e-9)).all():
            return False
        load = pinocchio.computeGeneralizedGravity(self._chain.model, self._data, q)
        if (np.abs(load) > self._easy).any():
            return False
        if (self._heights(q)[self._moved] < CLEARANCE_M).any():
            return False
        return self._shapes is None or set(self._shapes.touching(q)) <= self._by_design

    def lowest(self) -> FloatArray | None:
        """Return the allowed posture (chain,) of least cost that is found; None if there is none."""
        found = []
        order = np.argsort([self.cost(q) for q in self.drawn])
        for place in order:
            if self.allowed(self.drawn[place]):
                found.append(self._refined(self.drawn[place]))
                if len(found) == STARTS:
                    break
        return min(found, key=self.cost) if found else None

    def _refined(self, q: FloatArray) -> FloatArray:
        """Return the best of allowed postures around q (chain,), nearer and nearer to the best one so far."""
        best, cost = q, self.cost(q)
        for candidate in self._around(q):
            at = best + candidate
            if (own := self.cost(at)) < cost and self.allowed(at):
                best, cost = at, own
        for joint in range(len(q)):  # one that lifts nothing
            at = best.copy()
            at[joint] = self.drawn[0, joint]
            if (own := self.cost(at)) <= cost and self.allowed(at):
                best, cost = at, own
        return best

    def _around(self, q: FloatArray) -> Iterator[FloatArray]:
        for scale in np.geomspace(0.2, 0.005, REFINED):
            some = self.rng.random(len(q)) < 0.5
            yield scale * some * self.rng.normal(size=len(q)) * (self._upper - self._lower)


def rest_posture(
    urdf: Path, chain: SerialChain, rows: list[dict[str, Any]], easy: FloatArray, poses: FloatArray, loads: FloatArray
) -> tuple[dict[str, list[float]], str]:
    """Return `rest_posture_deg`, or `rest_posture` with sliding joints, and how it was found, as a phrase.

    Clear of the joints' limits, for drafted motions begin there and keep away from them.

    Args:
        urdf: of the arm, for the shapes.
        chain: its chain joints; gravity points along -z of the base.
        rows: all joints of robot.yaml; those beyond the chain stay near zero.
        easy: loads from which the drives start with torque to spare, (n,) [N m; N]; inf where nobody knows.
        poses: random postures, (K, n) [rad or m].
        loads: what gravity takes at each, (K, n) [N m; N]: without a lowest posture the one of least load is proposed.
    """
    lower, upper = reach(rows, CLEAR)
    size, chosen = chain.size, np.clip(0.0, lower, upper)
    lowest = _Postures(urdf, chain, easy[:size], (lower[:size], upper[:size])).lowest()
    if lowest is not None:
        chosen[:size] = lowest
        how = "where the upright arm lies lowest, with joints and tool above its base and no links that touch"
    else:
        shares = (np.abs(loads) / easy).max(axis=1)
        shares[~((poses >= lower) & (poses <= upper)).all(axis=1)] = np.inf
        chosen = poses[int(np.argmin(shares))]
        how = "where gravity loads the drives least; no posture was found that lies low above the base without contact"
    if any("lower_m" in row for row in rows):
        return {"rest_posture": np.round(chosen, 4).tolist()}, how
    return {"rest_posture_deg": np.round(np.rad2deg(chosen), 1).tolist()}, how

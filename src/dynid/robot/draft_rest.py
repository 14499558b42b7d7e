"""Proposal of a rest posture for a drafted robot: the lowest allowed posture of an upright arm.

The proposal has the least potential energy of all allowed postures. In an allowed posture, joints are within their
limits and above the base plane, and gravity torques leave each drive a margin. If the URDF has shapes, links must not
touch.
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

CLEARANCE_M = 0.03  # height of joints and tool above the base plane
MOVED_M = 1e-6  # a joint's origin whose height changes less than this is fixed to the base
DRAWN, REFINED, STARTS = 3000, 250, 3  # number of random postures, of steps of a refinement, and of refined postures
ALWAYS = 0.95  # fraction of postures with contact of two links above which it is by design
SEEN = 64  # number of postures at which contact by design is determined
NEAR_ZERO = 1e-3  # weight of the distance from zero, so that joints without influence on the energy stay at zero
LEAST_ENERGY_J = 1e-9  # smallest range of the potential energy, so that no cost divides by zero


class _Postures:
    """Search for the lowest allowed posture of a chain among random postures.

    Args:
        urdf: path of the arm's URDF, for its shapes.
        chain: the chain of c joints.
        easy: largest gravity torque at which each drive has a torque margin, (c,) [N m; N].
        clear: lower and upper ends of the allowed range of each joint, (c,) each [rad or m].
    """

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
        self._span = max(float(np.ptp(energies)), LEAST_ENERGY_J)
        try:
            self._shapes: LinkShapes | None = LinkShapes(urdf, tuple(chain.model.names)[1:])
        except ConfigurationError:  # missing meshes
            self._shapes = None
        self._by_design = self._always_touching()

    def _heights(self, q: FloatArray) -> FloatArray:
        """Return the heights (k,) [m] above the base of all k joint frames of pinocchio's model at q, (c,) [rad; m]."""
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
        """Return the cost of a posture q (c,) [rad; m]: potential energy divided by its range over the random postures.

        A small term for the distance from the zero posture is added.
        """
        away = (q - self.drawn[0]) / (self._upper - self._lower)
        return self._energy(q) / self._span + NEAR_ZERO * float(away @ away)

    def allowed(self, q: FloatArray) -> bool:
        """Return whether a posture q (c,) [rad; m] of c joints may be a rest posture.

        Joints must be within their limits, and the moving joint frames above the base plane. Gravity torques must leave
        each drive a margin. Links must not touch, except those that always touch by design.
        """
        if not ((q >= self._lower - 1e-9) & (q <= self._upper + 1e-9)).all():
            return False
        load = pinocchio.computeGeneralizedGravity(self._chain.model, self._data, q)
        if (np.abs(load) > self._easy).any():
            return False
        if (self._heights(q)[self._moved] < CLEARANCE_M).any():
            return False
        return self._shapes is None or set(self._shapes.touching(q)) <= self._by_design

    def lowest(self) -> FloatArray | None:
        """Return the allowed posture (c,) [rad; m] with the lowest cost; None if no random posture is allowed."""
        found = []
        order = np.argsort([self.cost(q) for q in self.drawn])
        for place in order:
            if self.allowed(self.drawn[place]):
                found.append(self._refined(self.drawn[place]))
                if len(found) == STARTS:
                    break
        return min(found, key=self.cost) if found else None

    def _refined(self, q: FloatArray) -> FloatArray:
        """Reduce the cost of a posture q (c,) [rad; m] by random steps of decreasing size through allowed postures.

        Return the allowed posture with the lowest cost that was found.
        """
        best, cost = q, self.cost(q)
        for candidate in self._around(q):
            at = best + candidate
            if (own := self.cost(at)) < cost and self.allowed(at):
                best, cost = at, own
        for joint in range(len(q)):  # a joint that lifts nothing returns to zero
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
    """Return a proposed rest posture as a field of robot.yaml, and a phrase on how the posture was chosen.

    The field is `rest_posture_deg`, or `rest_posture` if the arm has prismatic joints. The posture keeps a distance
    from the joint limits, because drafted motions begin in it.

    Args:
        urdf: path of the arm's URDF, for its shapes.
        chain: the serial chain; gravity acts along -z of the base.
        rows: all joints of robot.yaml; the search keeps the joints beyond the chain near zero.
        easy: largest load that each joint's drive lifts from rest with a torque margin, (n,) [N m; N]; inf if unknown.
        poses: random postures, (K, n) [rad or m]. If no posture is allowed, the one with the smallest gravity torques
            relative to `easy` is proposed.
        loads: gravity torques at these postures, (K, n) [N m; N].
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

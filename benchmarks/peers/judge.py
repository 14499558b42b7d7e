"""Comparison criteria of peers: the same filtered rows, the plant's parameters, rollouts, and inertia matrix."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.peers.exchange import Found
from benchmarks.peers.rollout import rollout_errors
from benchmarks.studies.gear_friction import HEAVY_KG_M, true_parameters
from dynid.identification.data.recordings import Portion, Recording
from dynid.identification.estimators.torque_errors import TorqueErrors, torque_errors
from dynid.identification.prediction import predict
from dynid.identification.settings import load_identification
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import StandardParameters
from dynid.model.standard import from_file, pseudo_inertia, ten_parameters
from dynid.robot import FloatArray, Robot
from dynid.runtime.model import Model
from dynid.simulation.plant.arm import plant_standard
from dynid.simulation.plant.gear_friction import plant_friction
from dynid.simulation.plant.nuisances import magnitudes

BEYOND = (0.005, 0.1, 0.1)  # rotor inertia, viscous and Coulomb friction of axes beyond the chain, which are not judged
SEED = 20261127
ROUNDED = 1e-8  # an eigenvalue that is less than this below zero is on the boundary [SI]
NUDGE = 1e-7  # added to every pseudo-inertia on the boundary before it is simulated [SI]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A result in dynid's terms.

    Attributes:
        model: model with base parameters and links; its chain joints have no Coulomb friction unless `own` is true.
        coulomb, offset: Coulomb friction and offset of all axes, (n,) [N m].
        own: whether the model itself contains all friction.
    """

    model: Model
    coulomb: FloatArray
    offset: FloatArray
    own: bool

    def torques(self, portion: Portion) -> FloatArray:
        """Return predicted torques (N, n) [N m] on the rows of a recording."""
        if self.own:
            return predict(self.model, portion).predicted
        arm = self.model.arm(portion.mount)

        def function(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
            return arm.inverse_dynamics(q, dq, ddq, self.model.base) + self.coulomb * np.sign(dq) + self.offset

        return np.asarray(portion.samples.low_passed(function))

    def unphysical(self) -> str:
        """Return why the parameters are physically impossible; '' if they are possible."""
        standard = self.model.standard
        assert standard is not None
        for j in range(standard.chain_size):
            least = float(np.linalg.eigvalsh(pseudo_inertia(standard.link(j))).min())
            if least < -ROUNDED:
                return f"link {j + 1}: eigenvalue {least:.2g} of its pseudo-inertia"
        chain = slice(standard.chain_size)
        for kind in ("IA", "FV"):
            if (standard.axis(kind)[chain] < 0.0).any():
                return f"{kind}{int(np.argmin(standard.axis(kind)[chain])) + 1} is negative"
        if (self.coulomb[chain] < 0.0).any():
            return f"FC{int(np.argmin(self.coulomb[chain])) + 1} is negative"
        return ""

    def with_friction(self) -> Model:
        """Return the model with all friction in its law, for simulation; offsets are left out."""
        if self.own:
            law = self.model.friction_law
            return replace(self.model, friction_law=None if law is None else law.with_values({"of": 0.0}))
        law, standard = FrictionLaw.of(self.model.robot.size, {"fb": self.coulomb}), self.model.standard
        assert standard is not None
        links = [pseudo_inertia(standard.link(j)) + NUDGE * np.eye(4) for j in range(standard.chain_size)]
        values = np.concatenate([*map(ten_parameters, links), standard.values[10 * standard.chain_size :]])
        return replace(self.model, friction_law=law, standard=replace(standard, values=values))


def candidate_of(robot: Robot, found: Found) -> Candidate:
    """Return a peer's result in dynid's terms, with links in the modified Denavit-Hartenberg frames."""
    arm, n = ArmModel.of(robot), robot.size
    links = []
    for row, at in zip(found.links, arm.mdh.in_link, strict=True):
        m, hx, hy, hz, xx, xy, yy, xz, yz, zz = row
        away = np.linalg.inv(at)
        links.append(ten_parameters(away @ pseudo_inertia(np.array([xx, xy, xz, yy, yz, zz, hx, hy, hz, m])) @ away.T))
    names, chain = arm.regrouping.standard, arm.chain_size
    values = dict.fromkeys(names, 0.0) | dict(zip(names, np.concatenate(links), strict=False))
    drives = zip(("IA", "FV", "FC"), BEYOND, (found.armature, found.viscous, np.zeros(chain)), strict=True)
    for kind, beyond, own in drives:
        values |= {f"{kind}{axis + 1}": float(own[axis]) if axis < chain else beyond for axis in range(n)}
    values |= {f"FC{axis + 1}": 0.0 for axis in range(n)}
    standard = StandardParameters(names, np.array([values[name] for name in names]), chain)
    coulomb, offset = np.full(n, BEYOND[2]), np.zeros(n)
    coulomb[:chain], offset[:chain] = found.coulomb, found.offset
    return Candidate(Model(robot, arm.base_parameters(standard), standard=standard), coulomb, offset, False)


def own_candidate(model: Model) -> Candidate:
    """Return a result of dynid."""
    law = model.friction_law
    n = model.robot.size
    offset = np.zeros(n) if law is None else np.array(law["of"])
    return Candidate(model, np.zeros(n), offset, True)


def true_candidate(robot: Robot, friction: str) -> Candidate:
    """Return the simulated arm's own parameters and friction, which can be surpassed only by chance."""
    arm, content = ArmModel.of(robot), plant_standard(robot)
    law = plant_friction(robot, content, magnitudes(robot), (), friction)
    standard = from_file(content, arm.mdh, arm.regrouping.standard)
    kept = [kind_and_number(name)[0] not in ("FV", "FC") for name in standard.names]
    bare = replace(standard, values=standard.values * kept)
    return own_candidate(Model(robot, arm.base_parameters(bare), law, standard=bare))


def pooled(robot: Robot, candidate: Candidate, portions: Sequence[Portion]) -> TorqueErrors:
    """Return the torque errors of the chain joints over held-out motions."""
    chain = slice(robot.chain_size)
    parts = [
        (one.samples.tau[:, chain], candidate.torques(one)[:, chain], one.samples.dq[:, chain]) for one in portions
    ]
    return torque_errors(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def gravity_error(robot: Robot, candidate: Candidate) -> float:
    """Return the largest relative error of the gravity parameters that affect torques, against the plant's."""
    arm = ArmModel.of(robot)
    rows = zip(arm.names, true_parameters(robot, arm), candidate.model.base.values, strict=True)
    return max(float(abs(own / truth - 1.0)) for name, truth, own in rows if name[0] == "M" and abs(truth) > HEAVY_KG_M)


def smallest_eigenvalue(robot: Robot, candidate: Candidate, poses: int) -> float:
    """Return the smallest eigenvalue of the chain's M over random poses within the joint limits [kg m^2]."""
    random, chain, least = np.random.default_rng(SEED), robot.chain_size, math.inf
    for count in [10_000] * (poses // 10_000) + ([poses % 10_000] if poses % 10_000 else []):
        q = random.uniform(robot.lower, robot.upper, (count, robot.size))
        M = candidate.model.inertia_matrix(q)[:, :chain, :chain]
        least = min(least, float(np.linalg.eigvalsh(0.5 * (M + M.swapaxes(1, 2))).min()))
    return least


def judge_candidate(
    robot: Robot, candidate: Candidate, held_out: Sequence[Recording], poses: int, simulated: bool
) -> dict[str, Any]:
    """Return the figures of a result; those that a real arm does not show are None.

    Args:
        robot: robot of the result.
        candidate: result to judge.
        held_out: recordings that were not used in any identification.
        poses: number of random poses.
        simulated: whether the recordings are of the robot's simulated arm, whose parameters are known.
    """
    settings = load_identification(robot)
    portions = [one.portion("held out", settings) for one in held_out]
    errors, unphysical = pooled(robot, candidate, portions), candidate.unphysical()
    figures: dict[str, Any] = {
        "moving": errors.moving,
        "worst_joint": float(np.nanmax(errors.moving_per_axis)),
        "all": errors.relative,
        "gravity_error": gravity_error(robot, candidate) if simulated else None,
        "lambda_min": smallest_eigenvalue(robot, candidate, poses),
        "consistent": not unphysical,
        "unphysical": unphysical,
        "rollout_deg": None,
        "closed_loop_deg": None,
    }
    if not unphysical:
        open_loop, closed = rollout_errors(candidate.with_friction(), candidate.offset, held_out, settings)
        figures |= {"rollout_deg": open_loop, "closed_loop_deg": closed}
    return figures

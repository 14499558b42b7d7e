"""Peer dynid: `dynid excite optimised` by its Python interface, with default settings."""

from typing import TYPE_CHECKING

from benchmarks.peers.excitation.exchange import Designed, Given

if TYPE_CHECKING:
    from dynid.excitation.objectives import Objective


def condition(given: Given) -> Designed:
    """Return the motion with the smallest condition number that dynid finds."""
    return _optimised(given, "condition")


def d_optimal(given: Given) -> Designed:
    """Return the motion with the largest determinant that dynid finds."""
    return _optimised(given, "d_optimal")


def _optimised(given: Given, objective: "Objective") -> Designed:
    from dynid.excitation.optimiser import ExcitationOptimiser, ExcitationWish
    from dynid.robot import load_robot
    from dynid.trajectory.families import load_excitation

    robot = load_robot(given.task.robot)
    optimiser = ExcitationOptimiser(robot, load_excitation(robot))
    wish = ExcitationWish(given.task.duration_s, objective=objective, profile=given.task.profile)
    motion = optimiser.optimise("optimised", wish).motion
    chain = slice(len(given.task.joints))
    q, dq, ddq = (one[:, chain] for one in motion.sample_all(motion.knots))
    return Designed(motion.knots, q, dq, ddq)

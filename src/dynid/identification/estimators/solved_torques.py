"""Prediction of torques from motion and parameters, with friction that may depend on the motor torque.

If friction depends on the motor torque tm and the load te, tm is the solution of tm = W phi + friction(dq, tm, te).
`dynid.model.friction` defines the load. The module `gear_rows` also computes derivatives by all parameters.
"""

import numpy as np

from dynid.identification.data.fine_states import FineStates, grid_step_s
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.gear_kernels import settle
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray


def predicted_torques(
    model: ArmModel, samples: Samples, phi: BaseParameters, friction: FrictionLaw | None = None
) -> FloatArray:
    """Predict the torques at the samples from the motion and the parameters, (N, n) [N m].

    Load-dependent friction is averaged over the ripple of the measured torque, which is the part of the torque that the
    low-pass of the samples removes.

    Args:
        model: model of the arm.
        samples: states and torques.
        phi: base parameters.
        friction: law of the friction that phi does not contain; None if there is none.
    """
    if friction is None:
        return samples.low_passed(lambda q, dq, ddq: model.inverse_dynamics(q, dq, ddq, phi))
    if not samples.fine:
        ripple = np.zeros((len(samples), 1, model.axes))
        return np.asarray(np.sum(solved_torques(model, samples, samples.tau, ripple, phi, friction), axis=0))
    found = []
    for one in samples.fine:
        step = grid_step_s(samples.settings.interval_s, one)
        links, rubbed = solved_torques(model, one, one.tau, one.ripple, phi, friction, step)
        found.append(one.low_pass(links) + one.low_pass_sharp(rubbed))
    return np.concatenate(found)


def solved_torques(
    model: ArmModel,
    states: FineStates | Samples,
    guess: FloatArray,
    ripple: FloatArray,
    phi: BaseParameters,
    friction: FrictionLaw,
    step_s: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the torques of the base parameters, and of friction outside the base parameters, (M, n) [N m] each.

    The sum of both is the motor torque. Friction may depend on the motor torque, so the sum is solved iteratively.
    Friction is not a linear function of the torque, so it is averaged over the ripple, the fast variations of the
    measured torque.

    Args:
        model: model of the arm.
        states: the M states for which torques are computed, on a fine grid or at the samples.
        guess: motor torques from which the iteration starts, (M, n) [N m].
        ripple: measured torque minus its low-passed value, at R instants around each state, (M, R, n) [N m].
        phi: base parameters.
        friction: law of the friction that the base parameters do not contain.
        step_s: time between the states [s]; None if they are not consecutive.
    """
    q, dq, still = states.q, states.dq, np.zeros_like(states.ddq)
    ones, rates = np.ones(len(q)), np.ascontiguousarray(dq)
    x = friction.directions(rates) if step_s is None else friction.directions_in_time(rates, step_s)
    shape = x, friction.fadings(rates)
    te = still
    if friction.depends_on_load:
        te = -model.inverse_dynamics(q, dq, still, of_kinds(phi, KINDS, others=True))
    wanted, tm = model.inverse_dynamics(q, dq, states.ddq, phi), np.array(guess)
    settle(friction.values, *shape, ones, rates, te, wanted, by_axes(ripple), tm)
    return wanted, tm - wanted


def by_axes(ripple: FloatArray) -> FloatArray:
    """Return torque ripple (M, R, n), any unit, as a contiguous array (M, n, R)."""
    return np.ascontiguousarray(ripple.swapaxes(1, 2))

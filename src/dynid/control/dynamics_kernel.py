"""Inverse dynamics of a single state in scalar machine code, fast enough for a control cycle (about a microsecond).

The equations are those of `dynid.codegen.compile`, whose kernels take many states at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dynid.codegen.emit import RANGE, emit
from dynid.codegen.kernels import Generated, load_kernels
from dynid.errors import SafetyError
from dynid.model.dynamics import ArmModel
from dynid.model.symbolic import SymbolicArm
from dynid.robot import FloatArray

TRANSITION_RAD_S = 0.02
CHAIN = 0  # number of joints of the serial chain; replaced in each generated module

if TYPE_CHECKING:

    def torque_program(lane: int, arrays: Any) -> None:
        """Compute the torques of one state; stub of a function that is generated for each arm.

        Args:
            lane: index of the state in the arrays; 0 if they hold a single state.
            arrays: inputs q, dq, ddq and phi, and output tau, as in `single_state`.
        """


InverseDynamics = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]


def positions_outside(q: Any) -> int:
    """Return the number of joints of the serial chain with an angle beyond +-RANGE; NaN counts as beyond.

    The generated polynomials for sine and cosine are accurate only within +-RANGE [rad].

    Args:
        q: joint positions, (n,) [rad]; those of the serial chain come first.
    """
    count = 0
    for j in range(CHAIN):
        if not abs(q[j]) <= RANGE:
            count += 1
    return count


def single_state(q: Any, dq: Any, ddq: Any, phi: Any, tau: Any) -> int:
    """Write the inverse-dynamics torques of one state into `tau`; return the number of joints out of range.

    Joints beyond +-RANGE [rad] are out of range of the generated polynomials for sine and cosine.

    Args:
        q: positions, (n,) [rad].
        dq: velocities, (n,) [rad/s].
        ddq: accelerations, (n,) [rad/s^2].
        phi: values of the base parameters, (p,) [SI].
        tau: torques, (n,) [N m].
    """
    torque_program(0, (q, dq, ddq, phi, tau))
    return positions_outside(q)


SINGLE_STATE_LOOPS = (positions_outside, single_state)  # argument of `load_kernels`


def generate(model: ArmModel) -> Generated:
    """Generate the program that computes the inverse dynamics of an arm at one state; its name is `torque_program`."""
    arm = SymbolicArm(model)
    inputs = {"q": arm.q, "dq": arm.dq, "ddq": arm.ddq}
    program = emit(inputs, {"phi": arm.phi}, {"tau": arm.inverse_dynamics(arm.ddq)}, row=1)
    return Generated({"torque_program": replace(program, width=1)})


def refuse_outside(model: ArmModel, q: FloatArray) -> NoReturn:
    """Raise SafetyError because a joint of the serial chain is beyond +-RANGE, where the dynamics are not valid.

    Args:
        model: model of the arm.
        q: joint positions, (n,) [rad].
    """
    raise SafetyError(
        f"a joint is at {np.abs(q[: model.chain_size]).max():.3f} rad; the dynamics are computed within "
        f"+-{RANGE} rad only"
    )


class SingleState:
    """Compiled inverse dynamics of one state, as a function `(q, dq, ddq, phi values) -> tau`.

    The model is arXiv:2605.15949, eq. 3, as in `ArmModel.inverse_dynamics`. The sign of a velocity is replaced by a
    smooth function, see `FrictionLaw.transition_rad_s`, because a torque that jumps would shake the arm. The
    constructor compiles the function, so that a control loop never waits for a compiler. A call raises SafetyError if a
    joint of the serial chain is beyond +-RANGE, since the polynomials for sine and cosine are valid only within it.

    Args:
        arm: the model of the arm.
        transition_rad_s: velocity scale of the smooth sign function [rad/s].

    Attributes:
        arm: the model of the arm.
    """

    def __init__(self, arm: ArmModel, transition_rad_s: float = TRANSITION_RAD_S) -> None:
        self.arm, self._transition_rad_s = arm, transition_rad_s
        self._axes, self._has_dry = arm.axes, bool(arm.dry_places)
        self._kernel = load_kernels("single", arm, lambda: generate(arm), SINGLE_STATE_LOOPS).single_state
        still, values = np.zeros(arm.axes), np.zeros(len(arm.names))
        for writable in (True, False):  # compile for both kinds of arrays, since phi is read-only
            values.flags.writeable = writable
            self(still, still, still, values)

    def __call__(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, phi: FloatArray) -> FloatArray:
        """Return the inverse-dynamics torques (n,) [N m] of one state.

        Args:
            q: positions, (n,) [rad].
            dq: velocities, (n,) [rad/s].
            ddq: accelerations, (n,) [rad/s^2].
            phi: values of the base parameters, (p,) [SI].
        """
        tau = np.empty(self._axes)
        if self._kernel(q, dq, ddq, phi, tau):
            refuse_outside(self.arm, q)
        if self._has_dry:
            tau += self.dry(dq, phi)
        return tau

    def dry(self, dq: FloatArray, phi: FloatArray) -> FloatArray:
        """Return the torque (n,) [N m] of dry friction and torque offsets in phi, with a smooth sign function of dq.

        Args:
            dq: velocities, (n,) [rad/s].
            phi: values of the base parameters, (p,) [SI].
        """
        return np.asarray(self.arm.dry_values_torque(dq[None], phi, self._transition_rad_s)[0])


def compile_single(model: ArmModel, transition_rad_s: float = TRANSITION_RAD_S) -> SingleState:
    """Return the compiled inverse dynamics of an arm at one state, as a `SingleState`.

    Args:
        model: the model of the arm.
        transition_rad_s: velocity scale of the smooth sign function in friction [rad/s].
    """
    return SingleState(model, transition_rad_s)


def within_a_turn(q: FloatArray, aperiodic: Sequence[bool]) -> FloatArray:
    """Return joint positions shifted by full turns into -pi to pi, (n,) [rad], where the compiled dynamics are valid.

    Args:
        q: joint positions, (n,) [rad].
        aperiodic: mask of the axes whose torque changes with a full turn, such as prismatic axes, (n,), see
            `ArmModel.aperiodic`. The positions of these axes are left unchanged.
    """
    return np.where(aperiodic, q, q - 2.0 * np.pi * np.round(q / (2.0 * np.pi)))

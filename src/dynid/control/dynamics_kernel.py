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
CHAIN = 0  # number of chain joints; replaced in each generated module

if TYPE_CHECKING:

    def torque_program(lane: int, arrays: Any) -> None:
        """Compute torques from q, dq, ddq and phi; a placeholder for the generated program."""


InverseDynamics = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]


def positions_outside(q: Any) -> int:
    """Return the number of chain joints outside the range of the generated polynomials; NaN counts as outside."""
    count = 0
    for j in range(CHAIN):
        if not abs(q[j]) <= RANGE:
            count += 1
    return count


def single_state(q: Any, dq: Any, ddq: Any, phi: Any, tau: Any) -> int:
    """Write the torques of one state into `tau`; return the number of joints outside the range of the polynomials."""
    torque_program(0, (q, dq, ddq, phi, tau))
    return positions_outside(q)


SINGLE_STATE_LOOPS = (positions_outside, single_state)  # argument of `load_kernels`


def generate(model: ArmModel) -> Generated:
    """Return the generated program that `single_state` runs."""
    arm = SymbolicArm(model)
    inputs = {"q": arm.q, "dq": arm.dq, "ddq": arm.ddq}
    program = emit(inputs, {"phi": arm.phi}, {"tau": arm.inverse_dynamics(arm.ddq)}, row=1)
    return Generated({"torque_program": replace(program, width=1)})


def refuse_outside(model: ArmModel, q: FloatArray) -> NoReturn:
    """Raise SafetyError because a chain joint of q (n,) [rad] is outside the range of the generated polynomials."""
    raise SafetyError(
        f"a joint is at {np.abs(q[: model.chain_size]).max():.3f} rad; the dynamics are computed within "
        f"+-{RANGE} rad only"
    )


class SingleState:
    """A compiled function `(q, dq, ddq, phi values) -> tau`, (n,) each: `ArmModel.inverse_dynamics` (paper eq. 3).

    The sign of a velocity is replaced by a smooth function, see `FrictionLaw.transition_rad_s`, because a torque that
    jumps would shake the arm. The constructor compiles the function, so that a control loop never waits for a compiler.
    A call raises SafetyError if a chain joint is beyond +-RANGE, since the generated polynomials hold only within it.

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
        """Return the torques (n,) [N m] for q, dq, ddq, (n,) each in SI, and the values of the base parameters (p,)."""
        tau = np.empty(self._axes)
        if self._kernel(q, dq, ddq, phi, tau):
            refuse_outside(self.arm, q)
        if self._has_dry:
            tau += self.dry(dq, phi)
        return tau

    def dry(self, dq: FloatArray, phi: FloatArray) -> FloatArray:
        """Return the torque (n,) [N m] of dry friction and other drive-side terms, without its jump at dq = 0."""
        return np.asarray(self.arm.dry_values_torque(dq[None], phi, self._transition_rad_s)[0])


def compile_single(model: ArmModel, transition_rad_s: float = TRANSITION_RAD_S) -> SingleState:
    """Return the compiled inverse dynamics of a model, see `SingleState`."""
    return SingleState(model, transition_rad_s)


def within_a_turn(q: FloatArray, aperiodic: Sequence[bool]) -> FloatArray:
    """Return the equivalent pose (n,) [rad] between -pi and pi, for which the generated dynamics hold.

    Axes with a true `aperiodic` flag (see `ArmModel.aperiodic`) are left unchanged: their torque differs after a full
    turn.
    """
    return np.where(aperiodic, q, q - 2.0 * np.pi * np.round(q / (2.0 * np.pi)))

"""Inverse dynamics of one state in scalar machine code: what a control cycle can afford (about a microsecond).

The same equations as `dynid.codegen.compile`, whose kernels take many states at once.
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
CHAIN = 0  # of the arm; every generated module has its own

if TYPE_CHECKING:

    def torque_program(lane: int, arrays: Any) -> None:
        """Program: torques from q, dq, ddq and phi."""


InverseDynamics = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]


def positions_outside(q: Any) -> int:
    """How many of the chain's positions are out of the polynomials' range; NaN is."""
    count = 0
    for j in range(CHAIN):
        if not abs(q[j]) <= RANGE:
            count += 1
    return count


def single_state(q: Any, dq: Any, ddq: Any, phi: Any, tau: Any) -> int:
    """Torques of one state into `tau`; returns how many positions were out of the polynomials' range."""
    torque_program(0, (q, dq, ddq, phi, tau))
    return positions_outside(q)


SINGLE_STATE = (positions_outside, single_state)  # as `load_kernels` takes them


def generate(model: ArmModel) -> Generated:
    """The program that `single_state` runs."""
    arm = SymbolicArm(model)
    inputs = {"q": arm.q, "dq": arm.dq, "ddq": arm.ddq}
    program = emit(inputs, {"phi": arm.phi}, {"tau": arm.inverse_dynamics(arm.ddq)}, row=1)
    return Generated({"torque_program": replace(program, width=1)})


def refuse_outside(model: ArmModel, q: FloatArray) -> NoReturn:
    """Raise SafetyError: a chain joint of q (n,) [rad] is out of the polynomials' range."""
    raise SafetyError(
        f"a joint is at {np.abs(q[: model.chain_size]).max():.3f} rad; the dynamics are computed within "
        f"+-{RANGE} rad only"
    )


class SingleState:
    """A function `(q, dq, ddq, phi values) -> tau`, (n,) each: `ArmModel.inverse_dynamics` (paper eq. 3).

    Signs of velocities change smoothly, see `FrictionLaw.transition_rad_s`: a torque that jumps would shake the arm.
    It is compiled here, not at its first call: a control loop must not wait for a compiler.
    The function raises SafetyError where a chain joint is beyond +-RANGE, out of which its polynomials do not hold.

    Attributes:
        arm: whose dynamics these are.
    """

    def __init__(self, arm: ArmModel, transition_rad_s: float = TRANSITION_RAD_S) -> None:
        self.arm, self._transition_rad_s = arm, transition_rad_s
        self._axes, self._has_dry = arm.axes, bool(arm.dry_places)
        self._kernel = load_kernels("single", arm, lambda: generate(arm), SINGLE_STATE).single_state
        still, values = np.zeros(arm.axes), np.zeros(len(arm.names))
        for writable in (True, False):  # numba compiles for each; phi is read-only
            values.flags.writeable = writable
            self(still, still, still, values)

    def __call__(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, phi: FloatArray) -> FloatArray:
        """Torques (n,) [N m] of q, dq, ddq, (n,) each in SI, and base parameters' values (p,)."""
        tau = np.empty(self._axes)
        if self._kernel(q, dq, ddq, phi, tau):
            refuse_outside(self.arm, q)
        if self._has_dry:
            tau += self.dry(dq, phi)
        return tau

    def dry(self, dq: FloatArray, phi: FloatArray) -> FloatArray:
        """The part (n,) [N m] of drive-side base parameters that have no derivative everywhere, signs made smooth."""
        return np.asarray(self.arm.dry_values_torque(dq[None], phi, self._transition_rad_s)[0])


def compile_single(model: ArmModel, transition_rad_s: float = TRANSITION_RAD_S) -> SingleState:
    """See `SingleState`."""
    return SingleState(model, transition_rad_s)


def within_a_turn(q: FloatArray, aperiodic: Sequence[bool]) -> FloatArray:
    """The same pose (n,) [rad] between -pi and pi, where the generated dynamics hold; axes that do not repeat stay.

    `aperiodic` is that of the `ArmModel`.
    """
    return np.where(aperiodic, q, q - 2.0 * np.pi * np.round(q / (2.0 * np.pi)))

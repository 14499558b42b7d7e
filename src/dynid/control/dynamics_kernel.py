"""Inverse dynamics of one state in scalar machine code: what a control cycle can afford (about a microsecond).

The same equations as `dynid.codegen.compile`, whose kernels take many states at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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


def single_state(q: Any, dq: Any, ddq: Any, phi: Any, tau: Any) -> int:
    """Torques of one state into `tau`; returns how many positions were out of the polynomials' range."""
    outside = 0
    for j in range(CHAIN):
        if not abs(q[j]) <= RANGE:
            outside += 1
    torque_program(0, (q, dq, ddq, phi, tau))
    return outside


def generate(model: ArmModel) -> Generated:
    """The program that `single_state` runs."""
    arm = SymbolicArm(model)
    inputs = {"q": arm.q, "dq": arm.dq, "ddq": arm.ddq}
    program = emit(inputs, {"phi": arm.phi}, {"tau": arm.inverse_dynamics(arm.ddq)}, row=1)
    return Generated({"torque_program": replace(program, width=1)})


def compile_single(model: ArmModel, transition_rad_s: float = TRANSITION_RAD_S) -> InverseDynamics:
    """A function `(q, dq, ddq, phi values) -> tau`, (n,) each: `ArmModel.inverse_dynamics` (paper eq. 3).

    Signs of velocities change smoothly, see `FrictionLaw.transition_rad_s`: a torque that jumps would shake the arm.
    It is compiled here, not at its first call: a control loop must not wait for a compiler.
    The function raises SafetyError where a chain joint is beyond +-RANGE, out of which its polynomials do not hold.
    """
    n, p, dry = model.axes, len(model.names), bool(model.dry_places)
    kernel = load_kernels("single", model, lambda: generate(model), [single_state]).single_state

    def inverse_dynamics(q: FloatArray, dq: FloatArray, ddq: FloatArray, phi: FloatArray) -> FloatArray:
        tau = np.empty(n)
        if kernel(q, dq, ddq, phi, tau):
            raise SafetyError(
                f"a joint is at {np.abs(q[: model.chain_size]).max():.3f} rad; the dynamics are computed within "
                f"+-{RANGE} rad only"
            )
        if dry:
            tau += model.dry_values_torque(dq[None], phi, transition_rad_s)[0]
        return tau

    still, values = np.zeros(n), np.zeros(p)
    for writable in (True, False):  # numba compiles for each; phi is read-only
        values.flags.writeable = writable
        inverse_dynamics(still, still, still, values)
    return inverse_dynamics


def within_a_turn(q: FloatArray, slides: Sequence[bool]) -> FloatArray:
    """The same pose (n,) [rad] between -pi and pi, where the generated dynamics hold; what slides stays."""
    return np.where(slides, q, q - 2.0 * np.pi * np.round(q / (2.0 * np.pi)))

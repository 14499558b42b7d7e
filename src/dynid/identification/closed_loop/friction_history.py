"""Friction along a measured motion: a load on the joints that the simulated loop is given.

The closed loop answers to friction, so a simulation without it would command other torques than the arm's. The sign of
a simulated velocity has no derivative and sticking is a state of its own; but what friction did is seen in the
measured motion and torques, and does not depend on the parameters to be refined:

    sliding   the law at the measured velocity, motor torque and load
    sticking  what balances the other torques: tau - W(q, dq, ddq) phi, within the law's budget

So the variational equations need no derivative of friction, and the Jacobian of this problem is exact. What it leaves
out, that other parameters would have moved the motor's torque and with it friction that grows with the load, weighs
residuals differently and moves no minimum: with the true parameters residuals are zero either way.

Friction's steps are sharper than the samples' filter lets through, so it is seen through a filter of its own.
"""

from dataclasses import dataclass

import numpy as np

from dynid.codegen.compile import compile_inverse_dynamics
from dynid.identification.data.preprocessing import central_differences
from dynid.identification.data.zero_phase import butterworth_sections, filtered_both_ways
from dynid.identification.settings import CoulombSettings
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import TERMS, FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

FILTER_ORDER = 2
LINEAR = [term.kind != "shape" for term in TERMS]


@dataclass(frozen=True, eq=False)
class KnownFriction:
    """Friction with the parameters beside which it was estimated: what sticking joints carried needs both."""

    model: ArmModel
    phi: BaseParameters
    friction: FrictionLaw

    def along(
        self, q: FloatArray, tau: FloatArray, step_s: float, settings: CoulombSettings, drive: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Friction torque at every instant, and what one standard deviation of it is.

        Args:
            q: measured positions every `step_s`, (K, n) [rad].
            tau: measured torques, (K, n) [N m]; of the measured current, whatever the regression uses.
            step_s: step [s].
            settings: speeds and the filter's cut-off frequency.
            drive: torques of the written currents, (K, n) [N m], which show the ripple that friction answers to; None
                takes the measured ones.

        Returns:
            (K, n) [N m] each; the deviation takes the parameters' own as independent, and is zero where unknown.

        Raises:
            DataError: the motion is too short for the low-pass.
        """
        low_pass = butterworth_sections(FILTER_ORDER, settings.motion_cutoff_hz, 1.0 / step_s)
        smooth, torque = (filtered_both_ways(low_pass, signal) for signal in (q, tau))
        dq, ddq = central_differences(smooth, step_s)
        dynamics, law, still = compile_inverse_dynamics(self.model), self.friction, np.zeros_like(dq)
        balance = torque - dynamics(smooth, dq, ddq, self.phi)
        motor, load = tau if drive is None else drive, still
        if law.depends_on_load:
            load = -dynamics(smooth, dq, still, of_kinds(self.phi, KINDS, others=True))
        limit = law.budget(still, torque, load)
        sticking = np.abs(dq) < settings.slow_rad_s
        friction = np.where(sticking, np.clip(balance, -limit, limit), law.torque(dq, motor, load))
        return friction, self._deviation(friction, dq, motor, load)

    def _deviation(self, friction: FloatArray, dq: FloatArray, tm: FloatArray, te: FloatArray) -> FloatArray:
        """One standard deviation of friction in motion, scaled to what it is where the joint sticks."""
        law = self.friction
        if law.deviations is None:
            return np.zeros_like(friction)
        known = np.nan_to_num(law.deviations[LINEAR])
        if law.terms == ("fb",):
            share = np.divide(known[1], law["fb"], np.zeros_like(law["fb"]), where=law["fb"] > 0)
            return np.asarray(friction * share)
        return np.asarray(np.sqrt(np.einsum("kit,ti->ki", law.gradient(dq, tm, te)[..., LINEAR] ** 2, known**2)))

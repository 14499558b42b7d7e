"""Coulomb friction along a measured motion: a load on the joints that the simulated loop is given.

The closed loop answers to friction, so a simulation without it would command other torques than the arm's. The sign of
a simulated velocity has no derivative and sticking is a state of its own; but what friction did is seen in the
measured motion, and does not depend on the parameters to be refined:

    sliding   FC_j tanh(dq_j / v)
    sticking  what balances the other torques: tau - W(q, dq, ddq) phi, within +-FC_j

Its steps are sharper than the samples' filter lets through, so it is seen through a filter of its own.
"""

from dataclasses import dataclass

import numpy as np
from scipy.signal import butter, sosfiltfilt

from dynid.identification.coulomb import CoulombFriction
from dynid.identification.preprocessing import central_differences
from dynid.identification.settings import CoulombSettings
from dynid.model.compile import compile_inverse_dynamics
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

FILTER_ORDER = 2


@dataclass(frozen=True, eq=False)
class KnownFriction:
    """Coulomb friction with the parameters beside which it was estimated: what sticking joints carried needs both."""

    model: ArmModel
    phi: BaseParameters
    friction: CoulombFriction

    def along(self, q: FloatArray, tau: FloatArray, step_s: float, settings: CoulombSettings) -> FloatArray:
        """Friction torque at every instant.

        Args:
            q: measured positions every `step_s`, (K, n) [rad].
            tau: measured torques, (K, n) [N m]; of the measured current, whatever the regression uses.
            step_s: step [s].
            settings: speeds and the filter's cut-off frequency.

        Returns:
            (K, n) [N m].
        """
        low_pass = butter(FILTER_ORDER, settings.motion_cutoff_hz, fs=1.0 / step_s, output="sos")
        smooth, torque = (np.asarray(sosfiltfilt(low_pass, signal, axis=0)) for signal in (q, tau))
        dq, ddq = central_differences(smooth, step_s)
        balance = torque - compile_inverse_dynamics(self.model)(smooth, dq, ddq, self.phi)
        limit = self.friction.values
        sticking = np.abs(dq) < settings.slow_rad_s
        return np.where(sticking, np.clip(balance, -limit, limit), self.friction.torque(dq))

    def deviation(self, load: FloatArray) -> FloatArray:
        """What a standard deviation of FC is in a load (K, n) that friction makes, (K, n) [N m]; zero if not known."""
        known, limit = self.friction.standard_deviations, self.friction.values
        share = (
            np.zeros_like(limit) if known is None else np.divide(known, limit, np.zeros_like(limit), where=limit > 0)
        )
        return np.asarray(load * share)

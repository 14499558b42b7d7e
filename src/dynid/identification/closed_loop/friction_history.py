"""Friction along a measured motion, which acts as a known load on the joints of the simulated control loop.

The control loop reacts to friction, so a simulation without friction would command other torques than the real loop. To
compute friction from the simulated motion would be difficult: the sign of a velocity has no derivative, and sticking is
a separate state. So friction is computed from the measured motion and torques, independently of the parameters to be
refined:

    sliding   the friction law at the measured velocity, motor torque and load
    sticking  the torque that balances all other torques, tau - W(q, dq, ddq) phi, limited to the largest friction
              torque of the law

tau is the measured torque, W the regressor, and phi are the base parameters estimated together with the friction law.

So the variational equations need no derivative of friction, and the Jacobian of this problem is exact. One effect is
ignored: a change of parameters changes the motor torque, and with it load-dependent friction. This does not move the
minimum of the cost: the residuals are zero at the true parameters, whether the effect is ignored or not.

The anti-alias low-pass of the identification samples would remove fast changes of friction, such as those at a
reversal. So friction is computed from a motion that has passed another low-pass, with the cut-off frequency
`CoulombSettings.motion_cutoff_hz`.
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
    """Friction law, and base parameters estimated together with it; the friction of sticking joints depends on both.

    Attributes:
        model: the arm.
        phi: base parameters that were estimated together with the friction law.
        friction: the friction law.
    """

    model: ArmModel
    phi: BaseParameters
    friction: FrictionLaw

    def along(
        self, q: FloatArray, tau: FloatArray, step_s: float, settings: CoulombSettings, drive: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the friction torque along a measured motion, and its standard deviation, (K, n) [N m] each.

        Args:
            q: measured positions every `step_s`, (K, n) [rad].
            tau: torques of the measured currents, (K, n) [N m], even if the regression uses the commanded currents.
            step_s: time between positions [s].
            settings: speed below which joints may stick, and cut-off frequency of the low-pass for the motion.
            drive: torques of the commanded currents, (K, n) [N m], from which load-dependent friction is computed.
                Commanded currents contain fast changes that measured currents do not show. None uses the measured
                torques.

        Returns:
            Friction and its standard deviation. The standard deviation assumes independent errors of the parameters. It
            is zero if standard deviations of the parameters are unknown.

        Raises:
            DataError: if the motion is too short for the low-pass.
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
        """Return the standard deviation of friction along a motion, (K, n) [N m].

        If the law has Coulomb friction only, the standard deviation is proportional to the friction torque, also for
        sticking joints.

        Args:
            friction: friction torques, (K, n) [N m].
            dq: velocities, (K, n) [rad/s].
            tm: motor torques, on which some friction terms depend, (K, n) [N m].
            te: load torques due to gravity and Coriolis forces, on which some friction terms depend, (K, n) [N m].
        """
        law = self.friction
        if law.deviations is None:
            return np.zeros_like(friction)
        known = np.nan_to_num(law.deviations[LINEAR])
        if law.terms == ("fb",):
            share = np.divide(known[1], law["fb"], np.zeros_like(law["fb"]), where=law["fb"] > 0)
            return np.asarray(friction * share)
        return np.asarray(np.sqrt(np.einsum("kit,ti->ki", law.gradient(dq, tm, te)[..., LINEAR] ** 2, known**2)))

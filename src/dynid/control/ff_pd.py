"""Feed-forward plus PD with pseudo-differentiation, arXiv:2605.15949, eq. 2.

u = M_hat [K_V (dq_ref + K_P K_V^-1 (q_ref - q) - dq_hat) + ddq_ref] + D_hat dq_ref

K_P and K_V are gains, M_hat and D_hat are assumed inertia and damping, and dq_hat is the velocity by
pseudo-differentiation. The law has no gravity term: at rest it leaves the error g(q) / (M_hat K_P).
"""

import numpy as np

from dynid.control.arm_controller import ArmController
from dynid.control.controller import ControllerSettings, Gains
from dynid.control.motion_kernels import pd_torque
from dynid.robot import FloatArray, read_only


class FeedforwardPdLaw:
    """Feed-forward plus PD law for n joints (arXiv:2605.15949, eq. 2), as a `TorqueLaw`."""

    name = "ff_pd"
    follows_reference, uses_model = True, False

    def __init__(self, settings: ControllerSettings) -> None:
        self.settings = settings
        inertia = np.array(settings.inertia_kg_m2)
        # K_V M_hat and K_P M_hat are the factors of the errors in eq. 2.
        self.damping_gain = read_only(inertia * np.array(settings.velocity_gain_1_s))
        self.stiffness_gain = read_only(inertia * np.array(settings.proportional_gain_1_s2))
        damping = np.array(settings.damping_nm_s_rad)
        self._gains = read_only([self.damping_gain, self.stiffness_gain, inertia, damping])

    def torque(
        self, q: FloatArray, dq: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Return the torque (n,) [N m] of the feed-forward plus PD law (arXiv:2605.15949, eq. 2).

        Args:
            q: measured positions, (n,) [rad].
            dq: pseudo-differentiated velocities, (n,) [rad/s].
            q_ref: reference positions, (n,) [rad].
            dq_ref: reference velocities, (n,) [rad/s].
            ddq_ref: reference accelerations, (n,) [rad/s^2].
        """
        torque: FloatArray = pd_torque(q, dq, q_ref, dq_ref, ddq_ref, self._gains)
        return torque

    def gains(self) -> Gains:
        """Return the gains K_P, K_V, M_hat, D_hat and Tf of the feed-forward plus PD law, keyed by these symbols."""
        return self.settings.gains()


class FeedforwardPd(ArmController):
    """Controller with the feed-forward plus PD law and its velocity filter; call `reset` before the first `update`."""

    def __init__(self, settings: ControllerSettings) -> None:
        law = FeedforwardPdLaw(settings)
        super().__init__(law, settings.pseudo_differentiation_s, settings.size)
        self.settings = settings
        self.damping_gain, self.stiffness_gain = law.damping_gain, law.stiffness_gain

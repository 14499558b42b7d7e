"""Expected deviation of an arm from its reference: sag under gravity, and the small oscillation of a held arm."""

from dataclasses import dataclass

import numpy as np

from dynid.control.controller import ControllerSettings, TorqueLaw
from dynid.control.motion_cells import Torques
from dynid.robot import FloatArray
from dynid.trajectory.motion import Motion

SAMPLE_S = 0.02  # time between samples [s]; within it, gravity changes by a few percent of the sag at most


@dataclass(frozen=True, eq=False)
class Sag:
    """Expected deviation of an arm from its reference: sag under gravity, and oscillation of a held arm.

    Attributes:
        stiffness: torque with which the control law counteracts a position error, per rad of the error, (n,)
            [N m/rad]; None for a law that compensates gravity, so that the arm does not sag.
        sway_rad: amplitude of the oscillation of a held arm [rad].
    """

    stiffness: FloatArray | None
    sway_rad: float = 0.0

    @classmethod
    def of(cls, settings: ControllerSettings, law: TorqueLaw, sway_rad: float = 0.0) -> "Sag":
        """Return the expected deviation of an arm from its reference under a control law.

        A law that uses a model compensates gravity, so there is no sag. Another law has a sag that follows from its
        stiffness: the product of joint inertia M_hat and proportional gain K_P.

        Args:
            settings: settings with M_hat and K_P of each joint.
            law: the control law.
            sway_rad: amplitude of the oscillation of a held arm [rad]; 0 is used instead for a law that uses a model
                and follows no reference.
        """
        if law.uses_model:
            return cls(None, sway_rad if law.follows_reference else 0.0)
        return cls(np.array(settings.inertia_kg_m2) * np.array(settings.proportional_gain_1_s2), sway_rad)

    def along(self, motion: Motion, torques: Torques | None) -> FloatArray:
        """Return the largest sag of each joint along a motion, (n,) [rad]: its largest gravity torque / stiffness.

        The sag is zero if the control law compensates gravity. Friction may hold a joint still farther away from its
        reference. This effect is not included, because it is unknown without a model.

        Args:
            motion: the motion.
            torques: function `(q, dq, ddq) -> tau` that predicts torques; None gives a sag of zero.
        """
        size = len(motion.start)
        if self.stiffness is None or torques is None:
            return np.zeros(size)
        q = motion.sample_all(np.arange(0.0, motion.duration + SAMPLE_S, SAMPLE_S))[0]
        still = np.zeros_like(q)
        carried = np.abs(torques(q, still, still)).max(axis=0)
        return np.where(carried > 0.0, carried / np.maximum(self.stiffness, 1e-9), 0.0)

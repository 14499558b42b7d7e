"""Compliance in contact: a touched arm brakes and can then be guided by hand (alternative to `dynid.contact.stop`)."""

from dynid.control.controller import TorqueLaw
from dynid.control.motion import MotionExecutor
from dynid.errors import ConfigurationError


class ContactYield:
    """Reaction to contact: the arm brakes, and then permits hand guiding.

    Args:
        motion: the motion executor.
        light: control law that makes the arm compliant, such as gravity compensation.

    Raises:
        ConfigurationError: `light` follows a reference.
    """

    def __init__(self, motion: MotionExecutor, light: TorqueLaw) -> None:
        if light.follows_reference:
            raise ConfigurationError("yielding needs a control law that follows no reference: gravity_compensation")
        self._motion, self._light, self._stopping = motion, light, False

    def update(self, contact: bool, stamp_ns: int) -> str:
        """Brake a moving or held arm when contact is detected, and make it compliant once it has stopped.

        Args:
            contact: whether the arm is in contact.
            stamp_ns: timestamp of the state [ns].

        Returns:
            Description of the change of mode; '' if there is none.
        """
        done, motion = "", self._motion
        held = motion.moving or (motion.active and motion.controller.law is not self._light)
        if contact and held and not self._stopping:
            self._stopping = True
            motion.cancel(stamp_ns)
            done = "contact: braking, then yielding"
        if self._stopping and not motion.moving:
            self._stopping = False
            motion.switch_to(self._light)
            done = f"contact: yielding with {self._light.name}"
        return done

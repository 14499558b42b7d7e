"""What an arm does when it feels contact: go on and say so, stop and hold, or stop and become light."""

from dynid.control.controller import TorqueLaw
from dynid.control.motion import MotionExecutor
from dynid.errors import ConfigurationError, UnknownNameError

POLICIES = ("report", "stop", "yield")


class ContactReaction:
    """Carries a policy out on an executor: a contact is one more reason for its controlled stop.

    Args:
        policy: "report" leaves motions alone; "stop" brakes along the path and holds the arm there; "yield" then lets
            the arm be led.
        motion: the executor.
        light: the law of an arm that yields, such as gravity compensation.

    Raises:
        UnknownNameError: no such policy.
        ConfigurationError: yield without a law, or with one that follows a reference.
    """

    def __init__(self, policy: str, motion: MotionExecutor, light: TorqueLaw | None = None) -> None:
        if policy not in POLICIES:
            raise UnknownNameError("contact policy", policy, POLICIES)
        if policy == "yield" and (light is None or light.follows_reference):
            raise ConfigurationError("the policy 'yield' needs a law that follows no reference: gravity_compensation")
        self.policy, self._motion, self._light, self._stopping = policy, motion, light, False

    def update(self, felt: bool, stamp_ns: int) -> str:
        """After the sense had this cycle's state: react; returns what is done from now on, or ''."""
        done, motion = "", self._motion
        held = motion.moving or (self.policy == "yield" and motion.active and motion.controller.law is not self._light)
        if felt and held and not self._stopping and self.policy != "report":
            self._stopping = True
            motion.cancel(stamp_ns)
            done = "contact: braking, then holding"
        if self._stopping and not motion.moving:
            self._stopping = False
            if self.policy == "yield" and self._light is not None:
                motion.switch_to(self._light)
                done = f"contact: yielding with {self._light.name}"
        return done

"""Contact detection without interruption when the arm's model changes during a motion."""

from dynid.contact.contact_sense import ContactSense
from dynid.robot import FloatArray


class SharedSense:
    """Contact detector that switches to a new detector as soon as the new one has estimated the arm's motion.

    Args:
        sense: contact detector to start with.

    Attributes:
        sense: contact detector in use.
        judged_ns: timestamp of the newest state at which contact could be judged [ns]; -1 before the first.
    """

    def __init__(self, sense: ContactSense) -> None:
        self.sense, self.judged_ns = sense, -1
        self._next: ContactSense | None = None

    def follow(self, sense: ContactSense) -> None:
        """Switch to the contact detector `sense`, with another model or payload, as soon as it can judge contact."""
        self._next = sense

    def replace(self, sense: ContactSense) -> None:
        """Use the contact detector `sense` immediately, because the present one belongs to another arm or mount."""
        self.sense, self._next = sense, None

    def update(self, stamp_ns: int, q: FloatArray, tau: FloatArray) -> bool:
        """Process one state of the arm and return whether the arm is in contact.

        Args:
            stamp_ns: timestamp of the state [ns].
            q: measured positions, (n,) [rad].
            tau: motor torques between the last state and this one, (n,) [N m].

        Raises:
            SafetyError: a position is not finite, or a prismatic or spring-loaded joint is beyond +-3.5 m or rad
                (`dynid.codegen.emit.RANGE`), where the generated dynamics are not valid. Joints whose torques are
                periodic are shifted into this range.
        """
        felt = self.sense.update(stamp_ns, q, tau)
        if self._next is not None:
            self._next.update(stamp_ns, q, tau)
            if self._next.settled:
                self.replace(self._next)
                felt = self.sense.contact
        if self.sense.settled:
            self.judged_ns = max(self.judged_ns, stamp_ns)
        return felt

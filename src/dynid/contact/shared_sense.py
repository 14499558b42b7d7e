"""A sense of contact whose model may change while the arm moves, without a blind moment."""

from dynid.contact.feel import ContactSense
from dynid.robot import FloatArray


class SharedSense:
    """Feels by one sense, and by the next one as soon as that knows the arm's motion.

    Args:
        sense: the first one.

    Attributes:
        sense: that is in force.
        judged_ns: stamp of the newest state by which contact could be judged [ns]; -1 before there is one.
    """

    def __init__(self, sense: ContactSense) -> None:
        self.sense, self.judged_ns = sense, -1
        self._next: ContactSense | None = None

    def follow(self, sense: ContactSense) -> None:
        """Let another sense take over: of another model, or of another payload."""
        self._next = sense

    def replace(self, sense: ContactSense) -> None:
        """Use another sense at once: the present one is of another arm, or of another mount."""
        self.sense, self._next = sense, None

    def update(self, stamp_ns: int, q: FloatArray, tau: FloatArray) -> bool:
        """Return whether something touches the arm; arguments and errors as of `ContactSense.update`."""
        felt = self.sense.update(stamp_ns, q, tau)
        if self._next is not None:
            self._next.update(stamp_ns, q, tau)
            if self._next.settled:
                self.replace(self._next)
                felt = self.sense.contact
        if self.sense.settled:
            self.judged_ns = stamp_ns
        return felt

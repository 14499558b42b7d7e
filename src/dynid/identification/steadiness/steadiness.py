"""Whether the same arm was recorded from first to last, for the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from dynid.identification.data.samples import Samples
from dynid.identification.estimators.regression import Regression
from dynid.identification.steadiness.columns import OFFSET
from dynid.identification.steadiness.search import Change, Search
from dynid.identification.steadiness.words import hidden_offset, sentence
from dynid.model.dynamics import ArmModel
from dynid.robot import Robot


@dataclass(frozen=True)
class Steadiness:
    """Changes that were found, the most telling first, and each in words.

    Attributes:
        changes: that are significant.
        sentences: the same in words.
        hidden: offsets that the data do not distinguish from gravity, in words; "" without any.
    """

    changes: tuple[Change, ...] = ()
    sentences: tuple[str, ...] = ()
    hidden: str = ""

    @property
    def measured(self) -> tuple[float, str]:
        """The largest share by which a change moves the model, and all changes in words, for the check."""
        return max((one.moved for one in self.changes), default=0.0), "; ".join(self.sentences)

    def beyond(self, limit: float) -> tuple[str, ...]:
        """Return changes that move the model by more than a limit, in words."""
        pairs = zip(self.changes, self.sentences, strict=True)
        return tuple(words for one, words in pairs if one.moved > limit)

    def notes(self, limit: float) -> tuple[str, ...]:
        """Return changes that move the model by no more than a limit, in words."""
        pairs = zip(self.changes, self.sentences, strict=True)
        found = tuple(words for one, words in pairs if one.moved <= limit)
        return (*found, self.hidden) if self.hidden else found


def steadiness(
    robot: Robot, model: ArmModel, samples: Samples, regression: Regression, recordings: Sequence[str], share: float
) -> Steadiness:
    """Look for changes during the recordings.

    Args:
        robot: whose postures gravity is compared over.
        model: the arm as mounted.
        samples: that were fitted.
        regression: of them.
        recordings: their names, in order.
        share: of gravity torques, beyond which an offset that cannot be seen is reported.
    """
    search = Search(robot, model, samples, regression)
    changes = search.changes()
    units = ["m" if sliding else "rad" for sliding in model.prismatic] + ["rad"] * (model.axes - len(model.prismatic))
    words = tuple(sentence(one, samples.joint_names, units, recordings) for one in changes)
    named = {one.axes for one in changes if one.kind == OFFSET}
    hidden = [one for one in search.hidden_offsets(share) if (one[0],) not in named]
    return Steadiness(changes, words, hidden_offset(hidden, samples.joint_names))

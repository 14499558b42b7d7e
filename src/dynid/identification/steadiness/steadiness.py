"""Test for changes of the arm between the first and the last recorded sample, as part of the verdict on a model."""

from collections.abc import Sequence
from dataclasses import dataclass

from dynid.identification.data.recordings import Portion
from dynid.identification.data.sample_sets import counted_from, join
from dynid.identification.data.samples import Samples
from dynid.identification.estimators.regression import Regression
from dynid.identification.settings import IdentificationSettings
from dynid.identification.steadiness.columns import BODY, MOUNT, OFFSET, ZERO
from dynid.identification.steadiness.search import MOST, Change, Search
from dynid.identification.steadiness.words import hidden_offset, sentence
from dynid.model.dynamics import ArmModel
from dynid.robot import Robot

SUDDEN = BODY, MOUNT, OFFSET, ZERO  # properties that do not change as gears warm up
NOTE_SHARE = 0.5  # change of gravity by a hidden offset that is reported, over the limit of changes


@dataclass(frozen=True)
class Steadiness:
    """Changes of the arm over time, in the order in which a search found them, with a sentence for each.

    Attributes:
        changes: significant changes.
        sentences: sentence about each change.
        hidden: sentence about offsets that the data do not separate from gravity; "" without any.
    """

    changes: tuple[Change, ...] = ()
    sentences: tuple[str, ...] = ()
    hidden: str = ""

    @property
    def measured(self) -> tuple[float, str]:
        """Value and text of the check for changes of the arm.

        The value is the largest relative change of the model's torques, see `Change.moved`. The text joins all
        sentences.
        """
        return max((one.moved for one in self.changes), default=0.0), "; ".join(self.sentences)

    @property
    def sudden(self) -> "Steadiness":
        """Changes with their sentences, without gradual ones and without those that gears show as they warm up."""
        pairs = zip(self.changes, self.sentences, strict=True)
        found = [(one, words) for one, words in pairs if one.kind in SUDDEN and one.course == "step"]
        return Steadiness(tuple(one for one, _ in found), tuple(words for _, words in found))

    def beside(self, other: "Steadiness") -> "Steadiness":
        """Return the changes, with their sentences, of properties that do not change in another result."""
        known = {(one.kind, one.axes) for one in other.changes}
        pairs = zip(self.changes, self.sentences, strict=True)
        found = [(one, words) for one, words in pairs if (one.kind, one.axes) not in known]
        return Steadiness(tuple(one for one, _ in found), tuple(words for _, words in found))

    def beyond(self, limit: float) -> tuple[str, ...]:
        """Return sentences about those changes of the arm that change the model's torques by more than a limit.

        The limit is relative to the torques; see `Change.moved`.
        """
        pairs = zip(self.changes, self.sentences, strict=True)
        return tuple(words for one, words in pairs if one.moved > limit)

    def notes(self, limit: float) -> tuple[str, ...]:
        """Return sentences about changes of the arm that change the model's torques by at most a relative limit.

        A sentence about hidden torque offsets follows; these are offsets that the data do not separate from gravity.
        """
        pairs = zip(self.changes, self.sentences, strict=True)
        found = tuple(words for one, words in pairs if one.moved <= limit)
        return (*found, self.hidden) if self.hidden else found


def steadiness(
    robot: Robot,
    model: ArmModel,
    samples: Samples,
    regression: Regression,
    recordings: Sequence[str],
    share: float,
    most: int = MOST,
) -> Steadiness:
    """Return the changes of an arm during its recordings, with a sentence for each.

    Args:
        robot: the robot, whose joint ranges contain the random postures in which gravity torques are compared.
        model: model of the arm as mounted.
        samples: the fitted samples.
        regression: regression of the samples.
        recordings: names of the recordings, in order.
        share: relative change of the model's torques above which the model is refused. A hidden torque offset is
            reported if it changes gravity torques by more than half of this value.
        most: largest number of steps of the search.
    """
    search = Search(robot, model, samples, regression)
    changes = search.changes(most)
    units = ["m" if sliding else "rad" for sliding in model.prismatic] + ["rad"] * (model.axes - len(model.prismatic))
    words = tuple(sentence(one, samples.joint_names, units, recordings) for one in changes)
    named = {one.axes for one in changes if one.kind == OFFSET}
    hidden = [one for one in search.hidden if one.moved > NOTE_SHARE * share and (one.axis,) not in named]
    return Steadiness(changes, words, hidden_offset(hidden, samples.joint_names))


def steadiness_to_the_end(
    robot: Robot,
    model: ArmModel,
    fitted: Sequence[Portion],
    ends: Sequence[Portion],
    recordings: Sequence[str],
    fit: Regression,
    settings: IdentificationSettings,
) -> Steadiness:
    """Return the changes of an arm between the start of its recordings and the end of their held-out portions.

    If an arm changes in a held-out portion, or shortly before, the fit does not show it, but its errors on that portion
    do. The friction is that of the fit, so a change of it is a deviation from the fit.

    Args:
        robot: the robot.
        model: model of the arm as mounted.
        fitted: fitted portions of the recordings.
        ends: held-out portions at the ends of the same recordings, in the same order.
        recordings: names of these recordings, in the same order.
        fit: regression of the fitted portions.
        settings: settings of the identification.
    """
    pairs = [(one.samples, _counted_like(one.samples, end.samples)) for one, end in zip(fitted, ends, strict=True)]
    samples = join([one for pair in pairs for one in pair])
    known = None if fit.joint_friction is None else fit.joint_friction.fit.known
    whole = Regression.stack(model, samples, settings.coulomb_friction, known, widened=False)
    return steadiness(robot, model, samples, whole, recordings, settings.acceptance.change_of_arm, 2 * MOST)


def _counted_like(fitted: Samples, end: Samples) -> Samples:
    """Return a copy of a held-out end in which the drift of friction is zero when it is zero in the fitted part."""
    if not fitted.fine:
        return end
    return counted_from(end, 0.5 * float(fitted.time[0] + fitted.time[-1]) - fitted.fine[0].later_s)

"""Test for changes of the arm between the first and the last recorded sample.

The test is one of the checks that decide whether an identified model is accepted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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

        The value is the largest relative change of the model's torques, see `Change.moved`. The text has one sentence
        for each change.
        """
        return max((one.moved for one in self.changes), default=0.0), "; ".join(self.sentences)

    def those(self, wanted: Callable[[Change], bool]) -> "Steadiness":
        """Return the changes for which a function returns True, with their sentences."""
        found = [pair for pair in zip(self.changes, self.sentences, strict=True) if wanted(pair[0])]
        return Steadiness(tuple(one for one, _ in found), tuple(words for _, words in found))

    @property
    def sudden(self) -> "Steadiness":
        """The abrupt changes of properties that warming gears do not change, such as a payload or an encoder's zero."""
        return self.those(lambda one: one.kind in SUDDEN and one.course == "step")

    def beside(self, other: "Steadiness") -> "Steadiness":
        """Return this result's changes, with their sentences, of properties that do not change in `other`.

        A property is a kind, such as a joint zero, with the joints that it concerns.

        Args:
            other: result of another search.
        """
        known = {(one.kind, one.axes) for one in other.changes}
        return self.those(lambda one: (one.kind, one.axes) not in known)

    def beyond(self, limit: float) -> tuple[str, ...]:
        """Return sentences about changes whose relative size exceeds a limit; see `Change.moved`."""
        return self.those(lambda one: one.moved > limit).sentences

    def notes(self, limit: float) -> tuple[str, ...]:
        """Return sentences about changes whose relative size is within a limit; see `Change.moved`.

        A sentence about hidden torque offsets follows; these are offsets that the data do not separate from gravity.
        """
        found = self.those(lambda one: one.moved <= limit).sentences
        return (*found, self.hidden) if self.hidden else found


def steadiness(
    robot: Robot, model: ArmModel, samples: Samples, regression: Regression, recordings: Sequence[str], share: float
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
    """
    search = Search(robot, model, samples, regression)
    found = _described(search.changes(), robot, recordings)
    named = {one.axes for one in found.changes if one.kind == OFFSET}
    hidden = [one for one in search.hidden if one.moved > NOTE_SHARE * share and (one.axis,) not in named]
    return replace(found, hidden=hidden_offset(hidden, samples.joint_names))


def _described(changes: tuple[Change, ...], robot: Robot, recordings: Sequence[str]) -> Steadiness:
    """Return changes of an arm with a sentence for each; `recordings` are the names of the recordings, in order."""
    return Steadiness(
        changes, tuple(sentence(one, robot.joint_names, robot.position_units, recordings) for one in changes)
    )


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

    A change in a held-out portion, or shortly before it, does not show in the fitted portions. So the search uses all
    portions. The friction law is not fitted again: a change of friction shows as a deviation from the law that was
    fitted to the fitted portions.

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
    # harmless changes of friction must not use up the steps of the search
    return _described(Search(robot, model, samples, whole).changes(2 * MOST), robot, recordings)


def _counted_like(fitted: Samples, end: Samples) -> Samples:
    """Return a copy of a held-out end in which friction drift is measured from the same time as in the fitted part.

    Friction drift is a relative change of friction in proportion to the time since an origin.
    """
    if not fitted.fine:
        return end
    return counted_from(end, 0.5 * float(fitted.time[0] + fitted.time[-1]) - fitted.fine[0].later_s)

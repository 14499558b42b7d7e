"""Does a bag hold a motion from its beginning? What was published before the recorder was known is not in it."""

from collections.abc import Sequence

from dynid.errors import DataError
from dynid.recording.bag_reader import TopicContent
from dynid.recording.messages import JOINT_STATE, JOINT_TRAJECTORY, header_stamp_ns
from dynid.recording.series import strings
from dynid.recording.settings import ExperimentSettings, parse_settings

WITH_HEADER = (JOINT_STATE, JOINT_TRAJECTORY)
TOLERATED_S = 0.05  # the first states of a motion may pass before the first command


def missing_beginnings(experiment: TopicContent | None, stamped: Sequence[TopicContent]) -> list[str]:
    """Which topics begin behind the first motion, in words; empty if none does.

    Args:
        experiment: the topic that tells of the motions; None where there is none.
        stamped: topics of messages with a header, by the clock of the motions' phases; what is of another type, empty
            or carries no stamp (0) is not judged.
    """
    began_ns = _begin_ns(experiment) if experiment else None
    if began_ns is None:
        return []
    found = []
    for topic in stamped:
        if topic.message_type not in WITH_HEADER or not len(topic.messages):
            continue
        late_s = 1e-9 * (header_stamp_ns(topic.messages[0]) - began_ns)
        if late_s > TOLERATED_S:
            late = f"'{topic.name}' begins {late_s:.3g} s behind the motion"
            found.append(f"{late}: the recorder was not there, or not known to its publisher")
    return found


def _begin_ns(experiment: TopicContent) -> int | None:
    """When the first motion began [ns]; None where nothing tells of one."""
    try:
        for text in strings(experiment):
            if phases := parse_settings(experiment.name, text, ExperimentSettings).phases:
                return phases[0].stamp_ns
    except DataError:
        pass  # another program's topic, which load_recording refuses
    return None

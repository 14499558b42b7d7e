"""Names of an experiment's topics, and their lookup in a bag."""

from collections.abc import Sequence

from dynid.errors import DataError
from dynid.recording.bag_reader import Bag, TopicContent

JOINT_STATES, HARDWARE_SETTINGS = "joint_states", "hardware_settings"
JOINT_COMMANDS, APPLIED_COMMANDS = "joint_commands", "applied_commands"
REFERENCE, EXPERIMENT = "reference", "experiment"
ROBOT_DESCRIPTION, DIAGNOSTICS = "robot_description", "diagnostics"
NEEDED = (JOINT_STATES, HARDWARE_SETTINGS)
STAMPED = (JOINT_STATES, JOINT_COMMANDS, APPLIED_COMMANDS, REFERENCE)  # topics with a header


def find_topics(bag: Bag, namespace: str | None, needed: Sequence[str] = ()) -> dict[str, TopicContent]:
    """Return the topics of one arm's experiment in a bag, by their names without namespace, such as "joint_states".

    Args:
        bag: the bag.
        namespace: namespace of the arm; None searches all namespaces.
        needed: names of topics that must exist.

    Raises:
        DataError: a needed topic is missing, or a topic exists in several namespaces and none was chosen.
    """
    found: dict[str, TopicContent] = {}
    for name in dict.fromkeys((*STAMPED, HARDWARE_SETTINGS, EXPERIMENT, ROBOT_DESCRIPTION, DIAGNOSTICS, *needed)):
        if namespace is None:
            candidates = [topic for topic in bag.topics if topic.split("/")[-len(name.split("/")) :] == name.split("/")]
        else:
            absolute = f"/{namespace.strip('/')}/{name}".replace("//", "/")
            candidates = [topic for topic in bag.topics if topic.strip("/") == absolute.strip("/")]
        if len(candidates) > 1:
            listed = ", ".join(candidates)
            raise DataError(f"the bag {bag.path} holds '{name}' more than once ({listed}); choose one by its namespace")
        if candidates:
            found[name] = bag.topics[candidates[0]]
    missing = [name for name in dict.fromkeys(needed) if name not in found]
    if missing:
        where = f" in namespace '{namespace}'" if namespace is not None else ""
        present = ", ".join(bag.topics) or "none"
        raise DataError(f"the bag {bag.path} lacks the topic {', '.join(missing)}{where}; its topics are: {present}")
    return found

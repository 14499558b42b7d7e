"""A bag that lacks the start of its motion is reported."""

from pathlib import Path

import pytest

from dynid.recording.bag_info import bag_info
from dynid.recording.driver_recording import load_driver_recording
from dynid.recording.messages import encode_string

CYCLE_NS = 1_000_000


def test_a_whole_motion_is_no_finding(experiment, tmp_path: Path) -> None:
    del experiment.messages["reference"][:20]  # the first states pass without a command
    path = experiment.write(tmp_path / "bag")
    assert bag_info(path).findings == () and load_driver_recording(path).notes == ()


@pytest.mark.parametrize("namespace", ["", "/left"])
@pytest.mark.parametrize("topic", ["joint_states", "joint_commands", "applied_commands", "reference"])
def test_a_topic_that_starts_late_is_named(experiment, tmp_path: Path, topic: str, namespace: str) -> None:
    del experiment.messages[topic][:65]
    path = experiment.write(tmp_path / "bag", namespace=namespace)
    (finding,) = bag_info(path).findings
    assert finding.startswith(f"'{namespace}/{topic}' starts 0.06")
    assert load_driver_recording(path).notes == (finding,)


def test_a_bag_opened_during_a_motion_names_the_late_topics(experiment, tmp_path: Path) -> None:
    """The latched message reports the phases before."""
    late = experiment.stamps[0] + 65 * CYCLE_NS
    for name, messages in experiment.messages.items():
        if name not in ("hardware_settings", "robot_description"):
            experiment.messages[name] = [one for one in messages if one[0] > late]
    path = experiment.write(tmp_path / "bag")
    assert [one.split()[0] for one in bag_info(path).findings] == [
        "'/joint_states'",
        "'/joint_commands'",
        "'/applied_commands'",
        "'/reference'",
    ]


@pytest.mark.parametrize("text", ["", "of another program", '{"trajectory": "V01"}'])
def test_recordings_without_a_reported_motion_are_not_judged_late(experiment, tmp_path: Path, text: str) -> None:
    del experiment.messages["reference"][:100]
    stamp = experiment.messages["experiment"][0][0]
    experiment.messages["experiment"] = [(stamp, encode_string(text))]
    assert bag_info(experiment.write(tmp_path / "bag")).findings == ()


def test_bag_without_experiments_is_not_judged(experiment, tmp_path: Path) -> None:
    del experiment.messages["reference"][:100]
    path = experiment.write(tmp_path / "bag", without=("experiment",))
    assert bag_info(path).findings == () and load_driver_recording(path).notes == ()

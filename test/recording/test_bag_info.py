"""Summary of a bag: missed cycles, topics and findings."""

import json
from pathlib import Path

import numpy as np
import pytest

from dynid.recording.bag_info import bag_info, missed_cycles
from dynid.recording.messages import encode_string

START = 1_700_000_000_000_000_000


def test_missed_cycles_are_counted_from_stamps() -> None:
    random = np.random.default_rng(0)
    kept = np.delete(np.arange(1000), [10, 500, 501, 502])
    stamps = START + kept * 1_000_000 + random.integers(-200_000, 200_000, len(kept))
    drops = missed_cycles(stamps, 0.001)
    assert (drops.expected, drops.missed) == (1000, 4)
    assert [missed for _, missed in drops.gaps] == [1, 3]
    assert [start for start, _ in drops.gaps] == pytest.approx([0.009, 0.499], abs=4e-4)
    assert drops.missed_fraction == pytest.approx(0.004)


def test_a_late_driver_that_catches_up_has_missed_nothing() -> None:
    cycles = np.arange(1000.0)
    late = cycles + np.maximum(0.0, 6.0 - 0.25 * np.maximum(cycles - 300, 0)) * (cycles >= 300)  # back after 24 cycles
    drops = missed_cycles(START + np.rint(late * 1e6).astype(np.int64), 0.001)
    assert np.diff(late).max() > 6 and (drops.expected, drops.missed, drops.gaps) == (1000, 0, ())
    lost = np.delete(late, [320, 321])
    assert missed_cycles(START + np.rint(lost * 1e6).astype(np.int64), 0.001).missed == 2


@pytest.mark.parametrize("gain", [-5e-4, 5e-4])
def test_a_clock_that_gains_or_loses_hides_no_gap_and_makes_none(gain: float) -> None:
    kept = np.delete(np.arange(60_000), [700, 30_000, 30_001])
    drops = missed_cycles(START + np.rint(kept * (1.0 + gain) * 1e6).astype(np.int64), 0.001)
    assert [missed for _, missed in drops.gaps] == [1, 2]


@pytest.mark.parametrize("stamps", [[], [START], [START, START + 1_400_000]])
def test_complete_stamps_have_no_missed_cycles(stamps: list[int]) -> None:
    drops = missed_cycles(np.array(stamps, dtype=np.int64), 0.001)
    assert (drops.missed, drops.gaps, drops.missed_fraction) == (0, (), 0.0)


def test_a_summary_counts_messages_rates_and_missed_cycles(experiment, storage: str, tmp_path: Path) -> None:
    del experiment.messages["joint_states"][50:53]
    info = bag_info(experiment.write(tmp_path / "bag", storage))
    topics = {topic.name: topic for topic in info.topics}
    states = topics["/joint_states"]
    assert states.count == 197 and states.drops is not None and states.drops.missed == 3
    assert topics["/joint_commands"].count == 200 and topics["/joint_commands"].drops is None
    assert states.longest_gap_s == pytest.approx(0.004, abs=1e-4)
    assert topics["/joint_commands"].rate_hz == pytest.approx(1000, rel=0.01)
    assert topics["/robot_description"].rate_hz is None
    assert info.storage == storage and info.duration_s == pytest.approx(0.199, abs=2e-3)
    assert info.files[0].size == (tmp_path / "bag" / info.files[0].name).stat().st_size
    assert info.findings == ()
    assert json.loads(json.dumps(info.as_dict()))["topics"][0]["name"] == "/applied_commands"


def test_without_settings_the_median_is_the_cycle(experiment, tmp_path: Path) -> None:
    experiment.messages["joint_states"] = experiment.messages["joint_states"][::2]
    info = bag_info(experiment.write(tmp_path / "bag", without=("hardware_settings",)))
    drops = next(topic.drops for topic in info.topics if topic.name == "/joint_states")
    assert drops is not None and drops.missed == 0 and drops.cycle_s == pytest.approx(0.002, rel=0.05)


def test_bad_content_is_a_finding(experiment, tmp_path: Path) -> None:
    stamp, raw = experiment.messages["joint_states"][7]
    experiment.messages["joint_states"][7] = (stamp, raw[:30])
    info = bag_info(experiment.write(tmp_path / "bag"))
    assert len(info.findings) == 1 and "message 7 of topic '/joint_states' cannot be decoded" in info.findings[0]


@pytest.mark.parametrize("cycle_s", [5e-324, 1e-5, 1e300])
def test_cycle_time_that_no_driver_has_is_a_finding(experiment, tmp_path: Path, cycle_s: float) -> None:
    text = experiment.settings.model_copy(update={"cycle_s": cycle_s}).model_dump_json()
    experiment.messages["hardware_settings"] = [(experiment.messages["hardware_settings"][0][0], encode_string(text))]
    info = bag_info(experiment.write(tmp_path / "bag"))
    assert f"topic '/hardware_settings': cycle_s is {cycle_s}, expected 0.0005 to 0.02" in info.findings[0]
    assert all(topic.drops is None for topic in info.topics)

"""Recordings of the driver: topics, joints, settings and experiments of a bag."""

from pathlib import Path

import numpy as np
import pytest

from dynid.errors import DataError, InputNotFoundError
from dynid.recording.bag_writer import BagWriter, Topic
from dynid.recording.driver_recording import load_driver_recording
from dynid.recording.growing import RECORDED_TYPES, GrowingRecording
from dynid.recording.messages import JOINT_STATE, STRING, JointStateEncoder, encode_string

START, CYCLE = 1_700_000_000_000_000_000, 1_000_000  # of the fixture


def test_a_recording_contains_the_content_of_its_bag(experiment, storage: str, tmp_path: Path) -> None:
    recording = load_driver_recording(experiment.write(tmp_path / "bag", storage))
    assert recording.robot_name == "three"
    assert recording.joint_names == ("shoulder", "elbow", "wrist_long_name")
    assert recording.stamp0_ns == experiment.stamps[0] and recording.time[0] == 0
    np.testing.assert_array_equal(recording.time, (experiment.stamps - experiment.stamps[0]) / 1e9)
    np.testing.assert_array_equal(recording.q, experiment.q)
    np.testing.assert_array_equal(recording.dq, experiment.dq)
    np.testing.assert_array_equal(recording.tau_present, experiment.tau)
    np.testing.assert_array_equal(recording.commands.tau, experiment.command)
    np.testing.assert_allclose(recording.commands.time, recording.time + 0.0005, atol=1e-12)
    np.testing.assert_array_equal(recording.applied.tau, experiment.applied)
    np.testing.assert_array_equal(recording.reference.q, experiment.q + 0.1)
    np.testing.assert_array_equal(recording.reference.ddq, experiment.ddq)
    assert recording.hardware == experiment.settings
    assert recording.experiments == (experiment.phases[-1],)
    assert recording.robot_description == "<robot name='three'/>"
    assert recording.counts["/joint_states"] == 200 and recording.notes == ()
    assert len(recording.sha256) == 64
    with pytest.raises(ValueError, match="read-only"):
        recording.q[0, 0] = 1.0


def test_a_window_contains_the_span_of_the_trajectory(experiment, tmp_path: Path) -> None:
    recording = load_driver_recording(experiment.write(tmp_path / "bag"))
    start, end = recording.trajectory_span()
    first = (experiment.stamps[0] - 1_700_000_000_000_000_000) / 1e9
    assert (start, end) == pytest.approx((0.05 - first, 0.15 - first))
    part = recording.window(start, end)
    expected = (recording.time >= start) & (recording.time <= end)
    np.testing.assert_array_equal(part.q, recording.q[expected])
    inside = (recording.commands.time >= start) & (recording.commands.time <= end)
    np.testing.assert_array_equal(part.commands.tau, recording.commands.tau[inside])
    assert part.reference.time[0] >= start and part.reference.time[-1] <= end
    with pytest.raises(DataError, match="no joint states from 7"):
        recording.window(7.0, 8.0)


def test_joints_in_another_order_are_sorted_by_name(experiment, tmp_path: Path) -> None:
    names = ("wrist_long_name", "finger_mimic", "shoulder", "elbow")
    encoder = JointStateEncoder(names)
    order = [2, 0, 0, 1]
    rows = encoder.encode_many(
        experiment.stamps,
        position=experiment.q[:, order],
        velocity=experiment.dq[:, order],
        effort=experiment.tau[:, order],
    )
    experiment.messages["joint_states"] = [
        (int(t), row.tobytes()) for t, row in zip(experiment.stamps, rows, strict=True)
    ]
    recording = load_driver_recording(experiment.write(tmp_path / "bag"))
    np.testing.assert_array_equal(recording.q, experiment.q)
    np.testing.assert_array_equal(recording.tau_present, experiment.tau)


def test_messages_of_another_layout_are_decoded_and_named(experiment, tmp_path: Path) -> None:
    names = ("elbow", "wrist_long_name", "shoulder")
    odd = JointStateEncoder(names, frame_id="elsewhere")
    for k in (5, 17):
        values = {"position": experiment.q, "velocity": experiment.dq, "effort": experiment.tau}
        raw = odd.encode(int(experiment.stamps[k]), **{name: v[k, [1, 2, 0]] for name, v in values.items()})
        experiment.messages["joint_states"][k] = (experiment.messages["joint_states"][k][0], raw)
    recording = load_driver_recording(experiment.write(tmp_path / "bag"))
    np.testing.assert_array_equal(recording.q, experiment.q)
    np.testing.assert_array_equal(recording.time, (experiment.stamps - experiment.stamps[0]) / 1e9)
    assert recording.notes == ("2 of 200 messages of '/joint_states' differ in layout; decoded one by one",)


def test_two_arms_need_a_namespace(experiment, make_experiment, tmp_path: Path) -> None:
    bag = tmp_path / "bag"
    experiment.write(bag, namespace="/left")
    assert load_driver_recording(bag).robot_name == "three"
    assert load_driver_recording(bag, namespace="left").robot_name == "three"
    with pytest.raises(DataError, match="lacks the topic joint_states, hardware_settings in namespace '/right'"):
        load_driver_recording(bag, namespace="/right")


def test_ambiguous_topics_are_refused(experiment, tmp_path: Path) -> None:
    writer = BagWriter(tmp_path / "bag")
    writer.open()
    for namespace in ("/left", "/right"):
        for name, kind in (("joint_states", JOINT_STATE), ("hardware_settings", STRING)):
            writer.add_topic(Topic(f"{namespace}/{name}", kind))
            for stamp, raw in experiment.messages[name]:
                writer.write(f"{namespace}/{name}", stamp, raw)
    writer.close()
    with pytest.raises(DataError, match=r"'joint_states' more than once .*left/joint_states, /right/joint_states"):
        load_driver_recording(tmp_path / "bag")
    assert len(load_driver_recording(tmp_path / "bag", namespace="/right").time) == 200


def test_paths_without_a_bag_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputNotFoundError, match="no such bag"):
        load_driver_recording(tmp_path / "none")
    with pytest.raises(DataError, match="is not a rosbag2 bag"):
        load_driver_recording(tmp_path)
    (tmp_path / "text.txt").write_text("hello")
    with pytest.raises(DataError, match="is not a bag"):
        load_driver_recording(tmp_path / "text.txt")


def test_missing_topics_are_named(experiment, tmp_path: Path) -> None:
    bag = experiment.write(tmp_path / "bag", without=("joint_states", "hardware_settings", "joint_commands"))
    with pytest.raises(DataError, match="lacks the topic joint_states, hardware_settings; its topics are: /applied"):
        load_driver_recording(bag)


def test_a_bag_without_optional_topics_is_read(experiment, tmp_path: Path) -> None:
    absent = ("joint_commands", "applied_commands", "reference", "experiment", "robot_description", "diagnostics")
    bag = experiment.write(tmp_path / "bag", without=absent)
    recording = load_driver_recording(bag)
    assert recording.commands is recording.applied is recording.reference is recording.robot_description is None
    with pytest.raises(DataError, match="the time of the trajectory is unknown"):
        recording.trajectory_span()
    with pytest.raises(DataError, match="lacks the topic joint_commands"):
        load_driver_recording(bag, needed=("joint_commands",))


def test_a_bag_without_joint_states_is_refused(experiment, tmp_path: Path) -> None:
    experiment.messages["joint_states"] = []
    with pytest.raises(DataError, match="'/joint_states' holds no messages"):
        load_driver_recording(experiment.write(tmp_path / "bag"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("nan", r"position of elbow is nan in message 9 of '/joint_states' \(1 such values\)"),
        ("stamps", "message 20 is stamped -"),
        ("equal", "message 20 is stamped 0 ns after message 19"),
        ("command", r"effort of shoulder is nan in message 4 of '/joint_commands'"),
    ],
)
def test_invalid_recorded_values_are_refused(experiment, tmp_path: Path, change: str, message: str) -> None:
    if change == "nan":
        experiment.q[9, 1] = np.nan
    elif change == "stamps":
        experiment.stamps[20] = experiment.stamps[3]
    elif change == "equal":
        experiment.stamps[20] = experiment.stamps[19]
    else:
        experiment.command[4, 0] = np.nan
    log = [entry[0] for entry in experiment.messages["joint_states"]]
    experiment.fill()
    for name in ("joint_states", "joint_commands"):
        experiment.messages[name] = [(t, raw) for t, (_, raw) in zip(log, experiment.messages[name], strict=True)]
    with pytest.raises(DataError, match=message):
        load_driver_recording(experiment.write(tmp_path / "bag"))


def test_commands_that_are_all_nan_mean_no_command(experiment, tmp_path: Path) -> None:
    experiment.command[:3] = np.nan
    experiment.fill()
    recording = load_driver_recording(experiment.write(tmp_path / "bag"))
    np.testing.assert_array_equal(recording.commands.tau, experiment.command[3:])
    assert recording.notes == ("3 of 200 messages of '/joint_commands' hold no command (NaN) and were skipped",)


def test_messages_of_other_publishers_are_omitted_with_a_note(experiment, tmp_path: Path) -> None:
    stamp, raw = experiment.messages["joint_states"][7]
    experiment.messages["joint_states"][7] = (stamp, raw[:50])
    stamp, _ = experiment.messages["experiment"][0]
    experiment.messages["experiment"].insert(0, (stamp, encode_string("{not json")))
    recording = load_driver_recording(experiment.write(tmp_path / "bag"))
    assert len(recording.time) == 199 and recording.experiment is not None
    states, experiments = recording.notes
    assert states.startswith("1 malformed messages of '/joint_states' were left out; the first: message 7 of")
    assert experiments.startswith("1 messages of 'experiment' were left out; the first: topic 'experiment' holds no")


def test_a_missing_joint_and_a_missing_field_are_named(experiment, tmp_path: Path) -> None:
    effort = JointStateEncoder(("shoulder", "elbow"), fields=("effort",))
    good = experiment.messages["joint_commands"]
    experiment.messages["joint_commands"] = [(t, effort.encode(t, effort=[1.0, 2.0])) for t, _ in good]
    with pytest.raises(DataError, match="'/joint_commands' lacks the joint wrist_long_name; its joints are: shoulder"):
        load_driver_recording(experiment.write(tmp_path / "one"))
    experiment.messages["joint_commands"] = good
    experiment.messages["joint_states"] = good
    with pytest.raises(DataError, match="'/joint_states' carries no position for each joint; it carries: effort"):
        load_driver_recording(experiment.write(tmp_path / "two"))


def test_invalid_hardware_settings_are_refused(experiment, tmp_path: Path) -> None:
    text = experiment.settings.model_dump_json()
    for name, broken, message in (
        ("json", text[:-5], "no valid settings"),
        ("field", text.replace('"cycle_s":0.001', '"cycle_s":-1'), r"cycle_s: expected greater than 0 \(got -1"),
        ("count", text.replace("2.0,3.0,1.0", "2.0,3.0"), "torque_constants_nm_per_a has 2 entries, expected 3"),
    ):
        experiment.messages["hardware_settings"] = [(1_700_000_000_000_000_000, encode_string(broken))]
        with pytest.raises(DataError, match=message):
            load_driver_recording(experiment.write(tmp_path / name))


def test_settings_must_not_change_within_a_bag(experiment, tmp_path: Path) -> None:
    stamp, raw = experiment.messages["hardware_settings"][0]
    other = experiment.settings.model_copy(update={"mount": "hanging"}).model_dump_json()
    experiment.messages["hardware_settings"] = [(stamp, raw), (stamp + 1, raw)]
    load_driver_recording(experiment.write(tmp_path / "same"))
    experiment.messages["hardware_settings"] = [(stamp, raw), (stamp + 1, encode_string(other))]
    with pytest.raises(DataError, match="changes within the bag"):
        load_driver_recording(experiment.write(tmp_path / "other"))


def test_a_bag_of_another_robot_is_refused(experiment, tmp_path: Path) -> None:
    class Other:
        name = "three"
        joint_names = ("shoulder", "elbow")

    bag = experiment.write(tmp_path / "bag")
    with pytest.raises(DataError, match="robot 'three' has shoulder, elbow"):
        load_driver_recording(bag, Other())  # type: ignore[arg-type]
    Other.name = "two"
    with pytest.raises(DataError, match="is from robot 'three', expected 'two'"):
        load_driver_recording(bag, Other())  # type: ignore[arg-type]


def test_several_experiments_in_one_bag_have_their_own_spans(experiment, tmp_path: Path) -> None:
    first, second = experiment.phases[-1], experiment.phases[0].model_copy(update={"trajectory": "V01", "phases": ()})
    stamp = first.phases[-1].stamp_ns
    states = [second, second.entered("trajectory", stamp + 10), second.entered("trajectory", stamp + 10)]
    states.append(states[-1].entered("cancelled", stamp + 20_000_000))
    experiment.messages["experiment"] += [(stamp + k, encode_string(s.model_dump_json())) for k, s in enumerate(states)]
    recording = load_driver_recording(experiment.write(tmp_path / "bag"))
    assert recording.experiments == (first, states[-1]) and recording.experiment.state == "cancelled"
    start, end = recording.trajectory_span()
    assert end - start == pytest.approx(0.02 - 1e-8)
    assert recording.trajectory_span(first)[1] < start


@pytest.mark.slow
def test_experiments_of_one_series_are_one_recording(experiment, tmp_path: Path) -> None:
    """Of another series, or of none, the last one alone counts."""
    plan = experiment.phases[-1].model_copy(update={"phases": ()})

    def ran(series: str, begin: int) -> object:
        return plan.model_copy(update={"series": series, "duration_s": 0.01}).entered(
            "trajectory", START + begin * CYCLE
        )

    for last, expected in (("a", (0.06, 0.16)), ("b", (0.15, 0.16)), ("", (0.15, 0.16))):
        runs = [ran("", 20), ran("b" if last == "a" else "c", 40), ran("a", 60), ran("a", 90), ran(last, 150)]
        texts = [(START + k, encode_string(one.model_dump_json())) for k, one in enumerate(runs)]
        experiment.messages["experiment"] = texts
        recording = load_driver_recording(experiment.write(tmp_path / f"bag_{last}"))
        first = (experiment.stamps[0] - START) / 1e9
        assert recording.trajectory_span() == pytest.approx((expected[0] - first, expected[1] - first))
        assert len(recording.experiments) == 5


def test_a_growing_recording_equals_the_bag_of_its_messages(experiment, tmp_path: Path) -> None:
    growing = GrowingRecording()
    for name in RECORDED_TYPES:
        for _, raw in experiment.messages[name]:
            growing.append(name, raw)
    live, bag = growing.recording("live", None), load_driver_recording(experiment.write(tmp_path / "bag"))
    assert live.joint_names == bag.joint_names and live.hardware == bag.hardware and live.experiments == bag.experiments
    for one in ("time", "q", "dq", "tau_present"):
        np.testing.assert_array_equal(getattr(live, one), getattr(bag, one))
    np.testing.assert_array_equal(live.applied.tau, bag.applied.tau)
    assert live.commands is None and growing.count("joint_states") == len(live.time)
    assert len(growing.since("joint_states", 190).messages) == 10
    with pytest.raises(DataError, match="lacks the topic joint_states"):
        GrowingRecording().recording("nothing", None)


def test_the_span_of_a_trajectory_that_never_began_is_refused(experiment, tmp_path: Path) -> None:
    experiment.messages["experiment"] = experiment.messages["experiment"][:1]
    with pytest.raises(DataError, match=r"the trajectory 'AG01' never started \(state: approach\)"):
        load_driver_recording(experiment.write(tmp_path / "bag")).trajectory_span()


def test_phases_out_of_order_are_refused(experiment) -> None:
    with pytest.raises(ValueError, match="in the order of their stamps"):
        experiment.phases[-1].entered("done", 5)
    assert experiment.phases[1].trajectory_span_ns() is not None
    assert experiment.phases[0].trajectory_span_ns() is None

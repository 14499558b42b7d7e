"""One recording by every reader: separate publishers, units of drivers, wrapped angles, folders of all kinds."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import dynid
from dynid.cli import app
from dynid.commands.options import read_mapping, refuse_unused_mapping
from dynid.errors import ConfigurationError, DataError
from dynid.identification.data.log_search import find_logs, is_bag
from dynid.identification.data.recordings import Recording, load_all, load_recording
from dynid.identification.pipeline import identify
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.standard import load_standard
from dynid.recording.bag_metadata import Topic
from dynid.recording.bag_writer import BagWriter
from dynid.recording.messages import JOINT_STATE, JointStateEncoder
from dynid.reporting.result_folder import open_result
from dynid.robot import FloatArray, Robot, load_robot

START_NS, RATE_HZ, SECONDS = 1_000_000_000_000, 250.0, 20.0
CONSTANTS = np.array([4.0, 2.5, 0.8])


def geared(folder: Path) -> Robot:
    """The planar arm with torque constants, its base on a joint that turns on and on."""
    content = yaml.safe_load((load_robot("planar_3r").folder / "robot.yaml").read_text(encoding="utf-8"))
    content |= {"urdf": str(load_robot("planar_3r").urdf_path)}
    for row, constant in zip(content["joints"], CONSTANTS.tolist(), strict=True):
        row["torque_constant_nm_per_a"] = constant
    content["joints"][0] |= {"lower_deg": -180, "upper_deg": 180}
    (folder / "models").mkdir(parents=True)
    for name in ("identification.yaml", "models/nominal.yaml"):
        (folder / name).write_bytes((load_robot("planar_3r").folder / name).read_bytes())
    (folder / "robot.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_robot(folder)


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Robot:
    return geared(tmp_path_factory.mktemp("arm") / "planar_3r")


def states(
    robot: Robot, time: FloatArray, drift_rad_s: float = 0.0, coulomb_nm: float = 0.1
) -> tuple[FloatArray, FloatArray]:
    """Positions and torques (N, 3) of the nominal arm with friction, whose first joint may turn on and on."""
    model, random = ArmModel.of(robot), np.random.default_rng(4)
    standard = load_standard(robot.folder / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)
    q, dq, ddq = np.zeros((3, len(time), robot.size))
    for _ in range(4):
        size, w, phase = random.uniform(0.1, 0.35, 3), random.uniform(0.8, 5.0, 3), random.uniform(0, 6)
        angle = time[:, None] * w + phase
        q, dq, ddq = q + size * np.sin(angle), dq + size * w * np.cos(angle), ddq - size * w**2 * np.sin(angle)
    turn = drift_rad_s * np.array([1.0, 0.0, 0.0])
    q, dq = q + time[:, None] * turn, dq + turn
    tau = model.inverse_dynamics(q, dq, ddq, model.base_parameters(standard))
    return q, tau + FrictionLaw.of(robot.size, {"fb": np.full(robot.size, coulomb_nm)}, 0.02).torque(dq)


Stream = tuple[str, Sequence[int], FloatArray]  # topic, joints, stamps [s]
Change = Callable[[FloatArray], FloatArray]


def bag(
    path: Path,
    robot: Robot,
    streams: Sequence[Stream],
    drift: float = 0.0,
    q_as: Change = lambda q: q,
    tau_as: Change = lambda tau: tau,
) -> Path:
    """A bag to which every stream sends its joints at its own stamps, in order of the stamps."""
    topics = dict.fromkeys(topic for topic, _, _ in streams)
    sent = []
    for topic, joints, stamps in streams:
        encoder = JointStateEncoder([robot.joint_names[k] for k in joints], fields=("position", "effort"))
        q, tau = states(robot, stamps, drift)
        q, tau = q_as(q)[:, list(joints)], tau_as(tau)[:, list(joints)]
        for k, stamp in enumerate((START_NS + np.rint(1e9 * stamps)).astype(np.int64).tolist()):
            sent.append((stamp, topic, encoder.encode(stamp, position=q[k], effort=tau[k])))
    writer = BagWriter(path, [Topic(topic, JOINT_STATE) for topic in topics])
    writer.open()
    for stamp, topic, message in sorted(sent, key=lambda one: one[0]):
        writer.write(topic, stamp, message)
    writer.close()
    return path


def clock(rate_hz: float = RATE_HZ, later_s: float = 0.0) -> FloatArray:
    return np.arange(later_s, SECONDS, 1.0 / rate_hz)


WHOLE: list[Stream] = [("/joint_states", (0, 1, 2), clock())]


def parameters(robot: Robot, recording: Path, **options: Any) -> tuple[FloatArray, str]:
    """Base parameters that are identified with the command's options, and the notes of the result."""
    result = identify(robot, recording, mapping=read_mapping(**{"path": None} | options))
    return result.base.values, " ".join(result.notes)


def command(robot: Robot, out: Path, recording: Path, *options: str) -> Any:
    """Run `dynid identify` with JSON output and return its result."""
    words = ["identify", str(recording), "--robot", str(robot.folder), "--out", str(out), "--json", *options]
    return CliRunner().invoke(app, words)


@pytest.fixture(scope="module")
def plain(arm: Robot, tmp_path_factory: pytest.TempPathFactory) -> FloatArray:
    folder = tmp_path_factory.mktemp("plain")
    return parameters(arm, bag(folder / "bag", arm, WHOLE))[0]


def assert_same(found: FloatArray, expected: FloatArray, share: float = 1e-3) -> None:
    """Each parameter within a share of its value, or of the largest one's hundredth where it is nearly 0."""
    scale = np.maximum(np.abs(expected), 0.01 * np.abs(expected).max())
    assert (np.abs(found - expected) / scale).max() <= share


# -- what `dynid identify` must read as the plain bag ------------------------------------------------------------

SPLIT: dict[str, list[Stream]] = {
    "one topic": [("/joint_states", (1, 0), clock()), ("/joint_states", (2,), clock(125.0, 0.0013))],
    "two topics": [("/arm/joint_states", (0, 1), clock()), ("/wrist/joint_states", (2,), clock(100.0, 0.0031))],
    "three rates": [
        ("/a/states", (0,), clock(200.0)),
        ("/b/states", (1,), clock(125.0, 0.002)),
        ("/b/states", (2,), clock(RATE_HZ, 0.001)),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("streams", SPLIT.values(), ids=SPLIT)
def test_joints_of_several_publishers_give_the_plain_bags_parameters(
    arm: Robot, plain: FloatArray, tmp_path: Path, streams: list[Stream]
) -> None:
    found, notes = parameters(arm, bag(tmp_path / "bag", arm, streams))
    assert_same(found, plain)
    assert f"joint states of {len(streams)} publishers were merged" in notes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "tau_as"),
    [
        ("mA", lambda tau: 1e3 * tau / CONSTANTS),
        ("2.69 mA", lambda tau: tau / CONSTANTS / 2.69e-3),
        ("kg cm", lambda tau: tau / 0.0980665),
        ("% of 20 N m, % of 12 N m, % of 5 N m", lambda tau: 100.0 * tau / [20.0, 12.0, 5.0]),
    ],
    ids=["mA", "counts", "kg cm", "per cent"],
)
def test_units_of_drivers_give_the_plain_bags_parameters(
    arm: Robot, plain: FloatArray, tmp_path: Path, unit: str, tau_as: Change
) -> None:
    path = bag(tmp_path / "bag", arm, WHOLE, tau_as=tau_as)
    assert_same(parameters(arm, path, effort=unit)[0], plain, 1e-6)


@pytest.mark.slow
def test_positions_that_wrap_round_are_unwrapped_and_noted(arm: Robot, tmp_path: Path) -> None:
    """The arm turns on and on; the same motion without a wrap is beyond every limit, so it is read from arrays."""
    time = clock()
    q, tau = states(arm, time, 1.3)
    assert q[:, 0].max() > 4.0 * np.pi
    path = bag(tmp_path / "bag", arm, WHOLE, 1.3, q_as=lambda q: (q + np.pi) % (2.0 * np.pi) - np.pi)
    found, notes = parameters(arm, path)
    assert "wrap round do, and were unwrapped: joint_1 (" in notes
    source = load_recording(path, arm)
    turned = source.signals(load_identification(arm)).q[:, 0] - q[:, 0]
    np.testing.assert_allclose(turned, turned[0], atol=1e-9)
    wide = arm.file.model_copy(
        update={"joints": (arm.file.joints[0].model_copy(update={"upper_deg": 2000.0}), *arm.file.joints[1:])}
    )
    whole = identify(Robot(wide, arm.folder), [dynid.recording_from_arrays(Robot(wide, arm.folder), time, q, tau)])
    assert_same(found, whole.base.values)


# -- what is merged, and what is not held ------------------------------------------------------------------------


def test_gaps_of_a_publisher_are_not_filled(arm: Robot, tmp_path: Path) -> None:
    slow = clock(100.0)
    silent = (slow > 5.0) & (slow < 7.0)
    streams: list[Stream] = [("/a", (0, 1), clock()), ("/b", (2,), slow[~silent])]
    (log,) = find_logs(bag(tmp_path / "bag", arm, streams), arm)
    time = log.read().time
    assert not ((time > 5.01) & (time < 6.99)).any() and len(log.read().pieces()) == 2
    assert "at which not all joints are known, were left out" in log.read().notes[-1]
    q, tau = states(arm, time)
    np.testing.assert_allclose(log.read().q, q, atol=2e-5)
    found = log.read().tau
    assert found is not None
    assert np.sqrt(np.mean((found - tau) ** 2)) < 0.02  # friction steps from row to row


def test_joint_that_two_publishers_send_is_refused_until_a_mapping_chooses(arm: Robot, tmp_path: Path) -> None:
    streams: list[Stream] = [("/a", (0, 1), clock()), ("/b", (1, 2), clock()), ("/c", (2,), clock())]
    path = bag(tmp_path / "bag", arm, streams)
    with pytest.raises(
        DataError, match=r"position of joint_2 is sent more than once \(/a, /b\).*`topics` in a mapping"
    ):
        load_recording(path, arm)
    assert load_recording(path, arm, {"topics": ["/a", "/c"]}).torque_constants == ()


def test_two_arms_are_two_logs_and_a_mapping_names_one(arm: Robot, tmp_path: Path) -> None:
    streams: list[Stream] = [(f"/{side}/joint_states", (0, 1, 2), clock()) for side in ("left", "right")]
    path = bag(tmp_path / "bag", arm, streams)
    assert len(find_logs(path, arm)) == 2
    with pytest.raises(DataError, match="more than once"):
        load_recording(path, arm)
    assert load_recording(path, arm, {"topics": ["/left/joint_states"]}).name == "bag"


def test_mapping_of_a_bag_renames_flips_and_mounts(arm: Robot, tmp_path: Path) -> None:
    names = ("shoulder", "elbow", "wrist")
    q, tau = states(arm, clock())
    encoder = JointStateEncoder(names[::-1], fields=("position", "effort"))
    writer = BagWriter(tmp_path / "bag", [Topic("/states", JOINT_STATE)])
    writer.open()
    for k, stamp in enumerate((START_NS + np.rint(1e9 * clock())).astype(np.int64).tolist()):
        row = {"position": np.rad2deg(q[k, ::-1]), "effort": (tau[k] * [1.0, -1.0, 1.0])[::-1]}
        writer.write("/states", stamp, encoder.encode(stamp, **row))
    writer.close()
    content = {
        "schema_version": 1,
        "joints": list(names),
        "mount": "flat",
        "position": {"unit": "deg"},
        "torque": {"unit": "N m", "sign": [1, -1, 1]},
    }
    (tmp_path / "mapping.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    source = load_recording(tmp_path / "bag", arm, tmp_path / "mapping.yaml")
    signals = source.signals(load_identification(arm))
    np.testing.assert_allclose(signals.q, q, atol=1e-12)
    np.testing.assert_allclose(signals.tau, tau, atol=1e-12)
    assert source.mount == "flat" and not any("other software" in note for note in source.notes)
    with pytest.raises(ConfigurationError, match="the mapping says what the torque is: leave --effort mA out"):
        read_mapping(tmp_path / "mapping.yaml", effort="mA")


# -- units that cannot be ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "unit"), [(1e3 / CONSTANTS, "mA"), (0.05 / CONSTANTS / 20.0, "")], ids=["mA", "tiny"]
)
def test_numbers_that_cannot_be_torques_are_named_with_a_likely_unit(
    arm: Robot, tmp_path: Path, factor: FloatArray, unit: str
) -> None:
    path = bag(tmp_path / "bag", arm, WHOLE, tau_as=lambda tau: tau * factor)
    if unit:
        with pytest.raises(DataError, match=rf"torque of joint_. reaches .*would be likely in .*{unit}"):
            load_recording(path, arm)
        return
    (note,) = [one for one in load_recording(path, arm).notes if "its limit in robot.yaml" in one]
    assert "no joint comes closer to its own" in note


def test_torques_beyond_three_limits_are_refused_with_a_likely_unit(arm: Robot, tmp_path: Path) -> None:
    most = np.abs(states(arm, clock())[1]).max(axis=0)
    path = bag(tmp_path / "bag", arm, WHOLE, tau_as=lambda tau: tau * 8.0 * arm.torque_limits / most)
    source = load_recording(path, arm)
    assert any("8 times its limit in robot.yaml: they would be likely in" in note for note in source.notes)
    with pytest.raises(DataError, match=r"expected N m \(.*kg cm\?\)"):
        source.samples(load_identification(arm))


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("%", "a share of a rated value"),
        ("horsepower", "expected N m, mN m, kg cm, A, mA"),
        ("N m, mA, N m", "some torques as currents and some not"),
        ("mA, mA", "unit has 2 entries; expected one for all or 3"),
        ("N m at motor, N m, N m", "names both sides of the gears"),
    ],
)
def test_units_that_are_not_known_are_refused(arm: Robot, tmp_path: Path, unit: str, words: str) -> None:
    path = bag(tmp_path / "bag", arm, [("/joint_states", (0, 1, 2), clock(50.0))])
    with pytest.raises(ConfigurationError, match=words):
        parameters(arm, path, effort=unit)


# -- arrays and folders --------------------------------------------------------------------------------------------


def test_arrays_in_other_units_are_converted(arm: Robot) -> None:
    time = clock()
    q, tau = states(arm, time)
    usual = dynid.recording_from_arrays(arm, time, q, tau)
    order, names = [2, 0, 1], tuple(arm.joint_names[k] for k in (2, 0, 1))
    given = np.rad2deg(q)[:, order], (1e3 * tau / CONSTANTS)[:, order]
    found = dynid.recording_from_arrays(arm, time, *given, joint_names=names, q_unit="deg", tau_unit=["mA"] * 3)
    settings = load_identification(arm)
    np.testing.assert_allclose(found.signals(settings).q, usual.signals(settings).q, atol=1e-12)
    np.testing.assert_allclose(found.signals(settings).tau, usual.signals(settings).tau, atol=1e-12)
    assert found.torque_constants == tuple(CONSTANTS.tolist()) and usual.torque_constants == ()
    with pytest.raises(ConfigurationError, match="give one of the two"):
        dynid.recording_from_arrays(arm, time, q, tau, tau_unit="A", torque_constants=(1.0, 1.0, 1.0))


def csv(path: Path, robot: Robot, later_s: float = 0.0) -> Path:
    time = clock(100.0, later_s)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = np.hstack([time[:, None], *states(robot, time)])
    np.savetxt(path, rows, delimiter=",", header="t,a,b,c,x,y,z", comments="")
    return path


MAPPING: dict[str, Any] = {
    "time": {"column": "t"},
    "position": {"columns": ["a", "b", "c"], "unit": "rad"},
    "torque": {"columns": ["x", "y", "z"], "unit": "N m"},
}


@pytest.mark.slow
def test_folder_stands_for_all_recordings_in_it(arm: Robot, tmp_path: Path) -> None:
    csv(tmp_path / "runs" / "one.csv", arm)
    bag(tmp_path / "runs" / "two", arm, WHOLE)
    bag(tmp_path / "runs" / "without", arm, [("/joint_states", (0, 1), clock())])
    found = load_all(tmp_path / "runs", arm, MAPPING)
    assert [one.name for one in found] == ["one.csv", "two"]
    assert any("left out of" in note and "lacks the joint joint_3" in note for note in found[0].notes)
    with pytest.raises(DataError, match="holds 2 recordings, expected one"):
        load_recording(tmp_path / "runs", arm, MAPPING)
    result = identify(arm, tmp_path / "runs", mapping=MAPPING, held_out_share=0.3)
    assert [Path(path).name for path, _, used in result.sources if used == "fitted"] == ["one.csv", "two"]
    with pytest.raises(DataError, match=r"no recording in .* can be used: .*describe its columns"):
        (tmp_path / "other").mkdir()
        csv(tmp_path / "other" / "one.csv", arm)
        load_all(tmp_path / "other", arm)


def test_episodes_of_a_data_set_are_recordings(arm: Robot, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from dynid.recording.lerobot import Episode, write_lerobot

    time = clock(50.0)
    q, tau = states(arm, time)
    parts = [Episode("move", time, {"observation.state": f * q, "observation.effort": tau}) for f in (1.0, 0.5)]
    write_lerobot(tmp_path / "set", parts, arm.joint_names, "planar")
    found = load_all(tmp_path / "set", arm)
    assert [one.name for one in found] == ["set episode 0", "set episode 1"]
    np.testing.assert_allclose(found[1].signals(load_identification(arm)).q, 0.5 * q, atol=1e-6)
    assert len({one.sha256 for one in found}) == 2


@pytest.mark.slow
def test_stated_units_that_nothing_needs_are_refused(arm: Robot, tmp_path: Path) -> None:
    (tmp_path / "mapping.yaml").write_text(yaml.safe_dump({"schema_version": 1} | MAPPING), encoding="utf-8")
    options = ("--mapping", str(tmp_path / "mapping.yaml"), "--effort", "mA")
    done = command(arm, tmp_path / "model", csv(tmp_path / "one.csv", arm), *options)
    assert isinstance(done.exception, ConfigurationError) and "all recordings are CSV files" in str(done.exception)


@pytest.mark.slow
def test_a_mapping_of_columns_beside_bags_alone_is_refused(arm: Robot, tmp_path: Path) -> None:
    (tmp_path / "mapping.yaml").write_text(yaml.safe_dump({"schema_version": 1} | MAPPING), encoding="utf-8")
    path = bag(tmp_path / "bag", arm, WHOLE)
    for words in (
        ("identify", path, "--out", tmp_path / "model"),
        ("validate", "nominal", path),
        ("compare", path),
        ("essential", path),
        ("payload", path, path),
        ("torque-constants", path, path, "--mass", "0.1"),
        ("feel", path, "--model", "nominal"),
    ):
        words = (*map(str, words), "--robot", str(arm.folder), "--mapping", str(tmp_path / "mapping.yaml"))
        done = CliRunner().invoke(app, words)
        assert isinstance(done.exception, ConfigurationError) and "all recordings are bags" in str(done.exception)
    refuse_unused_mapping(read_mapping(tmp_path / "mapping.yaml"), [path, tmp_path / "one.csv"])  # one uses it


@pytest.mark.slow
def test_commands_take_units_and_mappings_of_bags(arm: Robot, plain: FloatArray, tmp_path: Path) -> None:
    path = bag(tmp_path / "bag", arm, WHOLE, q_as=np.rad2deg, tau_as=lambda tau: 1e3 * tau / CONSTANTS)
    command(arm, tmp_path / "model", path, "--effort", "mA", "--position", "deg", "--hold-out", "0.3")
    content = yaml.safe_load((tmp_path / "model" / "model.yaml").read_text(encoding="utf-8"))
    assert_same(np.array([row["value"] for row in content["parameters"]]), plain, 0.05)
    words = ["validate", str(tmp_path / "model"), str(path), "--robot", str(arm.folder), "--json", "--position", "deg"]
    judged = json.loads(CliRunner().invoke(app, [*words, "--effort", "mA"]).stdout)
    assert judged["bags"]["bag"]["relative"] < 0.1


# -- recordings that are used together -----------------------------------------------------------------------------


def test_recordings_keep_mount_and_delay_of_a_mapping(arm: Robot, tmp_path: Path) -> None:
    file = csv(tmp_path / "one.csv", arm)
    stated = MAPPING | {"mount": "flat", "torque_delay_s": 0.03}
    (found,) = find_logs(file, arm, stated)
    log = found.read()
    assert (log.mount, log.torque_delay_s) == ("flat", 0.03) and found.facts is not None
    one = load_recording(file, arm, stated)
    assert one.mount == "flat" and one.signals(load_identification(arm)).torque_delay_s == 0.03
    other = load_recording(csv(tmp_path / "two.csv", arm, 0.5), arm, MAPPING | {"mount": "upright"})
    with pytest.raises(DataError, match=r"differ in mount \(flat and upright\)"):
        identify(arm, [one, other])


def test_recording_given_twice_is_refused(arm: Robot, tmp_path: Path) -> None:
    for name in ("one.csv", "two.csv"):
        csv(tmp_path / name, arm)
    with pytest.raises(DataError, match=r"two\.csv holds the same data as .*one\.csv: name each recording once"):
        identify(arm, tmp_path, mapping=MAPPING)


def test_bag_and_arrays_give_the_same_recording(arm: Robot, tmp_path: Path) -> None:
    time = clock()
    direct: Recording = dynid.recording_from_arrays(arm, time, *states(arm, time))
    settings = load_identification(arm)
    found = load_recording(bag(tmp_path / "bag", arm, WHOLE), arm).signals(settings)
    np.testing.assert_array_equal(found.q, direct.signals(settings).q)
    np.testing.assert_array_equal(found.tau, direct.signals(settings).tau)


@pytest.mark.slow
def test_report_reads_a_bag_as_the_identification_did(arm: Robot, tmp_path: Path) -> None:
    path = bag(tmp_path / "bag", arm, WHOLE, tau_as=lambda tau: -1e3 * tau)
    stated = {"torque": {"unit": "mN m", "sign": [-1, -1, -1]}}
    result = identify(arm, path, mapping=stated, held_out_share=0.3)
    dynid.write_result(result, tmp_path / "model")
    (tmp_path / "model" / "predictions.npz").unlink()
    (motion_again,) = open_result(tmp_path / "model", arm).motions
    assert motion_again.errors.relative < 0.1


def test_folder_of_numbered_files_without_metadata_is_one_bag(arm: Robot, tmp_path: Path) -> None:
    whole = bag(tmp_path / "whole", arm, WHOLE)
    (whole / "metadata.yaml").unlink()
    (file,) = whole.iterdir()
    assert is_bag(whole) and load_recording(whole, arm).name == "whole"
    (whole / "else.mcap").write_bytes(file.read_bytes())
    assert not is_bag(whole)

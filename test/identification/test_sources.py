"""The result names the torque constants on which it is based, for every kind of recording."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from geared_arms import CONSTANTS, variant
from recordings import recorded

from dynid.control.control_model import refuse_other_constants
from dynid.errors import ConfigurationError, DataError, InputNotFoundError, SafetyError
from dynid.identification.data.recordings import load_recording, load_recordings, torque_sentence
from dynid.identification.pipeline import identify
from dynid.identification.settings import load_identification
from dynid.recording.csv_mapping import CsvMapping
from dynid.recording.settings import HardwareSettings, constants_note, parse_settings
from dynid.robot import load_robot

REST = {
    "torque_constants_nm_per_a": (8.8, *CONSTANTS[1:]),
    "mount": "upright",
    "gravity_m_s2": (0.0, 0.0, -9.81),
    "current_unit_a": 1e-3,
    "cycle_s": 0.002,
    "simulated": True,
}
ROBOT = load_robot("planar_3r")
SETTINGS = load_identification(ROBOT)
MAPPING = CsvMapping.model_validate(
    {
        "schema_version": 1,
        "rate_hz": 100,
        "position": {"columns": [1, 2, 3], "unit": "rad"},
        "torque": {"columns": [4, 5, 6], "unit": "N m"},
    }
)


def test_constants_are_grouped_by_value() -> None:
    assert "3 (joint_2), 2 (all others)." in torque_sentence((2.0, 3.0, 2.0), ROBOT)
    assert "2 (all joints)." in torque_sentence((2.0, 2.0, 2.0), ROBOT)
    assert "no torque constant was used" in torque_sentence((), ROBOT)


def test_constants_are_those_of_robot_yaml(tmp_path: Path) -> None:
    """Recordings hold constants at the joints; all that is printed has the motors', whatever the gears."""
    geared = variant("geared", tmp_path)
    assert CONSTANTS == tuple(geared.joint_constants)
    own = geared.torque_constants.tolist()
    assert geared.motor_constants(CONSTANTS) == pytest.approx(own) and geared.motor_constants(()) == ()
    sentence = torque_sentence(CONSTANTS, geared)
    assert "times the gear ratios and these torque constants of the motors" in sentence
    for name, value in zip(geared.joint_names, own, strict=True):
        assert f"{value:g} ({name})" in sentence or f"{value:g} (all others)" in sentence
    text = json.dumps({"robot": geared.name, "joint_names": geared.joint_names, "port": "", "dynid_version": ""} | REST)
    hardware = parse_settings("hardware_settings", text, HardwareSettings)
    (note,) = constants_note(hardware, geared)
    assert "constants (4.4, 3.33333333333, 3.33333333333) N m/A" in note and str(own) in note
    with pytest.raises(SafetyError, match=r"constant of 4.4 N m/A at joint_1, but robot.yaml says 4 N m/A"):
        refuse_other_constants(geared, (8.8, *CONSTANTS[1:]))


def test_source_is_described_by_file_and_mapping(tmp_path: Path) -> None:
    rows = "".join(f"{0.01 * k},{0.02 * k},0,{1 + 0.01 * k},{2 + 0.01 * k},3\n" for k in range(50))
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text(rows)
    one = load_recording(tmp_path / "one.csv", ROBOT, MAPPING)
    assert (one.name, one.mount, one.torque_constants) == ("one.csv", "upright", ())
    assert one.signals(SETTINGS).other is None
    both = load_recordings([tmp_path / "one.csv", tmp_path / "two.csv"], ROBOT, MAPPING)
    assert [source.sha256 for source in both] == [one.sha256, one.sha256]
    flat = MAPPING.model_copy(update={"mount": "flat"})
    assert load_recording(tmp_path / "one.csv", ROBOT, flat).mount == "flat"


@pytest.mark.slow
def test_a_simulated_arm_stays_known_to_the_end() -> None:
    one, other = recorded(ROBOT, name="one"), recorded(ROBOT, seed=5, name="other")
    real = identify(ROBOT, [one], validation=[other])
    assert real.simulated_sentence == "" and real.model_file().provenance["simulated"] == []
    found = identify(ROBOT, [replace(one, simulated=True)], validation=[replace(other, simulated=True)])
    assert found.simulated == ("one", "other") == tuple(found.model_file().provenance["simulated"])
    assert "a simulated arm, so no evidence about a real one: one, other." in found.simulated_sentence
    end = identify(ROBOT, [replace(one, simulated=True)], held_out_share=0.3)
    assert end.summary()["simulated"] == ["one"]


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="describe its columns with --mapping"):
        load_recording(tmp_path / "run.csv", ROBOT)
    with pytest.raises(InputNotFoundError, match=r"run\.csv"):
        load_recording(tmp_path / "run.csv", ROBOT, MAPPING)
    (tmp_path / "short.csv").write_text("0,0,0,1,1,1\n" * 20)
    with pytest.raises(DataError, match=r"short\.csv: no joint moves"):
        load_recording(tmp_path / "short.csv", ROBOT, MAPPING).samples(SETTINGS)


def test_a_recording_that_is_named_twice_is_refused() -> None:
    with pytest.raises(DataError, match="again holds the same data as one: name each recording once"):
        identify(ROBOT, [recorded(ROBOT, name="one"), recorded(ROBOT, name="again")])


@pytest.mark.slow
def test_recordings_of_one_file_name_are_named_with_their_folders() -> None:
    """Otherwise a dictionary by name would lose all but the last of them."""
    fitted = [recorded(ROBOT, seed=k, name=f"{day}/run") for k, day in enumerate(("monday", "tuesday"))]
    judges = [recorded(ROBOT, seed=k, name=name) for k, name in ((5, "friday/run"), (6, "sunday/run"), (7, "last"))]
    found = identify(ROBOT, fitted, validation=judges)
    names = ["friday/run", "sunday/run", "last"]
    assert list(found.summary()["relative_torque_error"]["out_of_sample"]["files"]) == names
    assert [one.name for one in found.motions] == [*names, "monday/run", "tuesday/run"]
    labels = [one.name for one in found.verdict.checks]
    assert len(set(labels)) == len(labels)
    crossed = identify(ROBOT, fitted).summary()["relative_torque_error"]["cross_validated"]["files"]
    assert list(crossed) == ["monday/run, cross-validated", "tuesday/run, cross-validated"]
    arrays = identify(ROBOT, [recorded(ROBOT, seed=k) for k in range(2)]).motions
    assert [one.name for one in arrays if one.kind == "fitted"] == ["made up", "made up (2)"]

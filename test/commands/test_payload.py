"""`dynid payload` and `dynid torque-constants`: from two CSV recordings to the printed result."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import ConfigurationError, DataError
from dynid.model.dynamics import ArmModel
from dynid.model.standard import LinkInertia, from_link_frame
from dynid.robot import load_robot

ARM = load_robot("aloha_class")
BODY = LinkInertia(0.3, np.array([0.08, 0.0, 0.01]), 0.4 * 0.3 * 0.03**2 * np.eye(3))
LOAD = from_link_frame(BODY, ArmModel.of(ARM).mdh.in_link[-1])
BODY_OPTIONS = ("--mass", "0.3", "--at", "0.08", "0", "0.01", "--radius", "0.03")


def run(command: str, *arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [command, *map(str, arguments), "--robot", "aloha_class"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def as_json(command: str, *arguments: object) -> tuple[int, dict[str, Any]]:
    code, text = run(command, *arguments, "--json")
    return code, json.loads(text)


@pytest.fixture
def runs(write_run) -> tuple[Path, Path, Path]:
    before, after = write_run(ARM, "before.csv"), write_run(ARM, "after.csv", seed=2, load=LOAD)
    return before, after, before.parent / "mapping.yaml"


@pytest.mark.slow
def test_two_recordings_give_mass_and_centre_of_a_payload(runs) -> None:
    before, after, mapping = runs
    code, found = as_json("payload", before, after, "--mapping", mapping)
    assert code == 0
    mass = found["payload"]["M6"]
    assert abs(mass["value"] - 0.3) < max(4 * mass["standard_deviation"], 0.01) and mass["standard_deviation"] < 0.02
    np.testing.assert_allclose(found["centre_of_mass_m"], BODY.centre_of_mass, atol=0.01)
    assert found["changes"]["MXR2"]["significant"] and "no torque constant was used" in found["torques"]
    code, text = run("payload", before, after, "--mapping", mapping)
    assert code == 0 and "M6" in text and "MXR2" in text


def joined(before: Path, after: Path) -> tuple[Path, float]:
    """Write one CSV file of both runs, a second apart, and return it with the time of the change [s]."""
    first, second = (np.genfromtxt(path, delimiter=",", names=True) for path in (before, after))
    time = first.dtype.names[0]
    second[time] += first[time][-1] - second[time][0] + 1.0
    path = before.with_name("joined.csv")
    header = before.read_text().splitlines()[0]
    np.savetxt(path, np.concatenate([first, second]).tolist(), delimiter=",", header=header, comments="")
    return path, float(second[time][0]) - 0.5


@pytest.mark.slow
def test_a_payload_picked_up_at_a_stated_time_is_identified(runs) -> None:
    before, after, mapping = runs
    whole, change_s = joined(before, after)
    code, found = as_json("payload", whole, "--change-at", change_s, "--mapping", mapping)
    _, two = as_json("payload", before, after, "--mapping", mapping)
    mass = found["payload"]["M6"]
    assert code == 0 and abs(mass["value"] - 0.3) < max(4 * mass["standard_deviation"], 0.01)
    assert mass["value"] == pytest.approx(two["payload"]["M6"]["value"], abs=0.002)
    assert found["changes"]["MXR2"]["significant"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "either a second recording AFTER or --change-at"),
        (("after.csv", "--change-at", "3"), "either a second recording AFTER or --change-at"),
        (("--change-at", "3", "--mapping-after", "mapping.yaml"), "--mapping-after belongs to a second recording"),
    ],
)
def test_a_change_needs_a_second_recording_or_a_time(options: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        run("payload", "before.csv", *options)


def test_a_change_outside_of_the_recording_is_refused(write_run) -> None:
    before = write_run(ARM, "before.csv")
    with pytest.raises(DataError, match=r"before.csv has no rows from 1000 s; its motion lasts"):
        run("payload", before, "--change-at", 1000, "--mapping", before.parent / "mapping.yaml")


def test_the_same_run_twice_is_refused(runs) -> None:
    before, _, mapping = runs
    with pytest.raises(DataError, match="hold the same data"):
        run("payload", before, before, "--mapping", mapping)
    with pytest.raises(ConfigurationError, match="describe its columns with --mapping"):
        run("payload", before, before)


def in_amperes(mapping: Path) -> Path:
    """The mapping, torques being read as currents."""
    content = yaml.safe_load(mapping.read_text())
    content["torque"]["unit"] = "A"
    path = mapping.with_name("currents.yaml")
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.slow
def test_known_mass_reveals_wrong_torque_constants(write_run) -> None:
    """The drives' true constants are 1.2 times those of robot.yaml, so currents are smaller than these say."""
    scale = 1.0 / (1.2 * ARM.torque_constants)
    before = write_run(ARM, "before.csv", scale=scale, noise=0.003)
    after = write_run(ARM, "after.csv", seed=2, load=LOAD, scale=scale, noise=0.003)
    mapping = in_amperes(before.parent / "mapping.yaml")
    code, found = as_json("torque-constants", before, after, *BODY_OPTIONS, "--mapping", mapping)
    assert code == 1
    shoulder = found["joints"]["shoulder"]
    assert shoulder["doubtful"] and shoulder["scale"] == pytest.approx(1 / 1.2, abs=0.02)
    assert shoulder["corrected_nm_per_a"] == pytest.approx(1.2 * 4.818, rel=0.02)
    assert found["by_torque_constant"]["4.818"]["scale"] == pytest.approx(1 / 1.2, abs=0.02)
    assert "4.818 (shoulder, elbow)" in found["torques"] and "gripper" not in found["joints"]
    code, text = run("torque-constants", before, after, *BODY_OPTIONS, "--mapping", mapping)
    assert code == 1 and "N m/A expected" in text and "centre of mass" not in text
    code, alone = as_json("torque-constants", before, after, *BODY_OPTIONS[:2], "--mapping", mapping)
    assert code == 1 and alone["joints"]["shoulder"]["scale"] == pytest.approx(1 / 1.2, abs=0.03)
    assert "centre of mass found" in run("torque-constants", before, after, *BODY_OPTIONS[:2], "--mapping", mapping)[1]


def test_a_second_run_without_the_known_load_is_refused(write_run) -> None:
    scale = 1.0 / ARM.torque_constants
    before = write_run(ARM, "before.csv", scale=scale, noise=0.003)
    empty = write_run(ARM, "empty.csv", seed=2, scale=scale, noise=0.003)
    mapping = in_amperes(before.parent / "mapping.yaml")
    with pytest.raises(DataError, match=r"no known load is visible in the second run: .*was the body attached"):
        run("torque-constants", before, empty, *BODY_OPTIONS, "--mapping", mapping)


def test_right_torque_constants_pass(write_run) -> None:
    scale = 1.0 / ARM.torque_constants
    before = write_run(ARM, "before.csv", scale=scale, noise=0.003)
    after = write_run(ARM, "after.csv", seed=2, load=LOAD, scale=scale, noise=0.003)
    mapping = in_amperes(before.parent / "mapping.yaml")
    code, found = as_json("torque-constants", before, after, *BODY_OPTIONS, "--mapping", mapping)
    assert code == 0 and not any(row["doubtful"] for row in found["joints"].values())
    assert found["joints"]["shoulder"]["scale"] == pytest.approx(1.0, abs=0.02)


@pytest.mark.slow
def test_notes_about_the_recordings_are_shown(write_run) -> None:
    scale = 1.0 / ARM.torque_constants
    before = write_run(ARM, "before.csv", scale=scale, noise=0.003)
    after = write_run(ARM, "after.csv", seed=2, load=LOAD, scale=scale, noise=0.003)
    for path, row in ((before, 20), (after, 30)):
        lines = path.read_text().splitlines()
        path.write_text("\n".join((*lines[:row], lines[row].replace(",", ",?", 1), *lines[row + 1 :], "")))
    mapping = in_amperes(before.parent / "mapping.yaml")
    mapping.write_text(mapping.read_text() + "skip_corrupt_rows: true\n")
    own = ("--mapping", mapping)
    for words in (
        ("payload", before, after, *own),
        ("torque-constants", before, after, *BODY_OPTIONS, *own),
        ("compare", before, "--validate", after, "--estimator", "ols", *own),
    ):
        notes, text = as_json(*words)[1]["notes"], run(*words)[1]
        for name in ("before.csv", "after.csv"):
            (note,) = [one for one in notes if one.startswith(f"{name}: ") and "1 corrupt rows skipped" in one]
            assert note in text
    whole = as_json("payload", before, "--change-at", 15.0, *own)[1]["notes"]
    assert len([one for one in whole if "corrupt rows" in one]) == 1
    assert "before.csv: only rows until 15 s are used" in whole

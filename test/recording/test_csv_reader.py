"""CSV recordings: units, sides, signs and rows by a mapping; errors name file, line or joint."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from dynid.errors import ConfigurationError, DataError, InputNotFoundError, UnknownNameError
from dynid.recording.csv_draft import draft_mapping
from dynid.recording.csv_mapping import CsvMapping
from dynid.recording.csv_reader import is_csv, read_csv
from dynid.recording.csv_table import read_table
from dynid.recording.log import Log
from dynid.recording.mapping import load_mapping
from dynid.robot import FloatArray, Robot, load_robot

PLANAR = load_robot("planar_3r")
GEARED = load_robot("tx40")
NAMES = ("t", "q1", "q2", "q3", "tau1", "tau2", "tau3")


def mapping(**changes: Any) -> CsvMapping:
    content = {
        "schema_version": 1,
        "time": {"column": "t"},
        "position": {"columns": ["q1", "q2", "q3"], "unit": "rad"},
        "torque": {"columns": ["tau1", "tau2", "tau3"], "unit": "N m"},
    }
    return CsvMapping.model_validate({key: value for key, value in {**content, **changes}.items() if value is not None})


def rows(count: int = 50) -> FloatArray:
    t = np.arange(count) / 100.0
    return np.column_stack([t, *(np.sin(t + k) for k in range(3)), *(k * np.cos(t) for k in range(1, 4))])


def write(path: Path, values: FloatArray, header: str | None = ",".join(NAMES), end: str = "\n") -> Path:
    lines = [",".join(repr(float(x)) for x in row) for row in values]
    path.write_text("\n".join(([header] if header else []) + lines) + end)
    return path


def read(path: Path, robot: Robot = PLANAR, **changes: Any) -> Log:
    return read_csv(path, robot, mapping(**changes))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "run.csv", rows())


# -- what is right ---------------------------------------------------------------------------------------------


def test_columns_without_a_conversion_are_read_unchanged(file: Path) -> None:
    found, expected = read(file), rows()
    np.testing.assert_allclose(found.time, expected[:, 0], atol=1e-12)
    np.testing.assert_array_equal(found.q, expected[:, 1:4])
    np.testing.assert_array_equal(found.tau, expected[:, 4:])
    assert (found.mount, found.torque_constants, found.dq, found.notes) == (None, (), None, ())
    assert not found.q.flags.writeable and len(found.sha256) == 64


def test_units_signs_ratios_and_offsets_are_applied(tmp_path: Path) -> None:
    values = rows()
    values[:, 0] = 1e3 * values[:, 0] + 7e6  # ms since some other beginning
    values[:, 1:4] = np.rad2deg(values[:, 1:4])
    values[:, 4:] *= 1e3
    position = {"columns": [2, 3, 4], "unit": "deg", "sign": [1, -1, 1], "ratio": 0.5, "offset": [0.0, 0.0, 0.25]}
    found = read(
        write(tmp_path / "run.csv", values, None),
        time={"column": 1, "unit": "ms"},
        position=position,
        torque={"columns": [5, 6, 7], "unit": "mN m", "ratio": [1.0, 2.0, 1.0]},
    )
    expected = rows()
    np.testing.assert_allclose(found.time, expected[:, 0], atol=1e-9)
    np.testing.assert_allclose(found.q, expected[:, 1:4] * [0.5, -0.5, 0.5] + [0, 0, 0.25], atol=1e-12)
    np.testing.assert_allclose(found.tau, expected[:, 4:] * [1, 2, 1], atol=1e-12)


def test_other_dialects_are_read(tmp_path: Path) -> None:
    expected = read(write(tmp_path / "run.csv", rows())).q
    text = (tmp_path / "run.csv").read_text()
    with gzip.open(tmp_path / "run.csv.gz", "wt") as stream:
        stream.write("# a remark\n\n" + text)
    (tmp_path / "semicolon.csv").write_text("\ufeff" + text.replace(",", ";").replace(".", ","))
    (tmp_path / "blanks.txt").write_text(text.replace(",", "   "))
    (tmp_path / "quoted.csv").write_text('"' + text.replace(",", '","').replace("\n", '"\n"').rstrip('"'))
    np.testing.assert_array_equal(read(tmp_path / "run.csv.gz").q, expected)
    np.testing.assert_array_equal(read(tmp_path / "semicolon.csv", delimiter=";", decimal=",").q, expected)
    np.testing.assert_array_equal(read(tmp_path / "blanks.txt", delimiter="space").q, expected)
    np.testing.assert_array_equal(read(tmp_path / "quoted.csv").q, expected)
    assert all(is_csv(path) for path in tmp_path.iterdir()) and not is_csv(tmp_path)


@pytest.mark.parametrize("row", ["0.04 0.1 1.0 2.0 30", "0.04 0.1 0.2 1.0 2.0 30 31"])
def test_a_row_between_blanks_with_other_fields_is_corrupt(tmp_path: Path, row: str) -> None:
    """Its columns would be shifted: a torque for a position, a temperature for a torque."""
    good = [f"{0.01 * k:.2f} 0.1 0.2 1.0 2.0 30" for k in (0, 1, 2, 3, 5)]
    lines = ["t q1 q2 tau1 tau2 temp", *good[:4], row, good[4]]
    (tmp_path / "log.txt").write_text("\n".join(lines) + "\n")
    table = read_table(tmp_path / "log.txt", ["t", "q1", "q2", "tau1", "tau2"], delimiter="space")
    assert [(one.row, one.reason) for one in table.bad] == [(4, f"{len(row.split())} fields, expected 6")]
    assert np.isnan(table.values[4]).all() and np.isfinite(np.delete(table.values, 4, axis=0)).all()


def test_chosen_rows_are_read_at_the_stated_rate(file: Path) -> None:
    part = read(file, rows=[10, 30], time=None, rate_hz=200)
    np.testing.assert_array_equal(part.q, rows()[10:30, 1:4])
    np.testing.assert_allclose(part.time, np.arange(20) / 200, atol=1e-12)
    assert len(read(file, rows=[10, None]).q) == 40


def test_motors_turn_joints_through_gears_and_coupling(tmp_path: Path) -> None:
    """Power is the same on both sides, and motor 6 of the TX-40 turns with both wrist joints."""
    rng = np.random.default_rng(1)
    motors, torques = np.cumsum(rng.normal(size=(30, 6)), axis=0), rng.normal(size=(30, 6))
    header = ",".join(f"{name}{k}" for name in "miv" for k in range(6))
    path = write(tmp_path / "motors.csv", np.hstack([motors, torques, motors]), header)
    group = {"side": "motor", "unit": "rad", "columns": [f"m{k}" for k in range(6)]}
    torque = {"side": "motor", "unit": "N m", "columns": [f"i{k}" for k in range(6)]}
    velocity = {**group, "unit": "rad/s", "columns": [f"v{k}" for k in range(6)]}
    found = read(path, GEARED, time=None, rate_hz=100, position=group, torque=torque, velocity=velocity)
    np.testing.assert_allclose(found.q[:, 0] * 32, motors[:, 0])
    np.testing.assert_allclose(32 * (found.q[:, 4] + found.q[:, 5]), motors[:, 5])
    np.testing.assert_allclose(found.tau[:, 4], 45 * torques[:, 4] + 32 * torques[:, 5])
    np.testing.assert_allclose((found.q * found.tau).sum(axis=1), (motors * torques).sum(axis=1))
    np.testing.assert_allclose(found.dq, found.q)  # type: ignore[arg-type]


def test_currents_pass_the_torque_constants_and_say_so(tmp_path: Path) -> None:
    arm = load_robot("aloha_class")
    values = np.random.default_rng(2).uniform(-0.05, 0.05, (20, 14))
    path = write(tmp_path / "run.csv", values, None)
    torque = {"columns": list(range(8, 15)), "unit": "mA"}
    found = read(
        path, arm, time=None, rate_hz=100, position={"columns": list(range(1, 8)), "unit": "rad"}, torque=torque
    )
    np.testing.assert_allclose(found.tau, 1e-3 * values[:, 7:] * arm.torque_constants)
    assert found.torque_constants == tuple(arm.torque_constants.tolist())


def test_several_files_are_one_recording(tmp_path: Path) -> None:
    values = rows()
    path = write(tmp_path / "q.csv", values[:, :4], "t,q1,q2,q3")
    write(tmp_path / "tau.csv", values[:, 4:], "tau1,tau2,tau3")
    torque = {"file": "tau.csv", "columns": ["tau1", "tau2", "tau3"], "unit": "N m"}
    found = read(path, torque=torque)
    np.testing.assert_array_equal(found.tau, values[:, 4:])
    before = found.sha256
    write(tmp_path / "tau.csv", 2 * values[:, 4:], "tau1,tau2,tau3")
    assert read(path, torque=torque).sha256 != before
    write(tmp_path / "tau.csv", values[:-1, 4:], "tau1,tau2,tau3")
    with pytest.raises(DataError, match=r"equally many rows: q\.csv has 50, tau\.csv has 49"):
        read(path, torque=torque)


# -- what is wrong ---------------------------------------------------------------------------------------------


def spoilt(file: Path, line: int, text: str | None) -> Path:
    """The file with one line (counted from 1) replaced, or cut off in the middle as the last one."""
    lines = file.read_text().splitlines()
    if text is None:
        file.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][: len(lines[-1]) // 2])
    else:
        lines[line - 1] = text
        file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    ("line", "text", "words"),
    [
        (10, "0.08,1,2", "line 10: 3 fields, expected 7"),
        (10, "0.08,1,x,3,4,5,6", "line 10: 'x' in column q2 is not a number"),
        (10, "0.08,1,,3,4,5,6", "line 10: '' in column q2 is not a number"),
        (10, "0.08,1,nan,3,4,5,6", "line 10: nan in column q2 is not finite"),
        (10, "0.08,1,2,3,4,inf,6", "line 10: inf in column tau2 is not finite"),
        (10, "", "line 10: empty"),
        (51, None, "line 51: .* fields, expected 7 .truncated: the file ends within this line"),
    ],
)
def test_corrupt_rows_are_reported_and_skipped_on_request(file: Path, line: int, text: str | None, words: str) -> None:
    path = spoilt(file, line, text)
    with pytest.raises(DataError, match=rf"run\.csv has 1 corrupt rows: {words}"):
        read(path)
    found = read(path, skip_corrupt_rows=True)
    np.testing.assert_array_equal(found.q, np.delete(rows(), line - 2, axis=0)[:, 1:4])
    np.testing.assert_allclose(found.time, np.delete(rows(), line - 2, axis=0)[:, 0], atol=1e-12)
    assert len(found.notes) == 1 and f"1 corrupt rows skipped: line {line}" in found.notes[0]


def test_rows_left_out_leave_a_gap_in_time_also_without_a_time_column(file: Path) -> None:
    found = read(spoilt(file, 10, "x"), time=None, rate_hz=100, skip_corrupt_rows=True)
    np.testing.assert_allclose(np.diff(found.time)[[6, 7, 8]], [0.01, 0.02, 0.01])


def test_many_corrupt_rows_are_counted_and_the_first_listed(file: Path) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], *("x" for _ in lines[1:21]), *lines[21:]]) + "\n")
    with pytest.raises(DataError, match=r"20 corrupt rows: line 2: .*; line 6: .* and 15 more\. Repair them"):
        read(file)


def test_a_bad_row_outside_the_chosen_rows_does_not_matter(file: Path) -> None:
    assert len(read(spoilt(file, 2, "x"), rows=[1, 50]).q) == 49


def test_a_last_line_without_an_end_is_noted(tmp_path: Path) -> None:
    assert "may be truncated" in read(write(tmp_path / "run.csv", rows(), end="")).notes[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"position": {"columns": ["q1", "q2", "nope"], "unit": "rad"}},
            r"has no column 'nope'; its columns are: t, q1",
        ),
        ({"position": {"columns": [1, 2, 8], "unit": "rad"}}, "has 7 columns; there is no column 8"),
        ({"position": {"columns": ["q1", "q2"], "unit": "rad"}}, "gives 2 position columns; robot 'planar_3r' has 3"),
        ({"position": {"columns": ["q1", "q2", "q3"], "unit": "rad", "ratio": 57.3}}, "joint joint_2 goes from"),
        (
            {"position": {"columns": ["q1", "q2", "q3"], "unit": "m"}},
            "position of joint joint_1 in 'm'; expected rad, deg",
        ),
        ({"position": {"columns": ["q1", "q2", "q3"], "unit": "count"}}, "in 'count'; expected rad, deg, rev"),
        (
            {"torque": {"columns": ["tau1", "tau2", "tau3"], "unit": "kg"}},
            "torque of joint joint_1 in 'kg'; expected N m",
        ),
        ({"torque": {"columns": ["tau1", "tau2", "tau3"], "unit": "A"}}, "joint_1 .* has no torque_constant_nm_per_a"),
        ({"torque": {"columns": ["tau1", "tau2", "tau3"], "unit": ["A", "A", "N m"]}}, "as currents and some not"),
        ({"rows": [0, 51]}, "has 50 rows; the mapping asks for rows 0 to 51"),
        (
            {"time": {"column": "tau1"}, "torque": {"columns": ["t", "tau2", "tau3"], "unit": "N m"}},
            "time .* does not come after",
        ),
        ({"mount": "nowhere"}, "unknown mount 'nowhere'"),
    ],
)
def test_a_mapping_that_does_not_fit_is_named(file: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises((ConfigurationError, DataError, UnknownNameError), match=words):
        read(file, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"position": {"columns": ["q1", "q1", "q3"], "unit": "rad"}}, "'q1' is named for position and again for pos"),
        ({"torque": {"columns": ["q1", "tau2", "tau3"], "unit": "N m"}}, "'q1' is named for position and again for"),
        ({"time": {"column": "q2"}}, "'q2' is named for position and again for time"),
    ],
)
def test_a_column_with_two_meanings_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        mapping(**changes)


def test_a_column_that_is_named_by_name_and_by_number_is_refused(file: Path) -> None:
    torque = {"columns": [2, 6, 7], "unit": "N m"}
    with pytest.raises(DataError, match="'q1' and 2 are the same column, 2; expected another one"):
        read(file, torque=torque)
    with pytest.raises(DataError, match="'q1' and 2 are the same column"):
        read(file, torque=torque | {"file": file.name})


@pytest.mark.slow
def test_errors_about_wide_files_are_short(tmp_path: Path) -> None:
    names = [f"column{k}" for k in range(20_000)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join(names), *[",".join(["0"] * len(names))] * 3]))
    with pytest.raises(DataError, match="no column 't'; its columns are: column0, ") as refused:
        read(path)
    assert len(str(refused.value)) < 600
    with pytest.raises(DataError, match="its columns are column0, ") as refused:
        draft_mapping(path, PLANAR, 100.0)
    assert len(str(refused.value)) < 900


def test_time_that_jumps_back_is_named_with_its_line(tmp_path: Path) -> None:
    values = rows()
    values[20, 0] = 0.1
    with pytest.raises(DataError, match=r"run\.csv line 22: time 0\.1 s does not come after 0\.19"):
        read(write(tmp_path / "run.csv", values))


def test_invalid_csv_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputNotFoundError, match="no such CSV file"):
        read(tmp_path / "nothing.csv")
    for name, content, words in (
        ("empty.csv", b"", "holds no rows"),
        ("header.csv", b"t,q1\n", "a header but no rows"),
        ("binary.csv", b"\xff\xfe\x00", "not UTF-8 text"),
        ("cut.csv.gz", gzip.compress(b"1,2,3\n" * 1000)[:-20], "damaged archive"),
        ("twice.csv", b"t,q1,q1,q3,tau1,tau2,tau3\n1,2,3,4,5,6,7\n", "column 'q1' twice"),
        ("bare.csv", b"1,2,3,4,5,6,7\n", "no header, so no column 't'"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=words):
            read(tmp_path / name)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate_hz": 5}, "either rate_hz or time"),
        ({"decimal": ","}, "cannot both be a comma"),
        ({"rows": [5, 5]}, "is an empty range"),
        ({"torque": {"columns": [1, 2, 3], "unit": "N m", "sign": [1]}}, "sign has 1 entries; expected one for all"),
        ({"position": {"columns": [0], "unit": "rad"}}, "greater than or equal to 1"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_mapping_that_is_wrong_in_itself_is_named(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text(yaml.safe_dump({**mapping().model_dump(mode="json", exclude_none=True), **changes}))
    with pytest.raises(ConfigurationError, match=words):
        load_mapping(path)

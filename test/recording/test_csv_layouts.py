"""Common layouts of CSV files: each is drafted correctly or refused with a message."""

import gzip
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from dynid.errors import DataError
from dynid.recording.csv_draft import draft_mapping
from dynid.recording.csv_mapping import CsvMapping
from dynid.recording.csv_names import clock_unit, column_name
from dynid.recording.csv_reader import read_csv
from dynid.recording.csv_table import instant_s
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("planar_3r")
JOINTS = ROBOT.joint_names
ROWS, STEP_S = 40, 0.01
TIME = STEP_S * np.arange(ROWS, dtype=np.float64)
Q = 0.5 * np.sin(3.0 * TIME[:, None] + np.arange(3))
DQ = 1.5 * np.cos(3.0 * TIME[:, None] + np.arange(3))
TAU = 2.0 * np.cos(2.0 * TIME[:, None] - np.arange(3))
DEG = 180.0 / np.pi


@dataclass(frozen=True)
class Layout:
    """Names of the columns, and what the numbers of each series are multiplied with.

    Attributes:
        time: name of its column; None without one.
        series: names and values in the order of the columns.
        clock: makes text of a time [s].
        delimiter, decimal: of the file.
        head: what stands before the header.
    """

    time: str | None
    series: tuple[tuple[Sequence[str], FloatArray], ...]
    clock: Callable[[float], str] = str
    delimiter: str = ","
    decimal: str = "."
    head: str = ""

    def text(self) -> str:
        columns = [name for names, _ in self.series for name in names]
        header = self.delimiter.join(([] if self.time is None else [self.time]) + columns)
        rows = []
        for k, t in enumerate(TIME):
            numbers = [repr(float(x)).replace(".", self.decimal) for _, values in self.series for x in values[k]]
            stamp = [] if self.time is None else [self.clock(float(t)).replace(".", self.decimal)]
            rows.append(self.delimiter.join(stamp + numbers))
        return "\n".join([self.head + header, *rows, ""])


def numbered(form: str, first: int = 1) -> list[str]:
    return [form.format(k + first) for k in range(3)]


def named(form: str) -> list[str]:
    return [form.format(name) for name in JOINTS]


def plain(q: Sequence[str], tau: Sequence[str], time: str = "t", **more: object) -> Layout:
    return Layout(time, ((q, Q), (tau, TAU)), **more)  # type: ignore[arg-type]


def millis(t: float) -> str:
    return f"{1000.0 * t:.3f}"


def dated(t: float) -> str:
    return f"2026-11-27T08:15:{10.0 + t:09.6f}Z"


BOTH = [name for k in range(3) for name in (f"q{k}", f"tau{k}")]
WOVEN = np.stack([Q, TAU], axis=2).reshape(ROWS, 6)
DRAFTED = {
    "numbers": plain(numbered("q{}"), numbered("tau{}")),
    "from zero": plain(numbered("q{}", 0), numbered("tau{}", 0)),
    "brackets": plain(numbered("q[{}]", 0), numbered("tau[{}]", 0)),
    "MATLAB": plain(numbered("q({})"), numbered("tau({})"), "Time"),
    "unit suffix": Layout("time_s", ((numbered("pos_{}_deg"), DEG * Q), (numbered("torque_{}_Nm"), TAU))),
    "joint, kind, unit": plain(numbered("joint{}_position_rad"), numbered("joint{}_torque_Nm"), "time"),
    "PlotJuggler": plain(
        numbered("/joint_states/joint_{}/position"), numbered("/joint_states/joint_{}/effort"), "__time"
    ),
    "PlotJuggler arrays": plain(
        numbered("/joint_states/position[{}]", 0), numbered("/joint_states/effort[{}]", 0), "__time"
    ),
    "rostopic": plain(numbered("field.position{}", 0), numbered("field.effort{}", 0), "%time",
                      clock=lambda t: f"{int(1e9 * (1.7e9 + t))}"),
    "units in brackets": Layout("Time [ms]", ((numbered("Pos {} [deg]"), DEG * Q), (numbered("Trq {} [Nm]"), TAU)),
                                millis),
    "units in parentheses": plain(numbered("Joint {} Position (rad)"), numbered("Joint {} Torque (N·m)"), "Time (s)"),
    "joints' names": plain(named("{}_pos"), named("{}_effort")),
    "names, dotted": plain(named("{}.pos"), named("{}.effort"), "timestamp"),
    "to_pandas of dynid": plain(named("{} position"), named("{} torque"), "time"),
    "names, kind first": plain(named("position_{}"), named("effort_{}")),
    "names in capitals": plain([f"{n.upper()}_POSITION" for n in JOINTS], [f"{n.upper()}_EFFORT" for n in JOINTS],
                               "TIME"),
    "Isaac": plain(numbered("dof_pos_{}", 0), numbered("dof_torque_{}", 0), "time"),
    "Franka": Layout("time", ((numbered("q[{}]", 0), Q), (numbered("q_d[{}]", 0), Q + 0.01),
                              (numbered("dq[{}]", 0), DQ), (numbered("tau_J[{}]", 0), TAU),
                              (numbered("tau_J_d[{}]", 0), TAU + 1.0))),
    "UR": Layout("timestamp", ((numbered("target_q_{}", 0), Q + 0.01), (numbered("actual_q_{}", 0), Q),
                               (numbered("actual_qd_{}", 0), DQ), (numbered("target_moment_{}", 0), TAU + 1.0),
                               (numbered("actual_torque_{}", 0), TAU))),
    "MoveIt": Layout("time_from_start", ((numbered("positions_{}", 0), Q), (numbered("velocities_{}", 0), DQ),
                                         (numbered("accelerations_{}", 0), DQ), (numbered("effort_{}", 0), TAU))),
    "woven": Layout("t", ((BOTH, WOVEN),)),
    "pandas index": Layout("", ((["time"], TIME[:, None]), (numbered("q_{}"), Q), (numbered("tau_{}"), TAU)),
                           lambda t: str(round(t / STEP_S))),
    "pandas dates": plain(numbered("q{}"), numbered("tau{}"), "", clock=dated),
    "dates": plain(numbered("q{}"), numbered("tau{}"), "datetime", clock=lambda t: dated(t).replace("T", " ")[:-1]),
    "milliseconds by values": plain(numbered("q{}"), numbered("tau{}"), "timestamp", clock=millis),
    "microseconds": plain(numbered("q{}"), numbered("tau{}"), "time_us", clock=lambda t: f"{1e6 * t:.0f}"),
    "decimal commas": plain(numbered("q{}"), numbered("tau{}"), delimiter=";", decimal=","),
    "tabs and commas": plain(numbered("q{}"), numbered("tau{}"), delimiter="\t", decimal=","),
    "savetxt": plain(numbered("q{}"), numbered("tau{}"), head="# "),
    "quoted": plain([f'"q {k}"' for k in range(3)], [f'"tau {k}"' for k in range(3)], '"time"'),
    "camel case": plain(numbered("jointPosition{}"), numbered("jointTorque{}"), "time"),
    "axes": plain(numbered("A{}_pos_rad"), numbered("A{}_torque_Nm"), "time"),
    "degrees by values": Layout("t", ((numbered("angle{}"), DEG * 3.0 * Q), (numbered("tau{}"), TAU))),
    "pandas dates with a zone": plain(numbered("q{}"), numbered("tau{}"), "",
                                      clock=lambda t: dated(t).replace("T08", " 09").replace("Z", "+01:00")),
    "Isaac Lab": Layout("sim_time", ((numbered("joint_pos[{}]", 0), Q), (numbered("joint_vel[{}]", 0), DQ),
                                     (numbered("computed_torque[{}]", 0), TAU + 1.0),
                                     (numbered("applied_torque[{}]", 0), TAU))),
    "MoveIt controller state": Layout("time", ((numbered("desired.positions[{}]", 0), Q + 0.01),
                                               (numbered("actual.positions[{}]", 0), Q),
                                               (numbered("error.positions[{}]", 0), Q),
                                               (numbered("actual.effort[{}]", 0), TAU))),
    "MATLAB table": Layout("time", ((numbered("q_{}"), Q), (numbered("qd_{}"), DQ), (numbered("tau_{}"), TAU))),
    "efforts in mNm": Layout("time_ms", ((numbered("position_{}_rad"), Q), (numbered("effort_{}_mNm"), 1e3 * TAU)),
                             millis),
    "units before numbers": Layout("wall_time", ((numbered("pos_mrad_{}"), 1e3 * Q),
                                                 (numbered("torque_Ncm_{}"), 1e2 * TAU))),
    "degree signs": Layout("Time [µs]", ((numbered("Angle {} [°]"), DEG * Q), (numbered("Torque {} [mNm]"), 1e3 * TAU)),
                           lambda t: f"{1e6 * t:.0f}", delimiter=";", decimal=","),
    "speeds in rpm": Layout("t", ((numbered("q{}"), Q), (numbered("vel_{}_rpm"), 30.0 / np.pi * DQ),
                                  (numbered("tau{}"), TAU))),
    "speeds by values": Layout("t", ((numbered("q{}"), Q), (numbered("speed{}"), DEG * DQ), (numbered("tau{}"), TAU))),
    "Excel": plain(numbered("q{}"), numbered("tau{}"), delimiter=";", decimal=",", head="sep=;\n"),
}  # fmt: skip
WITH_VELOCITIES = ("Franka", "UR", "MoveIt", "Isaac Lab", "MATLAB table", "speeds in rpm", "speeds by values")
SCALED = {"degrees by values": 3.0}
REFUSED = {
    "two series": (Layout("t", ((numbered("left_q{}"), Q), (numbered("right_q{}"), Q), (numbered("tau{}"), TAU))),
                   "several series of position, which begin with left_q1; right_q1: keep one"),
    "commands alone": (plain(numbered("q{}"), numbered("tau_cmd{}")), "no 3 measured torque columns"),
    "per cent": (plain(numbered("q{}"), numbered("torque{} [%]")), "in per cent of an unknown reference"),
    "other number": (plain(["q1", "q2", "q4"], numbered("tau{}")), "name another robot with --robot"),
    "no time": (Layout(None, ((numbered("q{}"), Q), (numbered("tau{}"), TAU))), "rate of its rows with --rate-hz"),
    "no names": (plain(["1", "2", "3"], ["4", "5", "6"], "0"), "no header with a name for every column"),
    "stamps in two columns": (plain(numbered("position[{}]", 0), numbered("effort[{}]", 0),
                                    "header.stamp.sec,header.stamp.nanosec", clock=lambda t: f"17,{1e9 * t:.0f}"),
                              "sum in s, header.stamp.sec + 1e-9 * header.stamp.nanosec"),
    "durations of MATLAB": (plain(numbered("q_{}"), numbered("tau_{}"), "Time", clock=lambda t: f"{t:g} sec"),
                            "write seconds since the start (in MATLAB: T.Time = seconds(T.Time - T.Time(1)) before"),
    "dates of MATLAB": (plain(numbered("q_{}"), numbered("tau_{}"), "Time",
                              clock=lambda t: f"27-Nov-2026 08:15:{t:.3f}"),
                        "write seconds since the start"),
    "hours": (plain(numbered("q{}"), numbered("tau{}"), "Time [h]"), "[h]; expected s, ms, us or ns"),
    "a time that stands": (plain(numbered("q{}"), numbered("tau{}"), clock=lambda t: "7"),
                           "do not grow from row to row"),
    "external torques": (plain(numbered("q{}"), numbered("tau_ext_hat_filtered{}")), "no 3 measured torque columns"),
    "encoder counts": (plain(numbered("present_position_{}"), numbered("tau{}")), "'unit: count' with counts_per_turn"),
    "other unit": (plain(numbered("q{}"), numbered("tau{} [lbf in]")), "expected one unit for all of them"),
}  # fmt: skip
SHIFTED = {"encoder counts": 2048.0}
TEXTS = {
    "a row per joint": ("time,joint,position,effort\n0,joint_1,0,0\n", "table.pivot(index='time', columns='joint')"),
    "units below the names": ("t,q1,q2\ns,rad,rad\n0,0,0\n", "such as 'q1 [rad]', and delete the line"),
    "longer rows": ("t,q1,q2\n0,0,0,\n", "3 names in its header and 4 fields in its first row"),
    "lists": ('t,position,effort\n0,"[0.1, 0.2]","[1.0, 2.0]"\n', "one column for each joint"),
    "decimal commas in quotes": ('t,q1,q2\n"0,0","0,1","0,2"\n', "semicolons between the fields"),
}


@pytest.mark.parametrize("name", DRAFTED)
def test_layout_is_drafted_and_read_as_it_is(name: str, tmp_path: Path) -> None:
    file = tmp_path / "run.csv"
    file.write_text(DRAFTED[name].text(), encoding="utf-8")
    draft = draft_mapping(file, ROBOT, None)
    log = read_csv(file, ROBOT, CsvMapping.model_validate(draft.content))
    assert log.tau is not None
    np.testing.assert_allclose(log.time, TIME, atol=2e-6)
    np.testing.assert_allclose(log.q, SCALED.get(name, 1.0) * Q, atol=1e-9)
    np.testing.assert_allclose(log.tau, TAU, atol=1e-9)
    assert (log.dq is not None) == (name in WITH_VELOCITIES)
    if log.dq is not None:
        np.testing.assert_allclose(log.dq, DQ, atol=1e-9)


@pytest.mark.parametrize("name", REFUSED)
def test_an_ambiguous_layout_is_refused(name: str, tmp_path: Path) -> None:
    layout, words = REFUSED[name]
    if name in SHIFTED:
        layout = replace(layout, series=((layout.series[0][0], SHIFTED[name] + Q), *layout.series[1:]))
    file = tmp_path / "run.csv"
    file.write_text(layout.text(), encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(words)):
        draft_mapping(file, ROBOT, None)


@pytest.mark.parametrize("name", TEXTS)
def test_file_with_another_header_is_refused_with_the_cure(name: str, tmp_path: Path) -> None:
    text, words = TEXTS[name]
    file = tmp_path / "run.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(words)):
        draft_mapping(file, ROBOT, None)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_file_in_another_encoding_is_refused_with_the_cure(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "run.csv"
    file.write_text(DRAFTED["degree signs"].text().replace("µ", "u"), encoding=encoding)
    with pytest.raises(DataError, match=r"is not UTF-8 text .* iconv"):
        draft_mapping(file, ROBOT, None)


def test_a_compressed_file_is_drafted(tmp_path: Path) -> None:
    file = tmp_path / "run.csv.gz"
    file.write_bytes(gzip.compress(DRAFTED["numbers"].text().encode()))
    assert draft_mapping(file, ROBOT, None).content["position"]["columns"] == ["q1", "q2", "q3"]


OMX = load_robot("openmanipulator_x")  # joint1 to joint4, gripper


def five(kind: str, last: str) -> list[str]:
    return [f"joint{k}_{kind}" for k in range(1, 5)] + [f"{last}_{kind}"]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("joint5", [f"'joint5_{kind}' is joint gripper, by its number" for kind in ("angle_rad", "effort_Nm")]),
        ("gripper", []),
    ],
)
def test_a_joint_without_its_own_name_is_matched_by_its_number(last: str, said: list[str], tmp_path: Path) -> None:
    file, series = tmp_path / "run.csv", np.zeros((ROWS, 5))
    file.write_text(Layout("t", ((five("angle_rad", last), series), (five("effort_Nm", last), series))).text())
    draft = draft_mapping(file, OMX, None)
    assert draft.content["position"]["columns"] == five("angle_rad", last)
    assert draft.content["torque"]["columns"] == five("effort_Nm", last)
    assert [one for one in draft.assumed if "by its number" in one] == said


@pytest.mark.parametrize("last", ["joint0", "joint6", "hand"])
def test_joint_without_a_column_is_named(last: str, tmp_path: Path) -> None:
    file, series = tmp_path / "run.csv", np.zeros((ROWS, 5))
    file.write_text(Layout("t", ((five("angle_rad", last), series), (five("effort_Nm", last), series))).text())
    with pytest.raises(DataError, match=r"no 5 measured position columns .*; joint gripper has none; its col"):
        draft_mapping(file, OMX, None)


def test_velocities_that_are_no_rate_of_the_positions_are_left_out_and_said(tmp_path: Path) -> None:
    file = tmp_path / "run.csv"
    layout = Layout("t", ((numbered("q{}"), Q), (numbered("speed{}"), 3.0 * DQ), (numbered("tau{}"), TAU)))
    file.write_text(layout.text(), encoding="utf-8")
    draft = draft_mapping(file, ROBOT, None)
    assert "velocity" not in draft.content and "'speed1' and its like are left out" in "; ".join(draft.assumed)


def test_assumptions_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "run.csv"
    file.write_text(DRAFTED["milliseconds by values"].text(), encoding="utf-8")
    assumed = "; ".join(draft_mapping(file, ROBOT, None).assumed)
    assert "time is in ms, as rows are 10 apart: 100 Hz" in assumed
    assert "positions are in rad" in assumed and "torques are in N m at the joints" in assumed
    file.write_text(plain(numbered("motor_pos_{}"), numbered("motor_torque_{}")).text(), encoding="utf-8")
    assert any("side: motor" in one for one in draft_mapping(file, ROBOT, None).assumed)
    file.write_text(DRAFTED["units in brackets"].text(), encoding="utf-8")
    assert draft_mapping(file, ROBOT, None).assumed == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01 00:01:00.25", 60.25),
        ("1970-01-01T02:00:00+01:30", 1800.0),
        ("1970-01-01T00:00:00-0100", 3600.0),
        ("1970-13-01T00:00:00", None),
        ("12:00", None),
    ],
)
def test_dates_with_times_are_converted_to_seconds(text: str, seconds: float | None) -> None:
    assert instant_s(text) == seconds


def test_column_names_give_kind_joint_and_unit() -> None:
    told = column_name("/arm/joint_states/elbow/velocity [deg/s]", ("shoulder", "elbow"))
    assert (told.kind, told.joint, told.unit, told.commanded) == ("velocity", 1, "deg/s", False)
    assert column_name("cmd_effort_2", JOINTS).commanded and column_name("temperature_1", JOINTS).kind == ""
    assert clock_unit("time_ms") == "ms" and clock_unit("Time [us]") == "us" and clock_unit("q1") is None

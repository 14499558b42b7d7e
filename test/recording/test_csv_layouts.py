"""CSV files as people have them: each layout is drafted right, or refused with a sentence; none is wrong silently."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
TIME = STEP_S * np.arange(ROWS)
Q = 0.5 * np.sin(3.0 * TIME[:, None] + np.arange(3))
DQ = 1.5 * np.cos(3.0 * TIME[:, None] + np.arange(3))
TAU = 2.0 * np.cos(2.0 * TIME[:, None] - np.arange(3))
DEG = np.rad2deg(1.0)


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
}  # fmt: skip
SCALED = {"degrees by values": 3.0}
REFUSED = {
    "two series": (Layout("t", ((numbered("left_q{}"), Q), (numbered("right_q{}"), Q), (numbered("tau{}"), TAU))),
                   "several series of position, which begin with left_q1; right_q1: keep one"),
    "commands alone": (plain(numbered("q{}"), numbered("tau_cmd{}")), "no 3 measured torque columns"),
    "per cent": (plain(numbered("q{}"), numbered("torque{} [%]")), "in per cent of an unknown reference"),
    "other number": (plain(["q1", "q2", "q4"], numbered("tau{}")), "name another robot with --robot"),
    "no time": (Layout(None, ((numbered("q{}"), Q), (numbered("tau{}"), TAU))), "rate of its rows with --rate-hz"),
    "no names": (plain(["1", "2", "3"], ["4", "5", "6"], "0"), "no header with a name for every column"),
}  # fmt: skip


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
    if log.dq is not None:
        np.testing.assert_allclose(log.dq, DQ, atol=1e-9)


@pytest.mark.parametrize("name", REFUSED)
def test_layout_that_does_not_say_enough_is_refused(name: str, tmp_path: Path) -> None:
    layout, words = REFUSED[name]
    file = tmp_path / "run.csv"
    file.write_text(layout.text(), encoding="utf-8")
    with pytest.raises(DataError, match=words.replace("(", r"\(")):
        draft_mapping(file, ROBOT, None)


def test_what_is_assumed_is_said(tmp_path: Path) -> None:
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
def test_dates_with_times_are_seconds(text: str, seconds: float | None) -> None:
    assert instant_s(text) == seconds


def test_names_say_kind_joint_and_unit() -> None:
    told = column_name("/arm/joint_states/elbow/velocity [deg/s]", ("shoulder", "elbow"))
    assert (told.kind, told.joint, told.unit, told.commanded) == ("velocity", 1, "deg/s", False)
    assert column_name("cmd_effort_2", JOINTS).commanded and column_name("temperature_1", JOINTS).kind == ""
    assert clock_unit("time_ms") == "ms" and clock_unit("Time [us]") == "us" and clock_unit("q1") is None

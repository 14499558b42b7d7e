"""`import dynid`: stable names that are imported lazily, arrays as well as bags and CSV, and the example notebook."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import dynid
from dynid.cli import app
from dynid.errors import ConfigurationError, DataError, MissingLibraryError, UnknownNameError
from dynid.identification.data import preprocessing, recordings
from dynid.identification.data.sample_sets import join
from dynid.identification.data.samples import Samples
from dynid.identification.diagnosis.nuisance_columns import since_reversal
from dynid.identification.settings import load_identification
from dynid.identification.steadiness.windows import Windows
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_standard
from dynid.recording.csv_mapping import CsvMapping
from dynid.robot import FloatArray, Robot, load_robot

ROOT = Path(__file__).parents[1]
ROBOT = load_robot("planar_3r")
MODEL = ArmModel.of(ROBOT)
TRUTH = MODEL.base_parameters(
    load_standard(ROBOT.folder / "models" / "nominal.yaml", MODEL.mdh, MODEL.regrouping.standard)
)


def motion(seed: int, seconds: float = 20.0) -> dict[str, FloatArray]:
    """A sum of sines with the torques of the nominal parameters and a little noise."""
    rng, t = np.random.default_rng(seed), np.arange(0.0, seconds, 0.01)
    q, dq, ddq = np.zeros((3, len(t), ROBOT.size))
    for j in range(ROBOT.size):
        for w, phase in zip(2 * np.pi * rng.uniform(0.15, 0.7, 4), rng.uniform(0, 6, 4), strict=True):
            q[:, j] += 0.4 * np.sin(w * t + phase)
            dq[:, j] += 0.4 * w * np.cos(w * t + phase)
            ddq[:, j] -= 0.4 * w**2 * np.sin(w * t + phase)
    tau = MODEL.inverse_dynamics(q, dq, ddq, TRUTH)
    return {"time": t + 1e3, "q": q, "tau": tau + 0.002 * ROBOT.torque_limits * rng.normal(size=tau.shape), "dq": dq}


# -- names -----------------------------------------------------------------------------------------------------


def test_every_public_name_exists_is_documented_and_imported_lazily() -> None:
    told = dynid.__doc__ or ""
    for name in dynid.__all__:
        assert f"`{name}`" in told and getattr(dynid, name).__doc__, name
        assert getattr(dynid, name).__name__ == name and name in dir(dynid)
    code = "import sys, dynid; print(sorted(m for m in sys.modules if m.startswith(('dynid', 'numpy', 'scipy'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    assert done.stdout.strip() == "['dynid']"
    with pytest.raises(AttributeError, match="no attribute 'identfy'"):
        dynid.identfy  # noqa: B018


@pytest.mark.slow
def test_an_identification_loads_no_library_that_it_does_not_use() -> None:
    """Of a fast recording: figures, splines and campaigns would double the time that importing takes."""
    code = "import sys, dynid; dynid.identify, dynid.write_result, dynid.load_robot; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    loaded = set(done.stdout.split())
    assert "dynid.identification.pipeline" in loaded and "dynid.reporting.report" in loaded
    assert not loaded & {"matplotlib", "scipy.interpolate", "scipy.ndimage", "dynid.identification.campaign.campaign"}


# -- arrays ----------------------------------------------------------------------------------------------------


def test_arrays_are_identified_to_a_model_that_gives_torques(tmp_path: Path) -> None:
    names = ROBOT.joint_names[::-1]
    columns = {key: value if key == "time" else value[:, ::-1] for key, value in motion(1).items()}
    run = dynid.recording_from_arrays(ROBOT, **columns, joint_names=names, name="run")
    other = dynid.recording_from_arrays(ROBOT, **motion(2), name="other")
    result = dynid.identify(ROBOT, [run], validation=[other])
    assert repr(result) == f"Identification(planar_3r, accepted, {len(result.base.names)} base parameters, regression)"
    assert result.verdict.accepted, str(result.verdict)
    dynid.write_result(result, tmp_path / "model")
    model = dynid.load_model(tmp_path / "model")
    q, dq, ddq = np.random.default_rng(3).uniform(-1.0, 1.0, (3, 50, ROBOT.size))
    expected = MODEL.inverse_dynamics(q, dq, ddq, TRUTH)
    assert np.linalg.norm(model.torques(q, dq, ddq) - expected) < 0.05 * np.linalg.norm(expected)
    np.testing.assert_array_equal(model.torques(q, dq, ddq), result.as_model().torques(q, dq, ddq))
    assert model.accepted and model.gravity(q).shape == q.shape and model.inertia_matrix(q).shape == (50, 3, 3)
    again = dynid.validate(model, [dynid.recording_from_arrays(ROBOT, **motion(4), name="third")])
    assert again.verdict.accepted and [one.name for one in again.motions] == ["third"]
    with pytest.raises(DataError, match="identified from"):
        dynid.identify(ROBOT, [run], validation=[run])
    file = tmp_path / "model" / "model.yaml"
    file.write_text(
        file.read_text(encoding="utf-8").replace(f"robot: {ROBOT.name}\n", "robot: my_arm\n"), encoding="utf-8"
    )
    with pytest.raises(DataError, match=r"my_arm.* does not come with dynid: give the robot"):
        dynid.load_model(file)


@pytest.mark.slow
def test_a_repeat_of_the_fitted_motion_is_noted_and_another_motion_is_not() -> None:
    """The same motion under another name, with other noise and shifted in time and torque, judges nothing new."""
    run = dynid.recording_from_arrays(ROBOT, **motion(1), name="run")
    repeat = {key: np.array(value) for key, value in motion(1).items()}
    noise = np.random.default_rng(9).normal(0.0, 0.01, repeat["tau"].shape)
    repeat |= {"time": repeat["time"] + 77.0, "q": repeat["q"] + noise, "tau": repeat["tau"] + noise}
    again = dynid.recording_from_arrays(ROBOT, **repeat, name="again")
    other = dynid.recording_from_arrays(ROBOT, **motion(2), name="other")
    notes = dynid.identify(ROBOT, [run], validation=[again, other]).notes
    found = [note for note in notes if "repeats the motion" in note]
    assert len(found) == 1 and found[0].startswith("again repeats the motion that was fitted (")
    twice = {key: np.concatenate([value, value + 22.0 * (key == "time")]) for key, value in motion(1).items()}
    both = dynid.recording_from_arrays(ROBOT, **twice, name="both")
    notes = dynid.identify(ROBOT, [both], held_out_share=0.4).notes
    assert any(note.startswith("The last 40 % of both repeats the motion") for note in notes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": np.zeros((5, 3))}, r"q of run has shape \(5, 3\), expected \(2000, 3\)"),
        ({"tau": np.zeros(2000)}, r"tau of run has shape \(2000,\)"),
        ({"time": np.zeros((2000, 1))}, r"time of run has shape \(2000, 1\), expected \(N,\)"),
        ({"time": np.where(np.arange(2000) == 70, np.nan, np.arange(2000))}, r"time of run is nan in row 70 .* finite"),
        ({"joint_names": ("a", "b", "c")}, "run names the joints a, b, c; robot 'planar_3r' has"),
        ({"torque_constants": (1.0, 2.0)}, "run gives 2 torque constants, expected one for each of 3"),
        ({"torque_constants": (1.0, 2.0, "x")}, "torque_constants of run is no array of numbers"),
        ({"time": ["now"] * 2000}, "time of run is no array of numbers"),
        ({"q": [[1.0, 2.0], [3.0]]}, "q of run is no array of numbers"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(DataError, match=words):
        dynid.recording_from_arrays(ROBOT, **(motion(1) | {"name": "run"} | changes))  # type: ignore[arg-type]


def test_recordings_that_continue_each_others_time_stay_apart() -> None:
    """Samples of several recordings are one recording's where time goes on; the first ends at 1020 s here."""

    def joined(later_s: float) -> Samples:
        given = motion(1), motion(2) | {"time": motion(2)["time"] + later_s}
        runs = [dynid.recording_from_arrays(ROBOT, **one, name=f"run {k}") for k, one in enumerate(given)]
        return join([one.samples(load_identification(ROBOT)) for one in runs])

    same, later = joined(0.0), joined(100.0)
    assert Windows.of(later).recording.tolist() == Windows.of(same).recording.tolist()
    assert set(Windows.of(later).recording) == {0, 1}
    np.testing.assert_allclose(since_reversal(later), since_reversal(same), atol=1e-9)


@pytest.mark.parametrize(("joint", "away"), [(2, 4.0 * np.pi), (0, -7.0)])
def test_positions_within_limits_of_several_turns_are_read(joint: int, away: float, tmp_path: Path) -> None:
    """A wrist may turn twice, and a rail be longer than 2 pi metres: robot.yaml says what is beyond."""
    shutil.copytree(ROBOT.folder, tmp_path / "arm")
    shutil.copy(ROBOT.urdf_path, tmp_path / "arm")
    content = yaml.safe_load((tmp_path / "arm" / "robot.yaml").read_text(encoding="utf-8"))
    content["joints"][joint] |= {"lower_deg": -900.0, "upper_deg": 900.0}
    content["urdf"] = ROBOT.urdf_path.name
    (tmp_path / "arm" / "robot.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    own = load_robot(tmp_path / "arm")
    turned = motion(1) | {"q": motion(1)["q"] + away * (np.arange(3) == joint)}
    samples = dynid.recording_from_arrays(own, **turned).samples(load_identification(own))
    assert abs(samples.q[:, joint].mean() - away) < 0.5
    beyond = turned | {"q": turned["q"] + 30.0 * (np.arange(3) == joint)}
    with pytest.raises(DataError, match=r"reaches .* expected at most 16.71 rad, or m where it slides"):
        dynid.recording_from_arrays(own, **beyond).samples(load_identification(own))
    (note,) = dynid.recording_from_arrays(own, **beyond).notes
    assert "its limits in robot.yaml are -15.71 and 15.71" in note


@pytest.mark.slow
def test_one_recording_may_stand_alone_and_that_of_another_robot_is_refused() -> None:
    """A recording that was read for one robot is refused for another one."""
    run, other = (dynid.recording_from_arrays(ROBOT, **motion(seed), name=f"run {seed}") for seed in (1, 2))
    result = dynid.identify(ROBOT, run, validation=other)
    assert result.verdict.accepted and [one.name for one in result.motions] == ["run 2", "run 1"]
    stranger = load_robot("aloha_class")
    for read in (run, [run]):
        with pytest.raises(DataError, match=r"run 1 was read for the joints joint_1, .*; robot 'aloha_class' has"):
            dynid.identify(stranger, read)
    with pytest.raises(DataError, match="read it for this robot"):
        dynid.validate(result.as_model(), dynid.recording_from_arrays(stranger, **_within(stranger), name="leg"))
    with pytest.raises(DataError, match=r"data every 1e\+07 s .* are the stamps seconds"):
        late = motion(1) | {"time": 1e9 * motion(1)["time"]}
        dynid.identify(ROBOT, dynid.recording_from_arrays(ROBOT, **late))


def _within(robot: Robot) -> dict[str, FloatArray]:
    """Arrays of an arm that stays in the middle of its limits."""
    middle = 0.5 * (robot.lower + robot.upper) * np.ones((50, 1))
    return {"time": np.arange(50.0), "q": middle, "tau": 0.0 * middle}


@pytest.mark.parametrize("kind", ["frozen", "wrapped"])
def test_positions_that_jump_are_refused_where_they_do(kind: str, tmp_path: Path) -> None:
    """An encoder that stood still for two seconds, and an angle that is recorded between -0.5 and 0.5 of a turn."""
    run = motion(1)
    q = np.array(run["q"])
    if kind == "frozen":
        q[500:700, 1] = q[500, 1]
    else:
        q[:, 1] = (run["q"][:, 1] + 0.9 + 1.0) % 2.0 - 1.0
    rows = np.flatnonzero(np.abs(np.diff(q[:, 1])) > 0.3)
    words = rf"joint_2 jumps from .* within 0.01 s at {0.01 * rows[0]:.3f} s after the start \({len(rows)} such rows\)"
    with pytest.raises(DataError, match=rf"arrays: {words}"):
        dynid.recording_from_arrays(ROBOT, **(run | {"q": q}))
    columns = [f"{key}{k}" for key in ("q", "tau") for k in range(3)]
    table = np.column_stack([run["time"], q, run["tau"]])
    np.savetxt(tmp_path / "run.csv", table, delimiter=",", header=",".join(["t", *columns]), comments="")
    position, torque = ({"columns": columns[at : at + 3], "unit": unit} for at, unit in ((0, "rad"), (3, "N m")))
    mapping = {"schema_version": 1, "time": {"column": "t"}, "position": position, "torque": torque}
    with pytest.raises(DataError, match=rf"run.csv: {words}"):
        dynid.load_recording(tmp_path / "run.csv", ROBOT, CsvMapping.model_validate(mapping))


@pytest.mark.parametrize("rate_hz", [100.0, 20.0])
def test_a_position_that_stands_still_from_the_midst_of_a_motion_on_is_refused(rate_hz: float) -> None:
    """To the end, so that it never jumps back. A joint that brakes is none, nor an arm that stops as a whole."""
    run = {key: value[:: round(100.0 / rate_hz)] for key, value in motion(1).items()}
    row = int(np.argmax(np.abs(run["dq"][:, 1]) * (run["time"] < run["time"][0] + 15.0)))
    stuck, whole = np.array(run["q"]), np.array(run["q"])
    stuck[row:, 1], whole[row:] = stuck[row, 1], whole[row]
    words = (
        rf"run: the position of joint_2 stops at once at {run['time'][row] - run['time'][0]:.3f} s .* its encoder stop"
    )
    with pytest.raises(DataError, match=words):
        dynid.recording_from_arrays(ROBOT, **(run | {"q": stuck}), name="run")
    dynid.recording_from_arrays(ROBOT, **(run | {"q": whole}), name="run")
    since = run["time"] - run["time"][0] - 12.0
    after = np.clip(since / 0.5, 0.0, 1.0)  # it brakes from 1 rad/s within half a second
    brakes = np.array(run["q"])
    brakes[:, 1] = np.where(since > 0.0, 0.5 * (after - 0.5 * after**2), np.sin(np.minimum(since, 0.0)))
    assert dynid.recording_from_arrays(ROBOT, **run).notes == ()
    (note,) = dynid.recording_from_arrays(ROBOT, **(run | {"q": brakes})).notes
    assert note.startswith("the position of joint_2 stays the same for the last ") and "did its encoder stop?" in note
    brakes[:, 1] = np.where(since < -4.0, np.sin(-4.0), brakes[:, 1])  # where it has rested before, it may rest again
    assert dynid.recording_from_arrays(ROBOT, **(run | {"q": np.round(brakes, 6)})).notes == ()


def test_arguments_of_a_wrong_type_are_refused_by_name() -> None:
    run = dynid.recording_from_arrays(ROBOT, **motion(1), name="run")
    with pytest.raises(ConfigurationError, match=r"the robot is 'planar_3r', a str, expected a Robot: load it with"):
        dynid.identify("planar_3r", [run])  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"the robot is 'planar_3r', a str"):
        dynid.recording_from_arrays("planar_3r", **motion(1))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"the name of the recording is None, a NoneType, expected a str"):
        dynid.recording_from_arrays(ROBOT, **motion(1), name=None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"a recording is array\(\[0\., .*, a ndarray, expected a str or Path"):
        dynid.identify(ROBOT, [np.zeros(3)])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match=r"the model is 'runs/model', a str, expected a Model: load it with"):
        dynid.validate("runs/model", [run])  # type: ignore[arg-type]


def test_unsupported_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="mount"):
        dynid.recording_from_arrays(ROBOT, **motion(1), mount="sideways")
    degrees = motion(1) | {"q": np.rad2deg(motion(1)["q"])}
    with pytest.raises(DataError, match=r"arrays: position of .* reaches .* expected at most .* rad"):
        dynid.identify(ROBOT, [dynid.recording_from_arrays(ROBOT, **degrees)])
    with pytest.raises(DataError, match=r"differ in mount .* or torque constants"):
        pair = [dynid.recording_from_arrays(ROBOT, **motion(1), torque_constants=k) for k in ((), (1.0, 1.0, 1.0))]
        dynid.identify(ROBOT, pair)
    with pytest.raises(ConfigurationError, match="describe its columns with --mapping"):
        dynid.load_recording("run.csv", ROBOT)


# -- how often recordings are read -------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_bags_are_read_twice_and_preprocessed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One read and one preprocessing each, the other current and the report included."""
    done = CliRunner().invoke(app, ["simulate", "PA01", "V01", "--out", str(tmp_path / "bags")], catch_exceptions=False)
    assert done.exit_code == 0
    calls: list[str] = []

    def counted(module: object, name: str) -> None:
        inner = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, **k: (calls.append(name), inner(*a, **k))[1])

    counted(recordings, "read_bag")
    counted(recordings, "preprocess")
    counted(preprocessing, "preprocess")
    robot = load_robot("crane_x7")
    result = dynid.identify(robot, [tmp_path / "bags" / "PA01"], validation=[tmp_path / "bags" / "V01"])
    report = dynid.write_result(result, tmp_path / "model")
    assert sorted(calls) == ["preprocess", "preprocess", "read_bag", "read_bag"]
    assert report.is_file() and "torque_source" in [check.id for check in result.verdict.checks]


# -- columns ---------------------------------------------------------------------------------------------------


def test_recording_shows_its_columns_as_figure_and_table(monkeypatch: pytest.MonkeyPatch) -> None:
    given = motion(1, 2.0)
    run = dynid.recording_from_arrays(ROBOT, **given, name="run")
    np.testing.assert_array_equal(run.time, given["time"] - given["time"][0])  # from 0, as a bag's
    np.testing.assert_allclose(run.q, given["q"], atol=1e-12)
    np.testing.assert_allclose(run.tau, given["tau"], atol=1e-12)
    assert isinstance(run, dynid.Recording) and run.dq is not None and len(run.plot().axes) == 9
    without = dynid.recording_from_arrays(ROBOT, given["time"], given["q"], given["tau"])
    assert without.dq is None and len(without.plot().axes) == 6
    pandas = SimpleNamespace(DataFrame=lambda columns, index: (columns, index), Index=lambda time, name: (time, name))
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    columns, (_, name) = run.to_pandas()
    assert name == "time" and next(iter(columns)) == f"{ROBOT.joint_names[0]} position" and len(columns) == 9
    np.testing.assert_array_equal(columns[f"{ROBOT.joint_names[2]} torque"], run.tau[:, 2])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingLibraryError, match="pip install pandas"):
        run.to_pandas()
    with pytest.raises(DataError, match="no longer in memory: read it again"):
        _ = run.released().q


def test_examples_and_notebook_use_the_stable_names_alone() -> None:
    cells = json.loads((ROOT / "examples" / "identify.ipynb").read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")]
    assert len(texts) > 8
    assert not [text for text in texts if "dynid." in text and re.search(r"(from|import) dynid\.", text)]


# -- notebook --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_notebook_runs_in_a_kernel_of_jupyter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(ROOT / "examples" / "identify.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code), "it is stored without results"
    asked = "assert result.verdict.accepted and tau.shape[1] == robot.size"
    notebook.cells.append(nbformat.v4.new_code_cell(asked))
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "jupyter"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH")))))
    places = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3", resources=places).execute()
    assert (tmp_path / "model" / "report.html").is_file()
    assert [cell for cell in notebook.cells if "image/png" in str(cell.get("outputs"))], "it draws a figure"


def test_robots_and_recordings_are_printed_in_one_short_line() -> None:
    robot = dynid.load_robot("kr300")
    time, n = np.arange(200) / 100.0, robot.size
    columns = np.zeros((200, n))
    recording = dynid.recording_from_arrays(robot, time, columns, columns, name="run")
    assert repr(recording) == f"Recording(run, 200 samples of 2.0 s, {n} joints, mounted {robot.file.default_mount})"
    assert repr(robot).startswith("Robot(kr300, 6 joints, ") and "\n" not in repr(robot)

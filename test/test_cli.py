"""The command line: invalid input gives one sentence on standard error and a non-zero exit code, and loses nothing."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dynid import cli
from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.recording.bag_writer import BagWriter, Topic
from dynid.recording.messages import STRING, encode_string
from dynid.robot import load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.trajectory.trajectory import through


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run `dynid ARGUMENTS` and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["dynid", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the single line on standard error; standard output must be empty."""
    output = capsys.readouterr()
    lines = [line for line in output.err.strip().splitlines() if not line.startswith("compiling ")]  # once a machine
    assert output.out == "" and len(lines) == 1 and lines[0].startswith("error: "), output
    return lines[0]


@pytest.fixture(scope="module")
def short_bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bag of a small motion, too short and small to identify from."""
    robot = load_robot("crane_x7")
    settings = load_controller(robot)
    start = robot.rest_posture + np.array([0, 0.1, 0, 0, 0, 0, 0, 0.4])
    points = np.array([start, start + 0.2, start])
    motion = through("short", robot.joint_names, points, np.full(8, 1.5), np.full(8, 6.0))
    folder = tmp_path_factory.mktemp("bags") / "short"
    write_bag(simulate(robot, motion, FeedforwardPd(settings)), robot, settings, folder, profile="limited")
    return folder


@pytest.fixture
def bag_without_topics(tmp_path: Path) -> Path:
    writer = BagWriter(tmp_path / "words", [Topic("/chatter", STRING)])
    writer.open()
    writer.write("/chatter", 1, encode_string("hello"))
    writer.close()
    return tmp_path / "words"


# -- what a terminal shows -------------------------------------------------------------------------------------


def test_errors_hold_no_terminal_commands_of_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A name in the file could clear the screen, or set the title of the window."""
    file = tmp_path / "run.csv"
    file.write_text("t,a\x1b[2J,b\x1b]0;title\x07\n" + "0,1,2\n" * 30)
    words = "robot", "mapping", str(file), "--robot", "planar_3r", "--out", str(tmp_path / "m.yaml")
    assert run(monkeypatch, *words) == 1
    assert "\x1b" not in (said := sentence(capsys)) and "\x07" not in said and "a [2J" in said
    assert run(monkeypatch, "demo", "--nope\x1b[2J") == 2
    assert "\x1b" not in sentence(capsys)


# -- signals ---------------------------------------------------------------------------------------------------

WRITES = """
import sys, time
from pathlib import Path
from dynid import cli
from dynid.parallel import in_processes
from dynid.resources import whole_folder

def command(**_):
    with whole_folder(Path(sys.argv[1])) as folder:
        (folder / "half").write_text("x")
        print("begun", flush=True)
        if sys.argv[2] == "alone":
            time.sleep(60)
        list(in_processes(time.sleep, [60, 60], 2))

if __name__ == "__main__":
    cli.app = command
    cli.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("how", ["alone", "in processes"])
def test_a_command_that_is_asked_to_end_leaves_nothing_half_written(tmp_path: Path, number: int, how: str) -> None:
    (tmp_path / "command.py").write_text(WRITES)
    words = [sys.executable, str(tmp_path / "command.py"), str(tmp_path / "out" / "result"), how]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        if how != "alone":
            time.sleep(1.0)  # its processes start
        process.send_signal(number)
        assert process.wait(30) == 128 + number
    assert not list((tmp_path / "out").iterdir())


def test_handlers_of_signals_are_the_command_s_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that imports dynid keeps its own, and a signal that nohup ignores stays ignored."""
    before = signal.getsignal(signal.SIGTERM)
    earlier = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        seen = []
        monkeypatch.setattr(cli, "app", lambda **_: seen.extend(map(signal.getsignal, cli.ENDING)))
        run(monkeypatch)
        assert seen[0] is not before and seen[1] == signal.SIG_IGN == signal.getsignal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGTERM) == before
    finally:
        signal.signal(signal.SIGHUP, earlier)


# -- wrong arguments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--nope",), "--nope"),
        (("demo", "--nope"), "dynid demo --help"),
        (("dem",), "dem"),
        (("identify",), "Missing"),
        (("demo", "--seed", "x"), "--seed"),
    ],
)
def test_wrong_arguments_exit_with_2_and_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert run(monkeypatch, *arguments) == 2
    assert words in sentence(capsys)


@pytest.mark.parametrize("arguments", [(), ("--help",), ("demo", "--help")])
def test_help_exits_without_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert run(monkeypatch, *arguments) == 0
    output = capsys.readouterr()
    assert "Usage" in output.out and output.err == ""


def test_the_program_prints_one_sentence_for_a_wrong_option() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dynid", "demo", "--nope"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1 and "--nope" in done.stderr


# -- input that does not fit -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("demo", "--identification", "nope"), "unknown trajectory 'nope'"),
        (("demo", "--validation", "nope"), "unknown trajectory 'nope'"),
        (("demo", "--validation", "demo_identification"), "cannot validate"),
        (("demo", "--robot", "nope"), "unknown robot 'nope'"),
        (("demo", "--mount", "nope"), "unknown mount 'nope'"),
        (("demo", "--without", "nope"), "unknown nuisance 'nope'"),
        (("simulated-arm", "--robot", "nope"), "unknown robot 'nope'"),
        (("trajectories", "--profile", "nope"), "unknown trajectory profile 'nope'"),
        (("bag", "nope", "."), "unknown action 'nope'"),
        (("bag", "info", "nope"), "no such bag: nope"),
        (("bag", "info", "."), "not a rosbag2 bag"),
        (("identify", "nope", "--out", "model"), "no such bag: nope"),
    ],
)
def test_unknown_names_and_missing_files_are_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *arguments) == 1
    assert words in sentence(capsys)
    assert list(tmp_path.iterdir()) == []


def test_a_bag_without_the_needed_topics_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bag_without_topics: Path, tmp_path: Path
) -> None:
    assert run(monkeypatch, "identify", str(bag_without_topics), "--out", str(tmp_path / "model")) == 1
    said = sentence(capsys)
    assert "JointState" in said and "its topics are: /chatter" in said
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
def test_an_output_that_exists_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], short_bag: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "model" / "kept.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    assert run(monkeypatch, "identify", str(short_bag), "--out", str(kept.parent)) == 1
    assert f"{kept.parent} exists" in sentence(capsys)
    assert kept.read_text() == "mine" and list(kept.parent.iterdir()) == [kept]


def test_data_that_are_not_enough_are_refused_without_a_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], short_bag: Path, tmp_path: Path
) -> None:
    assert run(monkeypatch, "identify", str(short_bag), "--out", str(tmp_path / "model")) == 1
    assert "error: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# -- exit codes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("raised", "code"), [(cli.typer.Exit(1), 1), (cli.typer.Exit(0), 0), (None, 0)])
def test_the_program_exits_with_the_code_of_its_command(
    monkeypatch: pytest.MonkeyPatch, raised: Exception | None, code: int
) -> None:
    """A verdict that is not accepted ends with `typer.Exit(1)`; it must reach the shell."""

    def command() -> None:
        if raised is not None:
            raise raised

    app = cli.typer.Typer()
    app.command()(command)
    monkeypatch.setattr(cli, "app", app)
    monkeypatch.setattr(sys, "argv", ["dynid"])
    monkeypatch.setattr(cli, "NO_ARGUMENTS", [])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code


def test_an_interrupt_exits_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dynid.robot.load_robot", interrupted)
    assert run(monkeypatch, "trajectories") == 130
    assert capsys.readouterr().err.strip() == "interrupted"


# -- what it prints --------------------------------------------------------------------------------------------


def test_trajectories_are_printed_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "trajectories", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"demo_identification", "demo_validation", "AG02"} <= rows.keys()
    assert all(row["duration_s"] > 0 and 0 < row["peak_velocity_rad_s"] < 4.82 for row in rows.values())


def test_trajectories_are_printed_as_a_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "trajectories") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("demo_validation ") and line.rstrip().endswith("rad/s") for line in lines)


def test_bag_info_is_printed_as_json_and_as_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], short_bag: Path
) -> None:
    assert run(monkeypatch, "bag", "info", str(short_bag), "--json") == 0
    info = json.loads(capsys.readouterr().out)
    states = next(topic for topic in info["topics"] if topic["name"] == "/joint_states")
    assert states["count"] == states["drops"]["expected"] > 1000 and states["drops"]["missed"] == 0
    assert info["findings"] == []
    assert run(monkeypatch, "bag", "info", str(short_bag)) == 0
    text = capsys.readouterr().out
    assert f"/joint_states  {states['count']} x sensor_msgs/msg/JointState" in text
    assert "0 of" in text and "cycles missing" in text


def test_bag_repair_restores_missing_metadata(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bag_without_topics: Path
) -> None:
    metadata = bag_without_topics / "metadata.yaml"
    metadata.unlink()
    assert run(monkeypatch, "bag", "repair", str(bag_without_topics)) == 0
    assert metadata.is_file() and "missing" not in capsys.readouterr().out

"""Readers of damaged files: no traceback, no endless wait, and no mistaken format."""

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import yaml
from benchmarks.cli import app
from benchmarks.readers.builders import Built
from benchmarks.readers.fuzz import built_outcome, fuzz, one_input, outcome
from benchmarks.readers.limits import Writes
from benchmarks.readers.structures import STRUCTURES, Structure
from benchmarks.readers.targets import TARGETS, Target
from benchmarks.resident import peak_mib, run_measured
from hypothesis import strategies
from mcap.writer import Writer
from typer.testing import CliRunner

from dynid.control.controller import ControllerSettings
from dynid.errors import ConfigurationError, DataError, InputNotFoundError
from dynid.recording.bag_reader import read_bag
from dynid.recording.csv_table import read_table
from dynid.resources import guarded
from dynid.robot.urdf_text import read_urdf_text
from dynid.robot.urdf_tree import read_tree

EXAMPLES = 60


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Target]]:
    made = cache(lambda name: TARGETS[name](tmp_path_factory.mktemp(name)))

    class Lazy(dict[str, Target]):
        def __missing__(self, name: str) -> Target:
            return made(name)

    yield Lazy()


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_files_are_accepted_correctly_or_refused_in_one_sentence(
    targets: dict[str, Target], name: str, tmp_path: Path
) -> None:
    target, seen = targets[name], set()
    (tmp_path / f"good.{target.suffix}").write_bytes(target.good)
    assert outcome(target, tmp_path / f"good.{target.suffix}") == ("accepted", "")

    @hypothesis.given(strategies.integers(0, 2**32))
    @hypothesis.settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
    def run(seed: int) -> None:
        kind, what = one_input(target, tmp_path, seed)
        seen.add(kind)
        assert kind in ("accepted", "refused"), what

    run()
    assert "refused" in seen


def test_tracebacks_and_wrong_values_are_counted(tmp_path: Path) -> None:
    def stumble(path: Path) -> None:
        raise KeyError(path.name)

    def babble(path: Path) -> None:
        raise DataError("two\nlines")

    path = tmp_path / "x"
    assert outcome(Target("x", b"", stumble, lambda found: ""), path)[0] == "traceback"
    assert outcome(Target("x", b"", babble, lambda found: ""), path)[0] == "traceback"
    assert outcome(Target("x", b"", lambda path: 1, lambda found: "no"), path) == ("wrong", "no")


def test_guarded_errors_become_one_sentence() -> None:
    with pytest.raises(DataError, match="x is not a valid bag, or is damaged: a b"), guarded("x", "bag"):
        raise ValueError("a\nb")
    with pytest.raises(InputNotFoundError, match=r"^two lines and 1$"), guarded("x", "bag"):
        raise InputNotFoundError("two\nlines\x1band 1")
    with pytest.raises(KeyboardInterrupt), guarded("x", "bag"):
        raise KeyboardInterrupt


@pytest.mark.slow
def test_the_benchmark_counts_in_processes_of_its_own() -> None:
    found = fuzz("csv", 20).as_dict()
    assert found["accepted"] + found["refused"] == 20 and found["tracebacks"] == found["hangs"] == 0
    done = CliRunner().invoke(app, ["benchmark", "readers", "--inputs", "5", "--only", "controller", "--json"])
    assert done.exit_code == 0 and '"tracebacks": 0' in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", STRUCTURES)
def test_generated_files_are_read_correctly_or_refused(name: str) -> None:
    found = fuzz(name, 8).as_dict()
    assert found["tracebacks"] == found["hangs"] == found["wrong_accepts"] == 0, found["examples"]
    assert found["accepted"] + found["refused"] == 8


def test_reader_that_writes_elsewhere_or_raises_is_counted(tmp_path: Path) -> None:
    work, built = tmp_path / "work", Built({"a/x": b"1"}, "a/x")
    work.mkdir()
    writes = Writes(work)

    def outcome_of(read: Callable[[Path, Path], object]) -> tuple[str, str]:
        found = built_outcome(Structure(strategies.just(built), read), built, work, writes, limited=True)
        assert not list(work.iterdir())
        return found

    def stumble(path: Path, out: Path) -> None:
        raise KeyError(path.name)

    assert outcome_of(lambda path, out: (out / path.read_text()).touch()) == ("accepted", "")
    assert outcome_of(lambda path, out: bytearray(3 * 2**29))[1].startswith("MemoryError")
    bytearray(3 * 2**29)  # the limit is the reader's
    assert outcome_of(lambda path, out: (work / "beside").touch())[0] == "wrong"
    assert "elsewhere" in outcome_of(lambda path, out: (tmp_path / "elsewhere").touch())[1]
    assert outcome_of(stumble)[0] == "traceback"


def test_the_memory_of_the_process_that_measures_does_not_count() -> None:
    held = np.ones(80_000_000)
    mine = peak_mib()
    code, peak = run_measured([sys.executable, "-c", "import sys; sys.exit(3)"])
    assert held.nbytes / 2**20 < mine and code == 3 and 1.0 < peak < 200.0
    assert fuzz("controller", 1).peak_mib < 500.0


def test_a_tampered_model_does_not_pass_the_gate(targets: dict[str, Target], tmp_path: Path) -> None:
    target, path = targets["model"], tmp_path / "model.yaml"

    def tampered(change: str, place: int, key: str, value: object) -> None:
        content = yaml.safe_load(target.good)
        row = content[change]["links"][place] if change == "standard" else content[change][place]
        row[key] = value
        path.write_text(yaml.safe_dump(content))

    tampered("standard", 1, "inertia_kg_m2", [1e-5, 0.0, 0.0, 1e-5, 0.0, 1.0])
    assert "pseudo-inertia" in str(refusal(target, path))
    names = [row["name"] for row in yaml.safe_load(target.good)["parameters"]]
    tampered("parameters", names.index("MY3"), "value", 0.5)
    assert "not consistent with its standard parameters" in str(refusal(target, path))
    content = yaml.safe_load(target.good)
    content["standard"] = None
    content["parameters"][0]["value"] = 7e27
    path.write_text(yaml.safe_dump(content))
    assert "expected at most" in str(refusal(target, path))


def refusal(target: Target, path: Path) -> BaseException:
    with pytest.raises((DataError, RuntimeError)) as caught:
        target.read(path)
    return caught.value


def test_gains_that_overflow_are_refused() -> None:
    good = {
        "schema_version": 1,
        "proportional_gain_1_s2": [400.0],
        "velocity_gain_1_s": [40.0],
        "inertia_kg_m2": [0.1],
        "damping_nm_s_rad": [0.1],
        "pseudo_differentiation_s": 0.002,
    }
    assert ControllerSettings.model_validate(good).size == 1
    for key in ("proportional_gain_1_s2", "velocity_gain_1_s", "inertia_kg_m2", "damping_nm_s_rad"):
        with pytest.raises(ValueError, match="expected at most"):
            ControllerSettings.model_validate(good | {key: [1e300]})


def test_python_number_syntax_is_refused_in_csv(tmp_path: Path) -> None:
    for field in ("0_5", "1e2_0", "\u0661", "0x10"):
        path = tmp_path / "x.csv"
        path.write_text(f"t,q\n1,2\n{field},3\n", encoding="utf-8")
        (bad,) = read_table(path, ["t"]).bad
        assert bad.line == 3 and f"'{field}'" in bad.reason


def test_irregular_files_are_refused_at_once(tmp_path: Path) -> None:
    for name in ("pipe.csv", "pipe.urdf"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(InputNotFoundError, match="regular file"):
        read_table(tmp_path / "pipe.csv", [1])
    with pytest.raises(ConfigurationError, match="regular file"):
        read_urdf_text(tmp_path / "pipe.urdf")
    with pytest.raises((DataError, InputNotFoundError)):
        read_table(tmp_path / f"{'x' * 5000}.csv", [1])


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1," * 2_000_000)
    with pytest.raises(DataError, match="line 1 has more than"):
        read_table(tmp_path / "x.csv", [1])


def test_a_view_in_place_of_the_table_of_messages_is_refused(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS topic_id, x AS timestamp, "
    path = tmp_path / "x.db3"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE topics(id, name, type, serialization_format, offered_qos_profiles)")
        database.execute(f"CREATE VIEW messages AS {endless} zeroblob(1000) AS data FROM c")
        database.commit()
    with pytest.raises(DataError, match="no table 'messages'"):
        read_bag(path)


def test_link_loops_apart_from_the_root_are_named() -> None:
    links = "".join(f'<link name="{name}"/>' for name in "abc")
    joints = "".join(
        f'<joint name="{p}{c}" type="fixed"><parent link="{p}"/><child link="{c}"/></joint>' for p, c in ("bc", "cb")
    )
    with pytest.raises(ConfigurationError, match="closed loop: link b is its own ancestor"):
        read_tree(f"<robot>{links}{joints}</robot>")


def test_messages_without_a_channel_are_counted_as_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "x.mcap"
    with path.open("wb") as stream:
        writer = Writer(stream, use_chunking=False)
        writer.start()
        known = writer.register_channel("/known", "cdr", writer.register_schema("std_msgs/msg/String", "ros2msg", b""))
        for channel in (known, known + 7, known + 7):
            writer.add_message(channel, 1, b"x" * 8, 1)
        writer.finish()
    (finding,) = read_bag(path).findings
    assert "2 messages of channels that it does not describe" in finding

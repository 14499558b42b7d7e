"""Malicious files are refused in one sentence, and a good file of the same kind is accepted."""

import gzip
import io
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.hostile.files import foreign_journal, planted_link

from dynid.commands.terminal import say, stdout, table
from dynid.documents import parse_yaml, read_json, read_yaml
from dynid.errors import ConfigurationError, DataError, DynidError
from dynid.identification.data.log_search import find_logs
from dynid.identification.feasibility.belief import Belief
from dynid.model.link_shapes import LinkShapes
from dynid.recording import csv_table
from dynid.recording.bag_reader import read_bag
from dynid.recording.bag_repair import repair_bag
from dynid.recording.csv_table import read_table
from dynid.reporting.predictions import load_predictions, save_predictions
from dynid.reporting.result_folder import _rows
from dynid.robot import load_robot, meshes
from dynid.robot.draft import draft_robot
from dynid.robot.link_limits import shape_boxes
from dynid.robot.meshes import tree_with_meshes
from dynid.robot.urdf_text import read_urdf_text
from dynid.robot.urdf_tree import read_tree

INERTIA = '<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/>'


def chain(count: int, kind: str = "revolute", more: str = "") -> str:
    """A URDF of a chain of so many joints; `more` is within its last link."""
    links = [f'<link name="l{k}"><inertial><mass value="1"/>{INERTIA}</inertial></link>' for k in range(count)]
    joints = [
        f'<joint name="j{k}" type="{kind}"><parent link="l{k - 1}"/><child link="l{k}"/><axis xyz="0 0 1"/>'
        '<origin xyz="0 0 0.1"/><limit lower="-1" upper="1" effort="9" velocity="1"/></joint>'
        for k in range(1, count + 1)
    ]
    return f'<robot name="r">{"".join(links)}<link name="l{count}">{more}</link>{"".join(joints)}</robot>'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (chain(1, more="<a>" * 99 + "</a>" * 99), "100 levels deep"),
        (chain(1, more="<a>" * 300_000), "100 levels deep"),
        (chain(1, more="<a/>" * 100_000), "at most 100000 elements"),
        (chain(1000, "fixed"), "has 1001 links, expected at most 1000"),
        (chain(65), "the chain has 65 joints, expected at most 64"),
        ("<robot>" + " " * 5_000_000, "at most 4194304 bytes"),
        ('<!DOCTYPE r [<!ENTITY a "aa">]>' + chain(1), "DOCTYPE"),
    ],
    ids=["deep", "deep and cut", "wide", "links", "joints", "large", "entity"],
)
def test_urdf_beyond_any_robot_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.urdf"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        draft_robot("x", path)


def test_urdf_of_a_large_robot_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.urdf"
    path.write_text(chain(999, "fixed", more="<a>" * 90 + "</a>" * 90 + "<visual/>" * 5000))
    assert len(read_tree(read_urdf_text(path)).links) == 1000


def stl(triangles: int, claimed: int | None = None) -> bytes:
    rows = np.zeros((triangles, 50), np.uint8)
    rows[:, :48] = np.random.default_rng(0).standard_normal((triangles, 12)).astype("<f4").view(np.uint8)
    return bytes(80) + (triangles if claimed is None else claimed).to_bytes(4, "little") + rows.tobytes()


MESHES: dict[str, bytes] = {
    "claims.stl": stl(10, 2**32 - 1),
    "empty.stl": b"",
    "text.stl": b"solid x\nfacet normal 0 0 1\nouter loop\nvertex 0 0 nan\n",
    "index.obj": b"v 0 0 0\nv 1 0 0\nf 1 2 2000000000\n",
    "count.ply": b"ply\nformat ascii 1.0\nelement vertex 4000000000\nproperty float x\nend_header\n0\n",
    "deep.dae": b"<COLLADA>" + b"<node>" * 100_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MESHES)
def test_mesh_that_claims_more_than_it_has_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.urdf"
    for mesh, content in (("good.stl", stl(10)), (name, MESHES[name])):
        (tmp_path / mesh).write_bytes(content)
        path.write_text(chain(1, more=f'<collision><geometry><mesh filename="{mesh}"/></geometry></collision>'))
        (box,) = shape_boxes(path, ["j1"])
        assert isinstance(box, str) == (mesh == name)


CRASHING = {
    "faces.ply": b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
    b"element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 999999999\n",
    "itself.dae": b'<?xml version="1.0"?><COLLADA version="1.4.1"><library_nodes><node id="a"><instance_node url="#a"/>'
    b'<instance_node url="#a"/></node></library_nodes><library_visual_scenes><visual_scene id="s"><node id="n">'
    b'<instance_node url="#a"/></node></visual_scene></library_visual_scenes><scene><instance_visual_scene url="#s"/>'
    b"</scene></COLLADA>",
}


@pytest.mark.slow
def test_meshes_that_crash_their_reader_are_refused_and_others_are_read(tmp_path: Path) -> None:
    """assimp ends the process that reads these files, so another one reads them."""
    path = tmp_path / "x.urdf"
    shape = '<collision><geometry><mesh filename="{}"/></geometry></collision>'
    for name, content in CRASHING.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "good.stl").write_bytes(stl(10))
    for name in CRASHING:
        path.write_text(chain(1, more=shape.format("good.stl") + shape.format(name)))
        (box,) = shape_boxes(path, ["j1"])
        assert str(box).startswith(f"the mesh {tmp_path / name} cannot be read")
        with pytest.raises(ConfigurationError, match=f"the mesh .*{name} cannot be read"):
            LinkShapes(path, ("j1",))
    path.write_text(chain(1, more=shape.format("good.stl")))
    assert not isinstance(shape_boxes(path, ["j1"])[0], str)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.stl", stl(1).replace(stl(1)[96:100], b"\0\0\xc0\x7f"), "a.stl has vertices that are not finite numbers"),
        ("a.gltf", b"{}", "a.gltf is of a format that is not read, expected .stl, .dae"),
    ],
    ids=["not a number", "format"],
)
def test_mesh_without_usable_points_is_refused(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / "x.urdf"
    (tmp_path / name).write_bytes(content)
    path.write_text(chain(1, more=f'<collision><geometry><mesh filename="{name}"/></geometry></collision>'))
    (box,) = shape_boxes(path, ["j1"])
    assert words in str(box)
    with pytest.raises(ConfigurationError, match=words):
        LinkShapes(path, ("j1",))


def test_mesh_without_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meshes, "MOST_BYTES", 1000)
    path = tmp_path / "x.urdf"
    path.write_text(chain(1, more='<collision><geometry><mesh filename="a.stl"/></geometry></collision>'))
    (tmp_path / "a.stl").write_bytes(stl(10))
    assert len(tree_with_meshes(path).links) == 2
    (tmp_path / "a.stl").write_bytes(stl(100))
    with pytest.raises(ConfigurationError, match=r"a\.stl has 0\.0 MiB, expected at most 0: simplify it"):
        tree_with_meshes(path)
    (said,) = shape_boxes(path, ["j1"])
    assert "simplify it" in str(said)


ROBOT = load_robot("planar_3r")


def data_set(folder: Path, rows: dict[str, Any], info: str = '{"fps": 30}') -> str:
    """What is wrong with a LeRobot data set of these columns; '' if nothing."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (folder / "meta").mkdir(parents=True)
    (folder / "data").mkdir()
    (folder / "meta" / "info.json").write_text(info)
    parquet.write_table(pyarrow.table(rows), folder / "data" / "x.parquet", compression="zstd")
    return find_logs(folder, ROBOT)[0].problem


def columns(**changes: Any) -> dict[str, Any]:
    time = np.arange(60) / 30.0
    state = (0.3 * np.sin(time[:, None] * [1.0, 2.0, 3.0])).tolist()
    return {"timestamp": time, "observation.state": state, "episode_index": [0] * 60} | changes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"observation.state": ["x"] * 60}, "holds string, expected numbers"),
        ({"observation.state": [[[1.0]]] * 60}, "expected numbers or lists"),
        ({"observation.state": [[1.0]] + [[1.0, 2.0]] * 59}, "lists of different lengths"),
        ({"observation.state": [1.0] * 60}, "no column observation.state of lists"),
        ({"episode_index": ["a"] * 60}, "holds string"),
        ({"episode_index": [np.nan] * 60}, "no column episode_index of whole numbers"),
        ({"episode_index": list(range(60))}, "needs at least 20"),
    ],
    ids=["text", "nested", "uneven", "no lists", "named", "not a number", "short"],
)
def test_parquet_file_of_other_columns_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    problem = data_set(tmp_path / "x", columns(**changes))
    assert words in problem and "\n" not in problem
    assert data_set(tmp_path / "good", columns()) == ""


@pytest.mark.slow
def test_parquet_file_of_too_many_rows_is_refused(tmp_path: Path) -> None:
    """Run lengths make 21 million rows of some kilobytes."""
    pyarrow = pytest.importorskip("pyarrow")
    rows = {"episode_index": np.zeros(21_000_000, np.int8), "timestamp": pyarrow.array(np.zeros(21_000_000, np.int8))}
    assert "more than 20000000 numbers" in data_set(tmp_path / "x", rows)
    assert (tmp_path / "x" / "data" / "x.parquet").stat().st_size < 200_000
    episodes = {"episode_index": np.arange(10_001), "timestamp": np.zeros(10_001)}
    assert "has 10001 episodes, expected at most 10000" in data_set(tmp_path / "y", episodes)


INFOS = ["[" * 100_000, "[]", '{"features": []}', '{"features": {"observation.state": 5}}', "5"]


@pytest.mark.parametrize("info", INFOS, ids=["nested", "list", "list within", "number within", "number"])
def test_info_of_another_kind_is_refused(tmp_path: Path, info: str) -> None:
    problem = data_set(tmp_path / "x", columns(), info)
    assert problem and "\n" not in problem


def test_folder_of_links_to_itself_is_walked_once(tmp_path: Path) -> None:
    for name in "abcdef":
        (tmp_path / name).symlink_to(tmp_path)
    with pytest.raises(DataError, match="holds no bag"):
        find_logs(tmp_path, ROBOT)


def archive(path: Path, text: bytes) -> Path:
    path.write_bytes(gzip.compress(text))
    return path


def test_archive_that_expands_hugely_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "BASE_BYTES", 1000)
    random = "".join(f"{x:.6f},1\n" for x in np.random.default_rng(0).standard_normal(2000))
    assert len(read_table(archive(tmp_path / "good.csv.gz", random.encode()), [1]).values) == 2000
    with pytest.raises(DataError, match="unpack it with gunzip"):
        read_table(archive(tmp_path / "x.csv.gz", b"1,1\n" * 100_000), [1])
    (tmp_path / "x.csv").write_bytes(b"1,1\n" * 100_000)
    assert len(read_table(tmp_path / "x.csv", [1]).values) == 100_000


@pytest.mark.parametrize("line", [b"\n", b"#\n"])
def test_too_many_lines_without_data_are_refused(tmp_path: Path, line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "MOST_LINES_WITHOUT_DATA", 1000)
    (tmp_path / "good.csv").write_bytes(line * 900 + b"1,2\n" + line * 900 + b"1,2\n" + line * 900)
    assert len(read_table(tmp_path / "good.csv", [1]).values) in (2, 902)
    (tmp_path / "x.csv").write_bytes(b"1,2\n" + line * 1001)
    with pytest.raises(DataError, match="more than 1000 lines in a row have no data"):
        read_table(tmp_path / "x.csv", [1])


def npz(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    return path


def header(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        header((10**12,)) + bytes(80),
        header((10**30,)) + bytes(80),
        header((-1,)),
        b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535,
        b"no array",
        header((1,), "|O") + b"cos\nsystem\n.",
        header((5_000_000,), "|S1") + bytes(5_000_000),
    ],
    ids=["terabytes", "beyond numbers", "negative", "nested header", "no array", "pickle", "bomb"],
)
@pytest.mark.parametrize("load", [Belief.load, load_predictions])
def test_arrays_that_claim_too_much_are_refused(tmp_path: Path, load: Callable[[Path], Any], content: bytes) -> None:
    for name in ("belief.npz", "predictions.npz"):
        npz(tmp_path / name, {"names.npy": content, "0_names.npy": content})
    with pytest.raises(DataError) as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)
    (tmp_path / "belief.npz").write_bytes(b"PK\3\4 no archive")
    (tmp_path / "predictions.npz").write_bytes(b"PK\3\4 no archive")
    with pytest.raises(DataError, match="File is not a zip file"):
        load(tmp_path)


def test_intact_arrays_are_read(tmp_path: Path) -> None:
    Belief(("a",), np.ones(1), np.ones((1, 1))).save(tmp_path)
    assert Belief.load(tmp_path).names == ("a",)
    save_predictions(tmp_path, ())
    assert load_predictions(tmp_path) == ()


def test_table_of_a_campaign_with_an_endless_field_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    assert _rows(path) == [{"a": "1", "b": "2"}]
    for content in (b'a\n"' + b"x" * 300_000, b"a\n\xff\n"):
        path.write_bytes(content)
        with pytest.raises(DynidError, match=r"x\.csv is not a valid CSV table"):
            _rows(path)


@pytest.mark.parametrize("read", [read_bag, repair_bag], ids=["read", "repair"])
def test_journal_that_names_another_file_deletes_nothing(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    arguments = foreign_journal(tmp_path, victim, random.Random(0))
    with pytest.raises(DataError, match="names another file, which SQLite would delete"):
        read(Path(arguments[-1]))
    assert victim.read_text() == "kept"
    (tmp_path / "bag" / "x.db3-journal").unlink()
    assert read(Path(arguments[-1])).counts == {"/a": 0}


def test_link_where_a_repair_writes_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    bag = Path(planted_link(tmp_path, victim, random.Random(0))[-1])
    assert repair_bag(bag).actions[-1] == "metadata.yaml written" and victim.read_text() == "kept"
    assert not (bag / "metadata.yaml").is_symlink() and read_bag(bag).findings == ()


@pytest.mark.parametrize(
    "text", ["a: 1\nb: 2\na: 3\n", "x: {a: 1, a: 1}", "- b: [1]\n  c: 2\n  b: 3\n", "&x a: 1\na: 2"], ids=str
)
def test_key_given_twice_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"the file: '[ab]' is given twice in one block, again in line \d"):
        parse_yaml(text, "the file")


def test_keys_of_several_blocks_are_read() -> None:
    text = "a: {a: 1}\nb: {a: a, c: a}\nl: [a, a, {a: 1}, {a: 2}]\n? [a, a]\n: 1\nm: 1\n"
    with pytest.raises(ConfigurationError, match="unhashable"):
        parse_yaml(text, "the file")
    assert parse_yaml(text.replace("? [a, a]\n: 1\n", ""), "the file")["l"] == ["a", "a", {"a": 1}, {"a": 2}]


def test_a_byte_order_mark_is_not_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b'\xef\xbb\xbf{"a":\r\n1}')
    (tmp_path / "x.yaml").write_bytes(b"\xef\xbb\xbfa:\r\n  - 1\r\n")
    assert read_json(tmp_path / "x.json") == {"a": 1} and read_yaml(tmp_path / "x.yaml") == {"a": [1]}


def test_folders_without_end_are_not_followed(tmp_path: Path) -> None:
    tmp_path.joinpath(*"a" * 40).mkdir(parents=True)
    (found,) = find_logs(tmp_path, ROBOT)
    assert found.problem == "it is more than 30 folders deep"


def test_folder_that_is_closed_to_us_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    (found,) = find_logs(tmp_path, ROBOT)
    assert found.problem == f"{tmp_path} cannot be read: Permission denied"


def test_folders_that_are_closed_or_too_deep_do_not_end_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a folder without the permission to search it, whose files cannot even be asked for."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "z.csv").write_text("t\n0\n")
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):  # together longer than a path may be
        os.mkdir("d" * 250, dir_fd=at)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    stat = Path.stat

    def refuse(path: Path, **more: Any) -> os.stat_result:
        if path.parent.name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **more)

    monkeypatch.setattr(Path, "stat", refuse)
    closed, deep, csv = find_logs(tmp_path, ROBOT)
    assert closed.problem == f"{tmp_path / 'closed'} cannot be read: Permission denied"
    assert deep.problem.endswith("... cannot be read: File name too long") and len(deep.problem) < 300
    assert csv.kind == "CSV"
    with pytest.raises(DataError, match="cannot be read: Permission denied"):
        find_logs(tmp_path / "closed" / "x", ROBOT)


def test_xacro_file_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "x.urdf").write_text(chain(1, more="<xacro:arm/>"))
    with pytest.raises(ConfigurationError, match=r"is a xacro file: expand it first, by 'xacro x\.urdf > robot\.urdf'"):
        read_urdf_text(tmp_path / "x.urdf")
    (tmp_path / "x.urdf").write_text(chain(1).replace("<robot ", '<robot xmlns:xacro="http://x" '))
    assert read_tree(read_urdf_text(tmp_path / "x.urdf")).links


@pytest.mark.parametrize("text", ["/a\x1b[2J[/yellow]b\x07", "[red]\u202eb[/x]"])
def test_foreign_text_cannot_control_the_terminal(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = table(None, "name")
    shown.add_row(text)
    stdout().print(shown)
    say(text, f"[green]{text}")
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\x07" not in said and "\u202e" not in said and "b" in said


@pytest.mark.slow
def test_output_on_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    for more in ([], ["--json"]):
        command = [sys.executable, "-m", "dynid", "trajectories", "--robot", "crane_x7", *more]
        with open("/dev/full", "w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr) == (1, "error: what it prints: No space left on device\n")

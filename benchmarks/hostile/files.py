"""Hostile files, given to the real program in a process of its own, and checks of the outcome."""

import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import yaml
import zstandard
from mcap.writer import CompressionType, Writer

from benchmarks.children import child_environment
from benchmarks.resident import run_measured
from dynid.recording.bag_metadata import METADATA_NAME, Topic
from dynid.recording.bag_storage import SqliteFile
from dynid.recording.bag_writer import BagWriter
from dynid.recording.messages import STRING, encode_string
from dynid.recording.sqlite_reader import JOURNAL_MAGIC
from dynid.robot import load_robot

# limits of memory [MiB], processor time with the program's start [s], and address space [GiB]
MOST_MIB, MOST_S, MOST_ADDRESS_GIB = 1024.0, 60, 12
PROGRAM = (sys.executable, "-m", "dynid")
UNTOUCHED = "the only copy of a thesis\n"
PENDING_PAGE = 2**30  # byte at which SQLite's own locks are; its page number marks the name of another journal


@dataclass(frozen=True)
class FileCase:
    """One row of the table.

    Attributes:
        name: description of the file.
        named: text that the program's error must contain; "" if it may also succeed.
        make: function that makes the files in a folder, beside a file that must stay unchanged; it returns the
            program's arguments.
    """

    name: str
    named: str
    make: Callable[[Path, Path, random.Random], list[str]]


def harm(case: FileCase, seed: int, folder: Path, program: tuple[str, ...] = PROGRAM) -> str:
    """Return the forbidden effects of a case's file in words, '' if there are none.

    Args:
        case: the case.
        seed: seed of the case.
        folder: empty folder for files, outputs and temporary files.
        program: program that is given the arguments.
    """
    work, temporary, victim = folder / "in", folder / "tmp", folder / "victim"
    for one in (work, temporary):
        one.mkdir()
    victim.write_text(UNTOUCHED, encoding="utf-8")
    arguments = case.make(work, victim, random.Random(f"{case.name} {seed}"))
    before = _names(folder)
    limits = f"ulimit -c 0; ulimit -t {MOST_S}; ulimit -v {MOST_ADDRESS_GIB * 2**20}"
    script = f'{limits}; cd "$1"; shift; exec "$@" >../out 2>../err'
    inside = {**child_environment(), "TMPDIR": str(temporary), "COLUMNS": "1000"}
    variables = [f"{key}={value}" for key, value in inside.items()]
    code, peak_mib = run_measured(["env", *variables, "sh", "-c", script, "sh", str(work), *program, *arguments])
    said = "".join((folder / one).read_bytes().decode(errors="replace") for one in ("out", "err"))
    found = _outcome(code, said, case.named)
    if peak_mib > MOST_MIB:
        found.append(f"it took {peak_mib:.0f} MiB, expected at most {MOST_MIB:.0f}")
    if not victim.is_file() or victim.read_text(encoding="utf-8") != UNTOUCHED:
        found.append("it changed or removed another file")
    if left := sorted(_names(folder) - before - {"out", "err"}):
        found.append(f"it left {', '.join(left)[:200]}")
    run_measured(["rm", "-rf", str(work)])  # Python's own way of removing folders ends at a depth of a thousand
    return "; ".join(found)


def _names(folder: Path) -> set[str]:
    """Return the names in a folder, and in that of temporary files."""
    return {*os.listdir(folder), *(f"tmp/{name}" for name in os.listdir(folder / "tmp"))}


def _outcome(code: int, said: str, named: str) -> list[str]:
    """Return the faults of a program's exit code and output."""
    found = []
    if code < 0 or code > 2:
        found.append(f"it ended by signal {-code}" if code < 0 else f"it ended with code {code}")
    if "Traceback" in said:
        found.append(f"a traceback: {said.strip().splitlines()[-1][:200]}")
    if "\x1b" in said:
        found.append("it commanded the terminal")
    if named and named not in said:
        found.append(f"it did not say '{named}', but: {said.strip()[-300:]}")
    return found


# -- robots --------------------------------------------------------------------------------------------------------


def _robot(folder: Path, text: str) -> list[str]:
    (folder / "robot.yaml").write_text(text, encoding="utf-8")
    return ["robot", "check", str(folder)]


def aliases(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a robot file of a few lines whose aliases expand to a billion values."""
    wide, deep = chance.randrange(8, 12), chance.randrange(9, 14)
    lines = [f"a0: &a0 [{', '.join(['x'] * wide)}]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * wide)}]" for k in range(1, deep)]
    return _robot(folder, "\n".join([*lines, f"joints: *a{deep - 1}"]))


def brackets(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a robot file of nested brackets."""
    return _robot(folder, "joints: " + chance.choice("[{") * chance.randrange(10_000, 200_000))


def given_twice(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a robot file that gives one key twice, so that a YAML reader ignores the first value."""
    robot = load_robot("planar_3r")
    text = (robot.folder / "robot.yaml").read_text(encoding="utf-8")
    return _robot(folder, f"{text}\n{chance.choice(('name: other', 'default_mount: wall', 'joints: []'))}\n")


def wide_limits(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a robot file with joint limits beyond those of the arm."""
    robot = load_robot("crane_x7")
    shutil.copytree(robot.folder, folder / "arm")
    content = yaml.safe_load((robot.folder / "robot.yaml").read_text(encoding="utf-8"))
    content["urdf"] = str(robot.urdf_path)
    content["joints"][chance.randrange(robot.size)]["upper_deg"] = chance.choice((170.0, 300.0, 9000.0))
    (folder / "arm" / "robot.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return ["robot", "check", str(folder / "arm")]


def entities(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a URDF whose entities expand to a billion characters."""
    lines = [f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 10)]
    text = f'<!DOCTYPE robot [<!ENTITY a0 "x">{"".join(lines)}]><robot name="&a9;"/>'
    (folder / "x.urdf").write_text(text, encoding="utf-8")
    return ["robot", "new", "x", "--urdf", str(folder / "x.urdf")]


# -- meshes and tables ---------------------------------------------------------------------------------------------

ONE_JOINT = """<robot name="arm"><link name="base"/><link name="link">
<inertial><origin xyz="0 0 0.1"/><mass value="1"/>
<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>
<collision><geometry><mesh filename="{}"/></geometry></collision></link>
<joint name="joint" type="revolute"><parent link="base"/><child link="link"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="9" velocity="1"/></joint></robot>
"""


def _with_mesh(folder: Path, name: str, content: str) -> list[str]:
    (folder / name).write_text(content, encoding="utf-8")
    (folder / "arm.urdf").write_text(ONE_JOINT.format(name), encoding="utf-8")
    return ["robot", "new", "arm", "--urdf", str(folder / "arm.urdf")]


def foreign_vertex(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a mesh with a triangle of vertices that it does not have, which crash assimp's reader."""
    head = "ply\nformat ascii 1.0\nelement vertex 3\n" + "".join(f"property float {axis}\n" for axis in "xyz")
    faces = "element face 1\nproperty list uchar int vertex_indices\nend_header\n"
    triangle = f"3 0 1 {chance.randrange(10**8, 2 * 10**9)}\n"
    return _with_mesh(folder, "shape.ply", f"{head}{faces}0 0 0\n1 0 0\n0 1 0\n{triangle}")


def endless_scene(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a COLLADA scene with a node that contains itself."""
    inner = '<instance_node url="#a"/>' * chance.randrange(1, 4)
    scene = '<visual_scene id="s"><node id="n"><instance_node url="#a"/></node></visual_scene>'
    text = (
        f'<?xml version="1.0"?><COLLADA version="1.4.1"><library_nodes><node id="a">{inner}</node></library_nodes>'
        f"<library_visual_scenes>{scene}</library_visual_scenes>"
        '<scene><instance_visual_scene url="#s"/></scene></COLLADA>'
    )
    return _with_mesh(folder, "shape.dae", text)


def commanding_header(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a table with a column name that contains terminal commands."""
    order = chance.choice(("\x1b]0;x\x07", "\x1b[2J\x1b[H", "\x1b[8m"))
    (folder / "x.csv").write_text(f'"a{order}","b"\n1,2\n', encoding="utf-8")
    return ["robot", "mapping", str(folder / "x.csv"), "--robot", "planar_3r", "--out", str(folder / "mapping.yaml")]


# -- bags ----------------------------------------------------------------------------------------------------------


def _bag(folder: Path, topic: str = "/a") -> Path:
    writer = BagWriter(folder / "bag", [Topic(topic, STRING)])
    writer.open()
    writer.write(topic, 1, encode_string("x"))
    writer.close()
    return folder / "bag"


def _mcap(path: Path, compression: CompressionType, qos: str, zeros: int) -> list[str]:
    with path.open("wb") as stream:
        writer = Writer(stream, compression=compression, chunk_size=2**20)
        writer.start("ros2")
        kind = writer.register_schema(STRING, "ros2msg", b"")
        channel = writer.register_channel("/a", "cdr", kind, {"offered_qos_profiles": qos})
        for stamp in range(zeros):
            writer.add_message(channel, stamp, bytes(16 * 2**20), stamp)
        writer.add_message(channel, zeros, encode_string("x"), zeros)
        writer.finish()
    return ["bag", "info", str(path)]


def nested_quality(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a bag with a channel whose quality of service consists of nested brackets."""
    qos = chance.choice("[{") * chance.randrange(20_000, 60_000)
    return _mcap(folder / "x.mcap", CompressionType.NONE, qos, 0)


def nested_metadata(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a bag whose metadata.yaml consists of nested brackets."""
    bag = _bag(folder)
    text = "rosbag2_bagfile_information: " + chance.choice("[{") * chance.randrange(20_000, 60_000)
    (bag / METADATA_NAME).write_text(text, encoding="utf-8")
    return ["bag", chance.choice(("info", "repair")), str(bag)]


def growing_chunks(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a bag whose chunks expand to gigabytes."""
    form = chance.choice((CompressionType.LZ4, CompressionType.ZSTD))
    return _mcap(folder / "x.mcap", form, "", chance.randrange(130, 170))


def growing_file(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a packed database of some kilobytes that expands to gigabytes in the temporary folder."""
    packer = zstandard.ZstdCompressor().compressobj()
    count = chance.randrange(1500, 3000)
    data = b"".join(packer.compress(bytes(2**20)) for _ in range(count)) + packer.flush()
    bag = _bag(folder)
    (bag / "x.db3.zstd").write_bytes(data)
    content = yaml.safe_load((bag / METADATA_NAME).read_text(encoding="utf-8"))
    content["rosbag2_bagfile_information"] |= {
        "storage_identifier": "sqlite3",
        "relative_file_paths": ["x.db3.zstd"],
        "compression_mode": "FILE",
        "compression_format": "zstd",
    }
    (bag / METADATA_NAME).write_text(yaml.safe_dump(content), encoding="utf-8")
    return ["bag", "info", str(bag)]


def _database(folder: Path, *statements: str) -> Path:
    """Make a bag of a database with one topic and no messages; return its data file."""
    bag = folder / "bag"
    bag.mkdir()
    with closing(sqlite3.connect(bag / "x.db3")) as database:
        database.executescript(SqliteFile.TABLES)
        database.execute("INSERT INTO topics VALUES (1, '/a', ?, 'cdr', '', '')", (STRING,))
        for statement in statements:
            database.execute(statement)
        database.commit()
    return bag / "x.db3"


def linked_log(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a database whose write-ahead log is a link to another file, which SQLite cuts off when it has read it."""
    file = _database(folder)
    file.with_name(f"{file.name}-{chance.choice(('wal', 'shm', 'journal'))}").symlink_to(victim)
    return ["bag", chance.choice(("info", "repair")), str(file.parent)]


def growing_topics(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a database of some kilobytes whose topics share one long default value, which makes gigabytes of them."""
    length, count = chance.randrange(200_000, 400_000), chance.randrange(5000, 9000)
    file = _database(
        folder,
        "ALTER TABLE topics DROP COLUMN offered_qos_profiles",
        "WITH RECURSIVE n(k) AS (SELECT 2 UNION ALL SELECT k + 1 FROM n WHERE k < "
        f"{count}) INSERT INTO topics SELECT k, '/' || k, '{STRING}', 'cdr', '' FROM n",
        f"ALTER TABLE topics ADD COLUMN offered_qos_profiles TEXT NOT NULL DEFAULT '{'a' * length}'",
    )
    return ["bag", "info", str(file)]


def foreign_journal(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a database whose journal names a file that SQLite deletes after it has rolled the journal back."""
    bag = _database(folder).parent
    with closing(sqlite3.connect(bag / "x.db3")) as database:
        ((size,),) = database.execute("PRAGMA page_size").fetchall()
        ((pages,),) = database.execute("PRAGMA page_count").fetchall()
    words = [0, chance.randrange(2**32), pages, 512, size]
    header = JOURNAL_MAGIC + b"".join(one.to_bytes(4, "big") for one in words)
    name = os.fsencode(victim)
    words = [PENDING_PAGE // size + 1, len(name), sum(name)]
    page, length, check = (one.to_bytes(4, "big") for one in words)
    (bag / "x.db3-journal").write_bytes(header.ljust(512, b"\0") + page + name + length + check + JOURNAL_MAGIC)
    return ["bag", chance.choice(("info", "repair")), str(bag)]


def planted_link(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make an unfinished bag with links at the paths where its repair may write."""
    bag = _bag(folder)
    file = next(bag.glob("*.mcap"))
    os.truncate(file, file.stat().st_size - chance.randrange(1, 30))
    (bag / METADATA_NAME).unlink()
    for name in (f".{METADATA_NAME}.new", f"{METADATA_NAME}.new", f"{file.name}.new", f".{file.name}.new"):
        (bag / name).symlink_to(victim)
    return ["bag", "repair", str(bag)]


def commanding_topic(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a bag with a topic name that contains terminal commands and markup."""
    order = chance.choice(("\x1b]0;x\x07", "\x1b[2J\x1b[H", "\x1b[8m"))
    return ["bag", "info", str(_bag(folder, f"/a{order}[/yellow]\n[red]b"))]


# -- data sets -----------------------------------------------------------------------------------------------------


def deep_folders(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make more than a thousand nested folders."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(chance.randrange(1200, 2000)):
        os.mkdir("a", dir_fd=at)
        inner = os.open("a", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    return ["logs", str(folder), "--robot", "planar_3r"]


def nested_object(folder: Path, victim: Path, chance: random.Random) -> list[str]:
    """Make a LeRobot data set whose description consists of nested brackets."""
    (folder / "set" / "meta").mkdir(parents=True)
    (folder / "set" / "meta" / "info.json").write_text(chance.choice(('{"a":', "[")) * chance.randrange(5000, 100_000))
    return ["logs", str(folder / "set"), "--robot", "planar_3r"]


FILE_CASES = (
    FileCase("robot: aliases that stand for a billion values", "aliases", aliases),
    FileCase("robot: brackets within brackets", "deep", brackets),
    FileCase("robot: a field given twice", "is given twice", given_twice),
    FileCase("robot: limits beyond the URDF's", "URDF", wide_limits),
    FileCase("URDF: entities", "DOCTYPE", entities),
    FileCase("mesh: a triangle of vertices that it does not have", "cannot be read", foreign_vertex),
    FileCase("mesh: a scene that contains itself", "cannot be read", endless_scene),
    FileCase("table: header that commands the terminal", "", commanding_header),
    FileCase("bag: nested quality of service", "deep", nested_quality),
    FileCase("bag: nested metadata.yaml", "deep", nested_metadata),
    FileCase("bag: chunks that become gigabytes", "DYNID_BAG_GIB", growing_chunks),
    FileCase("bag: packed file that becomes gigabytes", "DYNID_BAG_GIB", growing_file),
    FileCase("bag: journal that names another file", "names another file", foreign_journal),
    FileCase("bag: topics that become gigabytes", "more data than its size allows", growing_topics),
    FileCase("bag: write-ahead log that is a link", "is a link", linked_log),
    FileCase("bag: links where a repair writes", "", planted_link),
    FileCase("bag: topic that commands the terminal", "/a", commanding_topic),
    FileCase("logs: a thousand folders deep", "folders deep", deep_folders),
    FileCase("logs: nested description", "nested too deep", nested_object),
)

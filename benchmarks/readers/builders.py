"""Generators (hypothesis) of structured files: edited documents, URDFs and meshes, valid or not."""

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml
from hypothesis import strategies as st

from benchmarks.readers.mutations import BINARY, TEXT, mutated

Draw = Callable[[st.SearchStrategy[Any]], Any]
NUMBERS = st.one_of(
    st.floats(-3.0, 3.0),
    st.floats(),
    st.integers(-3, 3),
    st.integers(),
    st.sampled_from([0.0, -1.0, 1e-320, 1e308, 2**31, 2**63, 10**400]),
)
WORDS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", "x" * 5000, "../../x", "/etc/passwd", "nan", "yes", "1e9", "\x00", "\u202e"]),
)
VALUES = st.recursive(
    st.one_of(NUMBERS, WORDS, st.none(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=8,
)


@dataclass(frozen=True)
class Built:
    """Files by relative path, and the path that a reader is given, "" for their folder."""

    files: Mapping[str, bytes]
    entry: str = ""


def _places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [path, *(place for key, value in inner for place in _places(value, (*path, key)))]


@st.composite
def edited(draw: Draw, content: Any) -> Any:
    """Draw a document with up to three values exchanged, removed, duplicated, nested, or shared (YAML: aliases)."""
    content = copy.deepcopy(content)
    if not draw(st.integers(0, 9)):  # nested aliases, too many to expand
        key, value = draw(st.sampled_from(_places(content)[1:])), draw(VALUES)
        for _ in range(draw(st.integers(1, 9))):
            value = [value] * draw(st.integers(2, 9))
        holder = content
        for step in key[:-1]:
            holder = holder[step]
        holder[key[-1]] = value
        return content
    for _ in range(draw(st.integers(0, 3))):
        *way, last = draw(st.sampled_from(_places(content)[1:]))
        holder = content
        for key in way:
            holder = holder[key]
        kind = draw(st.sampled_from(["value", "value", "value", "leave out", "double", "nest", "more"]))
        if kind == "leave out":
            del holder[last]
        elif kind == "double" and isinstance(holder, list):
            holder.append(holder[last])
        elif kind == "more" and isinstance(holder, dict):
            holder[draw(WORDS)] = draw(VALUES)
        elif kind == "nest":
            for _ in range(draw(st.sampled_from([1, 60, 400]))):
                holder[last] = [holder[last]]
        else:
            holder[last] = draw(VALUES)
        if not _places(content)[1:]:
            break
    return content


@st.composite
def documents(draw: Draw, content: Any, form: str = "yaml") -> bytes:
    """Draw a document as YAML or JSON, in a third of the cases with exchanged bytes."""
    found = draw(edited(content)) if form == "yaml" else content | {draw(WORDS): draw(VALUES)}
    if form == "json" and draw(st.booleans()):
        found[draw(st.sampled_from(sorted(content)))] = draw(VALUES)
    dump = yaml.CSafeDumper if draw(st.booleans()) else yaml.SafeDumper
    brackets = draw(st.integers(0, 100_000))  # drawn always: whether the dump below recurses too deep is not repeatable
    try:
        text = json.dumps(found) if form == "json" else yaml.dump(found, Dumper=dump, sort_keys=False)
    except (RecursionError, ValueError, yaml.YAMLError):
        text = "[" * brackets
    return bytes(draw(spoiled(text.encode(errors="replace"))))


@st.composite
def spoiled(draw: Draw, data: bytes, binary: bool = False) -> bytes:
    """Draw the bytes unchanged, or in a third of the cases with one to three mutations."""
    if draw(st.integers(0, 2)):
        return data
    return mutated(data, draw(st.integers(0, 2**32)), BINARY if binary else TEXT)


def _numbers(draw: Draw, count: int) -> str:
    return " ".join(str(draw(st.one_of(st.floats(-1.0, 1.0), NUMBERS))) for _ in range(count))


@st.composite
def urdfs(draw: Draw, meshes: tuple[str, ...]) -> bytes:
    """Draw a URDF: mostly a chain with plausible numbers, with some joints, numbers and shapes of any kind."""
    count = draw(st.integers(1, 6))
    wild = draw(st.booleans())

    def figures(size: int, usual: str) -> str:
        return _numbers(draw, size) if wild and not draw(st.integers(0, 4)) else usual

    links, joints = [], []
    for k in range(count + 1):
        size = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
        inertia = " ".join(f'{key}="{figures(1, str(float(key[1] == key[2])))}"' for key in size)
        shape = draw(st.sampled_from(["box", "sphere", "cylinder", "mesh", "mesh", "none" if wild else "box"]))
        name = draw(st.sampled_from(meshes))
        given = f'size="{figures(3, "1 1 1")}" radius="{figures(1, "1")}" length="1" filename="{name}" scale="1 1 1"'
        body = f'<collision><origin xyz="{figures(3, "0 0 0")}"/><geometry><{shape} {given}/></geometry></collision>'
        nested = draw(st.sampled_from([0, 0, 0, 3, 5000])) if wild else 0
        links.append(
            f'<link name="l{k}"><inertial><origin xyz="{figures(3, "0 0 0.1")}" rpy="0 0 0"/><mass value="'
            f'{figures(1, "1")}"/><inertia {inertia}/></inertial>{body}{"<a>" * nested}{"</a>" * nested}</link>'
        )
    for k in range(1, count + 1):
        parent = draw(st.integers(0, count)) if wild and not draw(st.integers(0, 5)) else k - 1
        kind = draw(st.sampled_from(["revolute"] * 6 + ["prismatic", "continuous", "fixed", "floating", "x"]))
        limit = f'lower="{figures(1, "-1")}" upper="{figures(1, "1")}" effort="{figures(1, "9")}" velocity="1"'
        mimic = '<mimic joint="j1"/>' if wild and not draw(st.integers(0, 9)) else ""
        joints.append(
            f'<joint name="j{k}" type="{kind if wild else "revolute"}"><parent link="l{parent}"/><child link="l{k}"/>'
            f'<origin xyz="{figures(3, "0 0 0.2")}" rpy="{figures(3, "0.3 1.5708 0")}"/>'
            f'<axis xyz="{figures(3, "0 0 1")}"/>'
            f"<limit {limit}/>{mimic}</joint>"
        )
    text = f'<robot name="r">{"".join(links)}{"".join(joints)}</robot>'
    return bytes(draw(spoiled(text.encode(errors="replace"))))


@st.composite
def stl_files(draw: Draw) -> bytes:
    """Draw an STL file: binary with a count that may be wrong, or text."""
    count = draw(st.integers(0, 20))
    rows = np.zeros((count, 50), np.uint8)
    points = np.random.default_rng(draw(st.integers(0, 99))).standard_normal((count, 12)).astype("<f4")
    if count and draw(st.booleans()):
        points[0, draw(st.integers(0, 11))] = draw(st.sampled_from([np.nan, np.inf, 1e38, 0.0]))
    rows[:, :48] = points.view(np.uint8).reshape(count, 48)
    claimed = count if draw(st.booleans()) else draw(st.sampled_from([0, 1, count + 1, 2**31, 2**32 - 1]))
    head = draw(st.sampled_from([bytes(80), b"solid x".ljust(80), b"\xff" * 80]))
    if draw(st.booleans()):
        return bytes(draw(spoiled(head + claimed.to_bytes(4, "little") + rows.tobytes(), binary=True)))
    corners = ["".join(f"vertex {a} {b} {c}\n" for a, b, c in point[3:].reshape(3, 3)) for point in points]
    facets = "".join(f"facet normal 0 0 1\nouter loop\n{three}endloop\nendfacet\n" for three in corners)
    return bytes(draw(spoiled(f"solid x\n{facets}endsolid x\n".encode())))


@st.composite
def urdf_folders(draw: Draw) -> Built:
    """Draw a URDF and its meshes."""
    names = ("a.stl", "b.stl")
    return Built({"x.urdf": draw(urdfs(names)), **{name: draw(stl_files()) for name in names}}, "x.urdf")

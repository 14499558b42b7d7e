"""The lock files: for every supported Python, a version and hashes of all packages that `./run` installs."""

import configparser
import importlib.metadata
import platform
import re
from pathlib import Path

import pytest

requirements = pytest.importorskip("packaging.requirements")
from benchmarks.lock import FILES, Pin, hashes_of, holds, parse_pins  # noqa: E402
from newcomer import Newcomer  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
LINE = re.compile(r"[a-z0-9][a-z0-9-]*==[^ ;@]+(?: ; [^@;]+?)?(?: --hash=sha256:[0-9a-f]{64})+")
EXTRAS = {"run": ("ros",), "test": ("ros", "dev"), "docs": ("docs",)}
SYSTEMS = ("3.10.4", "3.11.2", "3.12.3", "3.13.5", "3.14.4")  # the oldest Python that each distribution ships
HERE = platform.python_version()


def locked(*texts: str, python: str = HERE) -> dict[str, str]:
    """Return the version by name for one Python, such as "3.11.2".

    Raises ValueError for a line without version and hash, and for a package with two versions.
    """
    found: dict[str, str] = {}
    for line in "".join(texts).splitlines():
        if LINE.fullmatch(line) is None:
            raise ValueError(line)
        (pin,) = parse_pins(line)
        if holds(pin.marker, python) and found.setdefault(pin.name, pin.version) != pin.version:
            raise ValueError(line)
    return found


def texts_of(kind: str) -> list[str]:
    """Return what is installed for a set: the lock file of what dynid needs to run, and the set's own."""
    return [(ROOT / FILES[one]).read_text(encoding="utf-8") for one in dict.fromkeys(("run", kind))]


def unmet(pins: dict[str, str], extras: tuple[str, ...], python: str = HERE) -> list[str]:
    """Return the requirements of setup.cfg that the pins do not meet."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    texts = config["options"]["install_requires"].split("\n")
    texts += [line for name in extras for line in config["options.extras_require"][name].split("\n")]
    asked = [requirements.Requirement(text) for text in texts if text.strip() and not text.strip().startswith("#")]
    asked = [one for one in asked if one.marker is None or holds(str(one.marker), python)]
    names = [(one, one.name.lower().replace("_", "-")) for one in asked]
    return [str(one) for one, name in names if name not in pins or not one.specifier.contains(pins[name])]


def lacking(pins: dict[str, str]) -> list[str]:
    """Return what pinned packages need, extras included, by their installed metadata, and the pins do not give."""
    found, known = [], set()
    todo = [(name, "") for name in pins]
    while todo:
        package, extra = todo.pop()
        if (package, extra) in known or package not in pins:
            continue
        known.add((package, extra))
        for text in importlib.metadata.requires(package) or []:
            asked = requirements.Requirement(text)
            if asked.marker is not None and not asked.marker.evaluate({"extra": extra}):
                continue
            name = re.sub("[-_.]+", "-", asked.name).lower()
            if name not in pins or not asked.specifier.contains(pins[name], prereleases=True):
                found.append(f"{package}: {asked}")
            todo += [(name, one) for one in asked.extras]
    return found


@pytest.mark.parametrize("python", SYSTEMS)
@pytest.mark.parametrize("kind", FILES)
def test_every_python_has_versions_that_meet_setup_cfg(kind: str, python: str) -> None:
    pins = locked(*texts_of(kind), python=python)
    assert len(pins) > 130 and unmet(pins, EXTRAS[kind], python) == []
    assert unmet(pins | {"numpy": "1.0"}, EXTRAS[kind], python) == ["numpy<3,>=1.26"]
    assert "rosbags<0.12,>=0.11.6" in unmet({}, (), python)


@pytest.mark.parametrize("python", SYSTEMS)
def test_all_sets_agree_and_tests_and_site_are_not_in_the_first(python: str) -> None:
    together = locked(*("".join(texts_of(kind)) for kind in FILES), python=python)
    assert {"pytest", "mkdocs-material", "ros-rclpy"} <= set(together)
    first = locked(*texts_of("run"), python=python)
    assert not {"pytest", "mypy", "ruff", "mkdocs", "pymdown-extensions"} & set(first)
    with pytest.raises(ValueError, match="numpy==9"):
        locked(*texts_of("run"), f"numpy==9 --hash=sha256:{64 * '0'}\n", python=python)


@pytest.mark.parametrize("line", ["numpy", "numpy==1.0", "a==1 @ x --hash=sha256:" + 64 * "0", "--index-url x", "a>=1"])
def test_lines_without_a_pinned_version_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(line)):
        locked(line)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_every_dependency_of_a_pinned_package_is_pinned(kind: str) -> None:
    """`./run` installs without dependencies, so the lists themselves must have them."""
    pins = locked(*texts_of(kind))
    try:
        installed = {name: importlib.metadata.version(name) for name in pins}
    except importlib.metadata.PackageNotFoundError as error:
        pytest.skip(f"the environment is not that of the lock files: {error}")
    assert lacking(pins) == []
    if kind == "test":
        assert installed["pytest-cov"] and any("coverage" in one for one in lacking(pins | {"coverage": "1.0"}))
        assert any(one.startswith("pytest: pluggy") for one in lacking({"pytest": pins["pytest"]}))


def wheel(tags: str) -> dict[str, object]:
    return {"name": f"thing-1.0-{tags}.whl", "hashes": {"sha256": tags}}


def test_a_lock_has_the_hashes_of_wheels_that_linux_installs() -> None:
    newest = Pin("thing", "1.0", "python_full_version >= '3.13'")
    fitting = ["cp313-cp313-manylinux_2_28_x86_64", "cp312-abi3-manylinux1_x86_64"]
    others = ["cp314-cp314-macosx_11_0_arm64", "cp313-cp313t-manylinux_2_28_x86_64", "cp314-cp314-musllinux_1_2_x86_64"]
    entry = {"wheels": [wheel(one) for one in fitting + others]}
    assert hashes_of(newest, entry) == sorted(fitting)
    with pytest.raises(SystemExit, match=r"thing==1.0 has no wheel for Python 3.10 on Linux x86-64: bound thing in"):
        hashes_of(Pin("thing", "1.0", ""), entry)


# -- run -------------------------------------------------------------------------------------------------------

RUN = ["--require-hashes -r ./requirements.lock", "--no-build-isolation -e ."]
TEST = ["--require-hashes -r ./requirements-test.lock", "--require-hashes -r ./requirements-docs.lock"]


@pytest.mark.slow
def test_run_installs_each_set_when_it_is_needed(tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path)
    first = newcomer.run("demo")
    assert first.returncode == 0, first.stderr
    assert newcomer.installed == RUN
    newcomer.run("identify")
    assert newcomer.installed == []
    newcomer.run("test")
    assert newcomer.installed == TEST
    newcomer.run("test")
    assert newcomer.installed == []
    for name, again in ((FILES["docs"], TEST[1:]), ("requirements.lock", RUN)):
        with (tmp_path / name).open("a") as file:
            file.write("more\n")
        newcomer.run("test")
        assert newcomer.installed == again


def test_run_refuses_a_machine_without_wheels_before_it_installs(tmp_path: Path) -> None:
    refused = Newcomer(tmp_path).run("demo", machine="aarch64")
    assert refused.returncode == 1 and refused.stderr.startswith("run: the wheels of ROS 2 exist only for Linux on x86")
    assert refused.stderr.count("\n") == 1 and not (tmp_path / ".venv").exists()

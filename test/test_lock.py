"""The lock file: a version and a hash for everything that `./run` installs on the tested platform."""

import configparser
import importlib.metadata
import re
from pathlib import Path

import pytest

requirements = pytest.importorskip("packaging.requirements")

ROOT = Path(__file__).resolve().parents[1]
LINE = re.compile(r"([a-z0-9][a-z0-9.-]*)==([^ ;@]+) --hash=sha256:([0-9a-f]{64})")
MARKERS = {"python_version": "3.11", "sys_platform": "linux", "platform_machine": "x86_64", "extra": ""}


def locked(text: str) -> dict[str, str]:
    """Version by name; ValueError for a line that is anything but a name, a version and a hash."""
    found = {}
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        if match is None or match[1] in found:
            raise ValueError(line)
        found[match[1]] = match[2]
    return found


def unmet(pins: dict[str, str]) -> list[str]:
    """What setup.cfg asks for and the pins do not give."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    texts = config["options"]["install_requires"].split("\n")
    texts += [line for name in ("ros", "dev", "docs") for line in config["options.extras_require"][name].split("\n")]
    asked = [requirements.Requirement(text) for text in texts if text.strip() and not text.strip().startswith("#")]
    names = [(one, one.name.lower().replace("_", "-")) for one in asked]
    return [str(one) for one, name in names if name not in pins or not one.specifier.contains(pins[name])]


def lacking(pins: dict[str, str]) -> list[str]:
    """What pinned packages ask for, by their installed metadata, and the pins do not give; extras too."""
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


def test_every_line_is_a_version_and_a_hash_and_setup_cfg_is_met() -> None:
    pins = locked((ROOT / "requirements.lock").read_text())
    assert len(pins) > 150 and unmet(pins) == []
    assert unmet(pins | {"numpy": "1.0"}) == ["numpy<3,>=1.26"]
    assert "rosbags<0.12,>=0.11.6" in unmet({})


@pytest.mark.parametrize("line", ["numpy", "numpy==1.0", "a==1 @ x --hash=sha256:" + 64 * "0", "--index-url x", "a>=1"])
def test_what_pins_nothing_is_found(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(line)):
        locked(line)


def test_the_command_installs_by_it() -> None:
    text = (ROOT / "run").read_text()
    assert (
        '--no-deps --require-hashes -r "$root/requirements.lock"' in text and "pyproject.toml requirements.lock" in text
    )


def test_nothing_is_lacking_that_pinned_packages_need() -> None:
    """`./run` installs without dependencies, so the list itself must have them."""
    pins = {
        re.sub("[-_.]+", "-", name): version
        for name, version in locked((ROOT / "requirements.lock").read_text()).items()
    }
    try:
        installed = {name: importlib.metadata.version(name) for name in pins}
    except importlib.metadata.PackageNotFoundError as error:
        pytest.skip(f"the environment is not that of requirements.lock: {error}")
    assert lacking(pins) == []
    assert installed["pytest-cov"] and any("coverage" in one for one in lacking(pins | {"coverage": "1.0"}))
    assert any(one.startswith("pytest: pluggy") for one in lacking({"pytest": pins["pytest"]}))

"""Writer of the lock files that `./run` installs by: versions for every supported Python, and hashes of Linux wheels.

There are three sets: requirements.lock for running dynid, requirements-test.lock for additional packages of its tests,
and requirements-docs.lock for additional packages of its site. Versions of the first are chosen together with the
tests' and without the site's, so nothing that the site needs can keep dynid from being installed. Locked versions stay
unless `setup.cfg` excludes them; `--upgrade` takes the newest. Needs Python 3.11 or newer and `uv`:

python -m venv /tmp/uv && /tmp/uv/bin/pip install uv packaging
PATH=/tmp/uv/bin:$PATH python benchmarks/lock.py
"""

import argparse
import configparser
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from packaging.markers import Marker
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
GLIBC = 28  # the wheels of ROS 2 are manylinux_2_28: older systems cannot run dynid anyway
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(GLIBC, 4, -1)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
FROM_SOURCE = ("empy",)  # pure Python without a wheel
FILES = {"run": "requirements.lock", "test": "requirements-test.lock", "docs": "requirements-docs.lock"}
COMPILE = [
    "uv",
    "pip",
    "compile",
    "--quiet",
    "--universal",
    "--no-config",
    "--no-header",
    "--python-version",
    PYTHONS[0],
]


class Pin(NamedTuple):
    """One version of a package, and the environments that it is for."""

    name: str
    version: str
    marker: str

    def __str__(self) -> str:
        """Return the pin as a requirement."""
        return f"{self.name}=={self.version}" + (f" ; {self.marker}" if self.marker else "")


def requirements(pins: Iterable[Pin]) -> str:
    """Return the text of a requirements file."""
    return "".join(f"{one}\n" for one in pins)


def parse_pins(text: str) -> list[Pin]:
    """Return the pins of a requirements file, without its hashes and comments."""
    found = re.findall(r"^([\w.-]+)==([^\s;\\]+)(?: *; *(.*?))?(?: --hash.*| *\\)?$", text, re.MULTILINE)
    return [Pin(canonicalize_name(name), version, marker.strip()) for name, version, marker in found]


def holds(marker: str, version: str) -> bool:
    """Return whether a marker holds for a full version of Python, such as "3.11.2", on Linux x86-64."""
    linux = {"sys_platform": "linux", "platform_machine": "x86_64", "platform_system": "Linux", "os_name": "posix"}
    linux |= {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    linux |= {"python_full_version": version, "python_version": ".".join(version.split(".")[:2])}
    return not marker or Marker(marker).evaluate(linux)


def pythons_of(marker: str) -> list[str]:
    """Return the supported Pythons, such as "3.12", of which the oldest or the newest release meets a marker."""
    return [one for one in PYTHONS if holds(marker, f"{one}.0") or holds(marker, f"{one}.99")]


def tags_of(python: str) -> set[Tag]:
    """Return the tags of wheels that this Python, such as "3.12", installs on Linux x86-64."""
    version = tuple(int(part) for part in python.split("."))
    numbered = f"cp{''.join(python.split('.'))}"
    return {*cpython_tags(version, [numbered], PLATFORMS), *compatible_tags(version, numbered, PLATFORMS)}


def hashes_of(pin: Pin, entry: dict[str, Any]) -> list[str]:
    """Return the SHA-256 of the wheels that supported Pythons install for a pin, from its entry in a pylock.toml.

    Raises SystemExit if there is no wheel for a Python that the pin is for.
    """
    if pin.name in FROM_SOURCE:
        return [entry["sdist"]["hashes"]["sha256"]]
    found = set()
    for python in pythons_of(pin.marker):
        tags = tags_of(python)
        fitting = [one for one in entry.get("wheels", []) if tags & parse_wheel_filename(file_name(one))[3]]
        if not fitting:
            sys.exit(f"{pin} has no wheel for Python {python} on Linux x86-64: bound {pin.name} in setup.cfg")
        found |= {one["hashes"]["sha256"] for one in fitting}
    return sorted(found)


def file_name(wheel: dict[str, Any]) -> str:
    """Return the file name of a wheel of a pylock.toml."""
    return str(wheel.get("name") or wheel["url"].rsplit("/", 1)[1].replace("%2B", "+"))


def asked_for(extras: Iterable[str]) -> str:
    """Return the requirements of setup.cfg and of some extras: uv itself would have to build dynid to read them."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    parts = [config["options"]["install_requires"]]
    return "\n".join(parts + [config["options.extras_require"][one] for one in extras]) + "\n"


def compile_pins(folder: Path, extras: Iterable[str], preferred: Iterable[Pin], fixed: Iterable[Pin]) -> list[Pin]:
    """Let uv choose versions for all supported Pythons: `fixed` ones are binding, `preferred` ones stay if they can."""
    versions, constraints, asked = (folder / f"{name}.txt" for name in ("versions", "constraints", "asked"))
    asked.write_text(asked_for(extras))
    versions.write_text(requirements(preferred))
    constraints.write_text(requirements(fixed))
    command = [*COMPILE, str(asked), "--constraints", str(constraints), "--only-binary", ":all:", "--no-annotate"]
    command += itertools.chain.from_iterable(("--no-binary", one) for one in FROM_SOURCE)
    subprocess.run([*command, "--output-file", str(versions)], cwd=ROOT, check=True)
    return parse_pins(versions.read_text())


def compile_hashes(folder: Path, pins: Iterable[Pin]) -> dict[Pin, list[str]]:
    """Return the hashes of every pin that Linux x86-64 installs."""
    import tomllib  # Python 3.10, which runs the tests of this file, lacks it

    wanted, locked = folder / "wanted.txt", folder / "pylock.toml"
    pins = [one for one in pins if pythons_of(one.marker)]
    wanted.write_text(requirements(pins))
    subprocess.run([*COMPILE, str(wanted), "--no-deps", "--output-file", str(locked)], cwd=ROOT, check=True)
    entries = {(one["name"], one["version"]): one for one in tomllib.loads(locked.read_text())["packages"]}
    return {one: hashes_of(one, entries[one.name, one.version]) for one in pins}


def main() -> None:
    """Write the three lock files."""
    parser = argparse.ArgumentParser(description="Write the lock files that ./run installs by.")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions instead of those locked")
    upgrade = parser.parse_args().upgrade
    if shutil.which("uv") is None:
        sys.exit("uv was not found: pip install uv into an environment of its own, and put it on the PATH")
    files = [ROOT / name for name in FILES.values() if (ROOT / name).is_file() and not upgrade]
    known = [pin for path in files for pin in parse_pins(path.read_text())]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        test = compile_pins(folder, ["ros", "dev"], known, [])
        sets = {"run": compile_pins(folder, ["ros"], known, test), "test": test}
        sets["docs"] = compile_pins(folder, ["docs"], known, test)
        hashes = compile_hashes(folder, {pin for pins in sets.values() for pin in pins})
    for name, pins in sets.items():
        own = [one for one in pins if one in hashes and (name == "run" or one not in sets["run"])]
        lines = [" ".join([str(one), *(f"--hash=sha256:{value}" for value in hashes[one])]) for one in sorted(own)]
        (ROOT / FILES[name]).write_text("".join(f"{line}\n" for line in lines))
        print(f"{FILES[name]}: {len(lines)} packages")


if __name__ == "__main__":
    main()

"""README, CONTRIBUTING and docker files against the code: commands, options, files, topics and parameters exist."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from benchmarks.cli import app

from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docker/README.md")
SITE = tuple(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))  # links: test_docs.py


def shell_lines(text: str) -> list[str]:
    """Lines of the sh code blocks, without comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [
        shlex.join(shlex.split(line, comments=True))
        for block in blocks
        for line in block.replace("\\\n", "").splitlines()
    ]
    return [line for line in lines if line]


def inline_commands(text: str) -> list[str]:
    """Inline code that calls `./run`."""
    return [code for code in re.findall(r"`([^`\n]+)`", text) if code.startswith("./run ")]


def command_fault(line: str) -> str:
    """Why a line is no valid `./run` command; '' if it is one."""
    words = shlex.split(line)[1:]
    if words[:1] == ["test"] or words == ["--help"]:
        return ""
    command: Any = typer.main.get_command(app)
    context = command.make_context("dynid", [], resilient_parsing=True)
    if not words:
        return f"no such command: {line}"
    while hasattr(command, "get_command") and words and not words[0].startswith("-"):  # a group of commands
        command, words = command.get_command(context, words[0]), words[1:]
    if command is None:
        return f"no such command: {line}"
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [w.split("=")[0] for w in words if w.startswith("-") and w.split("=")[0] not in {*known, "--help"}]
    return f"no such option {unknown} in: {line}" if unknown else ""


def run_commands(name: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return [line for line in shell_lines(text) + inline_commands(text) if line.startswith("./run")]


@pytest.mark.slow
def test_every_run_command_exists() -> None:
    commands = [line for name in (*DOCUMENTS, *SITE) for line in run_commands(name)]
    assert "./run demo" in commands and "./run test" in commands
    assert [fault for line in commands if (fault := command_fault(line))] == []


@pytest.mark.parametrize(
    "line", ["./run dance", "./run demo --fast", "./run bag --loud info x", "./run trajectories draw V01"]
)
def test_a_wrong_command_is_noticed(line: str) -> None:
    assert command_fault(line)


def linked_files(text: str) -> list[str]:
    targets = re.findall(r"\]\(([^)#]+)\)", text)
    return [target for target in targets if "://" not in target]


def test_every_linked_file_exists() -> None:
    links = [(ROOT / name, link) for name in DOCUMENTS for link in linked_files((ROOT / name).read_text("utf-8"))]
    assert [(file.name, link) for file, link in links if not (file.parent / link).exists()] == []


def test_every_named_folder_and_file_exists() -> None:
    named = re.compile(r"`((?:config|urdf|launch|docker|src|test|benchmarks|examples|docs)/[\w./]+)`")
    paths = [(name, path) for name in (*DOCUMENTS, *SITE) for path in named.findall((ROOT / name).read_text("utf-8"))]
    assert [(name, path) for name, path in paths if not (ROOT / path).exists()] == []


def test_the_front_page_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 220


def test_every_command_is_on_the_page_of_all_commands() -> None:
    told = {tuple(shlex.split(line)[1:]) for line in run_commands("docs/commands.md")}
    root: Any = typer.main.get_command(app)
    context = root.make_context("dynid", [], resilient_parsing=True)
    assert [name for name in root.list_commands(context) if not any(words[:1] == (name,) for words in told)] == []


def test_the_interface_page_names_exactly_the_topics_services_and_parameters_of_the_code() -> None:
    text = (ROOT / "docs/interface.md").read_text(encoding="utf-8")
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "src/dynid/nodes").glob("*.py")}
    code = "\n".join(sources.values())
    topics = set(re.findall(r'create_publisher\(\w+, "(\w+)"', code))
    named = dict(re.findall(r'^([A-Z_]+) = "(\w+)"$', code, re.MULTILINE))
    topics |= {named[name] for name in re.findall(r"create_publisher\(\w+, ([A-Z_]+),", code) if name in named}
    services = {
        f"{stem.removesuffix('_node')}/{name}"
        for stem, source in sources.items()
        for name in re.findall(r'(?:create_service\(\w+|DeferredTrigger\(self), "~/(\w+)"', source)
    }
    own = "\n".join(source for stem, source in sources.items() if stem.endswith("_node") or stem == "outputs")
    parameters = set(re.findall(r'declare\((?:self|node), "([\w.]+)"', own)) | {"bags", "validation_bags"}
    told = set(re.findall(r"`([\w./]+)`", text))
    assert topics | services | parameters <= told
    rows = set(re.findall(r"^\| `(\w+)` \| \w+_msgs/", text, re.MULTILINE))
    assert rows == topics


def test_launch_lines_name_existing_files_and_motions() -> None:
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", *SITE)]
    lines = [line for text in texts for line in shell_lines(text) if line.startswith("ros2 launch")]
    assert lines
    motions = load_excitation(load_robot("crane_x7")).names
    for line in lines:
        _, _, package, file, *arguments = shlex.split(line)
        assert package == "dynid" and (ROOT / "launch" / file).is_file()
        given = dict(argument.split(":=", 1) for argument in arguments)
        assert given.get("trajectory", motions[0]) in motions


DOCKERFILES = sorted(path for path in (ROOT / "docker").glob("Dockerfile*") if path.suffix != ".dockerignore")


def dockerfile_faults(text: str) -> list[str]:
    """What is wrong with a Dockerfile, as far as it can be told without an engine."""
    users = re.findall(r"^USER (\S+)", text, re.MULTILINE)
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    copied = [name for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for name in line.split()]
    faults = [f"base {base} has no version" for base in bases if ":" not in base or base.endswith(":latest")]
    faults += [f"{name} does not exist" for name in copied if not name.startswith("--") and not (ROOT / name).exists()]
    faults += [] if users and users[-1] not in ("root", "0") else ["runs as root"]
    installs, cleaned = text.count("apt-get install"), text.count("rm -rf /var/lib/apt/lists")
    return faults + (["package lists stay in a layer"] if installs != cleaned else [])


def test_images_are_built_from_the_repository_and_run_without_root() -> None:
    assert [(path.name, fault) for path in DOCKERFILES for fault in dockerfile_faults(path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    "text",
    [
        "FROM debian\nUSER me",
        "FROM a:1",
        "FROM a:1\nUSER root",
        "FROM a:1\nUSER me\nCOPY nothing.txt ./",
        "FROM a:1\nRUN apt-get install x\nUSER me",
    ],
)
def test_a_careless_dockerfile_is_noticed(text: str) -> None:
    assert dockerfile_faults(text)


def test_the_containers_run_existing_commands() -> None:
    for path in DOCKERFILES:
        default = re.search(r"^CMD (\[.*\])", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert default
        command = yaml.safe_load(default[1])
        if command[0] == "ros2":
            assert command[:3] == ["ros2", "launch", "dynid"] and (ROOT / "launch" / command[3]).is_file()
        else:
            assert command_fault(shlex.join(["./run", *command])) == ""


def test_the_compose_file_builds_this_tree_and_touches_a_device_in_one_profile_only() -> None:
    services = yaml.safe_load((ROOT / "docker/compose.yaml").read_text(encoding="utf-8"))["services"]
    assert set(services) == {"demo", "identification", "simulation", "real-arm"}
    for name, service in services.items():
        context = (ROOT / "docker" / service["build"]["context"]).resolve()
        assert context == ROOT and (context / service["build"]["dockerfile"]).is_file()
        command = service.get("command", [])
        assert not command or command_fault(shlex.join(["./run", *command])) == ""
        real = "devices" in service or "--real-arm" in command
        assert real == (service.get("profiles") == ["real-arm"]) == (name == "real-arm")

"""README, CONTRIBUTING and docker files against the code: commands, options, files, topics and parameters exist."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from dynid.cli import app
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docker/README.md")
SITE = tuple(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))  # links: test_docs.py


def shell_lines(text: str) -> list[str]:
    """Lines of the sh code blocks, without comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [shlex.join(shlex.split(line, comments=True)) for block in blocks for line in block.splitlines()]
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


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_linked_file_exists(name: str) -> None:
    document = ROOT / name
    links = linked_files(document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("name", (*DOCUMENTS, *SITE))
def test_every_named_folder_and_file_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:config|urdf|launch|docker|src|test|benchmarks|examples|docs)/[\w./]+)`", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_readme_names_exactly_the_nodes_topics_services_and_parameters_of_the_code() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "src/dynid/nodes").glob("*.py")}
    code = "\n".join(sources.values())
    topics = set(re.findall(r'create_publisher\(\w+, "(\w+)"', code))
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


def test_the_container_runs_existing_commands_without_root() -> None:
    dockerfile = (ROOT / "docker/Dockerfile").read_text(encoding="utf-8")
    users = re.findall(r"^USER (\S+)", dockerfile, re.MULTILINE)
    assert users and users[-1] not in ("root", "0")
    default = re.search(r"^CMD (\[.*\])", dockerfile, re.MULTILINE)
    assert default and command_fault(shlex.join(["./run", *yaml.safe_load(default[1])])) == ""


def test_the_compose_file_builds_this_tree_and_touches_no_device_by_default() -> None:
    text = (ROOT / "docker/compose.yaml").read_text(encoding="utf-8")
    demo = yaml.safe_load(text)["services"]["demo"]
    context = (ROOT / "docker" / demo["build"]["context"]).resolve()
    assert context == ROOT and (context / demo["build"]["dockerfile"]).is_file()
    assert "devices" not in demo and "--real-arm" not in demo.get("command", [])
    real = yaml.safe_load(re.sub(r"^(    )# (?!For)", r"\1", text, flags=re.MULTILINE))["services"]["demo"]
    assert real["devices"] and command_fault(shlex.join(["./run", *real["command"]])) == ""

"""Pages of the site generated from the code: commands from typer, files from schemas, the API from docstrings.

CONTRIBUTING also becomes a page, so nothing is written twice. mkdocs calls the functions `on_...`.
"""

import importlib
import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any, get_args

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from benchmarks.cli import app  # noqa: E402

PACKAGES = {
    "core": "The basis of all packages: files, errors, processes",
    "robot": "What an arm is: its file, URDF and limits; how they are drafted and checked",
    "model": "Geometry, base parameters, regressor, dynamics, standard parameters",
    "codegen": "Programs generated from the equations of motion",
    "trajectory": "Excitation motions",
    "control": "Control laws and the phases of a motion",
    "runtime": "The identified model at run time",
    "hardware": "Servo bus, control cycle, safety",
    "excitation": "Motions designed for a robot, within its limits",
    "export": "A model in formats that other software loads",
    "simulation": "The simulated arm",
    "recording": "Bags and CSV files",
    "identification": "From recordings to an accepted model",
    "reporting": "Tables, figures, reports",
}
# file: where a user meets it, and the schema that reads it
SCHEMAS = {
    "robot.yaml": ("A robot: joints, limits, drives, bounds", "dynid.robot.file:RobotFile"),
    "identification.yaml": (
        "How a robot is identified and judged",
        "dynid.identification.settings:IdentificationSettings",
    ),
    "excitation.yaml": ("Motions and their limits", "dynid.trajectory.excitation_schema:ExcitationFile"),
    "controller.yaml": ("Gains of the control laws", "dynid.control.controller:ControllerSettings"),
    "safety.yaml": ("Limits and times of the safety guard", "dynid.hardware.safety.settings:SafetySettings"),
    "models/*.yaml": ("Standard parameters of an arm, such as CAD values", "dynid.model.standard:StandardFile"),
    "mapping.yaml": ("The columns of a CSV file", "dynid.recording.csv_mapping:CsvMapping"),
    "mapping.yaml of bags": (
        "Topics and units of other software's bags, and of LeRobot data sets",
        "dynid.recording.mapping:BagMapping",
    ),
    "model.yaml": ("An identified model, its verdict and provenance", "dynid.model.model_file:ModelFile"),
    "faults.yaml": ("Faults of a simulated arm, and their times", "dynid.simulation.faults.script:FaultScript"),
    "runs/*.json": ("One run of a campaign", "dynid.identification.campaign.run:RunRecord"),
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put one API page per package into the navigation, and pages that others write where they exist."""
    api = [{name: f"reference/api/{name}.md"} for name in PACKAGES]
    for entry in config.nav or []:
        for title, pages in entry.items():
            if title == "Reference":
                entry[title] = [{"API": api} if page == {"API": "API"} else page for page in pages]
            if title == "Method":
                known = {next(iter(page.values())) for page in pages}
                more = {"Methods beside it": "methods.md", "Faults and what must happen": "faults.md"}
                pages += [{k: v} for k, v in more.items() if (ROOT / "docs" / v).is_file() and v not in known]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {
        "reference/commands.md": commands_page(),
        "reference/files.md": files_page(),
        "contributing.md": (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
    } | {f"reference/api/{name}.md": api_page(name) for name in PACKAGES}
    for path, text in pages.items():
        if (written := files.get_file_from_path(path)) is not None:
            files.remove(written)  # what a reader of the source tree finds in its place
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the source tree that are no pages become their names; a missing file stays a dead link."""
    here = (ROOT / "docs" / page.file.src_uri).parent if page.file.src_uri != "contributing.md" else ROOT

    def plain(match: re.Match[str]) -> str:
        text, target = match[1], match[2].split("#")[0]
        if "://" in target or not target:
            return match[0]
        path = Path(os.path.normpath(here / target))
        if path == ROOT / "CONTRIBUTING.md" and here != ROOT:  # which is a page of the site, too
            return f"[{text}]({os.path.relpath(ROOT / 'docs' / 'contributing.md', here)}{match[2][len(target) :]})"
        if here == ROOT and path.is_file() and path.is_relative_to(ROOT / "docs"):  # a page, seen from CONTRIBUTING
            return f"[{text}]({match[2].removeprefix('docs/')})"
        if not path.exists() or path.is_relative_to(ROOT / "docs"):
            return match[0]
        name = str(path.relative_to(ROOT))
        return f"`{name}`" if text.strip("`") in (name, path.name) else f"{text} (`{name}`)"

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", plain, markdown)


# -- commands --------------------------------------------------------------------------------------------------


def commands_page() -> str:
    """Every command with its arguments and options."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("dynid", [], resilient_parsing=True)
    parts = [
        "# Commands\n",
        "Type `./run COMMAND` in a source tree, or `dynid COMMAND` if the package is installed (without "
        "`benchmark`). With `--json` a command prints one JSON object to standard output and nothing else; progress "
        "goes to standard error. Exit codes: 0 done and accepted, 1 refused or a check failed, 2 wrong arguments, "
        "130 interrupted.\n",
        "Anywhere on the line, `--quiet` (`-q`) prints only errors and requested JSON, `--verbose` (`-v`) reports "
        "every stage with its time. Only terminals get colour; `NO_COLOR` turns it off.\n",
    ]
    for name in command.list_commands(context):
        parts += _command(command.get_command(context, name), [name], context)
    return "\n".join(parts)


def _command(command: Any, names: list[str], context: Any) -> list[str]:
    lines = [f"{'#' * (1 + len(names))} dynid {' '.join(names)}\n", inspect.cleandoc(command.help or "") + "\n"]
    rows = [row for parameter in command.params if (row := _parameter(parameter))]
    if rows:
        lines += ["| argument | what | default |", "|---|---|---|", *rows, ""]
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            lines += _command(command.get_command(context, name), [*names, name], context)
    return lines


def _parameter(parameter: Any) -> str:
    if parameter.name == "help" or getattr(parameter, "hidden", False):
        return ""
    own = parameter.opts if parameter.param_type_name == "option" else [parameter.metavar or parameter.name]
    default = parameter.default if parameter.param_type_name == "option" else None
    shown = "required" if parameter.required else "" if default in (None, False, [], ()) else f"`{default}`"
    text = (getattr(parameter, "help", "") or "").replace("|", "\\|")
    return f"| {', '.join(f'`{name}`' for name in own)} | {text} | {shown} |"


# -- files -----------------------------------------------------------------------------------------------------


def files_page() -> str:
    """Every file format that has a schema, field by field."""
    parts = [
        "# Files\n",
        "YAML files are read with the safe loader and checked against these schemas. Errors name file, field and "
        "value. Unknown fields are refused. Units are SI unless the name gives another unit.\n",
        "A **bag** is a rosbag2 folder (mcap or sqlite3). It must hold `joint_states`; a bag recorded by dynid "
        "also holds `joint_commands`, `applied_commands`, `reference`, `experiment` and `hardware_settings`, and "
        "states how it was made. **CSV files** need a `mapping.yaml`; bags of other software and data sets "
        "may have one.\n",
        "A **result folder** holds `model.yaml`, `model.urdf`, `model.xml` (MuJoCo), `rotor_inertias.yaml` (what a "
        "URDF cannot hold), `predictions.npz` (measured and predicted torques) and `report.html`; a campaign adds "
        "`campaign.json`, `tables/*.csv` and `runs/*.json`.\n",
    ]
    for name, (what, place) in SCHEMAS.items():
        module, schema = place.split(":")
        found = getattr(importlib.import_module(module), schema)
        parts.append(f"## {name}\n\n{what}.\n")
        parts += _schema(found, set())
    return "\n".join(parts)


def _schema(schema: type[BaseModel], shown: set[type]) -> list[str]:
    shown.add(schema)
    first = re.sub(r"(?m)^(\w+(?:, \w+)*): ", r"\n- `\1`: ", inspect.cleandoc(schema.__doc__ or ""))
    lines = [f"{first}\n", "| field | type | default |", "|---|---|---|"]
    nested: list[type[BaseModel]] = []
    for name, field in schema.model_fields.items():
        default = "required" if field.is_required() else f"`{_shown(field)}`"
        lines.append(f"| `{name}` | {_type(field.annotation)} | {default} |")
        nested += _models(field.annotation)
    lines.append("")
    for one in dict.fromkeys(nested):
        if one not in shown:
            lines += [f"### {one.__name__}\n", *_schema(one, shown)]
    return lines


def _shown(field: Any) -> str:
    value = field.default if field.default is not PydanticUndefined else field.default_factory()
    return "see below" if isinstance(value, BaseModel) else str(value).replace("|", "/")


def _type(annotation: Any) -> str:
    text = annotation.__name__ if inspect.isclass(annotation) and not get_args(annotation) else str(annotation)
    text = re.sub(r"Annotated\[([\w.]+), .*?\)\]", r"\1", text)
    text = re.sub(r"(typing|collections\.abc|annotated_types|dynid(\.\w+)+)\.", "", text).replace("NoneType", "None")
    return f"`{text}`".replace("|", "or")


def _models(annotation: Any) -> list[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models(part)]


# -- API -------------------------------------------------------------------------------------------------------


CORE = ("errors", "resources", "parallel")


def api_page(package: str) -> str:
    """All public modules of a package."""
    if package == "core":
        modules = list(CORE)
    else:
        folder = ROOT / "src/dynid" / package
        found = sorted(".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("*.py"))
        modules = [f"{package}.{name}" for name in found if not name.endswith("__init__")]
    title = "dynid" if package == "core" else f"dynid.{package}"
    return f"# {title}\n\n{PACKAGES[package]}.\n\n" + "\n".join(f"::: dynid.{name}\n" for name in modules)

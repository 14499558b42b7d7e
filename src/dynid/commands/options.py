"""Options that several commands share, and how a model is named."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dynid.errors import DynidError, UnknownNameError

if TYPE_CHECKING:  # every command would load them, `--help` too
    from dynid.model.dynamics import ArmModel
    from dynid.model.model_file import ModelFile
    from dynid.model.parameters import BaseParameters
    from dynid.recording.csv_mapping import CsvMapping
    from dynid.robot import Robot

RobotOption = Annotated[str, typer.Option("--robot", help="Robot name, or a folder with a robot.yaml.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
MountOption = Annotated[str | None, typer.Option("--mount", help="How the arm is mounted; see robot.yaml.")]
WithoutOption = Annotated[
    list[str] | None,
    typer.Option("--without", help="Switch off a nuisance of the simulated arm, such as coulomb; repeatable."),
]
FrictionOption = Annotated[
    str | None,
    typer.Option(
        "--friction",
        help="Friction of the simulated arm's gears: viscous, or a model such as M6; default: from robot.yaml.",
    ),
]
AdapterOption = Annotated[
    Literal["u2d2", "uart"],
    typer.Option(help="Adapter of the simulated servos: u2d2 hands replies over on its 1 ms tick, uart at once."),
]
MotorOption = Annotated[
    list[str] | None,
    typer.Option("--motor", help="Simulate an effect of the motors, such as lag, or all of them; repeatable."),
]
RateOption = Annotated[
    int, typer.Option("--rate", help="Cycle rate: 1000, 500, 333 or 250 Hz; 0: the highest that line and machine keep.")
]
MappingOption = Annotated[
    Path | None,
    typer.Option(
        "--mapping", help="Mapping that describes the columns of CSV files; `dynid robot mapping` drafts one."
    ),
]
ValidateOption = Annotated[list[Path] | None, typer.Option("--validate", help="Held-out bag or CSV; repeatable.")]
ValidateMappingOption = Annotated[
    Path | None, typer.Option("--validate-mapping", help="Mapping of the held-out CSV files, if it differs.")
]
HoldOutOption = Annotated[
    float,
    typer.Option(
        "--hold-out", min=0.0, max=0.9, help="Share at the end of each recording to hold out and judge by, such as 0.3."
    ),
]
SkipOption = Annotated[bool, typer.Option("--skip-corrupt-rows", help="Skip CSV rows that cannot be read.")]
ProfileOption = Annotated[
    str, typer.Option("--profile", help="Excitation profile; 'limited' keeps the joint limits of the real arm.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of the simulated arm's noise.")]
RealArmOption = Annotated[
    str | None, typer.Option("--real-arm", metavar="PORT", help="Serial port of a REAL arm. It will move.")
]
SpeedOption = Annotated[
    float, typer.Option(min=0.05, max=1.0, help="Speed of the replay; 1: as shown, slower where limits ask for it.")
]
DEFAULT_ROBOT, DEFAULT_PROFILE = "crane_x7", "limited"


def load_arm(robot: str, mount: str | None, without: Sequence[str] | None, friction: str | None = None) -> "Robot":
    """A robot that is to be driven or simulated.

    Raises:
        UnknownNameError: no such robot, mount, nuisance or friction.
    """
    from dynid.robot import load_robot
    from dynid.simulation.plant.gear_friction import check_friction
    from dynid.simulation.plant.nuisances import magnitudes

    loaded = load_robot(robot)
    loaded.gravity(mount)
    magnitudes(loaded, without or ())
    check_friction(loaded, friction)
    return loaded


@contextmanager
def needs_ros(what: str) -> Iterator[None]:
    """Around imports of `dynid.nodes`; DynidError says where ROS comes from if it is missing."""
    try:
        yield
    except ImportError as error:
        raise DynidError(
            f"{what} needs ROS 2 for Python ({error.name} is missing): pip install 'dynid[ros]', or source a ROS 2 "
            "installation for this Python"
        ) from error


def read_mapping(path: Path | None, skip_corrupt_rows: bool = False) -> "CsvMapping | None":
    """The mapping of CSV files, if one was named; corrupt rows are left out where it or the caller says so."""
    from dynid.recording.csv_mapping import load_mapping

    if path is None:
        return None
    mapping = load_mapping(path)
    return mapping.model_copy(update={"skip_corrupt_rows": True}) if skip_corrupt_rows else mapping


def shipped_models(robot: "Robot") -> tuple[str, ...]:
    """Names of the models that ship with a robot."""
    return tuple(sorted(path.stem for path in (robot.folder / "models").glob("*.yaml")))


def model_path(robot: "Robot", name_or_path: str) -> Path:
    """A model file, or the result folder that holds a model.yaml, or a shipped model by its name.

    Raises:
        UnknownNameError: none of these.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    if (path / "model.yaml").is_file():
        return path / "model.yaml"
    shipped = robot.folder / "models" / f"{name_or_path}.yaml"
    if not shipped.is_file():
        raise UnknownNameError("model", name_or_path, (*shipped_models(robot), "or a model.yaml"))
    return shipped


def read_model(robot: "Robot", path: Path, mount: str | None = None) -> "ModelFile":
    """A model file; a file of standard parameters is read as one, its base parameters being computed.

    Raises:
        InputNotFoundError, ConfigurationError: no such file, or neither kind.
        DataError: of another robot.
    """
    from dynid.documents import read_yaml
    from dynid.errors import DataError
    from dynid.model.dynamics import ArmModel
    from dynid.model.model_file import ModelFile, load_model, parameter_rows
    from dynid.model.standard import StandardFile, from_file
    from dynid.resources import load_validated

    content = read_yaml(path)
    if not isinstance(content, dict) or "parameters" in content or "links" not in content:
        found = load_model(path)
        if found.robot != robot.name:
            raise DataError(f"{path} is a model of '{found.robot}', not of '{robot.name}': name its robot with --robot")
        return found
    standard = load_validated(path, StandardFile)
    model = ArmModel.of(robot, mount=mount)
    base = model.base_parameters(from_file(standard, model.mdh, model.regrouping.standard))
    return ModelFile(
        robot=standard.robot,
        structure_hash=model.structure_hash,
        source=standard.source,
        standard=standard,
        parameters=parameter_rows(model, base),
    )


def parameters_for(model: "ArmModel", content: "ModelFile", robot: "Robot") -> "BaseParameters":
    """The file's base parameters as phi of `model`, whose lengths may be another profile's.

    Raises:
        DataError: the file is of another robot or structure.
    """
    from dynid.model.dynamics import ArmModel
    from dynid.model.parameters import BaseParameters

    own = ArmModel.of(robot, structure=model.structure, lengths_m=content.geometry_overrides_m)
    return BaseParameters(model.names, content.base_parameters(own).values)

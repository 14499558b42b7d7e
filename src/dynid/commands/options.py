"""Options that several commands share, and functions that load the robots, models and mappings that options name."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dynid.errors import ConfigurationError, DynidError, UnknownNameError

if TYPE_CHECKING:  # not at run time, since every command, even `--help`, would load them
    from dynid.model.dynamics import ArmModel
    from dynid.model.model_file import ModelFile
    from dynid.model.parameters import BaseParameters
    from dynid.recording.mapping import Mappings
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
MethodOption = Annotated[
    Literal["regression", "closed-loop", "campaign"],
    typer.Option(
        "--method",
        help="regression; closed-loop: refine all bags jointly; campaign: every bag at every sampling interval.",
    ),
]
MappingOption = Annotated[
    Path | None,
    typer.Option(
        "--mapping",
        help="Mapping of the columns of CSV files, or of topics and units of bags; `dynid robot mapping` drafts one.",
    ),
]
EffortOption = Annotated[
    str | None,
    typer.Option(
        "--effort",
        help="Unit of efforts in bags and data sets: 'N m' (default), 'kg cm', A, mA, '2.69 mA' (a count), "
        "'% of 1.27 N m'; ' at motor' behind it; commas between joints.",
    ),
]
PositionOption = Annotated[
    str | None,
    typer.Option("--position", help="Unit of positions in bags and data sets: rad (default), deg, rev; as --effort."),
]
RowsOption = Annotated[
    Literal["auto", "filtered", "averaged"] | None,
    typer.Option(
        "--rows",
        help="Rows of the regression: filtered and decimated, averaged under test functions (slow or uneven "
        "recordings), or auto; default: identification.yaml.",
    ),
]
ValidateOption = Annotated[
    list[Path] | None, typer.Option("--validate", help="Held-out bag, CSV or folder; repeatable.")
]
ValidateMappingOption = Annotated[
    Path | None, typer.Option("--validate-mapping", help="Mapping of the held-out recordings, if it differs.")
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
    float,
    typer.Option(min=0.05, max=1.0, help="Speed of the replay; 1: as demonstrated, slower where limits require it."),
]
DEFAULT_ROBOT, DEFAULT_PROFILE = "crane_x7", "limited"


def load_arm(robot: str, mount: str | None, without: Sequence[str] | None, friction: str | None = None) -> "Robot":
    """Load a robot that will be driven or simulated, and check the options that belong to it.

    Args:
        robot: name or folder of the robot.
        mount: name of a mount; None is the default mount.
        without: names of nuisances (such as noise or backlash) of the simulated arm to leave out.
        friction: name of the simulated arm's friction model; None is the choice of robot.yaml.

    Raises:
        UnknownNameError: the robot, mount, nuisance or friction model is unknown.
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
def needs_ros(command: str) -> Iterator[None]:
    """Convert an ImportError in the `with` block, which imports ROS nodes, to a DynidError on how to install ROS.

    `command` is the beginning of the message, such as "the demo".
    """
    try:
        yield
    except ImportError as error:
        raise DynidError(
            f"{command} needs ROS 2 for Python ({error.name} is missing): pip install 'dynid[ros]', or source a ROS 2 "
            "installation for this Python"
        ) from error


def read_mapping(
    path: Path | None,
    skip_corrupt_rows: bool = False,
    *,
    position: str | None = None,
    effort: str | None = None,
    otherwise: "Mappings | None" = None,
) -> "Mappings | None":
    """Return the mappings that a file and options define: how to read columns, topics and units of recordings.

    Return None if neither they nor `otherwise` define a mapping.

    Args:
        path: mapping file for CSV files or bags.
        skip_corrupt_rows: whether to skip corrupt rows of CSV files, even if the mapping file does not demand it. This
            does not affect `otherwise`.
        position: unit of positions in bags and data sets.
        effort: unit of efforts in bags and data sets.
        otherwise: mappings that are used for CSV files or bags if file and options do not describe them.

    Raises:
        InputNotFoundError: the file is missing.
        ConfigurationError: file or units are not valid.
    """
    from dynid.recording.mapping import Mappings, mappings_of, stated_units

    found = mappings_of(path)
    csv, bag = found.csv, stated_units(found.bag, position, effort)
    if csv is not None and skip_corrupt_rows:
        csv = csv.model_copy(update={"skip_corrupt_rows": True})
    mappings = otherwise or Mappings()
    found = Mappings(csv or mappings.csv, bag or mappings.bag)
    return None if found == Mappings() else found


def _kinds(recordings: Sequence[Path]) -> set[str]:
    """Return the kinds of recordings, "bag", "CSV" and "LeRobot", including those in folders.

    A path without recordings counts as "unknown"; reading it raises the error that explains it.
    """
    from dynid.identification.data.log_search import is_bag, places
    from dynid.recording.csv_reader import is_csv

    found: set[str] = set()
    for path in recordings:
        if is_csv(path) or is_bag(path):
            found.add("CSV" if is_csv(path) else "bag")
            continue
        try:
            found |= {one.kind for one in places(path) if one.problem is None}
        except DynidError:
            found.add("unknown")
    return found


def refuse_unused_mapping(mapping: "Mappings | None", recordings: Sequence[Path]) -> None:
    """Raise ConfigurationError if a mapping describes bags but all recordings are CSV files, or vice versa.

    A folder stands for the recordings in it. Units from the options --position and --effort are entries of the mapping
    for bags, which describes data sets, too.
    """
    if mapping is None or (mapping.bag is None and mapping.csv is None) or not recordings:
        return
    kinds = _kinds(recordings)  # searches folders
    if mapping.bag is not None and kinds == {"CSV"}:
        raise ConfigurationError(
            "all recordings are CSV files, whose units are stated with their columns in the mapping: leave --effort, "
            "--position and the mapping of bags out"
        )
    if mapping.csv is not None and kinds and kinds <= {"bag", "LeRobot"}:
        raise ConfigurationError(
            "all recordings are bags or data sets, and the mapping describes columns of CSV files: leave it out, or "
            "describe joints and units of the bags instead"
        )


def read_validation_mapping(
    path: Path | None, validation: Sequence[Path], skip_corrupt_rows: bool = False
) -> "Mappings | None":
    """Return the mappings that a file defines for held-out recordings alone; None without a file.

    Args:
        path: mapping file, the option --validate-mapping.
        validation: held-out recordings.
        skip_corrupt_rows: whether to skip corrupt rows of CSV files, even if the mapping file does not demand it.

    Raises:
        InputNotFoundError: the file is missing.
        ConfigurationError: the file is not valid, or describes recordings of which there are none.
    """
    if path is not None and not validation:
        raise ConfigurationError(
            f"--validate-mapping {path} describes recordings of --validate, and there are none: name them, or leave "
            "the mapping out"
        )
    found = read_mapping(path, skip_corrupt_rows)
    refuse_unused_mapping(found, validation)
    return found


def read_two_mappings(
    path: Path | None,
    second: Path | None,
    recordings: Sequence[Path],
    others: Sequence[Path],
    skip_corrupt_rows: bool = False,
) -> "tuple[Mappings | None, Mappings | None]":
    """Return the mappings of recordings and of other recordings, which may have a mapping file of their own.

    Args:
        path: mapping file of the recordings, and of the others unless `second` is given.
        second: mapping file of the other recordings only, if it differs.
        recordings: recordings that are read with the first mappings.
        others: recordings that are read with the second mappings.
        skip_corrupt_rows: whether to skip corrupt rows of CSV files, even if a mapping file does not demand it.

    Raises:
        InputNotFoundError: a file is missing.
        ConfigurationError: a file is not valid, or describes only CSV files or bags of which there are none.
    """
    if second is not None and not others:
        raise ConfigurationError(
            f"{second} describes held-out or second recordings, and there are none: name them, or leave it out"
        )
    first = read_mapping(path, skip_corrupt_rows)
    if second is None:
        refuse_unused_mapping(first, [*recordings, *others])
        return first, first
    other = read_mapping(second, skip_corrupt_rows)
    refuse_unused_mapping(first, recordings)
    refuse_unused_mapping(other, others)
    return first, other


def shipped_models(robot: "Robot") -> tuple[str, ...]:
    """Return the names of the models in the folder `models` of a robot."""
    return tuple(sorted(path.stem for path in (robot.folder / "models").glob("*.yaml")))


def model_path(robot: "Robot", name_or_path: str) -> Path:
    """Return the path of a model file.

    Args:
        robot: the robot.
        name_or_path: the file, a result folder with a model.yaml, or the name of a model in the robot's `models`.

    Raises:
        UnknownNameError: no such file, folder or model.
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
    """Return the content of a model file, or of a file of standard parameters converted to a model.

    Base parameters are computed from standard parameters at the given mount; None is the default mount.

    Raises:
        InputNotFoundError: the file is missing.
        ConfigurationError: the file is neither a model file nor a file of standard parameters.
        DataError: the file belongs to another robot.
    """
    from dynid.documents import read_yaml
    from dynid.errors import DataError
    from dynid.model.dynamics import ArmModel
    from dynid.model.model_file import ModelFile, parameter_rows, read_model_file
    from dynid.model.standard import StandardFile, from_file
    from dynid.resources import load_validated

    content = read_yaml(path)
    if not isinstance(content, dict) or "parameters" in content or "links" not in content:
        found = read_model_file(path)
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
    """Return the values in a model file as base parameters of `model`.

    The file must belong to a model with the same structure, but its link lengths may differ from those of `model`.

    Raises:
        DataError: the file belongs to another robot or to another model structure.
    """
    from dynid.model.dynamics import ArmModel
    from dynid.model.parameters import BaseParameters

    own = ArmModel.of(robot, structure=model.structure, lengths_m=content.geometry_overrides_m)
    return BaseParameters(model.names, content.base_parameters(own).values)

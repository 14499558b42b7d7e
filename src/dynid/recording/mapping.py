"""Schemas and readers of mapping files, which state the names, units and mount that a recording lacks.

A mapping with a field `time` or `rate_hz`, or with `columns` of a quantity, is for CSV files, see `CsvMapping`. Any
other mapping is for bags of other software and for LeRobot data sets:

    schema_version: 1
    topics: [/arm/joint_states, /wrist/joint_states]
    joints: [shoulder_pan_joint, shoulder_lift_joint, elbow_joint]   # as messages name them
    position: {unit: deg}
    torque: {unit: 2.69 mA, sign: [1, -1, 1]}
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from dynid.documents import read_yaml
from dynid.errors import ConfigurationError
from dynid.recording.csv_mapping import CsvMapping
from dynid.recording.quantity import Conversion, Quantity, quantity_of
from dynid.resources import invalid_fields
from dynid.robot import Robot, Strict


class BagMapping(Strict):
    """Schema of a mapping file for bags and data sets; every field has a default.

    topics: topics with the arm's joint states, merged if each contains only some joints; () searches for them.
    joints: names of the robot's joints in messages, or of columns in a data set, in the robot's order; () uses the
        robot's joint names.
    mount: name of the arm's mount (how it is fixed) during the recording; None is the robot's default.
    torque_delay_s: delay from the stamp of a commanded torque to the middle of the time in which it acts [s]; 0 for
        measured torques.
    position: unit, side and sign of positions; None is rad, or m for a prismatic joint.
    torque: unit, side and sign of efforts; None is N m at the joints, or N for a prismatic joint.
    """

    schema_version: Literal[1] = 1
    topics: tuple[str, ...] = ()
    joints: tuple[str, ...] = ()
    mount: str | None = None
    torque_delay_s: float = 0.0
    position: Quantity | None = None
    torque: Quantity | None = None

    def names(self, robot: Robot) -> tuple[str, ...]:
        """Return the names that messages use for the joints, (n,), in the robot's order.

        Raises:
            ConfigurationError: a name is repeated, or the number of names differs from the robot's number of joints.
        """
        names = self.joints or robot.joint_names
        if len(set(names)) != robot.size or len(names) != robot.size:
            raise ConfigurationError(
                f"the mapping names the joints {', '.join(names)}; expected {robot.size} different ones, one per joint "
                f"of robot '{robot.name}': {', '.join(robot.joint_names)}"
            )
        return names

    def conversion(self, robot: Robot) -> Conversion:
        """Return the conversion from raw numbers to values at the joints; errors are those of `Conversion`."""
        return Conversion(robot, self.position, self.torque)


@dataclass(frozen=True)
class Mappings:
    """Mapping for CSV files and mapping for bags and data sets, each None if it is missing."""

    csv: CsvMapping | None = None
    bag: BagMapping | None = None


OneMapping = CsvMapping | BagMapping | dict[str, Any] | Path | str
Mapping = Mappings | OneMapping | Sequence[OneMapping] | None
"""Any form of a mapping: object, content or file; or two of them, one for CSV files and one for bags."""


def mappings_of(mapping: Mapping) -> Mappings:
    """Convert one mapping, or one for CSV files and one for bags, to `Mappings`.

    Each mapping may be given as an object, as a dict with its content, or as the path of its file.

    Raises:
        InputNotFoundError: a mapping file does not exist.
        ConfigurationError: a field is wrong, or both mappings are for CSV files, or both are for bags.
    """
    if isinstance(mapping, Mappings):
        return mapping
    one = isinstance(mapping, (CsvMapping, BagMapping, dict, Path, str))
    given = [] if mapping is None else [mapping] if one else mapping
    found = [_checked(item) for item in given]  # type: ignore[union-attr]
    csv = [item for item in found if isinstance(item, CsvMapping)]
    bag = [item for item in found if isinstance(item, BagMapping)]
    if max(len(csv), len(bag)) > 1:
        kind = "CSV files" if len(csv) > 1 else "bags"
        raise ConfigurationError(f"two mappings describe {kind}; expected at most one of CSV files and one of bags")
    return Mappings(next(iter(csv), None), next(iter(bag), None))


def _checked(item: Any) -> CsvMapping | BagMapping:
    if isinstance(item, (CsvMapping, BagMapping)):
        return item
    if isinstance(item, dict):
        return _of_content({"schema_version": 1} | item, "the mapping")
    if isinstance(item, (Path, str)):
        return load_mapping(Path(item))
    raise ConfigurationError(
        f"the mapping is of type {type(item).__name__}; expected its file, its content as a dict, CsvMapping or "
        "BagMapping"
    )


def load_mapping(path: Path) -> CsvMapping | BagMapping:
    """Read a mapping file for CSV files or for bags; errors name the file, the field and the expected value."""
    return _of_content(read_yaml(path), str(path))


def _of_content(content: Any, name: str) -> CsvMapping | BagMapping:
    of_csv = True  # the CSV schema also refuses content that is not a block of fields
    if isinstance(content, dict):
        groups = [content.get(key) for key in ("position", "torque", "velocity")]
        of_csv = not {"time", "rate_hz"}.isdisjoint(content) or any(
            isinstance(group, dict) and "columns" in group for group in groups
        )
    schema = CsvMapping if of_csv else BagMapping
    try:
        return schema.model_validate(content)
    except ValidationError as error:
        raise ConfigurationError(f"{name}: {invalid_fields(error, schema)}") from error


def stated_units(mapping: BagMapping | None, position: str | None, effort: str | None) -> BagMapping | None:
    """Add the units from command-line options to a bag mapping; return it unchanged without options.

    Args:
        mapping: mapping for bags; None if there is none.
        position: value of the option --position, see `quantity_of`; None if not given.
        effort: value of the option --effort, see `quantity_of`; None if not given.

    Raises:
        ConfigurationError: the mapping and an option both state the unit of positions, or both state the unit of
            efforts.
    """
    if position is None and effort is None:
        return mapping
    known = mapping or BagMapping()
    changes = {}
    for key, field, text in (("--position", "position", position), ("--effort", "torque", effort)):
        if text is None:
            continue
        if getattr(known, field) is not None:
            raise ConfigurationError(f"the mapping says what the {field} is: leave {key} {text} out")
        changes[field] = quantity_of(text)
    return known.model_copy(update=changes)

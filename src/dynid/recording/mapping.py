"""How recordings are described that do not describe themselves: CSV files by columns, bags and data sets by topics.

A mapping whose groups name `columns`, or that says which time rows have, is of CSV files, see `CsvMapping`. Any other
is of bags of other software and of LeRobot data sets:

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
    """The schema of a mapping file of bags and data sets; every field has a default.

    topics: whose joint states are the arm's, merged where each holds some of its joints; () looks for them.
    joints: the names of the robot's joints in messages, or of columns in a data set, in the robot's order; () are its
        own.
    mount: how the arm was mounted; None is the robot's default.
    torque_delay_s: from the stamp of a torque to the middle of its effect; 0 of measured torques.
    position: what positions are; None is rad, or m of a sliding joint.
    torque: what efforts are; None is N m at the joints, or N of a sliding joint.
    """

    schema_version: Literal[1] = 1
    topics: tuple[str, ...] = ()
    joints: tuple[str, ...] = ()
    mount: str | None = None
    torque_delay_s: float = 0.0
    position: Quantity | None = None
    torque: Quantity | None = None

    def names(self, robot: Robot) -> tuple[str, ...]:
        """Return the joints' names in messages, (n,), in the robot's order.

        Raises:
            ConfigurationError: another number of names than the robot has joints, or one twice.
        """
        names = self.joints or robot.joint_names
        if len(set(names)) != robot.size or len(names) != robot.size:
            raise ConfigurationError(
                f"the mapping names the joints {', '.join(names)}; expected {robot.size} different ones, one per joint "
                f"of robot '{robot.name}': {', '.join(robot.joint_names)}"
            )
        return names

    def conversion(self, robot: Robot) -> Conversion:
        """Return what makes values at the joints of raw numbers; errors as of `Conversion`."""
        return Conversion(robot, self.position, self.torque)


@dataclass(frozen=True)
class Mappings:
    """The mapping of CSV files, and that of bags and data sets; None where there is none."""

    csv: CsvMapping | None = None
    bag: BagMapping | None = None


OneMapping = CsvMapping | BagMapping | dict[str, Any] | Path | str
Mapping = Mappings | OneMapping | Sequence[OneMapping] | None
"""A mapping, its content or the file that holds it; two, if one is of CSV files and one of bags."""


def mappings_of(mapping: Mapping) -> Mappings:
    """Return what is given in any form.

    Raises:
        InputNotFoundError, ConfigurationError: a file that is not there or has wrong fields, or two of one kind.
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
    """Read a mapping file of either kind; errors name the file, the field and what was expected."""
    return _of_content(read_yaml(path), str(path))


def _of_content(content: Any, name: str) -> CsvMapping | BagMapping:
    of_csv = True  # what is no block of fields is refused by that schema
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
    """Return the mapping of bags with units that options state, see `quantity_of`; None where nothing is stated.

    Raises:
        ConfigurationError: mapping and option both state a unit.
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

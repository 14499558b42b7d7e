"""Published friction of servo gears: the file `friction.yaml` in a robot's folder, with the source of every value."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from pydantic import model_validator

from dynid.errors import ConfigurationError, UnknownNameError
from dynid.model.bam import read_bam
from dynid.model.friction import MODELS, SYMBOLS, FrictionLaw
from dynid.resources import load_validated
from dynid.robot import Robot, Strict
from dynid.robot.file import Joint

VISCOUS = "viscous"  # name of the friction of a simulated arm without gear data
FILE_NAME = "friction.yaml"
# Exponents of the number of servos and of the gear ratio that convert a servo's figure to the joint; (0, 0) by default.
AT_JOINT = {"fb": (1, 1), "fs": (1, 1), "fv": (1, 2), "kmq": (-1, -1), "keq": (-1, -1), "ws": (0, -1)}


class Gear(Strict):
    """Published friction values of one gear, and their source.

    Attributes:
        source: origin of the values.
        models: parameter values by friction model ("M1" to "M6") and symbol, see `dynid.model.friction`.
        bam: names of parameter files of BAM (github.com/Rhoban/bam) in the folder of friction.yaml; each adds the
            values of one friction model.
    """

    source: str
    models: dict[str, dict[str, float]] = {}
    bam: tuple[str, ...] = ()

    def with_files(self, folder: Path) -> "Gear":
        """Return a copy of this gear whose `models` include the values of its BAM files, which are in `folder`."""
        read = [read_bam(folder / name) for name in self.bam]
        return self.model_copy(update={"models": self.models | {one.model: one.figures for one in read}})

    @model_validator(mode="after")
    def _known(self) -> "Gear":
        for model, figures in self.models.items():
            if model not in MODELS:
                raise ValueError(f"friction model '{model}' is none of {', '.join(MODELS)}")
            wrong = sorted(set(figures) ^ set(MODELS[model]))
            if wrong:
                raise ValueError(f"{model} needs the values {', '.join(MODELS[model])}; unknown or missing: {wrong}")
        return self


class GearFile(Strict):
    """Schema of friction.yaml.

    Attributes:
        schema_version: version of the schema.
        servos: name of the gear of each servo model, or of a similar gear if the servo's own has no published values.
        gears: friction values by the name of the gear.
    """

    schema_version: int
    servos: dict[str, str]
    gears: dict[str, Gear]


def load_gears(robot: Robot) -> GearFile:
    """Load the robot's friction.yaml, and the parameter files of BAM (github.com/Rhoban/bam) that it names.

    Raises:
        InputNotFoundError, ConfigurationError: the file does not exist, or is not valid.
    """
    file = load_validated(robot.folder / FILE_NAME, GearFile)
    gears = {name: gear.with_files(robot.folder) for name, gear in file.gears.items()}
    return file.model_copy(update={"gears": gears})


def known_models(robot: Robot) -> tuple[str, ...]:
    """Return the friction models among M1 to M6 for which friction.yaml has values of all servos of the robot.

    The result is () if the robot's folder has no friction.yaml.
    """
    if not (robot.folder / FILE_NAME).is_file():
        return ()
    file = load_gears(robot)
    gears = [file.gears.get(file.servos.get(str(joint.servo_model), "")) for joint in robot.file.joints]
    return tuple(model for model in MODELS if all(gear is not None and model in gear.models for gear in gears))


def at_joint(figures: Mapping[str, float], joint: Joint) -> dict[str, float]:
    """Convert the friction parameters of a servo to those of the joint that it moves.

    Each parameter is multiplied by powers of the joint's number of servos and of its |gear ratio|, with the exponents
    in `AT_JOINT`. Parameters that `AT_JOINT` lacks stay unchanged.

    Args:
        figures: friction parameters of one servo by symbol, SI.
        joint: the joint.
    """
    ratio = abs(joint.gear_ratio)
    powers = {symbol: AT_JOINT.get(symbol, (0, 0)) for symbol in figures}
    return {
        symbol: value * float(joint.servo_count) ** powers[symbol][0] * ratio ** powers[symbol][1]
        for symbol, value in figures.items()
    }


def gear_friction(robot: Robot, model: str = "M6", file: GearFile | None = None) -> FrictionLaw:
    """Return the friction law of all axes of a robot from published values of its gears.

    Friction depends on sign(dq), without a smooth transition at rest.

    Args:
        robot: robot whose joints name their servo models.
        model: friction model, "M1" to "M6".
        file: content of a friction.yaml; None is the robot's own file.

    Raises:
        UnknownNameError: no values for this model.
        ConfigurationError: a joint's servo is not in the file.
    """
    file = file or load_gears(robot)
    values: dict[str, list[float]] = {symbol: [] for symbol in SYMBOLS}
    for joint in robot.file.joints:
        gear = file.gears.get(file.servos.get(str(joint.servo_model), ""))
        if gear is None:
            raise ConfigurationError(f"{FILE_NAME} of '{robot.name}' has no gear for the servo of joint {joint.name}")
        if model not in gear.models:
            raise UnknownNameError("friction model", model, tuple(gear.models))
        figures = at_joint(gear.models[model], joint)
        for symbol in SYMBOLS:
            values[symbol].append(figures.get(symbol, 0.0))
    return FrictionLaw.of(robot.size, {symbol: np.array(row) for symbol, row in values.items() if any(row)})

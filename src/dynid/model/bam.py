"""Gear friction in the parameter files of BAM (github.com/Rhoban/bam): JSON, one file per gear.

BAM defines the friction models M1 to M6 and a motor: torque constant, resistance, rotor inertia. A BAM file cannot
hold other terms, such as friction that differs by direction (FA) and offsets (OF); if a gear has such terms, the key
`note` of the written file lists them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynid.documents import read_json
from dynid.errors import ConfigurationError, cut, shown
from dynid.model.friction import MODELS, TERMS, FrictionLaw

FILE_KEYS = {
    "fb": "friction_base",
    "fs": "friction_stribeck",
    "km": "load_friction_motor",
    "ke": "load_friction_external",
    "kms": "load_friction_motor_stribeck",
    "kes": "load_friction_external_stribeck",
    "kmq": "load_friction_motor_quad",
    "keq": "load_friction_external_quad",
    "ws": "dtheta_stribeck",
    "a": "alpha",
    "fv": "friction_viscous",
}
EQUAL_COEFFICIENTS: dict[str, tuple[str, ...]] = {
    "load_friction_base": ("km", "ke"),
    "load_friction_stribeck": ("kms", "kes"),
}  # M3 and M4 have equal coefficients of motor torque and load
MOTOR_KEYS = ("kt", "R", "armature", "q_offset")  # keys of motor and test bench; BAM's files of eRob motors lack R
LARGEST_VALUE = 1e9  # upper bound of any value in a file, each in its own SI unit
TEXT_KEYS = ("model", "actuator", "note")
UNSUPPORTED_TERMS = tuple(term.symbol for term in TERMS if term.symbol not in MODELS["M6"])


@dataclass(frozen=True)
class BamGear:
    """Friction and motor data of one gear, as in a parameter file of BAM (github.com/Rhoban/bam).

    All values are in SI units at the joint; a value that the file lacks is None.

    Attributes:
        model: friction model, "M1" to "M6".
        figures: friction parameters of this model by symbol, see `dynid.model.friction.TERMS`.
        torque_constant: torque constant of the motor [N m/A].
        resistance: resistance of the winding [ohm].
        rotor_inertia: inertia of the rotor, as seen at the joint [kg m^2].
        actuator: BAM's name of the servo.
    """

    model: str
    figures: dict[str, float]
    torque_constant: float | None = None
    resistance: float | None = None
    rotor_inertia: float | None = None
    actuator: str = ""


def _keys_of(model: str) -> dict[str, tuple[str, ...]]:
    """Return the keys of a BAM file for a friction model "M1" to "M6", and the friction symbols that each key sets."""
    symbols = MODELS[model]
    if model in ("M3", "M4"):
        both = {key: pair for key, pair in EQUAL_COEFFICIENTS.items() if pair[0] in symbols}
        return both | {FILE_KEYS[one]: (one,) for one in symbols if one not in ("km", "ke", "kms", "kes")}
    return {FILE_KEYS[one]: (one,) for one in symbols}


def read_bam(path: Path) -> BamGear:
    """Read a parameter file of BAM (github.com/Rhoban/bam), which describes the friction and motor of one gear.

    Raises:
        InputNotFoundError: no such file.
        ConfigurationError: not a JSON object, a model other than M1 to M6, a key that is unknown or missing, or a
            physically impossible value. The message names file and key.
    """
    content = read_json(path, what="BAM parameter")
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} holds no JSON object; expected a BAM parameter file")
    model = str(content.get("model", "")).upper()
    if model not in MODELS:
        raise ConfigurationError(f"{path}: model '{cut(str(content.get('model')))}' is none of {', '.join(MODELS)}")
    keys = _keys_of(model)
    unknown = sorted(set(content) - set(keys) - {*MOTOR_KEYS, *TEXT_KEYS})
    missing = sorted(set(keys) - set(content))
    if unknown or missing:
        what = f"the unknown key '{cut(unknown[0])}'" if unknown else f"no key '{missing[0]}'"
        raise ConfigurationError(f"{path}: a file of model {model} has {what}; expected {', '.join(keys)}")
    figures = {symbol: _number(path, content, key) for key, symbols in keys.items() for symbol in symbols}
    kt, resistance, inertia = (_number(path, content, key) if key in content else None for key in MOTOR_KEYS[:3])
    return BamGear(model, figures, kt, resistance, inertia, str(content.get("actuator", "")))


def _number(path: Path, content: dict[str, object], key: str) -> float:
    value = content[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= LARGEST_VALUE:
        raise ConfigurationError(
            f"{path}: {key} is {shown(value)}; expected a number of at least 0, at most {LARGEST_VALUE:g}"
        )
    return float(value)


def law_of(gears: Sequence[BamGear]) -> FrictionLaw:
    """Return the friction law of n axes with one gear each, in the order of `gears`.

    Raises:
        DataError: physically impossible values.
    """
    symbols = {symbol for gear in gears for symbol in gear.figures}
    return FrictionLaw.of(len(gears), {s: np.array([gear.figures.get(s, 0.0) for gear in gears]) for s in symbols})


def smallest_model(law: FrictionLaw, axis: int) -> str:
    """Return the first of the friction models M1 to M6 that can represent the friction of one axis.

    Terms that none of these models has, FA (friction that differs by direction) and OF (offset), are ignored.

    Args:
        law: friction law of all axes.
        axis: index of the axis.
    """
    value = {term.symbol: float(row[axis]) for term, row in zip(TERMS, law.values, strict=True)}
    there = {symbol for symbol, figure in value.items() if figure and symbol not in UNSUPPORTED_TERMS}
    alike = value["km"] == value["ke"] and value["kms"] == value["kes"]
    fits = [model for model in MODELS if there <= set(MODELS[model]) and (alike or model not in ("M3", "M4"))]
    return fits[0]


def bam_text(
    law: FrictionLaw, axis: int, *, actuator: str, rotor_inertia: float, torque_constant: float | None = None
) -> str:
    """Return the text of a BAM parameter file (JSON) for one axis.

    The file lacks the resistance of the winding, which identification does not give. To simulate the servo's position
    control, BAM then uses a default.

    Args:
        law: friction law of all axes; the file uses the first of M1 to M6 that can represent the axis.
        axis: index of the axis.
        actuator: name of the servo.
        rotor_inertia: inertia of the rotor, as seen at the joint [kg m^2].
        torque_constant: torque constant [N m/A]; None if unknown.
    """
    model = smallest_model(law, axis)
    value = {term.symbol: float(row[axis]) for term, row in zip(TERMS, law.values, strict=True)}
    if not value["ws"]:
        value |= {"ws": 1.0, "a": 1.0}  # a Stribeck model needs a shape even if its term is zero
    content: dict[str, object] = {} if torque_constant is None else {"kt": torque_constant}
    content["armature"] = rotor_inertia
    content |= {key: value[symbols[0]] for key, symbols in _keys_of(model).items()}
    content |= {"model": model.lower(), "actuator": actuator}
    left = [f"{one.prefix} {value[one.symbol]:.6g} {one.unit}" for one in TERMS if one.symbol in UNSUPPORTED_TERMS]
    if any(value[symbol] for symbol in UNSUPPORTED_TERMS):
        content["note"] = f"BAM cannot hold {' and '.join(left)}"
    return json.dumps(content, indent=4) + "\n"

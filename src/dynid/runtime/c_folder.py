"""Writer of the output folder of `dynid export c`: C header, source, test, example control loop and CMake file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynid.model.drive import KINDS, of_kinds
from dynid.model.friction import FrictionLaw
from dynid.robot import FloatArray
from dynid.runtime.c_folder_text import CMAKE, EXAMPLE, TEST
from dynid.runtime.c_source import CSource
from dynid.runtime.model import Model

BoolArray = NDArray[np.bool_]

STATES, SEED = 25, 20261127
# of double and float results: relative to the largest value, or absolute if that is below 1
TOLERANCE, SINGLE_TOLERANCE = 1e-9, 1e-4
# relative distance from friction's step at |tm| = |te| within which `float` may find the other solution
STEP_MARGIN = 1e-4


def write_c(folder: Path, source: CSource) -> list[str]:
    """Write the C files of a model into an existing folder and return their names."""
    name = source.name
    files = {
        f"{name}.h": source.header(),
        f"{name}.c": source.source(),
        f"test_{name}.c": _filled(TEST, source, **_values(source)),
        f"example_{name}.c": _filled(EXAMPLE, source) if source.limits is not None else "",
        "CMakeLists.txt": _filled(CMAKE, source),
    }
    written = {file: text for file, text in files.items() if text}
    for file, text in written.items():
        (folder / file).write_text(text, encoding="utf-8")
    return list(written)


def _filled(template: str, source: CSource, **words: str) -> str:
    known = {"NAME": source.name, "UPPER": source.name.upper(), "AXES": str(source.model.robot.size)}
    known |= {"EXAMPLE": "1" if source.limits is not None else "0"}
    for word, value in (known | words).items():
        template = template.replace(f"@{word}@", value)
    return template


def _values(source: CSource) -> dict[str, str]:
    """Return the texts that replace the placeholders in the template of the C test, by placeholder.

    The texts contain random states within the limits, and the results that the model computes for them. With `float`
    numbers, states at which friction has two possible values are omitted, see `ambiguous_torques`.
    """
    model, rng = source.model, np.random.default_rng(SEED)
    robot = model.robot
    shape = (STATES, robot.size)
    q = rng.uniform(robot.lower, robot.upper, shape)
    dq = rng.uniform(-1.0, 1.0, shape) * robot.velocity_limits
    ddq, load = rng.uniform(-5.0, 5.0, shape), model.gravity(q)
    if source.single:  # round to the inputs that the C program receives
        q, dq, ddq, load = (np.asarray(np.float32(one), dtype=np.float64) for one in (q, dq, ddq, load))
        unique = ~(ambiguous_torques(model, q, dq, ddq) | ambiguous_friction(model, dq, load)).any(axis=1)
        q, dq, ddq, load = (one[unique] for one in (q, dq, ddq, load))
    inertia = model.inertia_matrix(q).reshape(len(q), -1)
    tables = {"Q": q, "DQ": dq, "DDQ": ddq, "LOAD": load, "GRAVITY": model.gravity(q), "INERTIA": inertia}
    tables |= {"TORQUES": model.torques(q, dq, ddq), "FRICTION": model.friction(dq, load)}
    words = {f"V_{key}": _table(values) for key, values in tables.items()}
    return words | {"STATES": str(len(q)), "TOLERANCE": repr(SINGLE_TOLERANCE if source.single else TOLERANCE)}


def ambiguous_torques(model: Model, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> BoolArray:
    """Return a Boolean mask (N, n) of the joints and states at which the motor torque is ambiguous.

    Friction depends on the motor torque, so two motor torques may satisfy the friction law at one state. Rounding
    errors decide which solution is found, so code with `float` numbers may find another one than code with `double`
    numbers.

    Args:
        model: the model.
        q: positions, (N, n) [rad].
        dq: velocities, (N, n) [rad/s].
        ddq: accelerations, (N, n) [rad/s^2].
    """
    if model.friction_law is None:
        return np.zeros(q.shape, dtype=bool)
    bare = replace(model, friction_law=None)
    links = replace(bare, base=of_kinds(model.base, KINDS, others=True))
    return _with_a_double(model.friction_law, dq, bare.torques(q, dq, ddq), -links.torques(q, dq, 0.0 * ddq))


def ambiguous_friction(model: Model, dq: FloatArray, load: FloatArray) -> BoolArray:
    """Return a Boolean mask (N, n) of the joints and states at which two friction torques satisfy the friction law.

    Args:
        model: the model.
        dq: velocities, (N, n) [rad/s].
        load: torques that the motors deliver to the links, which load the gears, (N, n) [N m].
    """
    if model.friction_law is None:
        return np.zeros(dq.shape, dtype=bool)
    own = replace(model, friction_law=None).friction(dq, load)
    return _with_a_double(model.friction_law, dq, load + own, -load)


def _with_a_double(law: FrictionLaw, dq: FloatArray, wanted: FloatArray, te: FloatArray) -> BoolArray:
    """Return a mask (N, n) of the joints and states at which the equation for the motor torque has two solutions.

    The equation for the motor torque tm is tm = wanted + friction(dq, tm, te). Friction as a function of tm jumps where
    motor torque and load balance, tm = -te. So there may be one solution on each side of this jump.

    Args:
        law: the friction law.
        dq: velocities, (N, n) [rad/s].
        wanted: motor torques without the friction of `law`, (N, n) [N m].
        te: external torques that load the gears, (N, n) [N m].
    """
    sides = np.sort([-te * (1.0 - STEP_MARGIN), -te * (1.0 + STEP_MARGIN)], axis=0)
    low, high = (tm - wanted - law.torque(dq, tm, te) for tm in sides)
    near = STEP_MARGIN * np.abs(te)
    return np.asarray((low > -near) & (high < near))


def _table(values: FloatArray) -> str:
    return ",\n    ".join("{" + ", ".join(repr(float(x)) for x in row) + "}" for row in values)

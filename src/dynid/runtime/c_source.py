"""C99 header and source of a model: torques, gravity, inertia matrix, friction, limits, acceptance."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynid.control.dynamics_kernel import TRANSITION_RAD_S
from dynid.errors import ConfigurationError
from dynid.model import friction
from dynid.robot import FloatArray
from dynid.runtime.c_function import HELPERS, CFunction, needed
from dynid.runtime.c_program import Number, c_function, double_number, float_number
from dynid.runtime.c_text import BODY, COMPUTED_TORQUE, HEADER, SOURCE
from dynid.runtime.calls import Constants
from dynid.runtime.kernels import ABOUT, COEFFICIENT, JOINT, POWER
from dynid.runtime.model import Model
from dynid.runtime.programs import state_programs

LAW = (
    friction.direction, friction.fading, friction.plain_budget, friction.plain_torque, friction.load_at,
    friction.load_budget, friction.budget_of, friction.torque_of, friction.slope_by_motor, friction.motor_torque_of,
)  # fmt: skip


def identifier(text: str) -> str:
    """Return a name as a valid C identifier; characters that are not allowed become `_`."""
    found = "".join(one if one.isascii() and one.isalnum() else "_" for one in text)
    return found if found[:1].isalpha() else f"arm_{found}"


@dataclass(frozen=True)
class CSource:
    """Identified model as C source code.

    Attributes:
        model: the model.
        sha256: SHA-256 of the model file, which a comment in the source states.
        single: whether numbers are `float`, for microcontrollers, instead of `double`.
    """

    model: Model
    sha256: str
    single: bool = False

    @cached_property
    def name(self) -> str:
        """Prefix of all C names; for a model that was not accepted it ends with "_rejected"."""
        return identifier(self.model.robot.name) + ("" if self.model.accepted else "_rejected")

    @cached_property
    def limits(self) -> FloatArray | None:
        """Torque limits of the joints, (n,) [N m]; None if robot.yaml has none."""
        try:
            return self.model.robot.torque_limits
        except ConfigurationError:
            return None

    def header(self) -> str:
        """Return the text of the C header."""
        return self._filled(HEADER)

    def source(self) -> str:
        """Return the text of the C source file."""
        parts = [self._law()]
        programs = state_programs(self.model.arm())
        parts += [c_function(f"rigid_{name}", program, self._number) for name, program in programs.items()]
        parts += [self._springs(), self._dry(), self._filled(BODY)]
        parts += [self._filled(COMPUTED_TORQUE)] if self.limits is not None else []
        rest = "\n".join(part for part in parts if part)
        helpers = "\n".join(text for name, text in HELPERS.items() if f"{name}(" in rest)
        return "\n".join(part for part in (self._filled(SOURCE), self._data(), helpers, rest) if part)

    @property
    def _number(self) -> Number:
        return float_number if self.single else double_number

    def _filled(self, template: str) -> str:
        robot, one = self.model.robot, self.constants
        accepted = "accepted" if self.model.accepted else "NOT ACCEPTED: never move an arm with it"
        words = {
            "NAME": self.name,
            "GUARD": f"{self.name.upper()}_H",
            "UPPER": self.name.upper(),
            "AXES": str(robot.size),
            "REAL": "float" if self.single else "double",
            "SUFFIX": "name##f" if self.single else "name",
            "ROBOT": robot.name,
            "MOUNT": self.model.mount or robot.file.default_mount,
            "HASH": self.sha256,
            "SAID": accepted,
            "ACCEPTED": str(int(self.model.accepted)),
            "LOADED": str(int(one.loaded)),
            "BESIDE": str(int(bool(one.law.size))),
            "TRANSITION": self._number(one.transition),
            "SMOOTH": self._number(TRANSITION_RAD_S),
            "LIMITED": str(int(self.limits is not None)),
            "LARGEST": "FLT_MAX" if self.single else "DBL_MAX",
            "NAMES": ", ".join(f'"{_escaped(name)}"' for name in robot.joint_names),
        }
        for word, value in words.items():
            template = template.replace(f"@{word}@", value)
        return template

    @cached_property
    def constants(self) -> Constants:
        """Parameters of the model as the arrays that the compiled functions take."""
        return Constants.of(self.model.arm(), self.model.base, self.model.friction_law)

    def _row(self, values: FloatArray) -> str:
        return "{" + ", ".join(self._number(value) for value in values) + "}"

    def _table(self, name: str, values: FloatArray) -> str:
        rows = ",\n    ".join(self._row(row) for row in values)
        return f"static const real {name}[{values.shape[0]}][{values.shape[1]}] = {{\n    {rows}}};"

    def _data(self) -> str:
        robot, one = self.model.robot, self.constants
        shown = {"lower": robot.lower, "upper": robot.upper, "velocity_limit": robot.velocity_limits}
        shown |= {} if self.limits is None else {"torque_limit": self.limits}
        lines = [f"const real {self.name}_{key}[N] = {self._row(values)};" for key, values in shown.items()]
        vectors = {"PHI": one.phi, "DRAG": one.drag, "TURNS": one.turns} | ({"LINKS": one.links} if one.loaded else {})
        lines += [f"static const real {key}[{len(row)}] = {self._row(row)};" for key, row in vectors.items()]
        lines += [self._table("LAW", one.law)] if one.law.size else []
        lines += [self._table("DRY", one.dry)] if one.dry.size else []
        return "\n".join([*lines, ""])

    def _law(self) -> str:
        """Return the text of the C functions of the friction law that this model needs.

        The text is "" if the model has neither sign-dependent friction nor an additional friction law.
        """
        one = self.constants
        roots = [friction.motor_torque_of] if one.law.size else []
        roots += [friction.torque_of] if one.dry.size else []
        roots += [friction.direction] if one.motors.size else []
        if not roots:
            return ""
        types = {"p": "const real %[][N]", "i": "int %", "load": "load_terms %"}
        numbers = {name: value for name, value in vars(friction).items() if isinstance(value, int | float)}
        giving = frozenset({"load_at"})
        known = {function.__name__: function for function in LAW}
        made = (CFunction(f, types, numbers, self._number, "load_terms", giving) for f in needed(roots, known))
        return "\n".join(["typedef struct { real value[7]; } load_terms;\n", *(function.text() for function in made)])

    def _springs(self) -> str:
        lines = []
        for row in self.constants.springs:
            joint, power = int(row[JOINT]), int(row[POWER])
            away = f"(q[{joint}] - {self._number(row[ABOUT])})"
            lines.append(f"    tau[{joint}] += " + " * ".join([self._number(row[COEFFICIENT]), *[away] * power]) + ";")
        head = "static void add_springs(const real *q, real *tau)\n{\n    (void)q;\n    (void)tau;"
        return "\n".join([head, *lines, "}", ""])

    def _dry(self) -> str:
        """Return the text of the C function that adds the sign-dependent friction given by base parameters."""
        one, lines = self.constants, []
        if one.dry.size:
            lines.append("    for (int i = 0; i < N; i++) tau[i] += torque_of(DRY, i, transition, dq[i], 0, 0);")
        for torque, row in zip(one.motors, one.coupling, strict=True):
            joints = np.flatnonzero(row)
            rate = " + ".join(f"{self._number(row[i])} * dq[{i}]" for i in joints)
            lines += ["    {", f"        const real t = {self._number(torque)} * direction({rate}, transition);"]
            lines += [f"        tau[{i}] += {self._number(row[i])} * t;" for i in joints] + ["    }"]
        head = "static void add_dry(const real *dq, real transition, real *tau)\n{\n"
        return "\n".join([head + "    (void)dq;\n    (void)transition;\n    (void)tau;", *lines, "}", ""])


def _escaped(text: str) -> str:
    return "".join(one if one.isascii() and one.isprintable() and one not in '"\\?' else "_" for one in text)

"""Gear friction of a drafted robot, derived from its servo models.

It is written to the robot's friction.yaml, and gives the joints' proposed drive parameters. Published friction values
are in friction.yaml of the robots CRANE-X7 and OMX leader. For another servo model, the values of the servo with the
nearest stall torque are scaled by the ratio of the stall torques. Then the field `source` of the gear in the new
friction.yaml names this servo and the ratio.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.hardware.servos.models import Dynamixel, dynamixel_named
from dynid.model.friction import TERMS, FrictionLaw
from dynid.model.gear_presets import FILE_NAME, Gear, GearFile, at_joint
from dynid.model.standard import AxisRow
from dynid.resources import load_validated, share_folder
from dynid.robot import FloatArray
from dynid.robot.draft_drives import three_figures
from dynid.robot.draft_servos import joint_constant, joint_torque_nm, model_of, most_current_a, round_down
from dynid.robot.file import Joint
from dynid.robot.values import PLANNED_SHARE

MODEL = "M6"  # friction of the simulated arm
PUBLISHED_BY = ("crane_x7", "omx_leader")  # robots whose friction.yaml has published figures
# Servos with published figures: rotor inertia at the shaft, from the same publication's M6 fits.
ROTORS_KG_M2 = {"MX-64": 0.0123, "MX-106": 0.026, "XL330-M288": 0.00257}
MODERATE = 0.4  # continuous torque of a drive [share of its torque limit]
USABLE = 0.85  # share of `PLANNED_SHARE` that drafted motions use if gear friction is known; the rest is for feedback
STARTING = 0.6  # share of the torque limit that starts a joint from its rest posture
GROWS = {"N*m": 1.0, "N*m*s/rad": 1.0, "1/(N*m)": -1.0}  # power of the stall torque that scales a figure, by unit
HEAD = """\
# Friction of gears by servo model, drafted by 'dynid robot new'. Torques in N m at the servo's shaft, speeds in rad/s,
# km to kes without unit, kmq and keq in 1/(N m). Between units friction differs by tens of percent: 'dynid identify'
# measures it.
"""


@dataclass(frozen=True)
class DraftedGears:
    """Gear friction and rotor inertias of a robot's servo models.

    Attributes:
        file: content of friction.yaml.
        rotors: rotor inertia as seen at the servo's output shaft, behind its gear, by servo model [kg m^2].
    """

    file: GearFile
    rotors: dict[str, float]

    def knows(self, rows: Sequence[dict[str, Any]]) -> bool:
        """Return whether the gear friction of all joints is known; `rows` are the joint entries of robot.yaml."""
        return all(row.get("servo_model") in self.file.servos for row in rows)

    def drive(self, row: dict[str, Any]) -> tuple[AxisRow, float] | None:
        """Return the rotor inertia and viscous friction of a joint, and its Coulomb friction [N m].

        The result is None if the gear of the joint's servo model is unknown. `row` is the joint's entry of robot.yaml.
        """
        model = row.get("servo_model")
        if model not in self.file.servos:
            return None
        joint = Joint.model_validate(row)
        figures = at_joint(self.file.gears[self.file.servos[model]].models["M1"], joint)
        servos, ratio = joint.servo_count, abs(joint.gear_ratio)
        axis = AxisRow(
            joint=row["name"],
            rotor_inertia_kg_m2=three_figures(servos * ratio**2 * self.rotors[model]),
            viscous_friction_nm_s_per_rad=three_figures(figures["fv"]),
        )
        return axis, three_figures(figures["fb"])

    def stiction(self, row: dict[str, Any], load: float) -> float:
        """Return the friction torque [N m] that a joint's drive must overcome to lift a load from rest.

        The result is 0 if the gear is unknown.

        Args:
            row: the joint's entry of robot.yaml.
            load: torque of the load [N m].
        """
        if (model := row.get("servo_model")) not in self.file.servos:
            return 0.0
        figures = at_joint(self.file.gears[self.file.servos[model]].models[MODEL], Joint.model_validate(row))
        law = FrictionLaw.of(1, {symbol: np.array([value]) for symbol, value in figures.items()})
        return float(law.starting_torque(np.array([load]), 1.0)[0]) - load

    def easy_load(self, row: dict[str, Any]) -> float:
        """Return the largest load torque [N m] that a joint's drive can hold for long and lift from rest.

        It is at most the fraction `MODERATE` of the torque at the current limit, or of the torque limit without one.
        If the friction of the gear is known, the load is also limited so that starting against load and friction takes
        about the fraction `STARTING` of this torque. The result is infinite without limits. `row` is the joint's entry
        of robot.yaml.
        """
        limit = joint_torque_nm(row)
        if not math.isfinite(limit) or row.get("servo_model") not in self.file.servos:
            return MODERATE * limit
        return min(MODERATE, STARTING * limit / (limit + self.stiction(row, limit))) * limit

    def ask_for_current(
        self, rows: Sequence[dict[str, Any]], loads: FloatArray, inertial: FloatArray, questions: dict[str, str]
    ) -> None:
        """Add a question for each joint whose current limit is too low for gravity, gear friction and acceleration.

        Drafted motions use only the share `USABLE` of `PLANNED_SHARE` of a limit. The limits are not changed.

        Args:
            rows: joints of robot.yaml.
            loads: largest gravity torque of each joint, (n,) [N m].
            inertial: torque for a brisk acceleration, (n,) [N m].
            questions: questions that the user must answer, by field; new questions are added.
        """
        for row, load, more in zip(rows, loads.tolist(), inertial.tolist(), strict=True):
            if row.get("servo_model") not in self.file.servos or "current_limit_a" not in row:
                continue
            stuck = self.stiction(row, load)
            needed = (load + stuck + more) / joint_constant(row) / (USABLE * PLANNED_SHARE)
            if row["current_limit_a"] >= needed:
                continue
            questions[f"joints.{row['name']}.current_limit_a"] = (
                f"gravity takes up to {load:.3g} N m and gear friction {stuck:.3g} N m more: to move from every "
                f"posture the joint needs {needed:.3g} A, feedback included. {_advice(row, needed, load)}"
            )


def _advice(row: dict[str, Any], needed_a: float, load: float) -> str:
    """Return sentences on what limits a joint's current, and how the user may raise the limit.

    Args:
        row: the joint's entry of robot.yaml.
        needed_a: limit with which the joint moves from every posture [A].
        load: largest gravity torque of the joint [N m].
    """
    model, drafted = model_of(row["servo_model"]), row["current_limit_a"]
    most = min(needed_a, most_current_a(model))
    if drafted < round_down(most):
        return (
            f"{drafted:g} A is what the URDF's effort limit allows, so motions are drafted within it. If arm, mount "
            f"and people beside it are safe with more, write current_limit_a: {round_down(most):g} and "
            "beyond_urdf: [torque], then repeat 'dynid robot motions'"
        )
    largest = most_current_a(model, share=1.0)
    if load > joint_constant(row) * largest:
        return f"That is more than {model.name} may take: is it the right servo?"
    beyond = "" if needed_a <= largest else f"Its largest current, {largest:g} A, suffices for some postures only. "
    return (
        f"{beyond}{drafted:g} A is half the stall current of {model.name}, so motions are drafted within it. If the "
        f"servo stands more for a short time, write current_limit_a: {round_down(min(needed_a, largest)):g}; or is it "
        "another servo?"
    )


def draft_gears(rows: Sequence[dict[str, Any]]) -> DraftedGears:
    """Return the known gears of the servo models of all joints; `rows` are the joint entries of robot.yaml."""
    published, siblings = _published()
    servos: dict[str, str] = {}
    gears: dict[str, Gear] = {}
    rotors: dict[str, float] = {}
    for name in dict.fromkeys(row["servo_model"] for row in rows if "servo_model" in row):
        gear = name if name in published else siblings.get(name)
        if gear is not None:
            servos[name], gears[gear], rotors[name] = gear, published[gear], ROTORS_KG_M2[gear]
        elif (known := dynamixel_named(name)) is not None and (stall := _stall_nm(known)) is not None:
            near, share = _nearest(stall)
            servos[name], gears[name] = name, _scaled(published[near], near, share)
            rotors[name] = three_figures(share * ROTORS_KG_M2[near])
    return DraftedGears(GearFile(schema_version=1, servos=servos, gears=gears), rotors)


def _published() -> tuple[dict[str, Gear], dict[str, str]]:
    """Return gears with published friction values by name, and a dictionary from servo models to gear names.

    Several servo models may have the same gear. The data come from the friction.yaml files of the robots in
    `PUBLISHED_BY`.
    """
    files = [load_validated(share_folder() / "config" / robot / FILE_NAME, GearFile) for robot in PUBLISHED_BY]
    gears = {name: file.gears[name] for file in files for name in ROTORS_KG_M2 if name in file.gears}
    return gears, {name: gear for file in files for name, gear in file.servos.items() if gear in gears}


def _stall_nm(model: Dynamixel | None) -> float | None:
    """Return a servo model's stall torque at the recommended voltage [N m]; None if it is not published."""
    points = () if model is None else model.stall
    found = [point.torque_nm for point in points if model is not None and math.isclose(point.supply_v, model.supply_v)]
    return found[0] if found else None


def _nearest(stall_nm: float) -> tuple[str, float]:
    """Find the servo model with published friction whose stall torque is nearest to `stall_nm` [N m].

    The return values are this servo model, and the ratio of `stall_nm` to its stall torque.
    """
    own = {name: _stall_nm(dynamixel_named(name)) for name in ROTORS_KG_M2}
    ratios = {name: stall_nm / torque for name, torque in own.items() if torque is not None}
    near = min(ratios, key=lambda name: abs(math.log(ratios[name])))
    return near, ratios[near]


def _scaled(gear: Gear, name: str, share: float) -> Gear:
    """Scale the friction values of a gear to a servo whose stall torque is `share` times as large.

    If motor torque and load are `share` times as large, then so are all friction torques at the same speed. `name` is
    the servo model of `gear`.
    """
    power = {term.symbol: GROWS.get(term.unit, 0.0) if term.symbol not in ("ws", "a") else 0.0 for term in TERMS}
    models = {
        model: {symbol: float(f"{value * share ** power[symbol]:.4g}") for symbol, value in figures.items()}
        for model, figures in gear.models.items()
    }
    source = f"no published figures; {name} scaled by {share:.3g}, the ratio of stall torques. {name}: {gear.source}"
    return Gear(source=source, models=models)

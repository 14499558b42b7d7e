"""What is said of logs and of what was identified from them, as plain values."""

from collections.abc import Sequence
from typing import Any

from dynid.identification.logs.identify import LogModel
from dynid.identification.logs.readers import FoundLog
from dynid.identification.logs.rows import FRICTION
from dynid.model.drive import kind_and_number
from dynid.model.parameters import parameter_unit

MOVES_S = 10.0  # in motion for less, a joint shows little


def described(found: FoundLog, names: Sequence[str]) -> dict[str, Any]:
    """One log of joints with these names: rows, seconds, rate, signals, and what is missing in words."""
    row: dict[str, Any] = {"name": found.name, "kind": found.kind, "rows": 0, "seconds": 0.0, "rate_hz": None}
    row |= {"torques": False, "goals": False, "gaps": 0, "notes": [], "missing": found.problem}
    facts = found.facts
    if facts is None:
        return row
    missing = [] if facts.torques else ["torques or currents: nothing can be identified without them"]
    if not facts.goals:
        missing.append("goals: the servos' gains stay unknown")
    if still := [name for name, one in zip(names, facts.moving_s, strict=True) if one < MOVES_S]:
        which = "all joints" if len(still) == len(names) else ", ".join(still)
        missing.append(f"motion: less than {MOVES_S:g} s of {which}")
    return row | {
        "rows": facts.rows,
        "seconds": facts.seconds,
        "rate_hz": 1.0 / facts.interval_s,
        "jitter_s": facts.jitter_s,
        "torques": facts.torques,
        "goals": facts.goals,
        "gaps": facts.gaps,
        "notes": list(facts.notes),
        "missing": "; ".join(missing),
    }


def result_content(result: LogModel) -> dict[str, Any]:
    """A model from logs: parameters with deviations, what is refused, delays, gains, and sentences for a reader."""
    fit, names = result.fit, result.base.names
    parameters = [
        {
            "name": name,
            "value": value,
            "unit": parameter_unit(name),
            "deviation": deviation,
            "published": name in published,
        }
        for published in [set(result.published)]
        for name, value, deviation in zip(names, result.base.values.tolist(), fit.deviations.tolist(), strict=True)
    ]
    goals = result.goals
    return {
        "schema_version": 1,
        "robot": result.model.robot.name,
        "interval_s": result.interval_s,
        "settled": fit.settled,
        "torque_delay_s": fit.delay_s,
        "torque_delay_deviation_s": fit.delay_deviation_s,
        "goal_delay_s": None if goals is None else goals.delay_s,
        "goal_delay_deviation_s": None if goals is None else goals.deviation_s,
        "position_gains_nm_per_rad": None if goals is None else goals.gains[:, 0].tolist(),
        "parameters": parameters,
        "friction": dict(zip(FRICTION, result.point.friction.T.tolist(), strict=True)),
        "sentences": _sentences(result),
    }


def _sentences(result: LogModel) -> list[str]:
    fit, goals = result.fit, result.goals
    said = [f"Torques lag {1e3 * fit.delay_s:.1f} +- {1e3 * fit.delay_deviation_s:.1f} ms behind positions."]
    if goals is not None:
        said.append(f"Goals act {1e3 * goals.delay_s:.1f} +- {1e3 * goals.deviation_s:.1f} ms after their stamps.")
    if not fit.settled:
        said.append(
            f"The fit did not settle in {fit.rounds} rounds: friction that grows with load is hardly determined here."
        )
    said.append(f"Published, within 10 %: {', '.join(result.published) or 'nothing'}.")
    said.append(f"Refused, because motion and rate do not determine them: {', '.join(result.refused) or 'nothing'}.")
    gravity = [name for name in result.base.names if kind_and_number(name)[0].startswith("M")]
    if not set(gravity) & set(result.published):
        said.append("Not even gravity is determined: more motion of more joints is needed.")
    elif not [name for name in result.published if kind_and_number(name)[0].startswith(("XX", "YY", "ZZ", "IA"))]:
        said.append("Use it for gravity and friction only: no inertia is determined.")
    return said

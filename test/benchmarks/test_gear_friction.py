"""`./run benchmark friction`: plants with random friction near the published values, rows, and limits that reject."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.cli import app
from benchmarks.studies import gear_friction as study
from benchmarks.studies.gear_friction import PlantResult, drawn_friction, missed, parameter_errors
from typer.testing import CliRunner

from dynid.model.dynamics import ArmModel
from dynid.model.gear_presets import gear_friction
from dynid.model.standard import from_file
from dynid.robot import load_robot
from dynid.simulation.plant.arm import plant_standard

ROBOT = load_robot("crane_x7")
GOOD = PlantResult("M6", True, 0.01, 0.05, 0.06, 0.17, "directional", 4.0)


def rows(bad: int, **what: Any) -> list[PlantResult]:
    return [GOOD, *(replace(GOOD, plant=str(k), **(what if k < bad else {})) for k in range(20))]


def test_every_figure_is_drawn_by_a_factor_of_up_to_two() -> None:
    published, one, other = gear_friction(ROBOT), drawn_friction(ROBOT, 0), drawn_friction(ROBOT, 1)
    for symbol in published.terms:
        factors = one[symbol] / published[symbol]
        assert (factors >= 0.5).all() and (factors <= 2.0).all()
        assert factors[0] == factors[2] != factors[1]  # by servo model
    assert not np.array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.values, drawn_friction(ROBOT, 0).values)


def test_errors_are_of_heavy_gravity_parameters_and_of_rotors() -> None:
    model = ArmModel.of(ROBOT)
    true = model.base_parameters(from_file(plant_standard(ROBOT), model.mdh, model.regrouping.standard))
    assert parameter_errors(ROBOT, true) == (0.0, 0.0)
    changed = np.array(true.values)
    changed[true.names.index("MYR2")] *= 1.04
    changed[true.names.index("IA7")] *= 0.8
    gravity, rotor = parameter_errors(ROBOT, true.with_values(changed))
    assert gravity == pytest.approx(0.04) and rotor == pytest.approx(0.2)


@pytest.mark.parametrize(
    "what",
    [
        {"accepted": False},
        {"gravity_error_max": 0.06},
        {"rotor_error_max": 0.11},
        {"held_out_moving": 0.09},
        {"refused": "not recorded", "accepted": False, "held_out_moving": float("nan")},
    ],
)
def test_each_limit_rejects_by_itself(what: dict[str, Any]) -> None:
    assert GOOD.met and not replace(GOOD, **what).met
    assert missed(rows(2, **what)) == []
    assert "17 of 20" in missed(rows(3, **what))[0]
    assert "plant M6" in missed([replace(GOOD, **what), *rows(0)[1:]])[0]


def test_an_accepted_model_with_wrong_gravity_misses_the_bar() -> None:
    assert "off by 12.0 %" in missed(rows(1, gravity_error_max=0.12))[0]
    assert missed(rows(1, gravity_error_max=0.12, accepted=False)) == []


def test_the_command_prints_the_list_and_exits_1_where_a_bar_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "benchmark_friction", lambda *_: rows(1, refused="", held_out_moving=float("nan")))
    done = CliRunner().invoke(app, ["benchmark", "friction", "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and [row["plant"] for row in found[:3]] == ["M6", "0", "1"]
    keys = {"plant", "accepted", "gravity_error_max", "rotor_error_max", "held_out_moving", "held_out_moving_viscous"}
    assert keys | {"structure", "seconds"} <= set(found[0]) and found[1]["held_out_moving"] is None
    monkeypatch.setattr(study, "benchmark_friction", lambda *_: rows(5, accepted=False))
    failed = CliRunner().invoke(app, ["benchmark", "friction"], catch_exceptions=False)
    assert failed.exit_code == 1 and "15 of 20 drawn plants" in failed.output

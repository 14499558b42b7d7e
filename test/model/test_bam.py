"""BAM's parameter files: reading, writing and reading back, and messages for invalid files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.errors import ConfigurationError, InputNotFoundError
from dynid.model.bam import FILE_KEYS, bam_text, law_of, read_bam, smallest_model
from dynid.model.friction import MODELS, SYMBOLS, FrictionLaw
from dynid.model.gear_presets import gear_friction, known_models
from dynid.robot import Robot, load_robot

# The keys are those of github.com/Rhoban/bam, bam/params/mx106/m6.json and mx64/m4.json; figures rounded.
M6 = {
    "kt": 2.21,
    "R": 2.034,
    "armature": 0.02602,
    "friction_base": 1.023e-05,
    "friction_stribeck": 0.122,
    "load_friction_motor": 0.198,
    "load_friction_external": 0.02222,
    "load_friction_motor_stribeck": 0.1986,
    "load_friction_external_stribeck": 0.0871,
    "load_friction_motor_quad": 0.01,
    "load_friction_external_quad": 7.327e-05,
    "dtheta_stribeck": 1.746,
    "alpha": 1.143,
    "friction_viscous": 0.05072,
    "model": "m6",
    "actuator": "mx106",
}
M4 = {
    "kt": 1.66,
    "R": 3.16,
    "armature": 0.01096,
    "q_offset": -0.05,
    "friction_base": 0.06155,
    "friction_stribeck": 0.0239,
    "load_friction_base": 1.961e-10,
    "load_friction_stribeck": 0.2343,
    "dtheta_stribeck": 1.521,
    "alpha": 1.334,
    "friction_viscous": 0.01475,
    "model": "m4",
    "actuator": "mx64",
}


def written(folder: Path, content: object) -> Path:
    path = folder / "gear.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_a_file_is_the_preset_of_the_same_figures(tmp_path: Path) -> None:
    gear = read_bam(written(tmp_path, M6))
    preset, axis = gear_friction(load_robot("crane_x7")), 1  # an MX-106 stands in for that servo
    assert gear.model == "M6" and gear.actuator == "mx106"
    assert (gear.torque_constant, gear.resistance, gear.rotor_inertia) == (2.21, 2.034, 0.02602)
    np.testing.assert_array_equal(law_of([gear]).values[:, 0], preset.values[:, axis])


def test_symmetric_load_terms_depend_on_the_torque_difference(tmp_path: Path) -> None:
    """|te - tm| times one figure, as M3 and M4 have it."""
    law = law_of([read_bam(written(tmp_path, M4))])
    s = np.exp(-((0.7 / 1.521) ** 1.334))
    expected = 0.06155 + 1.961e-10 * 3.0 + s * (0.0239 + 0.2343 * 3.0) + 0.01475 * 0.7
    assert law.torque(np.array([0.7]), 1.0, -2.0)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_written_files_are_read_back(tmp_path: Path, model: str) -> None:
    rng = np.random.default_rng(3)
    figures = {symbol: rng.uniform(0.05, 0.3, 2) for symbol in MODELS[model]}
    if model in ("M3", "M4"):
        figures["ke"] = figures["km"]
        figures |= {"kes": figures["kms"]} if model == "M4" else {}
    law = FrictionLaw.of(2, figures)
    assert [smallest_model(law, axis) for axis in range(2)] == [model, model]
    gears = []
    for axis in range(2):
        text = bam_text(law, axis, actuator="mx64", rotor_inertia=0.01, torque_constant=1.6)
        gears.append(read_bam(written(tmp_path, json.loads(text))))
    np.testing.assert_array_equal(law_of(gears).values, law.values)
    assert {gear.model for gear in gears} == {model} and gears[0].rotor_inertia == 0.01


def test_load_without_shape_gets_one_and_unsupported_terms_are_noted(tmp_path: Path) -> None:
    law = FrictionLaw.of(1, {"fb": 0.2, "km": 0.3, "fa": 0.1, "of": -0.05})
    content = json.loads(bam_text(law, 0, actuator="mx64", rotor_inertia=0.01))
    assert content["model"] == "m5" and content["dtheta_stribeck"] == 1.0 and "kt" not in content
    assert content["note"] == "BAM cannot hold FA 0.1 N*m and OF -0.05 N*m"
    back = law_of([read_bam(written(tmp_path, content))])
    states = np.array([[0.5]]), 1.0, -2.0
    np.testing.assert_allclose(back.torque(*states), law.with_values({"fa": 0.0, "of": 0.0}).torque(*states))


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in M6.items() if name != key}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (M6 | {"friction_basis": 0.1}, "the unknown key 'friction_basis'; expected friction"),
        (M6 | {"load_friction_base": 0.1}, "of model M6 has the unknown key 'load_friction_base'"),
        (without("alpha"), "no key 'alpha'"),
        (M6 | {"friction_viscous": -0.1}, "friction_viscous is -0.1; expected a number of at least 0"),
        (M6 | {"alpha": "1"}, "alpha is '1'; expected a number"),
        (M6 | {"alpha": True}, "alpha is True; expected a number"),
        (M6 | {"alpha": float("nan")}, "alpha is nan"),
        (M6 | {"model": "m7"}, "model 'm7' is none of M1, M2"),
        (without("model"), "model 'None' is none of"),
        ([1.0], "holds no JSON object"),
    ],
)
def test_invalid_files_are_named(tmp_path: Path, content: object, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as error:
        read_bam(written(tmp_path, content))
    assert "gear.json" in str(error.value)


def test_missing_and_invalid_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputNotFoundError, match=r"none.json; expected a BAM parameter file"):
        read_bam(tmp_path / "none.json")
    (tmp_path / "gear.json").write_text("{", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="is not valid JSON"):
        read_bam(tmp_path / "gear.json")


def test_every_symbol_has_a_key_or_no_place() -> None:
    assert set(FILE_KEYS) | {"fa", "of"} == set(SYMBOLS)


def test_a_robot_takes_its_gear_presets_from_bam_files(tmp_path: Path) -> None:
    written(tmp_path, M6)
    (tmp_path / "friction.yaml").write_text(
        "schema_version: 1\nservos: {XM430-W350: own, XM540-W270: own}\n"
        "gears: {own: {source: a test bench, bam: [gear.json]}}\n",
        encoding="utf-8",
    )
    robot = Robot(load_robot("crane_x7").file, tmp_path)
    assert known_models(robot) == ("M6",)
    np.testing.assert_array_equal(gear_friction(robot)["km"], np.full(8, 0.198))
    (tmp_path / "gear.json").unlink()
    with pytest.raises(InputNotFoundError, match=r"gear\.json"):
        gear_friction(robot)

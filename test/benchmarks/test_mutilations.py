"""`./run benchmark mutilations`: kinds of damage, changes that count, and limits that reject."""

from dataclasses import replace

import numpy as np
import pytest
from arms import arm, nominal
from benchmarks.studies.mutilations import (
    Case,
    Mutilations,
    changes,
    drawn_mutilation,
    named_mutilations,
    noisy,
    point_mass,
)

from dynid.identification.dynamic_rows import DynamicRows
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
VALUES = nominal("crane_x7").values
SHOWN = Case(0, "fast", "the rotor inertia of joint 8 times 0", 1.0, 8, ("dynamic_error_held_out",), 0.05)


def test_named_mutilations_change_the_stated_content() -> None:
    def changed(name: str) -> set[str]:
        after = named_mutilations(ROBOT, MODEL)[name](VALUES)
        return {MODEL.names[k] for k in np.flatnonzero(after != VALUES)}

    assert changed("IA5 to IA8 zero") == changed("IA5 to IA8 doubled") == {"IA5", "IA6", "IA7", "IA8"}
    assert changed("MYR4 times 1.1") == {"MYR4"}
    assert changed("links 6 and 7 massless") <= {name for name in MODEL.names if name[-1] in "67"} - {"IA6", "IA7"}
    assert changed("no viscous friction") == {name for name in MODEL.names if name.startswith("FV")}
    assert {"IA3", "XXR2", "ZZR4"} <= changed("all inertias times 1.5")
    assert not {"MX2", "MYR4", "FV1"} & changed("all inertias times 1.5")


def test_payload_has_its_stated_mass() -> None:
    change = dict(zip(MODEL.names, point_mass(ROBOT, MODEL), strict=True))
    assert abs(change["MYR4"]) > 0.05 * 0.1  # 50 g, farther than the last link's length from the elbow
    assert change["IA8"] == change["FV1"] == 0.0


def test_draws_repeat_with_their_seed_and_multiply_one_group() -> None:
    first, again = (drawn_mutilation(ROBOT, MODEL, np.random.default_rng(3)) for _ in range(2))
    assert first[0] == again[0]
    np.testing.assert_array_equal(first[1](VALUES), again[1](VALUES))
    names = {drawn_mutilation(ROBOT, MODEL, np.random.default_rng(k))[0] for k in range(60)}
    assert any(name.endswith("times 0.5") for name in names) and "no viscous friction" in names


def test_changes_are_parts_of_the_dynamic_torque_of_sliding_joints() -> None:
    dynamic = np.ones((4, 2, 1))
    torque, share = np.full((4, 2), 2.0), np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    rows = DynamicRows(torque, torque, dynamic, dynamic, dynamic, share)
    dynamic[1, 1] = 100.0  # where joint 2 sticks
    np.testing.assert_allclose(changes(rows, np.array([0.5])), [0.25, 0.25])


def test_noise_is_multiplied() -> None:
    assert noisy(ROBOT, 2.0).nuisances.torque_noise_nm == pytest.approx(
        [2.0 * one for one in ROBOT.nuisances.torque_noise_nm]
    )


def test_bars_reject_missed_contacts_and_false_alarms() -> None:
    right = Case(0, "fast", "", 0.0, 1, (), 0.01)
    small = replace(SHOWN, what="MYR4 times 1.1", change=0.1, failed=())
    good = Mutilations((right, SHOWN, small), 1, 0)
    assert good.missed() == [] and good.power == 1.0 and good.as_dict()["must_be_refused"] == 1
    missed = Mutilations((right, SHOWN, replace(SHOWN, failed=())), 1, 0)
    assert missed.missed() == ["50.0 % of what must be refused is, expected 99 %"]
    hidden = Mutilations((right, SHOWN, replace(SHOWN, failed=(), shown=0.4)), 1, 0).as_dict()
    assert (hidden["refused_of_these"], hidden["refused_where_shown"], hidden["hardly_shown"]) == (0.5, 1.0, 1)
    assert missed.as_dict()["missed"] == [
        "arm 0, fast: the rotor inertia of joint 8 times 0, 100 % of joint 8's dynamic torque; noise there 5 %"
    ]
    alarm = Mutilations((replace(right, failed=("bounds_pull",)), SHOWN), 1, 0)
    assert "100.0 % of right models are refused" in alarm.missed()[0]
    assert alarm.as_dict()["alarms"] == ["arm 0, fast: nothing changed, 0 % of joint 1's dynamic torque: bounds_pull"]
    assert Mutilations((), 0, 0).missed()  # nothing measured is nothing met

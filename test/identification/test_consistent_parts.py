"""Parts of the consistent projection: the prior, units and bounds of every kind, and tolerances."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from arms import arm, nominal, nominal_standard, published

from dynid.identification.feasibility.consistent import (
    BOX_RESERVE,
    EXACT,
    STRAIN_DEVIATIONS,
    consistent_interior,
    consistent_projection,
    on_their_bounds,
    prior_from_bounds,
    pseudo_inertia_rows,
    raised_to_bounds,
    solver_units,
)
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import MINIMUM_ROTOR_INERTIA, BaseParameters, StandardParameters
from dynid.model.standard import LinkInertia, from_link_frame, load_standard, pseudo_inertia, to_link_frame
from dynid.model.within_limits import link_rows, outside
from dynid.robot import FloatArray, load_robot
from dynid.robot.draft import draft_robot, write_draft

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
BOUNDS = ROBOT.file.physical_bounds
LIMITS = MODEL.limits(BOUNDS)
TX40 = arm("tx40")


def body(values: FloatArray, j: int) -> LinkInertia:
    return to_link_frame(values[10 * j : 10 * j + 10], MODEL.mdh.in_link[j])


def test_the_prior_is_solid_boxes_in_the_middle_of_the_bounds() -> None:
    prior = prior_from_bounds(MODEL, LIMITS)
    assert prior.shape == (len(MODEL.regrouping.standard),) and not prior[10 * MODEL.chain_size :].any()
    corners = np.stack(np.meshgrid(*[[-0.5, 0.5]] * 3), axis=-1).reshape(-1, 3)
    for j, link in enumerate(LIMITS.links):
        found, (lower, upper) = body(prior, j), link.centre
        assert found.mass == pytest.approx(np.mean(link.mass))
        np.testing.assert_allclose(found.centre_of_mass, 0.5 * (lower + upper), atol=1e-12)
        # a solid box has a third of the second moments of mass at its corners
        x = corners * (upper - lower)
        tensor = sum(one @ one * np.eye(3) - np.outer(one, one) for one in x) / 8
        np.testing.assert_allclose(found.inertia, found.mass * tensor / 3, atol=1e-12)


def test_undetermined_parameters_stay_close_to_the_prior() -> None:
    """Nearer to a heavier arm, with the same base parameters, than what boxes in the middle give; and it comes back."""
    middle = consistent_interior(MODEL, LIMITS)
    base, heavier = nominal("crane_x7").with_values(MODEL.regrouping.K @ middle), np.array(middle)
    heavier[9 : 10 * MODEL.chain_size : 10] *= 1.2
    units = solver_units(MODEL.regrouping.standard)
    chain = slice(0, 10 * MODEL.chain_size)
    found = consistent_projection(MODEL, base, BOUNDS, prior=heavier)
    other = consistent_projection(MODEL, base, BOUNDS)
    np.testing.assert_allclose(found.base.values, other.base.values, atol=1e-5)
    away = [np.linalg.norm(((one.standard.values - heavier) / units)[chain]) for one in (found, other)]
    assert away[0] < 0.9 * away[1]
    again = consistent_projection(MODEL, base, BOUNDS, prior=found.standard.values)
    np.testing.assert_allclose(again.standard.values, found.standard.values, atol=1e-4)


def test_a_tolerance_that_leaves_a_bound_is_put_back_onto_it() -> None:
    names = TX40.regrouping.standard
    values = nominal_standard("tx40").values.copy()
    for kind in ("FV", "FC", "FVM", "FCM", "IA", "OF"):
        values[[k for k, name in enumerate(names) if name.rstrip("0123456789") == kind]] = -1e-7
    found = on_their_bounds(TX40, values, 1e-9)
    for name, value in zip(found.names, found.values, strict=True):
        kind = name.rstrip("0123456789")
        if kind in ("FV", "FC", "FVM", "FCM"):
            assert value == 0.0, name
        elif kind in ("IA", "OF"):
            assert value == (MINIMUM_ROTOR_INERTIA if kind == "IA" else -1e-7)
        else:
            assert value == values[names.index(name)]
    crane = nominal_standard("crane_x7")
    products = [k for k, name in enumerate(crane.names) if name[:2] in ("XY", "XZ", "YZ")]
    disturbed = np.array(crane.values)
    disturbed[products] = 1e-9
    disturbed[crane.names.index("FV2")] = 0.4
    found = on_their_bounds(MODEL, disturbed, 1e-9)
    assert len(products) == 21 and not found.values[products].any() and found["FV2"] == 0.4


def test_negative_friction_of_every_kind_is_projected_away_and_offsets_are_kept() -> None:
    robot = load_robot("tx40")
    phi = nominal("tx40")
    wrong = {name: -0.02 for name in phi.names if name[:2] in ("FV", "FC", "OF")}
    assert {"FVM6", "FCM6", "OF1"} <= set(wrong)
    values = np.array([wrong.get(name, value) for name, value in zip(phi.names, phi.values, strict=True)])
    found = consistent_projection(TX40, phi.with_values(values), robot.file.physical_bounds).base
    for name in wrong:
        assert found[name] == pytest.approx(-0.02, abs=1e-6) if name.startswith("OF") else 0.0 <= found[name] < 1e-6
    inside = consistent_interior(TX40, TX40.limits(robot.file.physical_bounds))
    standard = StandardParameters(TX40.regrouping.standard, inside, TX40.chain_size)
    assert outside(standard, TX40, TX40.limits(robot.file.physical_bounds)) == ""
    assert all(standard[name] > 0.0 for name in standard.names if name[:2] in ("FV", "FC", "IA"))


def test_data_that_contradict_the_bounds_are_named_and_their_deviations_widened() -> None:
    """A wrist with twenty times its inertia does not fit into its box: sharp data say so, vague data do not."""
    heavy = np.array(nominal_standard("crane_x7").values)
    heavy[[60, 63, 65]] *= 20.0
    values = MODEL.regrouping.K @ heavy
    sharp, vague = (
        consistent_projection(MODEL, BaseParameters(MODEL.names, values, size**2 * np.eye(len(values))), BOUNDS)
        for size in (1e-5, 1.0)
    )
    moved = sharp.base.values - values
    far = np.abs(moved) > np.maximum(STRAIN_DEVIATIONS * 1e-5, EXACT * np.abs(values))
    assert far.any() and set(sharp.strained) == {MODEL.names[k] for k in np.flatnonzero(far)}
    assert sharp.base.standard_deviations is not None
    np.testing.assert_array_less(np.abs(moved[far]), sharp.base.standard_deviations[far])
    np.testing.assert_allclose(sharp.base.standard_deviations[~far], 1e-5)
    worst = MODEL.names[int(np.argmax(np.abs(moved)))]
    assert f"physical_bounds in robot.yaml move {worst} by " in sharp.strain_sentence
    assert vague.strain_sentence == "" and vague.base.covariance is not None
    np.testing.assert_array_equal(vague.base.covariance, np.eye(len(values)))


@pytest.mark.parametrize(
    ("name", "advice"), [("IA3", "set rotor_inertia to false"), ("FV2", "of different instants, or friction")]
)
def test_negative_rotor_inertia_or_friction_is_not_blamed_on_masses(name: str, advice: str) -> None:
    phi = nominal("crane_x7")
    values = np.array([-0.02 if own == name else value for own, value in zip(phi.names, phi.values, strict=True)])
    sharp = BaseParameters(phi.names, values, 1e-6 * np.eye(len(values)))
    found = consistent_projection(MODEL, sharp, BOUNDS)
    assert found.negative == (name,)
    assert f"the data put {name} " in found.strain_sentence and advice in found.strain_sentence
    assert "masses" not in found.strain_sentence


def test_units_make_a_small_link_of_order_one() -> None:
    names = ("M1", "MX1", "MY12", "MZ3", "XX1", "YZ4", "IA2", "FV1", "FC7", "FS2", "FVM3", "FCM3", "OF1")
    np.testing.assert_allclose(solver_units(names), [0.1, 0.01, 0.01, 0.01, 0.001, 0.001, 0.001, *[0.1] * 6])


SCARA = (
    '<robot name="scara"><link name="base"/><link name="arm"><inertial><origin xyz="0.14 0 0.02"/><mass value="6"/>'
    '<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.11" iyz="0" izz="0.12"/></inertial></link><link name="quill"><inertial>'
    '<origin xyz="0 0 -0.1"/><mass value="2"/><inertia ixx="0.012" ixy="0" ixz="0" iyy="0.012" iyz="0" izz="0.001"/>'
    '</inertial></link><joint name="turn" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>'
    '<limit lower="-2" upper="2" effort="80" velocity="3"/></joint><joint name="lift" type="prismatic"><parent '
    'link="arm"/><child link="quill"/><origin xyz="0.3 0 0"/><axis xyz="0 0 -1"/><limit lower="0" upper="0.3" '
    'effort="300" velocity="0.8"/></joint></robot>'
)


def test_the_weight_of_a_lift_is_no_offset_of_its_friction(tmp_path: Path) -> None:
    """Torques show weight less offset, and rotor and offset: the URDF keeps the weight of its CAD data."""
    (tmp_path / "scara.urdf").write_text(SCARA, encoding="utf-8")
    write_draft(draft_robot("scara", tmp_path / "scara.urdf"), tmp_path / "scara.urdf", tmp_path / "scara")
    robot = load_robot(tmp_path / "scara")
    model = ArmModel.of(robot)
    prior = load_standard(tmp_path / "scara" / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)
    true = np.array(prior.values)
    true[prior.names.index("IA2")] = 15.0  # kg: a ball screw's rotor, of which no URDF says anything
    phi = BaseParameters(model.names, model.regrouping.K @ true)
    found = consistent_projection(model, phi, robot.file.physical_bounds, prior=prior.values).standard
    assert found["M2"] == pytest.approx(2.0, abs=0.02)
    assert found["OF2"] == pytest.approx(0.0, abs=0.2)
    assert found["IA2"] == pytest.approx(15.0, abs=0.02)


def test_pseudo_inertia_rows_require_margin_spread_and_room() -> None:
    """Of a rod: thin across, so its pseudo-inertia is definite and its spread small."""
    ten = from_link_frame(LinkInertia(1.0, np.zeros(3), np.diag([2e-6, 1e-3, 1e-3])), np.eye(4))
    least = float(np.linalg.eigvalsh(pseudo_inertia(ten))[0])  # 1e-6: a spread of 1 mm
    assert least == pytest.approx(1e-6)

    def holds(margin: float, spread: float = 0.0, room: float = 0.0) -> bool:
        A, b = pseudo_inertia_rows(ten[:, None], margin, spread)
        return float(np.linalg.eigvalsh((A[:, 0] + b).reshape(4, 4))[0]) >= room - 1e-12

    assert holds(0.9e-6) and not holds(0.99e-6)  # a twentieth is reserve
    assert holds(1e-9, 0.9e-3) and not holds(1e-9, 1.1e-3)
    assert holds(1e-9, room=0.9e-3) and not holds(1e-9, room=1.1e-3)  # 1e-6 kg m^2 is 1e-3 of the solver's units


def test_limits_are_left_by_no_more_than_a_solver_may() -> None:
    inside = StandardParameters(MODEL.regrouping.standard, consistent_interior(MODEL, LIMITS), MODEL.chain_size)
    total = sum(inside[f"M{j + 1}"] for j in range(MODEL.chain_size))
    assert outside(inside, MODEL, replace(LIMITS, total_mass=total / 1.0005)) == ""
    assert "exceeds" in outside(inside, MODEL, replace(LIMITS, total_mass=total / 1.0015))
    mass = inside["M3"]
    for beyond, expected in ((0.0005, False), (0.0015, True)):
        for bounds in ((mass * (1 + beyond), 9.0), (0.0, mass * (1 - beyond))):
            links = tuple(replace(link, mass=bounds) if j == 2 else link for j, link in enumerate(LIMITS.links))
            assert ("link 3 with mass" in outside(inside, MODEL, replace(LIMITS, links=links))) == expected


def test_a_lift_onto_the_bounds_adds_just_enough_mass() -> None:
    spread, margin = 0.3, 1e-4
    ten = from_link_frame(LinkInertia(1.0, np.zeros(3), np.eye(3)), np.eye(4))
    own = float(np.linalg.eigvalsh(pseudo_inertia(ten) - spread**2 * np.diag([1.0, 1.0, 1.0, 0.0]))[0])
    assert raised_to_bounds(ten, own - 1e-9, spread) is ten
    short = raised_to_bounds(ten, own + 0.05 * margin, spread)
    found = float(np.linalg.eigvalsh(pseudo_inertia(short) - short[9] * spread**2 * np.diag([1, 1, 1, 0.0]))[0])
    assert own + 0.05 * margin <= found < own + 0.06 * margin


def test_a_reserve_makes_the_box_smaller_on_every_side() -> None:
    link, placement = LIMITS.links[1], MODEL.mdh.in_link[1]
    lower, upper = link.box
    point = from_link_frame(LinkInertia(1.0, upper - 1e-5, np.eye(3) * 1e-12), placement)
    wide = replace(link, centre=link.box, mass=(0.0, 9.0))
    for reserve, expected in ((0.0, True), (BOX_RESERVE, True), (0.01, False)):
        G, h = link_rows(wide, placement, reserve)
        assert ((G @ point - h).min() > -1e-9) == expected or reserve == BOX_RESERVE
    shrunk = G @ from_link_frame(LinkInertia(1.0, 0.5 * (lower + upper), np.eye(3) * 1e-12), placement) - h
    assert shrunk.min() > 0.0


def test_masses_and_margins_are_those_of_the_returned_values() -> None:
    found = consistent_projection(MODEL, published(), BOUNDS)
    own = [np.linalg.eigvalsh(pseudo_inertia(found.standard.link(j)))[0] for j in range(MODEL.chain_size)]
    assert found.margin == min(own) and max(own) > 1.01 * min(own)
    assert found.total_mass == pytest.approx(sum(body(found.standard.values, j).mass for j in range(7)))
    assert found.distance == np.linalg.norm(found.base.values - published().values)


def test_errors_of_the_solver_strain_no_exact_data() -> None:
    """Without noise, deviations are smaller than the solver's tolerance; real contradictions are still named."""
    model, phi = arm("planar_3r"), nominal("planar_3r")
    assert "FV1" in phi.names

    def strained(values: FloatArray) -> set[str]:
        exact = BaseParameters(model.names, values, np.diag((1e-10 * np.maximum(np.abs(values), 1e-3)) ** 2))
        return set(consistent_projection(model, exact, load_robot("planar_3r").file.physical_bounds).strained)

    below = np.where(np.array(model.names) == "FV1", -0.1, phi.values)
    assert strained(phi.values) == set() and "FV1" in strained(below)

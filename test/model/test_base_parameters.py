"""Base parameters: names, groupings and counts, checked by the numerical rank."""

import numpy as np
import pytest

from dynid.model.dynamics import ArmModel
from dynid.robot import Structure, load_robot

ROBOT = load_robot("crane_x7")


def test_base_parameter_counts_are_those_of_the_paper() -> None:
    reduced = ArmModel.of(ROBOT)
    full = ArmModel.of(ROBOT, structure=Structure(products_of_inertia=True))
    with_coulomb = ArmModel.of(ROBOT, structure=Structure(products_of_inertia=True, coulomb_friction=True))
    assert (reduced.regrouping.link_count, len(reduced.names)) == (25, 39)
    assert (full.regrouping.link_count, len(full.names)) == (43, 57)
    assert len(with_coulomb.names) == 65


def test_groupings_are_those_of_the_closed_form() -> None:
    formula = ArmModel.of(ROBOT).regrouping.formula
    assert formula("ZZR1") == "ZZR1 = ZZ1 + YY2 + IA1"
    distal = " + ".join(f"0.0625 M{j}" for j in range(3, 8))
    assert formula("ZZR2") == f"ZZR2 = ZZ2 + YY3 + 0.5 MZ3 + {distal} + IA2"
    assert formula("MYR2") == "MYR2 = MY2 - MZ3 - " + " - ".join(f"0.25 M{j}" for j in range(3, 8))
    assert formula("MYR3") == "MYR3 = MY3 + MZ4"
    assert formula("MYR6") == "MYR6 = MY6 - MZ7"
    assert formula("MY7") == "MY7 = MY7"


@pytest.mark.parametrize("products", [False, True])
@pytest.mark.parametrize("mount", ["upright", "hanging"])
def test_numerical_rank_is_the_number_of_names(products: bool, mount: str) -> None:
    model = ArmModel.of(ROBOT, structure=Structure(products_of_inertia=products), mount=mount)
    rng = np.random.default_rng(3)
    W = model.regressor(*rng.uniform(-2, 2, (3, 300, 8))).reshape(-1, len(model.names))
    singular = np.linalg.svd(W, compute_uv=False)
    assert singular[-1] > 1e-4 * singular[0]


def test_no_standard_direction_is_lost() -> None:
    """The rank of the whole standard regressor is that of the base regressor: nothing identifiable was dropped."""
    from dynid.model.regressor import standard_regressor

    model = ArmModel.of(ROBOT, structure=Structure(products_of_inertia=True))
    rng = np.random.default_rng(4)
    W = standard_regressor(model.mdh, *rng.uniform(-2, 2, (3, 300, 7)), model.gravity).reshape(-1, 70)
    singular = np.linalg.svd(W, compute_uv=False)
    assert int((singular > 1e-9 * singular[0]).sum()) == 43


def test_upright_and_hanging_are_one_structure_but_other_geometry_is_not() -> None:
    upright, hanging = ArmModel.of(ROBOT), ArmModel.of(ROBOT, mount="hanging")
    assert upright.structure_hash == hanging.structure_hash
    assert upright.structure_hash != ArmModel.of(ROBOT, lengths_m={"r3": 0.24}).structure_hash


def test_a_moved_joint_zero_is_another_structure() -> None:
    from dataclasses import replace

    model = ArmModel.of(ROBOT)
    moved = replace(model.mdh, offset=model.mdh.offset + np.eye(7)[1] * np.pi / 2)
    assert ArmModel(moved, 8, model.structure, model.gravity).structure_hash != model.structure_hash


def test_sideways_mount_makes_the_first_links_moments_count() -> None:
    model = ArmModel(ArmModel.of(ROBOT).mdh, 8, Structure(), np.array([9.8, 0.0, 0.0]))
    assert {"MX1", "MYR1", "MY1"} & set(model.names) and len(model.names) == 41

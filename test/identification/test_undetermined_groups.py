"""Parameter groups that a motion does not determine, as reported in result, file and text."""

import numpy as np
import pytest
from arms import arm, nominal

from dynid.identification.undetermined_groups import undetermined, undetermined_sentence
from dynid.model.parameter_groups import parameter_groups
from dynid.model.parameters import BaseParameters

MODEL = arm("crane_x7")


def told(share: float, **deviations: float) -> BaseParameters:
    """The nominal arm with deviations of a share of each value, and some in SI units."""
    phi = nominal("crane_x7")
    sizes = share * np.maximum(np.abs(phi.values), 1e-9)
    for name, deviation in deviations.items():
        sizes[phi.names.index(name)] = deviation
    return BaseParameters(phi.names, phi.values, np.diag(sizes**2))


def test_groups_are_rotors_inertias_and_first_moments_by_link() -> None:
    groups = {(one.number, one.kind): one.names for one in parameter_groups(MODEL.names)}
    assert groups[(6, "inertia")] == ("XXR6", "ZZR6") and groups[(6, "gravity")] == ("MX6", "MYR6")
    assert groups[(8, "rotor")] == ("IA8",)
    grouped = [name for names in groups.values() for name in names]
    assert sorted(grouped) == sorted(name for name in MODEL.names if not name.startswith("FV"))


def test_precise_parameters_are_determined() -> None:
    assert undetermined(told(0.1)) == () and undetermined_sentence(()) == ""


def test_rotor_is_distinguished_from_half_more_up_to_a_quarter() -> None:
    """One parameter: half of it must be 1.96 deviations."""
    value = nominal("crane_x7")["IA8"]
    assert undetermined(told(0.1, IA8=0.25 * value)) == ()
    (one,) = undetermined(told(0.1, IA8=0.26 * value))
    assert one.parameters == ("IA8",) and one.what == "the rotor inertia of joint 8"
    assert one.distance == pytest.approx(0.5 / 0.26) and one.needed == pytest.approx(1.96, abs=0.001)
    sentence = undetermined_sentence((one,))
    assert sentence.startswith("not determined by this motion: the rotor inertia of joint 8 (IA8)")


def test_a_group_is_determined_by_one_of_its_parameters() -> None:
    phi = nominal("crane_x7")
    assert undetermined(told(0.1, MX6=abs(phi["MX6"]))) == ()
    (one,) = undetermined(told(0.1, MX6=abs(phi["MX6"]), MYR6=abs(phi["MYR6"])))
    assert one.parameters == ("MX6", "MYR6")


def test_without_deviations_no_group_is_reported() -> None:
    phi = nominal("crane_x7")
    assert undetermined(BaseParameters(phi.names, phi.values)) == ()

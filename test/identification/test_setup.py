"""Set-up unknowns in addition to parameters: delays, tilts and scales are found, or refused if undetermined."""

from collections.abc import Callable

import numpy as np
import pytest
from recordings import recorded

from dynid.errors import ConfigurationError, DataError, UnknownNameError
from dynid.identification.data.recordings import Recording
from dynid.identification.diagnosis.nuisance_columns import Columns
from dynid.identification.estimators.least_squares import WeightedLeastSquares
from dynid.identification.pipeline import identify
from dynid.identification.settings import load_identification
from dynid.identification.setup import Choice, Setup, SetupEstimate, _estimates, choose, estimate_setup
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_standard
from dynid.robot import FloatArray, Robot, load_robot

ROBOT = load_robot("crane_x7")
NAMES = ROBOT.joint_names
LOADED = load_identification(ROBOT)
COULOMB = LOADED.coulomb_friction.model_copy(update={"structure": "Coulomb-viscous"})
SETTINGS = LOADED.model_copy(update={"coulomb_friction": COULOMB})
ZERO, SCALE, LEAN = 0.035, 0.8, np.deg2rad(2.0)


def on_joint(axis: int, change: Callable[[FloatArray], FloatArray]) -> Callable[[FloatArray], FloatArray]:
    return lambda values: np.where(np.arange(ROBOT.size) == axis, change(values), values)


def shifted(axis: int, **other: int) -> Recording:
    """Return a recording in which the encoder of one joint reads ZERO too much."""
    return recorded(ROBOT, positions=on_joint(axis, lambda q: q + ZERO), **other)


def leaning() -> Robot:
    """Return the robot on a base that is tilted about its x axis."""
    gravity = {"upright": (0.0, 9.80665 * np.sin(LEAN), -9.80665 * np.cos(LEAN)), "hanging": (0.0, 0.0, 9.80665)}
    return Robot(ROBOT.file.model_copy(update={"mounts_gravity_m_s2": gravity}), ROBOT.folder)


def found(source: Recording, *words: str) -> dict[tuple[str, str], SetupEstimate]:
    _, estimates = estimate_setup(ROBOT, [source], SETTINGS, words)
    return {(one.kind, one.joint): one for one in estimates}


@pytest.mark.slow
def test_shifted_encoder_is_found_and_reported() -> None:
    one = found(shifted(2), f"zero:{NAMES[2]}")["position zero", NAMES[2]]
    assert one.value == pytest.approx(-ZERO, abs=0.002) and one.deviation < 0.002 and one.differs
    assert f"zero_offset_rad: {one.value:.5f}" in one.sentence


@pytest.mark.slow
def test_the_last_step_chooses_the_friction_structure_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps before keep the structure of the second one, which fits a set-up that was still wrong."""
    given, estimate = [], WeightedLeastSquares.estimate

    def noted(self, model, samples, coulomb=None, known=None):
        given.append(None if known is None else known.structure.name)
        return estimate(self, model, samples, coulomb, known)

    monkeypatch.setattr(WeightedLeastSquares, "estimate", noted)
    _, (one,) = estimate_setup(ROBOT, [shifted(2)], LOADED, [f"zero:{NAMES[2]}"])
    assert one.value == pytest.approx(-ZERO, abs=0.003) and one.differs
    assert given[:2] == [None, None] and given[-1] is None and len(given) > 3
    assert None not in given[2:-1] and len(set(given[2:-1])) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("share", "ends"), [(0.5, True), (1.5, False)])
def test_structures_that_fit_alike_do_not_take_turns_without_end(
    monkeypatch: pytest.MonkeyPatch, share: float, ends: bool
) -> None:
    """Wherever the structure of friction is chosen anew, the zero is found a share of its deviation farther."""
    estimate, together, anew = WeightedLeastSquares.estimate, Columns.together, []

    def noted(self, model, samples, coulomb=None, known=None):
        anew.append(known is None)
        return estimate(self, model, samples, coulomb, known)

    def farther(self, which):
        values, covariance = together(self, which)
        return values + anew[-1] * share * np.sqrt(np.diag(covariance)), covariance

    monkeypatch.setattr(WeightedLeastSquares, "estimate", noted)
    monkeypatch.setattr(Columns, "together", farther)
    if ends:
        assert found(shifted(2), f"zero:{NAMES[2]}")["position zero", NAMES[2]].value == pytest.approx(-ZERO, abs=0.002)
        return
    with pytest.raises(DataError, match="does not converge in 15 steps"):
        found(shifted(2), f"zero:{NAMES[2]}")


@pytest.mark.slow
def test_a_weak_torque_constant_is_found() -> None:
    source = recorded(ROBOT, torques=on_joint(3, lambda tau: tau / SCALE))
    one = found(source, f"torque-constant:{NAMES[3]}")["torque scale", NAMES[3]]
    assert one.value == pytest.approx(1.0 / SCALE, rel=0.01) and one.differs


@pytest.mark.slow
def test_a_leaning_base_is_found() -> None:
    setup, (one,) = estimate_setup(ROBOT, [recorded(leaning(), name="leaning")], SETTINGS, ["tilt"])
    assert np.rad2deg(one.value) == pytest.approx(2.0, abs=0.1) and one.differs and "add a mount" in one.sentence
    assert setup.gravity == pytest.approx(leaning().gravity("upright"), abs=0.02)


@pytest.mark.slow
def test_a_faultless_set_up_shows_no_differences() -> None:
    estimates = found(recorded(ROBOT, seed=4), "zeros", "tilt")
    # the first joint's zero turns the arm about gravity, as its lean does; the last ones' hardly move any mass
    assert {NAMES[0], *NAMES[5:]}.isdisjoint(joint for _, joint in estimates) and {"", *NAMES[1:4]} <= {
        joint for _, joint in estimates
    }
    assert [one.sentence for one in estimates.values() if one.differs] == []
    assert all("as given" in one.sentence for one in estimates.values())


@pytest.mark.slow
def test_wrong_set_up_gives_a_right_model_that_is_not_accepted() -> None:
    """The parameters are those of the nominal arm; without the estimate they are not."""
    data, judge = shifted(1), shifted(1, seed=5, name="other")
    model = ArmModel.of(ROBOT)
    standard = load_standard(ROBOT.folder / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)
    true, felt = model.base_parameters(standard).values, model.base_parameters(standard).values > 0.02

    def error(words: tuple[str, ...]) -> float:
        result = identify(ROBOT, [data], validation=[judge], settings=SETTINGS, setup=words)
        failed = [check.id for check in result.verdict.failed]
        assert ("setup" in failed) == bool(words)
        assert bool(result.setup) == bool(words) == any(NAMES[1] in note for note in result.notes)
        assert [one["joint"] for one in result.model_file().provenance["setup"]] == [NAMES[1]] * bool(words)
        return float(np.max(np.abs(result.base.values / np.where(felt, true, 1.0) - 1.0)[felt]))

    assert error((f"zero:{NAMES[1]}",)) < 0.5 * error(())


@pytest.mark.slow
def test_corrected_set_up_is_accepted() -> None:
    result = identify(ROBOT, [recorded(ROBOT)], settings=SETTINGS, setup=[f"zero:{NAMES[1]}"])
    assert result.setup and not result.setup[0].differs and "setup" not in [check.id for check in result.verdict.failed]
    assert "setup" in [check.id for check in result.verdict.checks]


@pytest.mark.slow
def test_unknowns_that_a_motion_does_not_show_are_refused_by_name() -> None:
    with pytest.raises(DataError, match=f"does not show the zero of {NAMES[0]}"):
        found(recorded(ROBOT), f"zero:{NAMES[0]}")


def test_all_torque_constants_are_compared_with_the_strongest_joint() -> None:
    axes = [one.axis for one in choose(["torque-constants"], ROBOT)]
    assert axes == [0, 2, 3, 4, 5, 6] and int(np.argmax(ROBOT.torque_limits)) == 1


def test_corrections_are_those_of_the_entries_that_they_name() -> None:
    """Recorded constants are those at the joint, the one of robot.yaml is the motor's; a mapping has its own offset."""
    changes = [{}, {"gear_ratio": -50.0, "zero_offset_rad": 0.2}, *[{}] * 6]
    joints = tuple(one.model_copy(update=own) for one, own in zip(ROBOT.file.joints, changes, strict=True))
    robot = Robot(ROBOT.file.model_copy(update={"joints": joints}), ROBOT.folder)
    mount, chosen = robot.file.default_mount, [Choice("torque scale", 1, True), Choice("position zero", 1, True)]
    setup = Setup.of(robot, mount, chosen, np.array([0.1, -0.05]))
    constants = tuple(robot.joint_constants.tolist())
    scale, zero = _estimates(robot, mount, setup, chosen, np.full(2, 0.001), constants)
    own = float(robot.torque_constants[1]) / float(setup.scales[1])
    assert f"torque_constant_nm_per_a: {own:.5g} in robot.yaml" in scale.correction
    assert "if dynid's driver recorded it, give this joint zero_offset_rad: 0.15000 in robot.yaml" in zero.correction
    assert "add -0.05000 rad to the offset of this joint's positions in the mapping" in zero.correction


def test_unknown_set_up_parts_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="'encoder' is no part of a set-up; expected tilt"):
        choose(["encoder"], ROBOT)
    with pytest.raises(UnknownNameError, match="elbow"):
        choose(["zero:elbow"], ROBOT)
    with pytest.raises(ConfigurationError, match="one unknown scale"):
        choose([f"torque-constant:{name}" for name in NAMES[:7]], ROBOT)


def test_a_set_up_shifts_positions_and_scales_torques() -> None:
    given = Setup.given(ROBOT, "upright")
    own = Setup(given.zeros + 0.1, given.scales * 2.0, given.gravity)
    before = recorded(ROBOT, seconds=2.0)
    after = own.read(before)
    assert after.signals(SETTINGS).q == pytest.approx(before.signals(SETTINGS).q + 0.1)
    assert after.signals(SETTINGS).tau == pytest.approx(before.signals(SETTINGS).tau / 2.0)


@pytest.mark.slow
def test_insignificant_unknowns_stay_as_given() -> None:
    """A lean of a thousandth of a degree would only give the model parameters that no motion shows."""
    setup, estimates = estimate_setup(
        ROBOT, [shifted(2, seed=4)], SETTINGS, [f"zero:{NAMES[2]}", f"zero:{NAMES[1]}", "tilt"]
    )
    assert [one.joint for one in estimates if one.differs] == [NAMES[2]]
    assert np.array_equal(setup.gravity, ROBOT.gravity("upright")) and np.flatnonzero(setup.zeros).tolist() == [2]

"""CRANE-X7 arms that change during a recording at 200 Hz are refused with the cause; unchanged arms are accepted."""

from collections.abc import Callable

import pytest
from benchmarks.studies.changed_arms import Log, Subject, as_source, course, subject, with_body, with_scale, with_zero

from dynid.identification.estimators.table import estimator
from dynid.identification.settings import load_identification
from dynid.identification.steadiness.columns import BODY, SCALE, ZERO
from dynid.identification.steadiness.steadiness import Steadiness, steadiness
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
SETTINGS = load_identification(ROBOT)
LIMIT = SETTINGS.acceptance.change_of_arm
pytestmark = pytest.mark.study


@pytest.fixture(scope="module")
def viscous() -> Subject:
    return subject(ROBOT, 3, "viscous", 60.0)


@pytest.fixture(scope="module")
def geared() -> Subject:
    return subject(ROBOT, 6, "M6", 40.0)


def found(one: Subject, log: Log) -> Steadiness:
    samples = as_source(one, log).samples(SETTINGS)
    estimate = estimator(SETTINGS.estimator).estimate(one.model, samples, SETTINGS.coulomb_friction)
    return steadiness(ROBOT, one.model, samples, estimate.regression, ["log"], LIMIT)


@pytest.mark.parametrize("gears", ["viscous", "geared"])
@pytest.mark.parametrize(
    ("change", "kind", "axes"),
    [
        (lambda one: with_body(one, 0.2, course(one.log, "step")), BODY, ()),
        (lambda one: with_body(one, 0.1, course(one.log, "step")), BODY, ()),
        (lambda one: with_zero(one, 1, 0.1, course(one.log, "drift")), ZERO, (1,)),
        (lambda one: with_scale(one, 0.15, course(one.log, "drift")), SCALE, ()),
    ],
    ids=["0.2 kg", "0.1 kg", "zero", "scale"],
)
def test_a_changed_arm_is_refused_with_its_cause_named_first(
    change: Callable[[Subject], Log], kind: str, axes: tuple[int, ...], gears: str, request: pytest.FixtureRequest
) -> None:
    one: Subject = request.getfixturevalue(gears)
    steady = found(one, change(one))
    assert steady.measured[0] > LIMIT
    assert (steady.changes[0].kind, steady.changes[0].axes) == (kind, axes), steady.sentences


@pytest.mark.parametrize("gears", ["viscous", "geared"])
@pytest.mark.parametrize("rate_hz", [100.0, 200.0, 1000.0])
def test_a_steady_arm_that_warms_up_raises_no_alarm(rate_hz: float, gears: str, request: pytest.FixtureRequest) -> None:
    one: Subject = request.getfixturevalue(gears)
    samples = as_source(one, one.log, rate_hz).samples(SETTINGS)
    estimate = estimator(SETTINGS.estimator).estimate(one.model, samples, SETTINGS.coulomb_friction)
    steady = steadiness(ROBOT, one.model, samples, estimate.regression, ["log"], LIMIT)
    assert steady.measured[0] < LIMIT, steady.sentences

"""Compensation of a small torque delay, of at most the limit `SuspicionLimits.delay_s` of the settings.

The fit of friction estimates a small delay and its standard deviation (`estimators.lags`). The uncertainty of the delay
widens the confidence intervals of the parameters. A significant delay is compensated: the torque at time t is replaced
by the one recorded at t + delay. All parameters are then fitted again, starting from the last fit. Both steps are
repeated until the remaining delay is within its standard deviation, in at most `ROUNDS` rounds. A delay that exceeds
the limit significantly is not compensated. The verdict then refuses the model, because the fault of the recording
should be corrected at its source.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from dynid.identification.data.recordings import read_recordings
from dynid.identification.data.sample_sets import join
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.lags import FoundDelay
from dynid.identification.estimators.table import estimator
from dynid.identification.prepared import Prepared, portions_of
from dynid.identification.setup import Setup, SetupEstimate
from dynid.model.dynamics import ArmModel
from dynid.recording.mapping import Mapping

ROUNDS = 3  # rounds of reading torques later and fitting again
GROWTH_LIMIT = 3.0  # delay at which the search stops, in multiples of the verdict's limit


@dataclass(frozen=True, eq=False)
class DelayCompensated:
    """Result of the compensation of a torque delay.

    Attributes:
        ready: recordings with torques corrected for a significant delay; unchanged if there is none.
        estimate: estimate from these recordings.
    """

    ready: Prepared
    estimate: Estimate


def compensated(
    model: ArmModel,
    ready: Prepared,
    estimate: Estimate,
    *,
    held_out_share: float,
    mapping: Mapping,
    progress: Callable[[str], None] = lambda stage: None,
) -> DelayCompensated:
    """Return the recordings after compensation of a small but significant torque delay, with the new estimate.

    A delay is small if it does not significantly exceed `SuspicionLimits.delay_s`. Recordings and estimate are returned
    unchanged if the delay is insignificant or not small, if a recording states a delay, if the delay was already
    estimated together with joint zeros, torque scales and tilt (`estimate_setup`), or if no friction law is fitted.

    Args:
        model: the arm.
        ready: the recordings, with their signals.
        estimate: estimate from the uncompensated recordings.
        held_out_share: share of each recording's time, at its end, that is not fitted and on which the fit is checked.
        mapping: meaning of the columns or topics of the held-out recordings.
        progress: function that is called with the name of each step.
    """
    given, found = DelayCompensated(ready, estimate), _found(estimate)
    stated = any(one.usable_signals(ready.settings).torque_delay_s for one in ready.sources)
    if found is None or stated or any(one.kind == "delay" for one in ready.setup) or not _estimate_of(found).differs:
        return given
    limits, total, now = ready.settings.acceptance.suspicion, 0.0, given
    for _ in range(ROUNDS):
        total += found.value
        if abs(total) > GROWTH_LIMIT * limits.delay_s:
            return given
        progress(f"reading torques {1e3 * total:.1f} ms later")
        now = _read_later(model, given, now.estimate, total, held_out_share)
        again = _found(now.estimate)
        if again is None:
            return given
        found = again
        if abs(found.value) <= found.deviation:
            break
    of = _estimate_of(replace(found, value=total))
    if not of.differs or abs(total) - limits.deviations * found.deviation > limits.delay_s:
        return given
    setup = _with_delay(ready, total)
    validation = tuple(
        setup.read(one) for one in read_recordings(ready.validation, ready.robot, mapping, beside=ready.sources)
    )
    return replace(now, ready=replace(now.ready, validation=validation, setup=(*ready.setup, of)))


def _found(estimate: Estimate) -> FoundDelay | None:
    joint_friction = estimate.regression.joint_friction
    return None if joint_friction is None else joint_friction.delay


def _estimate_of(found: FoundDelay) -> SetupEstimate:
    return SetupEstimate("delay", "", found.value, found.deviation, "this is compensated")


def _with_delay(ready: Prepared, delay_s: float) -> Setup:
    """Return a `Setup` with a torque delay [s], gravity from robot.yaml, and no correction of zeros and torques."""
    return replace(Setup.given(ready.robot, ready.sources[0].mount), delay_s=delay_s)


def _read_later(
    model: ArmModel, given: DelayCompensated, last: Estimate, delay_s: float, held_out_share: float
) -> DelayCompensated:
    """Return recordings whose torque at time t is the one recorded at t + delay [s], and the estimate from them.

    Args:
        model: the arm.
        given: the uncompensated recordings.
        last: estimate at which the new friction fit starts.
        delay_s: delay that is compensated [s].
        held_out_share: share of each recording's time, at its end, that is not fitted.
    """
    ready = given.ready
    setup = _with_delay(ready, delay_s)
    sources = tuple(setup.read(one) for one in ready.sources)
    fitted, ends = portions_of(sources, ready.settings, held_out_share)
    samples = join([one.samples for one in fitted])
    settings, start = ready.settings, last.regression.known_start
    estimate = estimator(settings.estimator).estimate(model, samples, settings.coulomb_friction, start)
    found = replace(ready.found, delay_s=delay_s)  # applies also to recordings that exceed the memory
    return DelayCompensated(replace(ready, sources=sources, fitted=fitted, ends=ends, found=found), estimate)

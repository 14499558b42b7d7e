"""A delay of torques below the verdict's limit, estimated from the fit that is there, and compensated.

The fit of friction looks for it (`estimators.lags`), and its deviation widens the intervals. One that is sure is taken
off: torques of the recordings are read that much later, everything is fitted again from where the last fit ended, and
what is left is estimated anew, until it is within its deviation. A delay beyond the limit is left to the verdict, which
refuses it: so late a torque is a fault of the recording that should be mended there.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from dynid.identification.data.sample_sets import join
from dynid.identification.data.sources import read_sources
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.gear_ladder import KnownStart
from dynid.identification.estimators.lags import FoundDelay
from dynid.identification.estimators.table import estimator
from dynid.identification.prepared import Prepared
from dynid.identification.setup import Setup, SetupEstimate
from dynid.model.dynamics import ArmModel
from dynid.recording.mapping import Mapping

ROUNDS = 3  # of reading later and fitting again
FARTHEST = 3.0  # times the limit: a delay that grows beyond it is not followed


@dataclass(frozen=True, eq=False)
class Timed:
    """Recordings whose torques are read as much later as they are late, and the estimate from them."""

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
) -> Timed:
    """Return the recordings without a delay that is sure and below the limit, and the estimate from them.

    Nothing changes if a delay is stated or was estimated with the set-up, or if no friction is fitted.

    Args:
        model: the arm.
        ready: the recordings, with their signals.
        estimate: from them as they are.
        held_out_share: part of each recording's time, at its end, that judges.
        mapping: of held-out recordings.
        progress: called with the name of each step.
    """
    given, found = Timed(ready, estimate), _found(estimate)
    stated = any(one.usable_signals(ready.settings).torque_delay_s for one in ready.sources)
    if found is None or stated or any(one.kind == "delay" for one in ready.setup) or not _estimate_of(found).differs:
        return given
    limits, total, now = ready.settings.acceptance.suspicion, 0.0, given
    for _ in range(ROUNDS):
        total += found.value
        if abs(total) > FARTHEST * limits.delay_s:
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
    setup = replace(Setup.given(ready.robot, ready.sources[0].mount), delay_s=total)
    validation = tuple(setup.read(one) for one in read_sources(ready.validation, ready.robot, mapping))
    return replace(now, ready=replace(now.ready, validation=validation, setup=(*ready.setup, of)))


def _found(estimate: Estimate) -> FoundDelay | None:
    beside = estimate.regression.beside
    return None if beside is None else beside.delay


def _estimate_of(found: FoundDelay) -> SetupEstimate:
    return SetupEstimate("delay", "", found.value, found.deviation, "this is compensated")


def _read_later(model: ArmModel, given: Timed, last: Estimate, delay_s: float, held_out_share: float) -> Timed:
    """The recordings with torques that are read so much later, and the estimate from them, begun at the last one."""
    ready, beside = given.ready, last.regression.beside
    assert beside is not None
    setup = replace(Setup.given(ready.robot, ready.sources[0].mount), delay_s=delay_s)
    sources = tuple(setup.read(one) for one in ready.sources)
    split = [one.split(ready.settings, held_out_share) for one in sources]
    fitted, ends = (tuple(one for pair in split for one in pair[k]) for k in (0, 1))
    start = KnownStart(beside.fit.structure, beside.fit.point, beside.ladder)
    samples = join([one.samples for one in fitted])
    settings = ready.settings
    estimate = estimator(settings.estimator).estimate(model, samples, settings.coulomb_friction, start)
    found = replace(ready.found, delay_s=delay_s)  # recordings that memory does not hold are read so, too
    return Timed(replace(ready, sources=sources, fitted=fitted, ends=ends, found=found), estimate)

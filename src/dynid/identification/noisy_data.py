"""Detection of models that are refused only because the recorded torques are noisy."""

from collections.abc import Sequence

from dynid.identification.prediction import Motion
from dynid.verdict import Verdict

OF_ERRORS = {"torque_error_fitted", "torque_error_held_out"}  # checks of all joints together
LIKE_NOISE = 1.25  # largest ratio of errors to noise at which errors count as noise; white noise alone gives 1.2


def noise_sentence(verdict: Verdict, motions: Sequence[Motion]) -> str:
    """Return a sentence that names noise as the only reason of a refusal; "" if there is another reason or no refusal.

    Noise is the only reason if only limits of torque errors refuse the model, and if the error of each motion exceeds
    the noise of the data by at most the factor `LIKE_NOISE`. The noise is estimated from differences between
    neighbouring samples, see `Motion.over_noise`. So the samples must be low-pass filtered, not averages over longer
    periods: between the times of two averages, the error of a wrong model changes as much as noise does.

    Args:
        verdict: the checks of the result.
        motions: measured and predicted torques of all recordings.
    """
    failed = {one.id for one in verdict.failed}
    if not failed or not failed <= OF_ERRORS:
        return ""
    ratios = [one.over_noise for one in motions]
    if not all(ratio <= LIKE_NOISE for ratio in ratios):  # NaN, of a motion that does not move, is no noise either
        return ""
    most = max(one.errors.moving for one in motions)
    return (
        f"the torque errors, up to {100 * most:.3g} % of the torques, are mostly noise of the recorded torques: they "
        f"are {max(ratios):.2g} times what neighbouring samples differ by; record "
        "at a higher rate, or let the driver average the torques of each period"
    )

"""Checks of the demo, as tables of rules: each rule has a name, a measured value and a limit.

The table RECORDED applies to a recorded bag, PUBLISHED to the model that the identification node published, GAIN to the
tracking error with this model, and AT_REST to the last state of the simulated arm, which its process logs as it ends.
"""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import NamedTuple

from dynid.identification.checks import Measured, Rule
from dynid.recording.completeness import Completeness

RECORDED: tuple[Rule[Completeness], ...] = (
    Rule("lost_states", "Data", "states published but not in the bag", lambda found: found.lost, 0.0),
    Rule(
        "missed_cycles_of_driver",
        "Data",
        "control cycles that the driver missed",
        lambda found: (100 * found.missed_fraction, f"of {found.published + found.missed}"),
        0.1,
        unit="%",
    ),
)


class Published(NamedTuple):
    """Comparison of the model that the identification node published with model.yaml and model.urdf.

    Attributes:
        matching: 1 if the published model has the same structure hash as model.yaml, and the same flag whether it is
            accepted, else 0; NaN if no model was published because it was not accepted.
        difference: largest absolute difference between published and written base parameters [SI]; NaN if a parameter
            was not published.
        unset: reason why base parameters were not published; "" if all were published.
        number: number of base parameters.
        topic_nm: largest torque difference between the published URDF and model.yaml [N m]; NaN if no model
            was published.
        file_nm: largest torque difference between model.urdf and model.yaml [N m].
    """

    matching: float
    difference: float
    unset: str
    number: int
    topic_nm: float
    file_nm: float


PUBLISHED: tuple[Rule[Published], ...] = (
    Rule(
        "published_hash",
        "Chain",
        "published hash and acceptance match model.yaml",
        lambda found: (found.matching, found.unset if isnan(found.matching) else ""),
        1.0,
        "equals",
    ),
    Rule(
        "published_parameters",
        "Chain",
        "published parameters against model.yaml, {0.number} values",
        lambda found: (found.difference, found.unset),
        0.0,
    ),
    Rule(
        "published_urdf",
        "Chain",
        "published URDF against the model",
        lambda found: (found.topic_nm, found.unset if isnan(found.topic_nm) else ""),
        1e-6,
        unit="N m",
    ),
    Rule("written_urdf", "Chain", "model.urdf against the model", lambda one: one.file_nm, 1e-6, unit="N m"),
)


def tracking_ratio(rms: Sequence[float]) -> Measured:
    """Return the ratio of the RMS tracking errors with and without the model, and a phrase that gives both errors.

    `rms` has the RMS error of a motion without the model [deg], then that of its repetition with the model [deg]. The
    second value is missing if the motion was not repeated; the ratio is then NaN.
    """
    if len(rms) < 2:
        return float("nan"), "the executor has no accepted model"
    return rms[1] / rms[0], f"{rms[1]:.3f} deg RMS with computed torque, {rms[0]:.3f} deg with FF+PD"


TRACKING = "tracking error, computed torque / FF+PD"
GAIN: tuple[Rule[Sequence[float]], ...] = (Rule("tracking_gain", "Chain", TRACKING, tracking_ratio, 0.5),)
AT_REST: tuple[Rule[Mapping[str, list[float]]], ...] = (
    Rule("torque_at_end", "Chain", "servos with torque on at the end", lambda end: sum(end["torque_enabled"]), 0.0),
    Rule(
        "current_at_end",
        "Chain",
        "largest goal current at the end",
        lambda end: max(map(abs, end["goal_current_a"])),
        0.0,
        unit="A",
    ),
)

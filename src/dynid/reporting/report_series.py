"""Data of a report's charts as plain values for JSON: curves as 16-bit numbers in base64, all other data as lists."""

import base64
from typing import Any

import numpy as np

from dynid.identification.prediction import Motion
from dynid.reporting.arm_view import WorstPose
from dynid.reporting.residuals import residuals
from dynid.reporting.result_folder import Result
from dynid.robot import FloatArray

MOST_SAMPLES = 4000  # maximum number of samples drawn per motion, more than a screen can show
MOST_MOTIONS = 8
STEPS = 65534
NINETY_PERCENT = 1.645  # half-width of the two-sided 90 % interval of a normal distribution [standard deviations]
CLOUD_STAGES = ("OLS", "SDP", "CLIE")


def packed(values: FloatArray) -> dict[str, Any]:
    """Encode values (N,), any unit, as 16-bit numbers in base64.

    The entries of the result are `low`, `step` and `data`, the encoded numbers: value = low + step * number.
    """
    low, high = float(np.min(values)), float(np.max(values))
    step = (high - low) / STEPS or 1.0
    numbers = np.rint((np.asarray(values) - low) / step).astype("<u2")
    return {"low": low, "step": step, "data": base64.b64encode(numbers.tobytes()).decode()}


def rounded(values: Any, digits: int = 5) -> list[float]:
    """Return the flattened values rounded to `digits` significant digits, which suffice for a chart."""
    return [float(f"{value:.{digits}g}") for value in np.asarray(values, dtype=float).ravel()]


def thinning(motion: Motion) -> int:
    """Return the factor by which the samples of a motion are decimated, so that at most `MOST_SAMPLES` are drawn."""
    return -(-len(motion.time) // MOST_SAMPLES)


def motion_data(motion: Motion) -> dict[str, Any]:
    """Return the chart data of one motion: velocities, measured and predicted torques, and residuals of all joints."""
    every = thinning(motion)
    n = motion.measured.shape[1]
    return {
        "name": motion.name,
        "kind": motion.kind,
        "every": every,
        "time": packed(motion.time[::every] - motion.time[0]),
        "dq": [packed(motion.dq[::every, j]) for j in range(n)],
        "measured": [packed(motion.measured[::every, j]) for j in range(n)],
        "predicted": [packed(motion.predicted[::every, j]) for j in range(n)],
        "band": _band(motion, every),
        "relative": [one if np.isfinite(one) else None for one in rounded(motion.errors.moving_per_axis, 3)],
        "residuals": [
            {
                "edges": rounded(one.edges),
                "density": rounded(one.density),
                "mean": one.mean,
                "sd": one.deviation,
                "acf": rounded(one.autocorrelation, 4),
                "band": one.band,
                "lag": one.interval_s,
                "friction": None if np.isnan(one.friction) else one.friction,
                "slope": None if np.isnan(one.slope) else one.slope,
            }
            for one in residuals(motion)
        ],
    }


def _band(motion: Motion, every: int) -> list[list[dict[str, Any]]] | None:
    """Return lower and upper bounds of each joint's 90 % prediction interval; None if they are unknown.

    The bounds are decimated by the factor `every` and encoded by `packed`.
    """
    if motion.deviations is None:
        return None
    reach = NINETY_PERCENT * motion.deviations
    bounds = (motion.predicted - reach)[::every], (motion.predicted + reach)[::every]
    return [[packed(one[:, j]) for one in bounds] for j in range(motion.measured.shape[1])]


def pose_data(pose: WorstPose) -> dict[str, Any]:
    """Return the chart data of the arm in the pose at which the smallest eigenvalue of M(q) is lowest."""
    return {
        "points": [rounded(point) for point in pose.points],
        "centres": [rounded(point) for point in pose.centres],
        "masses": rounded(pose.masses),
        "gravity": rounded(pose.gravity),
    }


def cloud_data(result: Result) -> dict[str, Any] | None:
    """Return a campaign's models as points in the plane of their first two principal components, by stage.

    A campaign identifies one model per bag and sampling interval, in several stages such as least squares and
    closed-loop refinement. The return value is None for results of single identifications.
    """
    rows = result.tables.get("cloud_scores")
    if not rows or "pc2" not in rows[0]:
        return None
    chosen = result.campaign.get("representative", {}).get("run", "")
    stages = {}
    for stage in CLOUD_STAGES:
        own = [row for row in rows if row["stage"] == stage]
        stages[stage] = {
            "x": rounded([row["pc1"] for row in own]),
            "y": rounded([row["pc2"] for row in own]),
            "labels": [f"{row['bag']} at {float(row['sampling_ms']):g} ms" for row in own],
        }
    return {"stages": stages, "chosen": chosen}


def conditioning_data(result: Result) -> dict[str, Any] | None:
    """Return the condition number of the regressor for each bag at each sampling interval of a campaign.

    The return value is None for results of single identifications.
    """
    rows = [row for row in result.tables.get("runs", []) if row["kappa"]]
    if not rows:
        return None
    intervals = sorted({float(row["sampling_ms"]) for row in rows})
    names = sorted({row["bag"] for row in rows})
    kappa = {(row["bag"], float(row["sampling_ms"])): float(row["kappa"]) for row in rows}
    return {
        "bags": names,
        "intervals": intervals,
        "kappa": [[kappa.get((name, interval)) for interval in intervals] for name in names],
    }


def chart_data(result: Result, pose: WorstPose, labels: tuple[str, ...]) -> dict[str, Any]:
    """Return the data of all charts of one result.

    `pose` is the pose at which the smallest eigenvalue of M(q) is lowest, and `labels` are the labels of the joints.
    """
    prismatic = np.array(result.robot.prismatic)
    return {
        "joints": list(labels),
        "joint_count": result.robot.chain_size,
        "torque_units": ["N" if slides else "N m" for slides in prismatic],
        "speed_units": ["m/s" if slides else "rad/s" for slides in prismatic],
        "motions": [motion_data(one) for one in result.motions[:MOST_MOTIONS]],
        "pose": pose_data(pose),
        "cloud": cloud_data(result),
        "conditioning": conditioning_data(result),
    }

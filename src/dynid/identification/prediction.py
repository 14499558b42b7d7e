"""Predicted torques of recorded motions and their errors; measured and predicted torques pass the same low-pass."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dynid.identification.data.recordings import Kind, Portion
from dynid.identification.diagnosis.events import find_event
from dynid.identification.dynamic_errors import VISIBLE, DynamicError, dynamic_errors
from dynid.identification.estimators.solved_torques import predicted_torques
from dynid.identification.estimators.torque_errors import MOVING_RAD_S, TorqueErrors, torque_errors
from dynid.robot import FloatArray
from dynid.runtime.model import Model

NEVER_BELOW = 0.005  # noise that is always added, relative to the torque


@dataclass(frozen=True, eq=False)
class Motion:
    """One recorded motion with its predicted torques.

    Attributes:
        name: name of the bag or file, or of a part of it.
        kind: "fitted" if the model was identified from this motion; "cross-validated" if each block of its time was
            predicted by a fit to all other blocks; else "held out".
        sha256: hash of the recording.
        time: times of the samples on the recording's time axis, (N,) [s].
        dq: joint velocities, (N, n) [rad/s], [m/s] for prismatic joints.
        measured: measured torques, (N, n) [N m], [N] for prismatic joints.
        predicted: predicted torques, (N, n) [N m], [N] for prismatic joints.
        moved: ratio || change || / || measured torques ||, for the change of the predicted torques by the projection to
            physically consistent parameters; NaN if the parameters before the projection are not known.
        deviations: standard deviations of the predicted torques, (N, n) [N m]; None if they are not known.
        joints: names of the joints, (n,); () if they are not known.
        torque_limits: torque limits, (n,) [N m]; None if they are not known.
        apart: number of samples after which two errors of low-passed torques are nearly independent.
        dynamics: errors of the dynamic torque (torque without gravity and friction) of the joints whose motion reveals
            it; () if they were not computed.
        delay: sentence about the delay of torques; "" if it was not estimated from this recording alone.
    """

    name: str
    kind: Kind
    sha256: str
    time: FloatArray
    dq: FloatArray
    measured: FloatArray
    predicted: FloatArray
    moved: float = float("nan")
    deviations: FloatArray | None = None
    joints: tuple[str, ...] = ()
    torque_limits: FloatArray | None = None
    apart: int = 1
    dynamics: tuple[DynamicError, ...] = ()
    delay: str = ""

    def __len__(self) -> int:
        return len(self.time)

    @classmethod
    def of(cls, portion: Portion, predicted: FloatArray, before: FloatArray | None = None) -> "Motion":
        """Return the motion of a portion of a recording, with its predicted torques.

        Args:
            portion: samples of a recording or of a part of it.
            predicted: predicted torques, (N, n) [N m].
            before: torques predicted with the parameters before the projection to physically consistent ones, (N, n) [N
                m]; None if they are not known.
        """
        samples, moved = portion.samples, float("nan")
        if before is not None:
            moved = float(np.linalg.norm(predicted - before) / np.linalg.norm(samples.tau))
        own = portion.name, portion.kind, portion.sha256
        arrays = samples.time, samples.dq, samples.tau, predicted
        apart = max(1, round(0.5 / (samples.settings.cutoff_hz * samples.settings.interval_s)))
        limits = samples.torque_limits
        return cls(*own, *arrays, moved, joints=samples.joint_names, torque_limits=limits, apart=apart)

    @property
    def residual(self) -> FloatArray:
        """Measured minus predicted torques, (N, n) [N m]."""
        return self.measured - self.predicted

    @cached_property
    def errors(self) -> TorqueErrors:
        """Torque errors of the motion, of all axes together and per axis."""
        return torque_errors(self.measured, self.predicted, self.dq)

    @property
    def over_noise(self) -> float:
        """Ratio of the root mean square error to the noise of the data, for joints in motion; NaN if no joint moves.

        The noise is estimated from differences of neighbouring errors (von Neumann's ratio). The ratio is near 1 for a
        correct model, whose errors are mostly noise. Errors of a wrong model keep their sign for a large part of a
        motion, so the ratio is larger. Data without noise would make the ratio of even a tiny error large. Therefore
        the noise always includes another contribution, the fraction `NEVER_BELOW` of the torque.
        """
        k, e = self.apart, self.residual
        moves = np.abs(self.dq) > MOVING_RAD_S
        both = moves[k:] & moves[:-k]
        if not both.any():
            return float("nan")

        def squares(values: FloatArray) -> float:
            """Return the sum over the joints of the mean square of values (N, n), any unit, while the joint moves."""
            return float(sum(np.mean(one[own] ** 2) for one, own in zip(values.T, both.T, strict=True) if own.any()))

        noise = squares(e[k:] - e[:-k]) / 2.0 + NEVER_BELOW**2 * squares(self.measured[k:])
        return float(np.sqrt(squares(e[k:]) / max(noise, np.finfo(float).tiny)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the delay of torques, a short event that causes most of the error, and hardly visible dynamics.

        The dynamics of a joint are its torque without gravity and friction.
        """
        late = (f"{self.name}: {self.delay}",) if self.delay else ()
        event = find_event(self.time, self.residual, self.joints) if self.joints else None
        found = late if event is None else (*late, f"{self.name}: {event.sentence()}")
        hidden = (
            ", ".join(self.joints[one.joint] for one in self.dynamics if one.shown > VISIBLE) if self.joints else ""
        )
        if not hidden:
            return found
        return (
            *found,
            f"{self.name} hardly shows the dynamic torque of {hidden}: an error of {100 * VISIBLE:g} % may pass there",
        )

    def as_dict(self, joints: tuple[str, ...]) -> dict[str, Any]:
        """Return the torque errors as plain values, of all axes together and per axis.

        The errors are RMSE [N m], MNE (mean absolute error divided by the range of the torque), and the relative error
        || error || / || torque ||. The relative error is given for all samples and for samples in motion.
        """
        errors = self.errors
        columns = (errors.rmse_per_axis, errors.mne_per_axis, errors.relative_per_axis, errors.moving_per_axis)
        rows = zip(joints, *(column.tolist() for column in columns), strict=True)
        axes = {
            joint: {"rmse_nm": a, "mne": b, "relative": c, "relative_moving": None if np.isnan(d) else d}
            for joint, a, b, c, d in rows
        }
        for one in self.dynamics:
            axes[joints[one.joint]] |= {"dynamic_error": one.error, "dynamic_noise": one.noise}
        whole = {"rmse_nm": errors.rmse, "mne": errors.mne, "relative": errors.relative}
        whole["relative_moving"] = errors.moving
        return {"samples": len(self)} | whole | {"axes": axes}


def predict(model: Model, portion: Portion) -> Motion:
    """Return the torques that a model predicts for a portion of a recording, at the recording's mount."""
    arm, samples = model.arm(portion.mount), portion.samples
    tau = predicted_torques(arm, samples, model.base, model.friction_law)
    if model.unconstrained is None:
        return Motion.of(portion, tau)
    change = model.base.values - model.unconstrained
    return Motion.of(portion, tau, tau - samples.low_passed(lambda q, dq, ddq: arm.regressor(q, dq, ddq) @ change))


def with_dynamics(motion: Motion, model: Model, portion: Portion, slow_rad_s: float) -> Motion:
    """Return a copy of a held-out prediction with the errors of its dynamic torque.

    The dynamic torque is the torque without gravity and friction.

    Args:
        motion: the prediction.
        model: the model that made the prediction.
        portion: the predicted portion.
        slow_rad_s: speed below which joints may stick [rad/s].
    """
    arm = model.arm(portion.mount)
    return replace(motion, dynamics=dynamic_errors(arm, portion.samples, model.base, model.friction_law, slow_rad_s))


def relative_errors(errors: TorqueErrors, joints: tuple[str, ...]) -> dict[str, Any]:
    """Return the relative errors || tau - tau_hat || / || tau || over all joints and per joint, as plain values.

    Each error is given for all samples, and for samples in which the joint moves.

    Args:
        errors: torque errors.
        joints: names of the joints, (n,).
    """
    moving = [None if np.isnan(one) else one for one in errors.moving_per_axis.tolist()]
    return {
        "all": errors.relative,
        "joints": dict(zip(joints, errors.relative_per_axis.tolist(), strict=True)),
        "moving": errors.moving,
        "joints_moving": dict(zip(joints, moving, strict=True)),
    }


def pooled_errors(motions: Sequence[Motion]) -> TorqueErrors:
    """Return torque errors over all samples of several motions."""
    return torque_errors(
        np.concatenate([one.measured for one in motions]),
        np.concatenate([one.predicted for one in motions]),
        np.concatenate([one.dq for one in motions]),
    )

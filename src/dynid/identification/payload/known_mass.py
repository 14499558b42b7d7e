"""Check of torque constants by two runs of an arm, without and with a known mass (after Gautier and Briot 2012).

Published torque constants of one servo differ by up to 30 %, and every identified parameter scales with them. A known
body at the last link must add a known torque. The drive of joint j reports the fraction c_j of this torque:

    tau_j (reported) = W_j psi_j + c_j t_j,

Here t_j is the known body's torque (zero in the run without the body). psi_j are the parameters of the arm and its
friction, in the scale of the reported torques. Noise affects only the left side, so it does not bias c_j. The true
torque constant is the constant that was used, divided by c_j. If coupled motors share the torque of a joint, c_j mixes
their constants and depends on the motion, so the constants of such joints are not checked.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dynid.errors import DataError
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.uncertainty import noise_covariance
from dynid.identification.payload.payload import load_columns
from dynid.model.drive import shared_joints
from dynid.model.dynamics import ArmModel
from dynid.model.numerical_regrouping import independent_columns
from dynid.model.standard import LinkInertia, from_link_frame
from dynid.robot import FloatArray, read_only
from dynid.threads import on_one_thread

INVISIBLE_RESIDUAL = 1e-6  # relative residual of the known torque below which the arm's columns reproduce it
SIGNIFICANT = 3.0
# Smallest doubtful error of a scale: inexact friction models can cause less, wrong constants reach 30 %
LEAST_DOUBTFUL_ERROR = 0.05
DETERMINED = 0.2  # largest standard deviation of a determined scale
# Smallest scale of a visible load: published torque constants of one servo differ by 30 %, never by half
LEAST_VISIBLE_SCALE = 0.5
LEAST_LOAD = 3.0  # smallest known torque, in multiples of the rms residual of the arm's own model


@dataclass(frozen=True)
class JointScale:
    """Estimated ratio of reported to true torque of a joint; it is 1 if the joint's torque constant is right.

    Attributes:
        joint: name of the joint.
        scale: ratio c of reported to true torque; NaN if the motion does not determine it.
        deviation: standard deviation of c; infinite if the motion does not determine it.
        known_torque: root mean square of the known body's torque at this joint [N m].
        unexplained: root mean square of the torque residual after a fit of arm and body [N m].
        torque_constant: torque constant that was used [N m/A]; None if torques were recorded.
        placed: whether the body's position was known; if not, the position was estimated together with the ratios.
        shared: whether the joint's torque was computed from the currents of several coupled motors.
    """

    joint: str
    scale: float
    deviation: float
    known_torque: float
    unexplained: float = 0.0
    torque_constant: float | None = None
    placed: bool = True
    shared: bool = False

    @property
    def determined(self) -> bool:
        """Whether the known mass determines this joint's ratio of reported to true torque.

        This requires a small standard deviation of the ratio, and a known torque well above the torque residual. It is
        never determined if several motors share the joint's torque.
        """
        return not self.shared and self.deviation <= DETERMINED and self.known_torque > LEAST_LOAD * self.unexplained

    @property
    def doubtful(self) -> bool:
        """Whether the joint's torque constant is significantly wrong, by more than `LEAST_DOUBTFUL_ERROR`."""
        return self.determined and abs(self.scale - 1.0) > max(SIGNIFICANT * self.deviation, LEAST_DOUBTFUL_ERROR)

    @property
    def corrected(self) -> tuple[float, float] | None:
        """Torque constant [N m/A] that the known mass implies, with its standard deviation.

        The result is None if the ratio is undetermined, or if torques were recorded, so that no constant was used.
        """
        if self.torque_constant is None or not self.determined:
            return None
        value = self.torque_constant / self.scale
        return value, abs(value) * self.deviation / abs(self.scale)

    def sentence(self) -> str:
        """Return a sentence about this joint's ratio of reported to true torque, and its likely torque constant."""
        if self.shared:
            return (
                f"{self.joint}: several coupled motors share its torque, so the known mass does not show the constant "
                "of one of them: check these motors uncoupled from the arm"
            )
        if not self.determined and not self.placed and self.known_torque > LEAST_LOAD * self.unexplained:
            return f"{self.joint}: its torque by the mass depends on the unknown position of the mass: give --at"
        if not self.determined:
            return f"{self.joint}: the known mass hardly loads this joint, so its torque constant cannot be checked"
        words = f"{self.joint}: reports {self.scale:.3f} +- {self.deviation:.3f} of the known torque"
        if self.corrected is None:
            return words
        value, deviation = self.corrected
        return f"{words}; torque constant {self.torque_constant:g} used, {value:.4g} +- {deviation:.2g} N m/A expected"


@on_one_thread
def check_torque_constants(
    model: ArmModel, without: Samples, carrying: Samples, body: LinkInertia, torque_constants: tuple[float, ...] = ()
) -> tuple[JointScale, ...]:
    """Return each joint's ratio of reported to true torque, from two runs without and with a known body.

    Args:
        model: model of the arm, mounted as in both runs. It should contain Coulomb friction: without it, a change of
            friction by the body's load distorts the result instead of being estimated.
        without: samples of the run without the body.
        carrying: samples of the run with the body.
        body: mass, centre of mass and inertia of the known body, in the last URDF link frame.
        torque_constants: torque constants that were used, on the motors' side of the gears, (n,) [N m/A]; () if torques
            were recorded. They are stated in the result.

    Raises:
        DataError: the body does not load any joint enough in this motion, or no joint's reported torque contains the
            body's load.
    """
    last, friction = load_columns(model, carrying)
    known = last @ from_link_frame(body, model.mdh.in_link[-1])
    torque = np.concatenate([np.zeros((len(without), model.axes)), known])
    found, shared = [], shared_joints(model.drive.coupling) if torque_constants else ()
    for j, columns, tau in arm_columns(model, without, carrying, friction):
        scale, deviation, unexplained = _scale(columns, torque[:, j], tau, without.settings.interval_s)
        constant = torque_constants[j] if torque_constants else None
        rms = float(np.sqrt((known[:, j] ** 2).mean()))
        found.append(
            JointScale(without.joint_names[j], scale, deviation, rms, unexplained, constant, shared=j in shared)
        )
    return refuse_unseen(tuple(found))


def refuse_unseen(found: tuple[JointScale, ...]) -> tuple[JointScale, ...]:
    """Return the given torque ratios unchanged if a known body's load is visible in the torque of some joint.

    Raises:
        DataError: the body does not load any joint enough, or no joint's reported torque contains the body's load.
    """
    if not any(one.determined for one in found):
        joint = "joint that one motor alone moves" if any(one.shared for one in found) else "joint"
        raise DataError(
            f"the known mass loads no {joint} enough in these runs; use a larger mass, further out, against gravity"
        )
    if all(abs(one.scale) < LEAST_VISIBLE_SCALE for one in found if one.determined):
        reported = ", ".join(f"{one.joint} {one.scale:.2g}" for one in found if one.determined)
        raise DataError(
            f"no known load is visible in the second run: of the known mass's torque the joints report only {reported}"
            ", expected about 1; was the body attached, and is the unit of the torques right?"
        )
    return found


def arm_columns(
    model: ArmModel, without: Samples, carrying: Samples, friction: FloatArray
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """Yield each joint's index, regressor columns (N, p), and reported torque (N,) [N m], from two runs in sequence.

    The columns belong to the arm's base parameters and to a change of friction by the body's load, but not to the
    body's own parameters. N is the number of samples of both runs together.

    Args:
        model: model of the arm.
        without: samples of the run without the body.
        carrying: samples of the run with the body.
        friction: columns for a change of friction in the run with the body, (samples of this run, n, k), see
            `load_columns`.
    """
    W = [one.low_passed(model.regressor) for one in (without, carrying)]
    for j in range(model.chain_size):
        changed = np.concatenate([np.zeros((len(without), friction.shape[-1])), friction[:, j]])
        columns = np.column_stack([np.concatenate([W[0][:, j], W[1][:, j]]), changed])
        yield j, columns, np.concatenate([without.tau[:, j], carrying.tau[:, j]])


def residuals_after_fit(columns: FloatArray, *values: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
    """Fit values by given columns with least squares; return an orthonormal basis of the columns and the residuals.

    The basis (N, k) has as many columns as `columns` has independent ones.

    Args:
        columns: columns, (N, p), any unit.
        values: arrays (N,) or (N, k); each column is fitted separately. The residuals have the same shapes as the
            arrays.
    """
    own = columns[:, independent_columns(columns, range(columns.shape[1]))]
    basis = np.linalg.qr(own / np.linalg.norm(own, axis=0))[0]
    return basis, [one - basis @ (basis.T @ one) for one in values]


def _scale(columns: FloatArray, torque: FloatArray, tau: FloatArray, interval_s: float) -> tuple[float, float, float]:
    """Fit tau = columns psi + c torque by least squares; return c, its standard deviation, and the rms residual [N m].

    If the columns alone can reproduce the body's torque, c is NaN, and the other two results are infinite.

    Args:
        columns: regressor columns of the arm, with unknown parameters psi, (N, p).
        torque: torque of the known body, (N,) [N m].
        tau: reported torque, (N,) [N m].
        interval_s: time between samples [s].
    """
    basis, (left, rest) = residuals_after_fit(columns, torque, tau)
    strength = float(left @ left)
    if strength <= INVISIBLE_RESIDUAL**2 * float(torque @ torque) or strength == 0.0:
        return float("nan"), float("inf"), float("inf")
    scale = float(left @ rest) / strength
    residual = rest - scale * left
    taken = basis.shape[1]
    freedom = len(tau) - taken - 1
    if freedom <= 0:
        raise DataError(f"{len(tau)} samples do not determine {taken + 1} parameters; record longer")
    squares = float(residual @ residual) / freedom
    # orthonormal columns, of the arm too: a window's leverage is that of all columns
    every = np.column_stack([basis, left / np.sqrt(strength)])[:, None]
    spread = noise_covariance(every, residual[:, None], np.eye(taken + 1), interval_s)[-1, -1]
    return scale, float(np.sqrt(spread / strength)), float(np.sqrt(squares))


def pooled(scales: tuple[JointScale, ...]) -> dict[float, tuple[float, float]]:
    """Return for each torque constant the mean ratio of reported to true torque, and the mean's standard deviation.

    Joints with equal torque constants are assumed to have servos of one type, so their ratios are averaged, with
    weights of 1 / variance. If the ratios scatter more than their variances permit, the standard deviation of the mean
    is increased.
    """
    found: dict[float, tuple[float, float]] = {}
    for constant in dict.fromkeys(one.torque_constant for one in scales if one.torque_constant is not None):
        same = [one for one in scales if one.torque_constant == constant and one.determined]
        if not same:
            continue
        weights = read_only([1.0 / max(one.deviation, 1e-12) ** 2 for one in same])
        values = np.array([one.scale for one in same])
        mean = float(weights @ values / weights.sum())
        spread = float(weights @ (values - mean) ** 2 / max(len(same) - 1, 1))
        found[constant] = (mean, float(np.sqrt(max(spread, 1.0) / weights.sum())))
    return found

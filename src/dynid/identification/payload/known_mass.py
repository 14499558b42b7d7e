"""Torque constants by a known mass: the same arm without and with it (after Gautier and Briot 2012).

Published torque constants of one servo differ by up to 30 %, and every parameter scales with them. A known body at the
last link must add a torque that is known, too: what the drive of joint j reports of it, per unit, is c_j in

    tau_j (reported) = W_j psi_j + c_j t_j,

t_j being the known body's torque (zero in the run without it), and psi_j whatever the arm and its friction take in the
reported scale. The reported torque is the side with the noise, so c_j is not biased by it. The true torque constant is
the one that was used, divided by c_j.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dynid.errors import DataError
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.uncertainty import score_covariance
from dynid.identification.payload.payload import load_columns
from dynid.model.dynamics import ArmModel
from dynid.model.numerical_regrouping import independent_columns
from dynid.model.standard import LinkInertia, from_link_frame
from dynid.robot import FloatArray, read_only
from dynid.threads import on_one_thread

UNSEEN = 1e-6  # of the known torque's own size: what is left of it beside the arm's columns, where it cannot be told
SIGNIFICANT = 3.0
DOUBTED = 0.05  # what friction that is not quite as modelled can feign; the doubt is one of 30 %
DETERMINED = 0.2  # a deviation beyond this says nothing of such a doubt
SEEN = 0.5  # of the known torque: published torque constants of one servo differ by 30 %, never by half
LOADED = 3.0  # times what the arm's own model leaves unexplained: a known torque below that drowns in it


@dataclass(frozen=True)
class JointScale:
    """What a joint reports of a known torque: 1 if its torque constant is right.

    Attributes:
        joint: name.
        scale: c; NaN where the motion does not show it.
        deviation: standard deviation of c; infinite where the motion does not show it.
        known_torque: root mean square of the known body's torque at this joint [N m].
        unexplained: root mean square of what the fit leaves [N m].
        torque_constant: the one that was used [N m/A]; None where torques were recorded.
        placed: whether the body's place was known; else it was found together with the scales.
    """

    joint: str
    scale: float
    deviation: float
    known_torque: float
    unexplained: float = 0.0
    torque_constant: float | None = None
    placed: bool = True

    @property
    def determined(self) -> bool:
        """Whether the known mass says anything about this joint."""
        return self.deviation <= DETERMINED and self.known_torque > LOADED * self.unexplained

    @property
    def doubtful(self) -> bool:
        """Whether the torque constant is surely wrong."""
        return self.determined and abs(self.scale - 1.0) > max(SIGNIFICANT * self.deviation, DOUBTED)

    @property
    def corrected(self) -> tuple[float, float] | None:
        """The torque constant that the known mass asks for, with its deviation [N m/A]."""
        if self.torque_constant is None or not self.determined:
            return None
        value = self.torque_constant / self.scale
        return value, abs(value) * self.deviation / abs(self.scale)

    def sentence(self) -> str:
        """The finding in words."""
        if not self.determined and not self.placed and self.known_torque > LOADED * self.unexplained:
            return f"{self.joint}: what it feels of the mass depends on where that is: give --at"
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
    """What each chain joint reports of a known body's torque.

    Args:
        model: the arm, mounted as in both runs; with Coulomb friction, which a load may change.
        without: run without the body.
        carrying: run with it.
        body: the known body in the last URDF link frame.
        torque_constants: that were used, (n,) [N m/A]; () where torques were recorded.

    Raises:
        DataError: the body loads no joint in this motion, or is not seen in any.
    """
    last, friction = load_columns(model, carrying)
    known = last @ from_link_frame(body, model.mdh.in_link[-1])
    torque = np.concatenate([np.zeros((len(without), model.axes)), known])
    found = []
    for j, columns, tau in arm_columns(model, without, carrying, friction):
        scale, deviation, unexplained = _scale(columns, torque[:, j], tau, without.settings.interval_s)
        constant = torque_constants[j] if torque_constants else None
        rms = float(np.sqrt((known[:, j] ** 2).mean()))
        found.append(JointScale(without.joint_names[j], scale, deviation, rms, unexplained, constant))
    return refuse_unseen(tuple(found))


def refuse_unseen(found: tuple[JointScale, ...]) -> tuple[JointScale, ...]:
    """The same scales; DataError if the body loads no joint, or is not seen in any."""
    if not any(one.determined for one in found):
        raise DataError(
            "the known mass loads no joint enough in these runs; use a larger mass, further out, against gravity"
        )
    if all(abs(one.scale) < SEEN for one in found if one.determined):
        reported = ", ".join(f"{one.joint} {one.scale:.2g}" for one in found if one.determined)
        raise DataError(
            f"no known load is visible in the second run: of the known mass's torque the joints report only {reported}"
            ", expected about 1; was the body attached, and is the unit of the torques right?"
        )
    return found


def arm_columns(
    model: ArmModel, without: Samples, carrying: Samples, friction: FloatArray
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """Of each chain joint: its place, what the arm and a change of friction may take (N, p), and its torque (N,).

    `friction` holds the columns of such a change in the carrying run, see `load_columns`.
    """
    W = [one.seen(model.regressor) for one in (without, carrying)]
    for j in range(model.chain_size):
        changed = np.concatenate([np.zeros((len(without), friction.shape[-1])), friction[:, j]])
        columns = np.column_stack([np.concatenate([W[0][:, j], W[1][:, j]]), changed])
        yield j, columns, np.concatenate([without.tau[:, j], carrying.tau[:, j]])


def beside(columns: FloatArray, *values: FloatArray) -> tuple[int, list[FloatArray]]:
    """What columns (N, p) cannot take of values (N,) or (N, k), and how many of the columns are independent."""
    own = columns[:, independent_columns(columns, range(columns.shape[1]))]
    basis = np.linalg.qr(own / np.linalg.norm(own, axis=0))[0]
    return own.shape[1], [one - basis @ (basis.T @ one) for one in values]


def _scale(columns: FloatArray, torque: FloatArray, tau: FloatArray, interval_s: float) -> tuple[float, float, float]:
    """c with tau = columns psi + c torque, its deviation, and the residual's root mean square; torques (N,)."""
    taken, (left, rest) = beside(columns, torque, tau)
    strength = float(left @ left)
    if strength <= UNSEEN**2 * float(torque @ torque) or strength == 0.0:
        return float("nan"), float("inf"), float("inf")
    scale = float(left @ rest) / strength
    residual = rest - scale * left
    freedom = len(tau) - taken - 1
    if freedom <= 0:
        raise DataError(f"{len(tau)} samples do not determine {taken + 1} parameters; record longer")
    squares = float(residual @ residual) / freedom
    spread = score_covariance((left * residual)[:, None], interval_s)[0, 0] * len(tau) / freedom
    return scale, float(np.sqrt(spread)) / strength, float(np.sqrt(squares))


def pooled(scales: tuple[JointScale, ...]) -> dict[float, tuple[float, float]]:
    """One scale with its deviation for all joints of one torque constant, so of one servo type; by that constant.

    Joints are weighted by their precision; where they disagree by more than that, the deviation says so.
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

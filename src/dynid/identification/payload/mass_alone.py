"""Torque constants by a body of which only the mass is known, not its place: each joint's scale, and the place.

As in `known_mass`, joint j reports c_j of the body's torque t_j,

    tau_j (reported) = W_j psi_j + c_j t_j(p),    p the body's centre of mass in the last link's frame.

A joint far from the body feels mostly the mass at the arm's own length, which is known. So where the other joints turn
the body about, its place follows with the scales, from least squares over all joints together (the mass alone is what
Gautier and Briot 2012 take for known, too). A joint whose torque is the place's alone, as of a single axis, says
nothing: then the place may be anywhere within `FAR_M`, and the scale's deviation says so.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

from dynid.errors import DataError
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.uncertainty import sandwich
from dynid.identification.payload.known_mass import JointScale, arm_columns, beside, refuse_unseen
from dynid.identification.payload.payload import load_columns
from dynid.model.dynamics import ArmModel
from dynid.model.regressor import LINK_PARAMETERS
from dynid.model.standard import LinkInertia, from_link_frame
from dynid.robot import FloatArray, read_only
from dynid.threads import on_one_thread

FAR_M = 0.5  # deviation of a place that nobody knows
STEP_M = 1e-3  # of a central difference, which is exact: the parameters are quadratic in the place
TINY = 1e-300


class MassCheck(NamedTuple):
    """Scales of the joints, and where the body is in the last URDF link frame with its deviation, (3,) [m] each."""

    joints: tuple[JointScale, ...]
    place_m: FloatArray
    place_deviation_m: FloatArray


class _Body:
    """A ball somewhere in the last link: its ten parameters by its place."""

    def __init__(self, model: ArmModel, mass: float, radius: float) -> None:
        self.mass, self._inertia = mass, 0.4 * mass * radius**2 * np.eye(3)
        self._in_link = model.mdh.in_link[-1]

    def place(self, first_moments: FloatArray) -> FloatArray:
        """Where it is in the last URDF link frame, (3,) [m], by its first moments in the last modified DH frame."""
        return np.asarray(self._in_link[:3, :3] @ first_moments / self.mass + self._in_link[:3, 3])

    def parameters(self, place: FloatArray) -> FloatArray:
        """(10,) in the last modified DH frame, SI."""
        return from_link_frame(LinkInertia(self.mass, place, self._inertia), self._in_link)

    def slopes(self, place: FloatArray) -> FloatArray:
        """Their derivatives by the place, (10, 3)."""
        ahead, behind = ([self.parameters(place + sign * STEP_M * e) for e in np.eye(3)] for sign in (1.0, -1.0))
        return (np.array(ahead) - np.array(behind)).T / (2.0 * STEP_M)


class _Rows:
    """What the arm's own columns leave of the torques, (N, n), and of the body's ten columns, (N, n, 10)."""

    def __init__(self, model: ArmModel, without: Samples, carrying: Samples) -> None:
        last, friction = load_columns(model, carrying)
        added = np.concatenate([np.zeros((len(without), *last.shape[1:])), last])[:, : model.chain_size]
        self.columns, self.torque = np.zeros_like(added), np.zeros(added.shape[:2])
        self.sigma, self.carried = np.zeros(model.chain_size), last
        self.short: list[FloatArray] = []
        taken = 0
        for j, columns, tau in arm_columns(model, without, carrying, friction):
            own, (self.columns[:, j], self.torque[:, j]) = beside(columns, added[:, j], tau)
            if len(tau) <= own + len(LINK_PARAMETERS):
                few = own + len(LINK_PARAMETERS)
                raise DataError(f"{len(tau)} samples do not determine {few} parameters; record longer")
            taken += own
            both = np.column_stack([self.columns[:, j], self.torque[:, j]])
            left = np.asarray(np.linalg.qr(both, mode="r"))
            self.short.append(left)  # lengths and products of what may stand in a residual are those of these 11 rows
            # what no body explains is the noise of the joint
            self.sigma[j] = max(abs(left[-1, -1]), TINY) / np.sqrt(len(tau) - own - len(LINK_PARAMETERS))
        self.freedom = self.torque.size / (self.torque.size - taken - model.chain_size - 3)

    def scales(self, parameters: FloatArray) -> FloatArray:
        """The scale (n,) of each joint that fits best to a body."""
        found = []
        for left in self.short:
            torque = left[:, :10] @ parameters
            found.append(float(torque @ left[:, 10]) / max(float(torque @ torque), TINY))
        return np.array(found)

    def first_moments(self, mass: float) -> FloatArray:
        """Those of a body of this mass, (3,) [kg m], that fit best where all scales are 1 and its inertia is open."""
        rows = np.concatenate([left / sigma for left, sigma in zip(self.short, self.sigma, strict=True)])
        return np.asarray(np.linalg.lstsq(rows[:, :9], rows[:, 10] - mass * rows[:, 9], rcond=1e-9)[0][6:])

    def misfit(self, parameters: FloatArray) -> FloatArray:
        """What is left with these scales, in deviations, as (11 n,)."""
        pairs = zip(self.short, self.scales(parameters), self.sigma, strict=True)
        return np.concatenate([(left[:, 10] - c * (left[:, :10] @ parameters)) / sigma for left, c, sigma in pairs])


@on_one_thread
def check_with_mass_alone(
    model: ArmModel,
    without: Samples,
    carrying: Samples,
    mass: float,
    radius: float = 0.0,
    torque_constants: tuple[float, ...] = (),
) -> MassCheck:
    """What each joint reports of the torque of a body whose mass is known, and where the body is.

    Args:
        model: the arm, mounted as in both runs; with Coulomb friction, which a load may change.
        without: run without the body.
        carrying: run with it.
        mass: of the body [kg].
        radius: of a solid ball with the same inertia [m].
        torque_constants: that were used, (n,) [N m/A]; () where torques were recorded.

    Raises:
        DataError: the body loads no joint in this motion, or is not seen in any; or there are too few samples.
    """
    rows, body = _Rows(model, without, carrying), _Body(model, mass, radius)

    def misfit(place: FloatArray) -> FloatArray:
        return np.append(rows.misfit(body.parameters(place)), place / FAR_M)

    # a body on the last axis, as at 0, does not load that joint: whoever starts there stays
    place = least_squares(misfit, body.place(rows.first_moments(mass)), x_scale=0.1).x
    parameters = body.parameters(place)
    scales = rows.scales(parameters)
    covariance = _covariance(rows, body, place, scales, without.settings.interval_s)
    deviations = np.sqrt(np.diag(covariance))
    known = np.sqrt(np.mean((rows.carried @ parameters) ** 2, axis=0))
    found = tuple(
        JointScale(
            without.joint_names[j],
            float(scales[j]),
            float(deviations[j]),
            float(known[j]),
            float(rows.sigma[j]),
            torque_constants[j] if torque_constants else None,
            placed=False,
        )
        for j in range(len(scales))
    )
    return MassCheck(refuse_unseen(found), read_only(place), read_only(deviations[len(scales) :]))


def _covariance(rows: _Rows, body: _Body, place: FloatArray, scales: FloatArray, interval_s: float) -> FloatArray:
    """Of scales and place, (n + 3, n + 3)."""
    n, parameters = len(scales), body.parameters(place)
    torque = rows.columns @ parameters / rows.sigma
    X = np.zeros((*rows.torque.shape, n + 3))
    X[:, np.arange(n), np.arange(n)] = torque
    X[..., n:] = (rows.columns @ body.slopes(place)) * (scales / rows.sigma)[:, None]
    residual = rows.torque / rows.sigma - torque * scales
    prior = np.diag(np.append(np.zeros(n), np.full(3, FAR_M**-2.0)))
    inverse = np.linalg.pinv(np.einsum("knp,knq->pq", X, X) + prior, rcond=1e-15, hermitian=True)
    scores = np.einsum("knp,kn->kp", X, residual)
    return np.asarray(sandwich(inverse, scores, interval_s, rows.freedom) + inverse @ prior @ inverse)

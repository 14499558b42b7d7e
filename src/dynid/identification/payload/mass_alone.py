"""Check of torque constants by a body of known mass, whose unknown position is estimated as well.

As in `known_mass`, the drive of joint j reports the fraction c_j (the scale of joint j) of the body's torque t_j:

    tau_j (reported) = W_j psi_j + c_j t_j(p),    p the body's centre of mass in the last link's frame.

One part of the torque t_j comes from the known mass at the origin of the last link's frame, whose distance from joint j
is known. It is the larger part if joint j is far from the body. The other part comes from the unknown position p. If
other joints rotate the body, the two parts change in different ways. So p and the scales can be estimated together, by
least squares over all joints. Gautier and Briot (2012) also assume that only the mass is known. If a joint's torque
has no known part, as for an arm with a single axis, the scale of this joint is undetermined. The standard deviation of
the scale is then large, because it includes the prior uncertainty `FAR_M` of the position.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import least_squares

from dynid.errors import DataError
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.uncertainty import noise_covariance
from dynid.identification.payload.known_mass import JointScale, arm_columns, refuse_unseen, residuals_after_fit
from dynid.identification.payload.payload import load_columns
from dynid.model.drive import shared_joints
from dynid.model.dynamics import ArmModel
from dynid.model.regressor import LINK_PARAMETERS
from dynid.model.standard import LinkInertia, from_link_frame
from dynid.robot import FloatArray, read_only
from dynid.threads import on_one_thread

FAR_M = 0.5  # prior standard deviation of an unknown position [m]
STEP_M = 1e-3  # step of a central difference [m], which is exact: the parameters are quadratic in the position
TINY = 1e-300


class MassCheck(NamedTuple):
    """Result of the check of torque constants by a body of known mass.

    Attributes:
        joints: ratio of reported to true torque of each joint of the kinematic chain.
        place_m: estimated position of the body in the last URDF link frame, (3,) [m].
        place_deviation_m: standard deviations of the position, (3,) [m].
    """

    joints: tuple[JointScale, ...]
    place_m: FloatArray
    place_deviation_m: FloatArray


class _Body:
    """Ball of known mass and radius at the last link, whose ten standard inertial parameters depend on its position."""

    def __init__(self, model: ArmModel, mass: float, radius: float) -> None:
        self.mass, self._inertia = mass, 0.4 * mass * radius**2 * np.eye(3)
        self._in_link = model.mdh.in_link[-1]

    def place(self, first_moments: FloatArray) -> FloatArray:
        """Return the body's position in the last URDF link frame, (3,) [m].

        `first_moments` is the body's mass times its centre of mass in the last modified DH frame, (3,) [kg m].
        """
        return np.asarray(self._in_link[:3, :3] @ first_moments / self.mass + self._in_link[:3, 3])

    def parameters(self, place: FloatArray) -> FloatArray:
        """Return the body's ten standard inertial parameters in the last modified DH frame, (10,), SI units.

        `place` is the body's position in the last URDF link frame, (3,) [m].
        """
        return from_link_frame(LinkInertia(self.mass, place, self._inertia), self._in_link)

    def slopes(self, place: FloatArray) -> FloatArray:
        """Return the derivatives of the body's ten standard parameters with respect to its position, (10, 3), SI units.

        `place` is the position at which the derivatives are computed, in the last URDF link frame, (3,) [m].
        """
        ahead, behind = ([self.parameters(place + sign * STEP_M * e) for e in np.eye(3)] for sign in (1.0, -1.0))
        return (np.array(ahead) - np.array(behind)).T / (2.0 * STEP_M)


class _Rows:
    """Torques of two runs and regressor columns of a body, after removal of everything that the arm's columns can fit.

    The arm's columns belong to its base parameters and to a change of friction by the load. "Residuals" are those of
    least-squares fits by these columns.

    Args:
        model: model of the arm.
        without: samples of the run without the body.
        carrying: samples of the run with the body.

    Attributes:
        columns: residuals of the columns for the body's ten standard parameters, (N, n, 10).
        torque: residuals of the torques, (N, n) [N m].
        sigma: standard deviation of each joint's noise, (n,) [N m].
        carried: columns for the body's ten parameters in the run with the body, before the fit, (samples of this run,
            n, 10).
        short: for each joint, R factor (11, 11) of the QR decomposition of its residuals [columns, torque]. Fits use
            this factor instead of the residuals, because it has fewer rows.
        arms: for each joint, orthonormal basis (N, p) of the arm's columns.
    """

    def __init__(self, model: ArmModel, without: Samples, carrying: Samples) -> None:
        last, friction = load_columns(model, carrying)
        added = np.concatenate([np.zeros((len(without), *last.shape[1:])), last])[:, : model.chain_size]
        self.columns, self.torque = np.zeros_like(added), np.zeros(added.shape[:2])
        self.sigma, self.carried = np.zeros(model.chain_size), last
        self.short: list[FloatArray] = []
        self.arms: list[FloatArray] = []
        for j, columns, tau in arm_columns(model, without, carrying, friction):
            basis, (self.columns[:, j], self.torque[:, j]) = residuals_after_fit(columns, added[:, j], tau)
            own = basis.shape[1]
            if len(tau) <= own + len(LINK_PARAMETERS):
                few = own + len(LINK_PARAMETERS)
                raise DataError(f"{len(tau)} samples do not determine {few} parameters; record longer")
            self.arms.append(basis)
            both = np.column_stack([self.columns[:, j], self.torque[:, j]])
            left = np.asarray(np.linalg.qr(both, mode="r"))
            self.short.append(left)  # R factor of 11 rows with the same norms and products as all residuals
            # the residual that no body explains is the noise of the joint
            self.sigma[j] = max(abs(left[-1, -1]), TINY) / np.sqrt(len(tau) - own - len(LINK_PARAMETERS))

    def scales(self, parameters: FloatArray) -> FloatArray:
        """Return for each joint the ratio of reported to true torque that fits the reported torques best, (n,).

        The true torques are computed for a body with the standard parameters `parameters`, (10,).
        """
        found = []
        for left in self.short:
            torque = left[:, :10] @ parameters
            found.append(float(torque @ left[:, 10]) / max(float(torque @ torque), TINY))
        return np.array(found)

    def first_moments(self, mass: float) -> FloatArray:
        """Fit the first moments (mass times position) of a body with the mass `mass` [kg]; return them, (3,) [kg m].

        For this fit, all joints are assumed to report the true torque. The body's inertia is also fitted.
        """
        rows = np.concatenate([left / sigma for left, sigma in zip(self.short, self.sigma, strict=True)])
        return np.asarray(np.linalg.lstsq(rows[:, :9], rows[:, 10] - mass * rows[:, 9], rcond=1e-9)[0][6:])

    def misfit(self, parameters: FloatArray) -> FloatArray:
        """Return the torque residuals for a body's parameters (10,), normalised by each joint's noise, (11 n,).

        Each joint has 11 residuals, one for each row of its R factor `short`; together they represent all samples. The
        ratio of reported to true torque of each joint is the best-fitting one, see `scales`.
        """
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
    """Estimate each joint's ratio of reported to true torque, and the unknown position of a body of known mass.

    The ratios and the position are estimated from two runs, without and with the body at the last link.

    Args:
        model: model of the arm, mounted as in both runs. It should contain Coulomb friction: without it, a change of
            friction by the body's load distorts the result instead of being estimated.
        without: samples of the run without the body.
        carrying: samples of the run with the body.
        mass: mass of the body [kg].
        radius: radius of the body, which is assumed to be a solid ball [m]; 0 for a point mass.
        torque_constants: torque constants that were used, (n,) [N m/A]; () if torques were recorded.

    Raises:
        DataError: the body does not load any joint enough in this motion, no joint's reported torque contains the
            body's load, there are too few samples, or coupled motors share the torque of a joint.
    """
    shared = shared_joints(model.drive.coupling) if torque_constants else ()
    if shared:  # a wrong constant of one of the motors would shift the position that this joint shows
        names = ", ".join(without.joint_names[j] for j in shared)
        raise DataError(
            f"coupled motors share the torque of {names}, so their currents do not show the unknown position of the "
            "known mass: give it with --at"
        )
    rows, body = _Rows(model, without, carrying), _Body(model, mass, radius)

    def misfit(place: FloatArray) -> FloatArray:
        return np.append(rows.misfit(body.parameters(place)), place / FAR_M)

    # a body on the last axis, such as at 0, does not load the last joint, so a search from there would not progress
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
    """Return the covariance matrix of all joints' torque scales and the body's position, (n + 3, n + 3).

    Args:
        rows: torques of both runs and columns for the body.
        body: the body.
        place: estimated position of the body, (3,) [m].
        scales: ratio of reported to true torque of each joint, (n,).
        interval_s: time between samples [s].
    """
    n, parameters, arms = len(scales), body.parameters(place), sum(one.shape[1] for one in rows.arms)
    torque = rows.columns @ parameters / rows.sigma
    # the arm's columns, which are orthogonal to the others, belong to the leverage of each window
    every = np.zeros((*rows.torque.shape, arms + n + 3))
    first = 0
    for j, basis in enumerate(rows.arms):
        every[:, j, first : first + basis.shape[1]] = basis
        first += basis.shape[1]
    X = every[..., arms:]
    X[:, np.arange(n), np.arange(n)] = torque
    X[..., n:] = (rows.columns @ body.slopes(place)) * (scales / rows.sigma)[:, None]
    residual = rows.torque / rows.sigma - torque * scales
    prior = np.diag(np.append(np.zeros(n), np.full(3, FAR_M**-2.0)))
    inverse = np.linalg.pinv(np.einsum("knp,knq->pq", X, X) + prior, rcond=1e-15, hermitian=True)
    noise = noise_covariance(every, residual, block_diag(np.eye(arms), inverse), interval_s)
    return np.asarray(noise[arms:, arms:] + inverse @ prior @ inverse)

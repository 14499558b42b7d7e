"""Standard parameters closest to a-priori ones, by singular values (Gautier and Venture 2013, section IV).

Many sets chi of standard parameters fit the torques Y = W chi equally well. The estimate is the one closest to a known
set chi_ref:

    chi = V1 S1^-1 U1' Y                                          smallest norm (their eq. 26);
    chi = chi_ref + V1 S1^-1 U1' (Y - W chi_ref)                  closest to chi_ref (eq. 30);
    chi = chi_ref + diag(chi_e) V1e S1e^-1 U1e' (Y - W chi_ref)   only essential parameters change (eq. 32),

with U S V' the singular value decomposition of W, truncated at the number of base parameters. Essential parameters are
base parameters with a small relative standard deviation. In eq. 32, the decomposed matrix is W diag(chi_e), with the
values chi_e of the essential parameters (0 for all other parameters), and the decomposition is truncated at their
number. The result is not constrained. Physical consistency is checked afterwards: the eigenvalues of every link's
inertia about its centre of mass must exceed a tolerance, which may be negative (their Table III).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import qr

from dynid.errors import DataError
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.essential import EssentialParameters, joint_sigma
from dynid.identification.estimators.torque_errors import TorqueErrors, torque_errors
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import MINIMUM_ROTOR_INERTIA, BaseParameters, StandardParameters
from dynid.model.standard import tensor
from dynid.robot import FloatArray, read_only

TOLERANCES = (0.0, -0.01, -0.02, -0.04)  # tolerances of the inertia's eigenvalues [kg m^2], as in Table III
RANK_TOLERANCE = 1e-10  # smallest singular value, relative to the largest: below it, values are rounding errors

Columns = Literal["standard", "base", "essential"]


@dataclass(frozen=True, eq=False)
class ClosestStandard:
    """Standard parameters chi that fit the torques and are closest to a-priori ones, chi_ref.

    Attributes:
        standard: the standard parameters chi.
        base: base parameters K chi, with the regrouping matrix K.
        columns: which standard parameters were free to change: "standard" for all that affect a torque, "base" for one
            for each base parameter, "essential" for one for each essential base parameter.
        rank: number of singular values that the solution uses.
        distance: || chi - chi_ref || / || chi_ref ||, in mixed SI units as in Table II of Gautier and Venture (2013);
            NaN without a reference.
        errors: torque errors on the samples.
        definite_links: for each tolerance [kg m^2] (key), the number of links with a positive mass and an inertia about
            the centre of mass whose eigenvalues all exceed the tolerance.
    """

    standard: StandardParameters
    base: BaseParameters
    columns: Columns
    rank: int
    distance: float
    errors: TorqueErrors
    definite_links: dict[float, int]

    @property
    def consistent(self) -> bool:
        """Whether every link has a positive mass and a positive-definite inertia, without any tolerance."""
        return self.definite_links[0.0] == self.standard.chain_size


def inertia_about_com(link: FloatArray) -> FloatArray:
    """Return the inertia about the centre of mass (3, 3) [kg m^2] of a link's ten standard parameters.

    The formula is eq. 36 of Gautier and Venture (2013).

    Raises:
        DataError: if the mass is zero, so there is no centre of mass.
    """
    moment, mass = link[6:9], float(link[9])
    if mass == 0.0:
        raise DataError("a link without mass has no centre of mass")
    return np.asarray(tensor(link[:6]) - (moment @ moment * np.eye(3) - np.outer(moment, moment)) / mass)


def is_definite(matrix: FloatArray, tolerance: float = 0.0) -> bool:
    """Return whether all eigenvalues of a symmetric matrix (k, k) exceed a tolerance, which may be negative."""
    try:
        np.linalg.cholesky(matrix - tolerance * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True


def definite_links(standard: StandardParameters, tolerance: float = 0.0) -> int:
    """Return the number of links with a positive mass and a positive-definite inertia about the centre of mass.

    Table III of Gautier and Venture (2013) gives this number.

    Args:
        standard: standard parameters of all links.
        tolerance: lower limit of the inertia's eigenvalues [kg m^2]; a negative one allows for noise.
    """
    links = [standard.link(j) for j in range(standard.chain_size)]
    return sum(bool(link[9] > 0.0) and is_definite(inertia_about_com(link), tolerance) for link in links)


def with_identified_drives(model: ArmModel, prior: StandardParameters, base: BaseParameters) -> StandardParameters:
    """Return a-priori standard parameters in which identified friction and rotor inertias replace the a-priori values.

    CAD files contain neither friction nor rotor inertias.

    If a rotor inertia is grouped with link inertias, the a-priori part of the links is subtracted from the identified
    value of the group.

    Args:
        model: model of the arm.
        prior: a-priori standard parameters.
        base: identified base parameters.
    """
    regrouping, values = model.regrouping, np.array(prior.values)
    links = 10 * model.chain_size
    for k, row in enumerate(regrouping.K):
        drives = [int(s) for s in np.flatnonzero(row) if s >= links]
        if len(drives) != 1:
            continue
        (place,) = drives
        rest = base.values[k] - row @ np.where(np.arange(len(values)) < links, values, 0.0)
        is_rotor = kind_and_number(regrouping.standard[place])[0] == "IA"
        value = rest / row[place]
        values[place] = max(value, MINIMUM_ROTOR_INERTIA) if is_rotor else value
    return StandardParameters(prior.names, values, prior.chain_size)


def closest_standard(
    model: ArmModel,
    samples: Samples,
    prior: StandardParameters | None = None,
    *,
    columns: Columns = "standard",
    essential: EssentialParameters | None = None,
) -> ClosestStandard:
    """Return the standard parameters closest to a-priori ones, among all that fit the torques equally well.

    The rows of each joint are divided by its residual standard deviation (`essential.joint_sigma`). Numbers of
    equations are those of Gautier and Venture (2013).

    Args:
        model: model of the arm.
        samples: filtered states and torques.
        prior: a-priori parameters chi_ref; None uses zero, which gives the parameters with the smallest norm.
        columns: which standard parameters may change. "standard" permits all that affect a torque (eq. 30, or eq. 26
            without a prior). "base" permits one for each base parameter: the standard parameter with the name of the
            base parameter. "essential" is like "base", but only for essential base parameters (eq. 32).
        essential: essential base parameters, required if `columns` is "essential".

    Raises:
        DataError: if the prior belongs to another model, essential parameters are missing, or the motion determines too
            few parameters.
    """
    names = model.regrouping.standard
    if prior is not None and prior.names != names:
        raise DataError(
            f"these a-priori parameters belong to another model: {len(prior.names)} names, not {len(names)}"
        )
    W = samples.low_passed(model.standard_regressor)
    reference = np.zeros(len(names)) if prior is None else np.array(prior.values)
    sigma = joint_sigma(samples.low_passed(model.regressor), samples.tau)
    scale, rank = _column_scale(model, columns, essential)
    difference = samples.tau - W @ reference
    rows = np.concatenate([W * scale, difference[..., None]], axis=-1) / sigma[:, None]
    step = _smallest(rows.reshape(-1, len(names) + 1), rank)
    standard = StandardParameters(names, reference + scale * step, model.chain_size)
    size = float(np.linalg.norm(reference))
    return ClosestStandard(
        standard=standard,
        base=BaseParameters(model.names, model.regrouping.K @ standard.values),
        columns=columns,
        rank=rank,
        distance=float(np.linalg.norm(scale * step)) / size if size else float("nan"),
        errors=torque_errors(samples.tau, W @ standard.values),
        definite_links={tolerance: definite_links(standard, tolerance) for tolerance in TOLERANCES},
    )


def _column_scale(model: ArmModel, columns: Columns, essential: EssentialParameters | None) -> tuple[FloatArray, int]:
    """Return scale factors (s,) of the regressor's columns, and the number of singular values to use.

    The regressor has one column per standard parameter. The search for the closest standard parameters changes some
    parameters only, see `columns`; the factors of the others are zero. The
    number is that of the essential parameters for `columns` "essential", else that of the base parameters.

    Args:
        model: model of the arm.
        columns: which parameters may change: "standard" for all that affect a torque, "base" for one for each base
            parameter, "essential" for one for each essential base parameter.
        essential: essential base parameters; None unless `columns` is "essential".

    Raises:
        DataError: if essential parameters are required, but missing or of another model.
    """
    scale = np.zeros(len(model.regrouping.standard))
    places = np.array(model.regrouping.representatives)
    if columns == "standard":
        return np.asarray(model.modelled, dtype=np.float64), len(model.names)
    if columns == "base":
        scale[places] = 1.0
        return scale, len(model.names)
    if essential is None or essential.base.names != model.names:
        raise DataError("columns 'essential' need the essential parameters of this model")
    scale[places] = essential.base.values
    return read_only(scale), len(essential.kept)


def _smallest(rows: FloatArray, rank: int) -> FloatArray:
    """Return the shortest least-squares solution x (s,) of W x = y, by a truncated singular value decomposition.

    Args:
        rows: matrix [W y] of the equations, (m, s + 1).
        rank: number of singular values that the solution uses.
    """
    R = qr(rows, mode="r", check_finite=False)[0][: rows.shape[1]]
    U, singular, Vt = np.linalg.svd(R[:, :-1], full_matrices=False)
    if singular[rank - 1] <= RANK_TOLERANCE * singular[0]:
        raise DataError(
            f"the motion determines fewer than {rank} parameters: singular value {rank} is {singular[rank - 1]:.3g}, "
            f"the largest {singular[0]:.3g}; excite more joints together"
        )
    return np.asarray(Vt[:rank].T @ ((U[:, :rank].T @ R[:, -1]) / singular[:rank]))

"""Base parameters by the closed-form regrouping of Gautier and Khalil (1990), with OpenSYMORO's names.

For revolute joints the recursion from the last link to the first (Khalil and Dombre 2002, ch. 9) is

    XXR_j   = XX_j - YY_j
    XXR_j-1 = XX_j-1 + YY_j + 2 r MZ_j + r^2 M_j
    XYR_j-1 = XY_j-1 + d Sa (MZ_j + r M_j)
    XZR_j-1 = XZ_j-1 - d Ca (MZ_j + r M_j)
    YYR_j-1 = YY_j-1 + Ca^2 (YY_j + 2 r MZ_j + r^2 M_j) + d^2 M_j
    YZR_j-1 = YZ_j-1 + Ca Sa (YY_j + 2 r MZ_j + r^2 M_j)
    ZZR_j-1 = ZZ_j-1 + Sa^2 (YY_j + 2 r MZ_j + r^2 M_j) + d^2 M_j
    MXR_j-1 = MX_j-1 + d M_j
    MYR_j-1 = MY_j-1 - Sa (MZ_j + r M_j)
    MZR_j-1 = MZ_j-1 + Ca (MZ_j + r M_j)
    MR_j-1  = M_j-1 + M_j

with a, d, r of joint j; YY_j, MZ_j and M_j disappear. What never reaches a torque (most of link 1) disappears, and a
rotor inertia IA_j joins ZZR_j where the rotation of the links before never has a component along z_j. The numerical
rank of the regressor at random states is the witness: it must equal the number of names.
"""

from dataclasses import dataclass

import numpy as np

from dynid.errors import ConfigurationError
from dynid.model.mdh import MdhChain
from dynid.model.regressor import LINK_PARAMETERS, link_motions, standard_regressor
from dynid.robot import FloatArray, Structure, read_only

PRODUCTS = ("XY", "XZ", "YZ")
WITNESS_SAMPLES = 60
RANK_TOLERANCE = 1e-8


def standard_names(chain_size: int, axes: int) -> tuple[str, ...]:
    """Names of all standard parameters: ten per link, then IA, FV and FC of every axis."""
    links = [f"{kind}{j + 1}" for j in range(chain_size) for kind in LINK_PARAMETERS]
    return (*links, *(f"{kind}{j + 1}" for kind in ("IA", "FV", "FC") for j in range(axes)))


@dataclass(frozen=True, eq=False)
class Regrouping:
    """The linear map phi = K pi from standard parameters pi to base parameters phi.

    Attributes:
        names: base parameter names, (p,).
        K: (p, s), columns in the order of `standard`.
        representatives: the standard parameter whose regressor column is the base parameter's, (p,).
        standard: names of the standard parameters, (s,).
        link_count: how many base parameters are link-side.
    """

    names: tuple[str, ...]
    K: FloatArray
    representatives: tuple[int, ...]
    standard: tuple[str, ...]
    link_count: int

    def formula(self, name: str) -> str:
        """One base parameter in words, such as 'ZZR1 = ZZ1 + YY2 + IA1'."""
        row = self.K[self.names.index(name)]
        terms = [(row[k], self.standard[k]) for k in np.flatnonzero(row)]
        text = " ".join(f"{'-' if c < 0 else '+'} {'' if abs(c) == 1 else f'{abs(c):.6g} '}{n}" for c, n in terms)
        return f"{name} = {text.removeprefix('+ ')}"


def _link_recursion(mdh: MdhChain, standard: tuple[str, ...]) -> dict[str, FloatArray]:
    """Rows of K for every link parameter that survives the closed-form recursion, by standard name."""
    rows = {name: np.eye(len(standard))[k] for k, name in enumerate(standard[: 10 * mdh.size])}
    for j in range(mdh.size, 0, -1):
        yy, mz, m = (rows.pop(f"{kind}{j}") for kind in ("YY", "MZ", "M"))
        rows[f"XX{j}"] = rows[f"XX{j}"] - yy
        if j == 1:
            break
        d, r = mdh.d[j - 1], mdh.r[j - 1]
        # exact zeros for right angles, so that a name gets its R only where something is regrouped
        sa, ca = (0.0 if abs(v) < 1e-12 else v for v in (np.sin(mdh.alpha[j - 1]), np.cos(mdh.alpha[j - 1])))
        moment, inertia = mz + r * m, yy + 2 * r * mz + r**2 * m
        added = {
            "XX": inertia, "XY": d * sa * moment, "XZ": -d * ca * moment, "YY": ca**2 * inertia + d**2 * m,
            "YZ": ca * sa * inertia, "ZZ": sa**2 * inertia + d**2 * m, "MX": d * m, "MY": -sa * moment,
            "MZ": ca * moment, "M": m,
        }  # fmt: skip
        for kind, term in added.items():
            rows[f"{kind}{j - 1}"] = rows[f"{kind}{j - 1}"] + term
    return rows


def _random_states(mdh: MdhChain, samples: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Fixed pseudo-random states (samples, n): the rank decision must not change between runs."""
    rng = np.random.default_rng(20260615)
    q, dq, ddq = rng.uniform(-1.0, 1.0, (3, samples, mdh.size))
    return 3.0 * q, 2.0 * dq, 5.0 * ddq


def _rotor_joins_link(mdh: MdhChain, joint: int) -> bool:
    """Whether links 1..joint-1 never rotate about z_joint (joint counts from 1), so that IA_joint joins ZZR_joint."""
    q, dq, ddq = _random_states(mdh, 20)
    dq[:, joint - 1 :] = 0.0
    spin = link_motions(mdh, q, dq, ddq, np.zeros(3))[joint - 1].w[:, 2]
    return bool(np.abs(spin).max() < 1e-9)


def _base_name(standard_name: str, row: FloatArray) -> str:
    """OpenSYMORO's name: an R after the kind where more than one standard parameter is in the group."""
    kind = standard_name.rstrip("0123456789")
    return f"{kind}{'R' if np.count_nonzero(row) > 1 else ''}{standard_name[len(kind) :]}"


def regroup(mdh: MdhChain, axes: int, structure: Structure, gravity: FloatArray) -> Regrouping:
    """Base parameters of a chain with `axes` axes in all (decoupled ones carry IA, FV, FC only).

    Args:
        mdh: the chain.
        axes: chain joints plus decoupled axes.
        structure: which terms the model has.
        gravity: (3,) in the URDF base [m/s^2]; its direction decides whether MX1 and MY1 count.

    Raises:
        ConfigurationError: the closed form and the numerical rank disagree for this geometry.
    """
    standard = standard_names(mdh.size, axes)
    index = {name: k for k, name in enumerate(standard)}
    rows = _link_recursion(mdh, standard)
    W = standard_regressor(mdh, *_random_states(mdh, WITNESS_SAMPLES), gravity).reshape(-1, 10 * mdh.size)
    # products of inertia are zero in a model without them; their columns vanish, the terms regrouped into them stay
    removed = (
        []
        if structure.products_of_inertia
        else [k for k, n in enumerate(standard) if n.rstrip("0123456789") in PRODUCTS]
    )
    for row in rows.values():
        row[removed] = 0.0
    strength = np.abs(W).max(axis=0)
    kept = [n for n in standard if n in rows and rows[n].any() and strength[index[n]] > RANK_TOLERANCE * strength.max()]
    link_count = len(kept)
    for j in range(1, axes + 1):
        if not structure.rotor_inertia:
            continue
        if j <= mdh.size and _rotor_joins_link(mdh, j):
            rows[f"ZZ{j}"][index[f"IA{j}"]] = 1.0
        else:
            kept.append(f"IA{j}")
    kept += [f"FV{j + 1}" for j in range(axes) if structure.viscous_friction]
    kept += [f"FC{j + 1}" for j in range(axes) if structure.coulomb_friction]
    chain_side = [n for n in kept if not n.startswith(("FV", "FC")) and int(n.lstrip("XYZMIA")) <= mdh.size]
    _check_rank(_witness_columns(mdh, W, chain_side, index), chain_side)
    unit = np.eye(len(standard))
    K = np.array([rows.get(name, unit[index[name]]) for name in kept])
    names = tuple(_base_name(name, row) for name, row in zip(kept, K, strict=True))
    return Regrouping(names, read_only(K), tuple(index[n] for n in kept), standard, link_count)


def _witness_columns(mdh: MdhChain, W: FloatArray, names: list[str], index: dict[str, int]) -> FloatArray:
    """Regressor columns of chain-side parameters, rotor inertias included, at the states behind W."""
    ddq = _random_states(mdh, WITNESS_SAMPLES)[2]
    columns = []
    for name in names:
        if name.startswith("IA"):
            column = np.zeros_like(ddq)
            column[:, int(name[2:]) - 1] = ddq[:, int(name[2:]) - 1]
            columns.append(column.ravel())
        else:
            columns.append(W[:, index[name]])
    return np.stack(columns, axis=1)


def _check_rank(W: FloatArray, names: list[str]) -> None:
    """The witness: the link-side columns must be independent; names the first dependent one otherwise."""
    scaled = W / np.linalg.norm(W, axis=0)
    # unpivoted QR: the order of the columns alone decides which one is called dependent
    diagonal = np.abs(np.diag(np.linalg.qr(scaled, mode="r")))
    if diagonal.min() < RANK_TOLERANCE:
        rank = int(np.linalg.matrix_rank(scaled, tol=RANK_TOLERANCE))
        raise ConfigurationError(
            f"the closed form gives {len(names)} base parameters but the regressor has rank {rank}; "
            f"{names[int(np.argmin(diagonal))]} depends on those before it: this geometry needs its own regrouping"
        )

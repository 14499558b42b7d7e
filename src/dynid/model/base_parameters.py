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

with alpha, d and r of joint j, Sa = sin(alpha) and Ca = cos(alpha). YY_j, MZ_j and M_j are then contained in base
parameters with other names; no base parameter is named after them. Parameters that affect no torque (most of link 1)
belong to no base parameter. A rotor inertia IA_j is grouped with ZZ_j if links 1 to j-1 never rotate about z_j.

The result is verified by the numerical rank of the regressor at random states, which must equal the number of base
parameters. The two may differ for arms with parallel axes or with gravity along an axis. Then, and for prismatic
joints, the groups are found from the regressor itself, see `numerical_regrouping`. `Regrouping.method` states which
method was used.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dynid.model.drive import DriveTerms, kind_and_number
from dynid.model.mdh import MdhChain
from dynid.model.numerical_regrouping import grouping, independent_columns, is_zero_column
from dynid.model.regressor import LINK_PARAMETERS, standard_regressor
from dynid.robot import FloatArray, Structure, read_only

PRODUCTS = ("XY", "XZ", "YZ")
REGROUPED_LAST = ("MZ", "YY", "M")  # kinds that never represent a group in the closed form
REGRESSOR_SAMPLES = 60


def standard_names(chain_size: int, axes: int, drive: DriveTerms | None = None) -> tuple[str, ...]:
    """Return the names of all standard parameters.

    Ten inertial parameters per link come first. Rotor inertia IA, viscous friction FV and Coulomb friction FC of every
    axis follow, then other parameters of the drives, such as offsets.

    Args:
        chain_size: number of chain joints, which is also the number of links.
        axes: number of axes: chain joints and decoupled axes, such as a gripper.
        drive: parameters of the drives; None means IA, FV and FC only.
    """
    links = [f"{kind}{j + 1}" for j in range(chain_size) for kind in LINK_PARAMETERS]
    return (*links, *(drive or DriveTerms.of(axes, Structure())).standard_names)


@dataclass(frozen=True, eq=False)
class Regrouping:
    """Linear map phi = K pi from standard parameters pi to base parameters phi.

    Attributes:
        names: names of the base parameters, (p,).
        K: matrix of the map, (p, s), with columns in the order of `standard`.
        representatives: for each base parameter the index in `standard` of the parameter with the same regressor
            column, (p,).
        standard: names of the standard parameters, (s,).
        link_count: number of base parameters that belong to links; they precede those that belong only to drives.
        method: closed-form or numerical regrouping; both give the same torques.
    """

    names: tuple[str, ...]
    K: FloatArray
    representatives: tuple[int, ...]
    standard: tuple[str, ...]
    link_count: int
    method: Literal["closed form", "numerical"] = "closed form"

    def formula(self, name: str) -> str:
        """Return the base parameter of this name as a formula, such as 'ZZR1 = ZZ1 + YY2 + IA1'."""
        row = self.K[self.names.index(name)]
        terms = [(row[k], self.standard[k]) for k in np.flatnonzero(row)]
        text = " ".join(f"{'-' if c < 0 else '+'} {'' if abs(c) == 1 else f'{abs(c):.6g} '}{n}" for c, n in terms)
        return f"{name} = {text.removeprefix('+ ')}"


def _link_recursion(mdh: MdhChain, standard: tuple[str, ...]) -> dict[str, FloatArray]:
    """Return rows (s,) of the matrix K from standard to base parameters, by name of the link parameter.

    The recursion at the top of this file goes from the last link to the first. It adds YY, MZ and M of each link to
    other parameters. YY, MZ and M then have no rows of their own.
    """
    rows = {name: np.eye(len(standard))[k] for k, name in enumerate(standard[: 10 * mdh.size])}
    for j in range(mdh.size, 0, -1):
        yy, mz, m = (rows.pop(f"{kind}{j}") for kind in ("YY", "MZ", "M"))
        rows[f"XX{j}"] = rows[f"XX{j}"] - yy
        if j == 1:
            break
        d, r = mdh.d[j - 1], mdh.r[j - 1]
        # exact zeros for right angles, so that only a group of several parameters gets an R in its name
        sa, ca = (0.0 if abs(v) < 1e-12 else v for v in (np.sin(mdh.alpha[j - 1]), np.cos(mdh.alpha[j - 1])))
        moment, inertia = mz + r * m, yy + 2 * r * mz + r**2 * m
        added = {
            "XX": inertia,
            "XY": d * sa * moment,
            "XZ": -d * ca * moment,
            "YY": ca**2 * inertia + d**2 * m,
            "YZ": ca * sa * inertia,
            "ZZ": sa**2 * inertia + d**2 * m,
            "MX": d * m,
            "MY": -sa * moment,
            "MZ": ca * moment,
            "M": m,
        }
        for kind, term in added.items():
            rows[f"{kind}{j - 1}"] = rows[f"{kind}{j - 1}"] + term
    return rows


def _random_states(mdh: MdhChain, samples: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return pseudo-random q, dq and ddq of a chain, (samples, n) each.

    The seed is fixed, so that the rank decision that uses these states is reproducible.
    """
    rng = np.random.default_rng(20260615)
    q, dq, ddq = rng.uniform(-1.0, 1.0, (3, samples, mdh.size))
    return 3.0 * q, 2.0 * dq, 5.0 * ddq


def _rotor_joins_link(mdh: MdhChain, joint: int) -> bool:
    """Return whether links 1..joint-1 never rotate about z_joint, the axis of the joint with number `joint` (from 1).

    If so, the rotor inertia IA and the link inertia ZZ of this joint form one base parameter.
    """
    q, dq, _ = _random_states(mdh, 20)
    dq[:, joint - 1 :] = 0.0
    spin, rotations = np.zeros((len(q), 3)), mdh.relative_rotations(q)
    for j in range(joint):
        spin = np.einsum("nba,nb->na", rotations[:, j], spin)  # the angular velocity of link j - 1, in frame j
        spin[:, 2] += 0.0 if mdh.prismatic[j] else dq[:, j]
    return bool(np.abs(spin[:, 2]).max() < 1e-9)


def _base_name(standard_name: str, row: FloatArray) -> str:
    """Return the name of a base parameter as OpenSYMORO forms it, such as ZZR1 for a group that ZZ1 represents.

    Args:
        standard_name: name of the standard parameter that represents the group.
        row: coefficients of the group, a row (s,) of the map K; a group of one parameter gets no R in its name.
    """
    kind = standard_name.rstrip("0123456789")
    return f"{kind}{'R' if np.count_nonzero(row) > 1 else ''}{standard_name[len(kind) :]}"


def regroup(mdh: MdhChain, drive: DriveTerms, gravity: FloatArray) -> Regrouping:
    """Return the map from standard to base parameters of a chain and its drives.

    Axes after the chain joints are decoupled: their only parameters are rotor inertia, friction and offsets.

    Args:
        mdh: geometry of the chain.
        drive: parameters of the drives; its `structure` states which terms links and drives have in the model.
        gravity: gravity vector in the URDF base, (3,) [m/s^2]; its direction decides whether the
            first moments MX1 and MY1 of link 1 affect torques.
    """
    standard = standard_names(mdh.size, drive.axes, drive)
    W = _sampled_regressor(mdh, drive, gravity)
    without_products = not drive.structure.products_of_inertia
    # without products of inertia XY, XZ and YZ are zero, but other parameters regrouped into them remain
    removed = [k for k, n in enumerate(standard) if without_products and kind_and_number(n)[0] in PRODUCTS]
    modelled = {standard.index(name) for name in drive.modelled_names}
    usable = [k for k in range(len(standard)) if k not in removed and (k < 10 * mdh.size or k in modelled)]
    kept = None if any(mdh.prismatic) else _closed_form(mdh, drive, standard, W, removed)
    independent = independent_columns(W, _preference(standard, usable, 10 * mdh.size))
    method: Literal["closed form", "numerical"] = "closed form"
    # the closed form's columns express all usable ones, so an equal rank means the same span
    if kept is None or len(independent_columns(W, [k for k, _ in kept])) != len(kept) or len(kept) != len(independent):
        method, kept = "numerical", _numerical(W, usable, sorted(independent))
    K = np.array([row for _, row in kept])
    names = tuple(_base_name(standard[k], row) for k, row in kept)
    link_count = sum(k < 10 * mdh.size for k, _ in kept)
    return Regrouping(names, read_only(K), tuple(k for k, _ in kept), standard, link_count, method)


def _sampled_regressor(mdh: MdhChain, drive: DriveTerms, gravity: FloatArray) -> FloatArray:
    """Return the regressor of all standard parameters at fixed random states, (samples n, s)."""
    q, dq, ddq = _random_states(mdh, REGRESSOR_SAMPLES)
    free = drive.axes - mdh.size
    extra_dq, extra_ddq = _random_rates(free, REGRESSOR_SAMPLES)
    places = np.hstack([q, np.zeros_like(extra_dq)])  # decoupled axes have no springs
    columns = drive.columns(drive.standard_names, places, np.hstack([dq, extra_dq]), np.hstack([ddq, extra_ddq]))
    links = np.zeros((REGRESSOR_SAMPLES, drive.axes, 10 * mdh.size))
    links[:, : mdh.size] = standard_regressor(mdh, q, dq, ddq, gravity)
    return np.concatenate([links, columns], axis=-1).reshape(REGRESSOR_SAMPLES * drive.axes, -1)


def _random_rates(axes: int, samples: int) -> tuple[FloatArray, FloatArray]:
    """Return pseudo-random velocities and accelerations of decoupled axes, (samples, axes) each, from a fixed seed."""
    dq, ddq = np.random.default_rng(20260616).uniform(-1.0, 1.0, (2, samples, axes))
    return 2.0 * dq, 5.0 * ddq


def _closed_form(
    mdh: MdhChain, drive: DriveTerms, standard: tuple[str, ...], W: FloatArray, removed: list[int]
) -> list[tuple[int, FloatArray]]:
    """Return the base parameters of links, by the closed-form recursion (`_link_recursion`), and of drives.

    A base parameter is a linear combination of standard parameters, one of which represents it. Each result is the
    index of this representative, and the coefficients of the combination, (s,).

    Args:
        mdh: geometry of the chain.
        drive: parameters of the drives, such as rotor inertia and friction.
        standard: names of the standard parameters, (s,).
        W: regressor of all standard parameters at random states, (m, s).
        removed: indices of products of inertia that the model excludes (`drive.structure`); their coefficients are 0.
    """
    index = {name: k for k, name in enumerate(standard)}
    rows = _link_recursion(mdh, standard)
    for row in rows.values():
        row[removed] = 0.0
    silent = is_zero_column(W[:, : 10 * mdh.size])
    kept = [name for name in standard if name in rows and rows[name].any() and not silent[index[name]]]
    for name in drive.modelled_names:
        kind, j = kind_and_number(name)
        own = kind == "IA" and j <= mdh.size and j - 1 not in drive.coupled
        if own and f"ZZ{j}" in rows and _rotor_joins_link(mdh, j):
            rows[f"ZZ{j}"][index[name]] = 1.0
        else:
            kept.append(name)
    unit = np.eye(len(standard))
    return [(index[name], rows.get(name, unit[index[name]])) for name in kept]


def _preference(standard: tuple[str, ...], usable: list[int], links: int) -> list[int]:
    """Return the indices of usable regressor columns, in order of preference as representatives of base parameters.

    Link parameters precede drive parameters. Of the link parameters, MZ, YY and M come last, so that the numerical
    regrouping chooses the same representatives as the closed-form recursion.

    Args:
        standard: names of the standard parameters, (s,).
        usable: indices of the columns that may be used.
        links: number of standard parameters of links, which precede those of drives.
    """
    own = [k for k in usable if k < links]
    late = [k for k in own if kind_and_number(standard[k])[0] in REGROUPED_LAST]
    return [k for k in own if k not in late] + late + [k for k in usable if k >= links]


def _numerical(W: FloatArray, usable: list[int], kept: list[int]) -> list[tuple[int, FloatArray]]:
    """Return the map K from standard to base parameters: each independent column's index with its row (s,) of K.

    K expresses every usable column of the regressor as a linear combination of the independent columns, with factors
    that are computed numerically. Its columns for all other standard parameters are zero.

    Args:
        W: regressor of all standard parameters at random states, (m, s).
        usable: indices of the columns whose parameters the model includes.
        kept: indices of the independent columns.
    """
    rows = np.zeros((len(kept), W.shape[1]))
    rows[:, usable] = grouping(W[:, kept], W[:, usable])
    return list(zip(kept, rows, strict=True))

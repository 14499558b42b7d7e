"""Which structure of friction the data support: nested structures compared on blocks of time that the fit has not seen.

Every structure is fitted to all data; then, with the prediction linearised there, once without every sixth second, and
judged by the torques of those. The smallest structure is taken whose error is above the best one's by no more than the
standard error of their difference over the seconds, or by 2 % of the squared error. In sample the largest would always
win.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

import numpy as np
from scipy.linalg import solve

from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.gear_fit import GearFit, GearFitter, KnownGears, Point, Structure
from dynid.model.friction import SYMBOLS
from dynid.model.model_file import FrictionRung
from dynid.robot import FloatArray

BLOCK_S, FOLDS = 1.0, 6  # every sixth block of a second is held out at once
OPEN = 0.01  # of its column: what a fold shows less of stays as all data have it
# linearisations at most: of each start, of the best one beyond these, of the second start at the end
RACE_STEPS, RUNG_STEPS, LAST_STEPS = 4, 12, 24
ENOUGH = 2e-3  # of the squared error: what a step gains less than changes no comparison
ROUNDS = 3  # of `STEPS`, after which a fit that has not settled is left as it is
VARIANT = 0.1  # of the misfit: a variant that stays above by more is no longer followed
BETTER = 1e-3  # of the misfit: a start that leads lower by less leads to the same
NO_ERROR = 5e-3  # of the torque: a smaller error is none; sensors and filters leave more
RIVAL = 2.0  # standard errors of a difference
AS_GOOD = 0.02  # of the squared error: what is no more than this is no difference
_STRIBECK = ("fb", "fs", "ws", "a")
_BOTH = (*_STRIBECK, "km", "kms")
_DIRECTIONAL = (*_BOTH, "ke", "kes")
LADDER = (
    Structure("viscous"),
    Structure("Coulomb-viscous", ("fb",)),
    Structure("load", ("fb", "km")),
    Structure("Stribeck", _STRIBECK),
    Structure("load and Stribeck", _BOTH),
    Structure("directional", _DIRECTIONAL),
    Structure("quadratic", (*_DIRECTIONAL, "kmq", "keq")),
)
NAMES = tuple(structure.name for structure in LADDER)


@dataclass(frozen=True, eq=False)
class Ladder:
    """The comparison's outcome: all rungs, the fit of the one that was taken, and parameters left out, by name.

    `rivals` (r, p) is by how much base parameters differ in fits of other structures that the data do not rule out.
    """

    rungs: tuple[FrictionRung, ...]
    fit: GearFit
    left_out: tuple[str, ...]
    rivals: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))


@dataclass(frozen=True, eq=False)
class KnownStart(KnownGears):
    """A fit to almost the same samples: friction of its structure is fitted again from there.

    Attributes:
        ladder: how that structure was chosen; None where it was given.
    """

    ladder: Ladder | None = None


def time_blocks(samples: Samples) -> FloatArray:
    """The block of `BLOCK_S` of time that every sample is in, (N,), from 0 on; recordings share none."""
    starts = np.flatnonzero(np.diff(samples.time, prepend=np.inf) < 0.0)
    blocks, last = np.zeros(len(samples)), 0.0
    for begin, end in zip(starts, [*starts[1:], len(samples)], strict=True):
        blocks[begin:end] = last + np.floor((samples.time[begin:end] - samples.time[begin]) / BLOCK_S + 1e-9)
        last = blocks[end - 1] + 1.0
    return blocks


class BlockJudge:
    """Errors of fits on blocks of time that they are not fitted to.

    Args:
        fitter: whose rows are judged.
        sigma: deviation of each axis, (n,) [N m], in units of which errors count.
    """

    def __init__(self, fitter: GearFitter, sigma: FloatArray) -> None:
        self._weights = fitter.trust / sigma
        self._blocks = time_blocks(fitter.rows.samples)
        tau = fitter.rows.target * self._weights
        self._torque = float(np.sum(tau**2))
        self.least = NO_ERROR**2 * self._torque
        self._lower, self._fitter, self._sigma = fitter.lower, fitter, sigma

    def errors(self, fit: GearFit) -> FloatArray:
        """Sum of squared weighted errors of every block, (blocks,)."""
        return np.asarray(self.of_axes(fit).sum(axis=1))

    def of_axes(self, fit: GearFit) -> FloatArray:
        """Sums of squared weighted errors of every block and axis, (blocks, n)."""
        size = fit.columns.shape[2]
        rows = np.concatenate([fit.columns, fit.target[..., None]], axis=2) * self._weights[..., None]
        axes = rows.shape[1]
        blocks = [rows[self._blocks == b].reshape(-1, size + 1) for b in np.unique(self._blocks)]
        squares = np.array([block.T @ block for block in blocks])
        standing = self._fitter.standing_rows(
            1.0 / np.maximum(self._sigma, self._fitter.standing_sigma(fit.point.phi)), size
        )
        whole = squares.sum(axis=0) + standing.T @ standing
        # the pull holds what a fold does not show at all; it also keeps the squares far from singular
        scale = np.sqrt(np.maximum(np.diag(whole)[:-1], np.finfo(float).tiny))
        # what is at a bound with all data stays there, so that each fold needs no more than a linear solution
        lower = np.concatenate([self._lower, [one.lower for one in fit.parameters]])
        free = fit.theta > (np.append(lower, -np.inf) if fit.structure.drift else lower) + 1e-9
        found = np.empty((len(blocks), axes))
        for fold in range(min(FOLDS, len(blocks))):
            others = whole - squares[fold::FOLDS].sum(axis=0)
            theta = fit.theta.copy()
            # A'(b - A theta) of what is left, in columns of unit length: how far to move from the fit to all data
            pulled = (others[:-1, :-1] / scale / scale[:, None] + OPEN**2 * np.eye(size))[np.ix_(free, free)]
            slope = ((others[:-1, -1] - others[:-1, :-1] @ theta) / scale)[free]
            theta[free] += solve(pulled, slope, assume_a="pos", check_finite=False) / scale[free]
            for k in range(fold, len(blocks), FOLDS):
                left = blocks[k][:, -1] - blocks[k][:, :-1] @ theta
                found[k] = np.sum(left.reshape(-1, axes) ** 2, axis=0)
        return found

    def relative(self, errors: FloatArray) -> float:
        """Weighted error of all blocks over the torque."""
        return float(np.sqrt(errors.sum() / self._torque))


def excess_of(errors: FloatArray, best: FloatArray, least: float) -> tuple[float, float]:
    """By how much errors (blocks,) are above the best ones', over their sum or `least`, and its standard error."""
    difference = (errors - best) / max(float(best.sum()), least)
    return float(difference.sum()), float(np.sqrt(len(difference)) * difference.std(ddof=1))


def climb(fitter: GearFitter, ladder: Sequence[Structure] = LADDER) -> Ladder:
    """Compare structures and fit the one that the data support."""
    fits: list[tuple[GearFit, float]] = []  # and their misfits
    for structure in ladder:
        wanted = replace(structure, drift=bool(structure.terms))
        # a larger structure may begin where the best one that it holds has ended
        held = [
            pair for pair in fits if pair[0].structure.terms and set(pair[0].structure.terms) < set(structure.terms)
        ]
        starts = [None, *([min(held, key=itemgetter(1))[0].point] if held else [])]
        rival = min((misfit for _, misfit in fits), default=np.inf)
        fit = _raced(fitter, wanted, starts, rival) if structure.terms else fitter.fit(wanted, None, 1)
        fits.append((fit, fitter.misfit(fit)))
    last = fits[-1][0]
    judge = BlockJudge(fitter, fitter.sigma(fitter.rows.target - last.rows.tau, NO_ERROR))
    found = [(fit, judge.errors(fit)) for fit, _ in fits]
    best = min((errors for _, errors in found), key=lambda errors: float(errors.sum()))
    fit = _smallest(found, best, judge.least)
    for change in (_alike, _constant, _with_offset) if fit.structure.terms else ():
        other = _raced(fitter, change(fit.structure), [None, fit.point], fitter.misfit(fit) + VARIANT)
        found.append((other, judge.errors(other)))
        best = min((errors for _, errors in found), key=lambda errors: float(errors.sum()))
        fit = _smallest(found, best, judge.least)
    rungs = tuple(
        FrictionRung(
            name=one.structure.name,
            parameters=len(one.parameters) + one.structure.drift,
            held_out=judge.relative(block),
            excess=excess_of(block, best, judge.least)[0],
            standard_error=excess_of(block, best, judge.least)[1],
            chosen=one is fit,
        )
        for one, block in found
    )
    final = _settled(fitter, fit)
    return Ladder(rungs, final, _at_bounds(final), _rivals(fit, found, best, judge.least))


def _raced(fitter: GearFitter, structure: Structure, starts: Sequence[Point | None], rival: float) -> GearFit:
    """Return the fit from the start whose first steps lead lowest, followed further; None starts from the torques.

    Weights follow from the residuals, so an axis that is fitted badly counts little, and may stay so: one start is not
    enough.
    """
    fits = [fitter.fit(structure, start, RACE_STEPS, ENOUGH) for start in starts]
    best = min(fits, key=fitter.misfit)
    return best if best.settled else fitter.fit(structure, best.point, RUNG_STEPS, ENOUGH, rival)


def _settled(fitter: GearFitter, fit: GearFit) -> GearFit:
    """Return a fit to the end, from where it is or from the measured torques: the one whose misfit is smaller."""
    first = to_the_end(fitter, fit)
    if not fit.structure.terms:
        return first
    second = fitter.fit(fit.structure, None, LAST_STEPS)
    if fitter.misfit(second) > fitter.misfit(first) - BETTER:
        return first
    return to_the_end(fitter, second)


def to_the_end(fitter: GearFitter, fit: GearFit) -> GearFit:
    """Return a fit that has settled, or that has not after `ROUNDS` times all steps."""
    for _ in range(ROUNDS):
        if fit.settled:
            break
        fit = fitter.fit(fit.structure, fit.point)
    return fit


def _rivals(fit: GearFit, found: Sequence[tuple[GearFit, FloatArray]], best: FloatArray, least: float) -> FloatArray:
    """Base parameters of all fits as good as the best, but for `RIVAL` standard errors, less those of one, (r, p)."""
    p, others = fit.rows.W.shape[2], []
    for one, errors in found:
        excess, error = excess_of(errors, best, least)
        if one is not fit and excess <= max(RIVAL * error, AS_GOOD):
            others.append(one.theta[:p] - fit.theta[:p])
    return np.array(others).reshape(len(others), p)


def _alike(structure: Structure) -> Structure:
    """What is each joint's own is the same for all joints with the same servo."""
    return replace(structure, name=f"{structure.name}, alike", shared=SYMBOLS)


def _constant(structure: Structure) -> Structure:
    """Friction does not change in the course of time."""
    return replace(structure, name=f"{structure.name}, constant", drift=False)


def _with_offset(structure: Structure) -> Structure:
    """A constant torque of each joint, or friction that differs by direction: sliding does not separate them."""
    shared = tuple(symbol for symbol in structure.shared if symbol != "of")
    return replace(structure, name=f"{structure.name}, offset", terms=(*structure.terms, "of"), shared=shared)


def _smallest(found: Sequence[tuple[GearFit, FloatArray]], best: FloatArray, least: float) -> GearFit:
    """The fit with the fewest parameters that is as good as the best, but for a standard error."""

    def as_good(errors: FloatArray) -> bool:
        excess, error = excess_of(errors, best, least)
        return excess <= max(error, AS_GOOD)

    good = [pair for pair in found if as_good(pair[1])]
    smallest = min(good, key=lambda pair: (len(pair[0].parameters) + pair[0].structure.drift, float(pair[1].sum())))
    return smallest[0]


def _at_bounds(fit: GearFit) -> tuple[str, ...]:
    """Names of friction parameters that the data hold at zero."""
    p = fit.columns.shape[2] - len(fit.parameters) - fit.structure.drift
    return tuple(one.name for k, one in enumerate(fit.parameters) if one.lower == 0.0 and fit.theta[p + k] <= 1e-9)

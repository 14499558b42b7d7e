"""Choice of a friction structure (set of friction terms) by cross-validation of nested structures on blocks of time.

Errors on the fitted data cannot decide, because the largest structure always has the smallest errors there. So every
structure is first fitted to all data, and torques are linearised at this fit. The data are divided into blocks of one
second. Six linear fits each omit a different sixth of these blocks, and predict the torques in the omitted blocks. The
smallest structure is chosen whose squared prediction error is close to that of the best one. Close means that the
difference is at most its standard error over the blocks, or at most 2 % of the squared error of the best structure.
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

BLOCK_S, FOLDS = 1.0, 6  # length of a block [s]; every sixth block is held out together
OPEN = 0.01  # relative ridge: parameters that a fold of the data excites less than this keep their values
# largest numbers of linearisations: for each start point, to continue the best one, and for a final second start
RACE_STEPS, RUNG_STEPS, LAST_STEPS = 4, 12, 24
ENOUGH = 2e-3  # smallest relative gain of a step in the squared error: a smaller one changes no comparison
ROUNDS = 3  # largest number of rounds of `STEPS` linearisations; then a fit is accepted even if not converged
VARIANT = 0.1  # largest excess of the misfit up to which a variant of the chosen structure is fitted further
BETTER = 1e-3  # smallest gain of the misfit by which a second start counts as better
NO_ERROR = 5e-3  # error relative to the torque below which differences are ignored: sensors and filters cause more
RIVAL = 2.0  # largest excess error of a rival fit, in standard errors of the difference
AS_GOOD = 0.02  # relative difference of squared errors that counts as equal
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
    """Result of the comparison of friction structures.

    Attributes:
        rungs: errors of all structures on held-out blocks.
        fit: fit of the chosen structure.
        left_out: names of the friction parameters that are zero, which is their lower bound.
        rivals: base parameters of r fits of other structures that are about as good, minus the base parameters of
            `fit`, (r, p).
    """

    rungs: tuple[FrictionRung, ...]
    fit: GearFit
    left_out: tuple[str, ...]
    rivals: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))


@dataclass(frozen=True, eq=False)
class KnownStart(KnownGears):
    """Friction fit that gives the structure and the start values of a new fit.

    Both fits use the same recordings, with different corrections of the set-up, such as position zeros or a delay.

    Attributes:
        ladder: comparison of friction structures by which one was chosen; None if the structure was prescribed.
    """

    ladder: Ladder | None = None


def time_blocks(samples: Samples) -> FloatArray:
    """Return for each sample the number, from 0, of its block of time, (N,).

    A block lasts `BLOCK_S` and lies within one recording.
    """
    starts = np.flatnonzero(np.diff(samples.time, prepend=np.inf) < 0.0)
    blocks, last = np.zeros(len(samples)), 0.0
    for begin, end in zip(starts, [*starts[1:], len(samples)], strict=True):
        blocks[begin:end] = last + np.floor((samples.time[begin:end] - samples.time[begin]) / BLOCK_S + 1e-9)
        last = blocks[end - 1] + 1.0
    return blocks


class BlockJudge:
    """Cross-validation of friction fits: errors on held-out blocks of time, one sixth of all blocks at a time.

    Args:
        fitter: fitter whose rows are used.
        sigma: standard deviation of each axis's torques, (n,) [N m], by which errors are divided.
    """

    def __init__(self, fitter: GearFitter, sigma: FloatArray) -> None:
        self._weights = fitter.trust / sigma
        self._blocks = time_blocks(fitter.rows.samples)
        tau = fitter.rows.target * self._weights
        self._torque = float(np.sum(tau**2))
        self.least = NO_ERROR**2 * self._torque
        self._lower, self._fitter, self._sigma = fitter.lower, fitter, sigma

    def errors(self, fit: GearFit) -> FloatArray:
        """Return the cross-validated sum of squared weighted torque errors of every block of time, (blocks,)."""
        return np.asarray(self.of_axes(fit).sum(axis=1))

    def of_axes(self, fit: GearFit) -> FloatArray:
        """Return cross-validated sums of squared weighted torque errors of every block of time and axis, (blocks, n).

        The parameters that predict a block are fitted to the other blocks, with torques linearised at `fit`.
        """
        size = fit.columns.shape[2]
        rows = np.concatenate([fit.columns, fit.target[..., None]], axis=2) * self._weights[..., None]
        axes = rows.shape[1]
        blocks = [rows[self._blocks == b].reshape(-1, size + 1) for b in np.unique(self._blocks)]
        squares = np.array([block.T @ block for block in blocks])
        standing = self._fitter.standing_rows(
            1.0 / np.maximum(self._sigma, self._fitter.standing_sigma(fit.point.phi)), size
        )
        whole = squares.sum(axis=0) + standing.T @ standing
        # the ridge keeps parameters that a fold does not excite at their values, and the matrix far from singular
        scale = np.sqrt(np.maximum(np.diag(whole)[:-1], np.finfo(float).tiny))
        # parameters at a bound in the fit to all data stay there, so that each fold is a linear problem
        lower = np.concatenate([self._lower, [one.lower for one in fit.parameters]])
        free = fit.theta > (np.append(lower, -np.inf) if fit.structure.drift else lower) + 1e-9
        found = np.empty((len(blocks), axes))
        for fold in range(min(FOLDS, len(blocks))):
            others = whole - squares[fold::FOLDS].sum(axis=0)
            theta = fit.theta.copy()
            # A'(b - A theta) of the other blocks gives the change from the fit to all data; columns have unit length
            pulled = (others[:-1, :-1] / scale / scale[:, None] + OPEN**2 * np.eye(size))[np.ix_(free, free)]
            slope = ((others[:-1, -1] - others[:-1, :-1] @ theta) / scale)[free]
            theta[free] += solve(pulled, slope, assume_a="pos", check_finite=False) / scale[free]
            for k in range(fold, len(blocks), FOLDS):
                left = blocks[k][:, -1] - blocks[k][:, :-1] @ theta
                found[k] = np.sum(left.reshape(-1, axes) ** 2, axis=0)
        return found

    def relative(self, errors: FloatArray) -> float:
        """Return the weighted rms error relative to the weighted rms torque, from the blocks' errors (blocks,).

        The argument contains sums of squared weighted errors, as `errors` returns them.
        """
        return float(np.sqrt(errors.sum() / self._torque))


def excess_of(errors: FloatArray, best: FloatArray, least: float) -> tuple[float, float]:
    """Return the relative excess of a fit's squared error over that of the best fit, and the excess's standard error.

    Both are divided by the squared error of the best fit, summed over all blocks, or by `least` if `least` is larger.

    Args:
        errors: squared error of each block of time, (blocks,).
        best: squared errors of the best fit, (blocks,).
        least: lower limit of the divisor.
    """
    difference = (errors - best) / max(float(best.sum()), least)
    return float(difference.sum()), float(np.sqrt(len(difference)) * difference.std(ddof=1))


def select_structure(fitter: GearFitter, ladder: Sequence[Structure] = LADDER) -> Ladder:
    """Compare friction structures by cross-validation, and return the comparison with the fit of the chosen structure.

    Args:
        fitter: fitter, whose rows are fitted and cross-validated.
        ladder: structures to compare, from the smallest to the largest.
    """
    fits: list[tuple[GearFit, float]] = []  # fits and their misfits
    for structure in ladder:
        wanted = replace(structure, drift=bool(structure.terms))
        # a larger structure may start at the result of the best structure that it contains
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
    """Return the fit from the best of several start points, iterated until a step reduces the error only slightly.

    The best start point is the one with the lowest misfit after a few steps. Several start points are needed, because
    weights are computed from the residuals: from a bad start point, an axis with large residuals gets a low weight and
    may keep large residuals.

    Args:
        fitter: fitter of the rows.
        structure: friction structure.
        starts: start points (parameter values); for None, a start point is computed from the measured torques.
        rival: misfit of a competing fit. The iteration from the best start point ends early if the misfit will probably
            not fall to this value; the fit reached so far is returned.
    """
    fits = [fitter.fit(structure, start, RACE_STEPS, ENOUGH) for start in starts]
    best = min(fits, key=fitter.misfit)
    return best if best.settled else fitter.fit(structure, best, RUNG_STEPS, ENOUGH, rival)


def _settled(fitter: GearFitter, fit: GearFit) -> GearFit:
    """Return the better of two converged fits: one continues `fit`, the other starts from the measured torques.

    The better fit is the one with the smaller misfit.
    """
    first = fit_until_settled(fitter, fit)
    if not fit.structure.terms:
        return first
    second = fitter.fit(fit.structure, None, LAST_STEPS)
    if fitter.misfit(second) > fitter.misfit(first) - BETTER:
        return first
    return fit_until_settled(fitter, second)


def fit_until_settled(fitter: GearFitter, fit: GearFit) -> GearFit:
    """Continue a fit until it converges, and return it.

    After `ROUNDS` calls of `GearFitter.fit`, each with at most its default number of steps, the fit is returned even if
    it has not converged.
    """
    for _ in range(ROUNDS):
        if fit.settled:
            break
        fit = fitter.fit(fit.structure, fit)
    return fit


def _rivals(fit: GearFit, found: Sequence[tuple[GearFit, FloatArray]], best: FloatArray, least: float) -> FloatArray:
    """Return the base parameters of r other, equally good fits, minus the base parameters of the chosen fit, (r, p).

    A fit is as good as the best one if its relative excess error (`excess_of`) does not exceed a limit. The limit is
    `RIVAL` standard errors of the excess, or `AS_GOOD` if `AS_GOOD` is larger.

    Args:
        fit: the chosen fit.
        found: all fits, each with its squared errors on held-out blocks, (blocks,).
        best: squared errors of the fit with the smallest sum, (blocks,).
        least: lower limit of the divisor in the relative excess error, see `excess_of`.
    """
    p, others = fit.rows.W.shape[2], []
    for one, errors in found:
        excess, error = excess_of(errors, best, least)
        if one is not fit and excess <= max(RIVAL * error, AS_GOOD):
            others.append(one.theta[:p] - fit.theta[:p])
    return np.array(others).reshape(len(others), p)


def _alike(structure: Structure) -> Structure:
    """Return a copy of the friction structure in which joints with the same servo model share all parameters."""
    return replace(structure, name=f"{structure.name}, alike", shared=SYMBOLS)


def _constant(structure: Structure) -> Structure:
    """Return a copy of the friction structure without drift, so that friction is constant over time."""
    return replace(structure, name=f"{structure.name}, constant", drift=False)


def _with_offset(structure: Structure) -> Structure:
    """Return a copy of the friction structure with a constant torque offset per joint in addition.

    The offset also represents friction that differs between the two directions of motion: while a joint moves, both
    effects are indistinguishable.
    """
    shared = tuple(symbol for symbol in structure.shared if symbol != "of")
    return replace(structure, name=f"{structure.name}, offset", terms=(*structure.terms, "of"), shared=shared)


def _smallest(found: Sequence[tuple[GearFit, FloatArray]], best: FloatArray, least: float) -> GearFit:
    """Return the fit with the fewest parameters among all fits that are about as good as the best one.

    A fit is about as good if its relative excess error (`excess_of`) is at most the standard error of the excess, or
    `AS_GOOD` if `AS_GOOD` is larger.

    Args:
        found: all fits, each with its squared errors on held-out blocks, (blocks,).
        best: squared errors of the fit with the smallest sum, (blocks,).
        least: lower limit of the divisor in the relative excess error, see `excess_of`.
    """

    def as_good(errors: FloatArray) -> bool:
        excess, error = excess_of(errors, best, least)
        return excess <= max(error, AS_GOOD)

    good = [pair for pair in found if as_good(pair[1])]
    smallest = min(good, key=lambda pair: (len(pair[0].parameters) + pair[0].structure.drift, float(pair[1].sum())))
    return smallest[0]


def _at_bounds(fit: GearFit) -> tuple[str, ...]:
    """Return the names of a fit's friction parameters that are at a lower bound of zero."""
    p = fit.columns.shape[2] - len(fit.parameters) - fit.structure.drift
    return tuple(one.name for k, one in enumerate(fit.parameters) if one.lower == 0.0 and fit.theta[p + k] <= 1e-9)

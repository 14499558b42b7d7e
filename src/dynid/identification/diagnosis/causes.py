"""Test whether a spring that the model lacks explains the residual of a model that failed its validation.

Each possible cause is a spring at one joint. Its regressor columns are fitted in addition to all parameters of the
model. Only causes that explain more than half of the squared error of some joint are considered. Of these, the one that
explains most of the squared error of all joints is reported. Another possible cause, a change of the arm during the
recordings, is tested in `steadiness`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dynid.identification.data.preprocessing import Samples
from dynid.identification.diagnosis.nuisance_columns import unspanned_part, weighted_residual
from dynid.identification.estimators.regression import Regression
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray

EXPLAINED = 0.5  # least share of a joint's squared error that a reported cause explains
MOST_SAMPLES = 4000


class _Cause(NamedTuple):
    """A possible cause of the residual.

    Attributes:
        words: description of the cause, with placeholders for the fitted coefficient, for the joint whose error the
            cause explains best, and for the explained share of this joint's squared error.
        columns: regressor columns of the cause, (N, n, k), any unit.
    """

    words: str
    columns: FloatArray


def cause_of(model: ArmModel, samples: Samples, regression: Regression) -> str:
    """Return a sentence about the possible cause that explains most of the squared residual of a fit.

    The result is "" if no cause explains more than half of the squared error of a joint.

    Args:
        model: the arm.
        samples: the fitted samples.
        regression: regression of the samples.
    """
    own, weights, y = weighted_residual(samples, regression)
    n, few = regression.axes, slice(0, len(samples), 1 + len(samples) // MOST_SAMPLES)
    own, weights, y = (one.reshape(-1, n, *one.shape[1:])[few] for one in (own, weights, y))
    tried = [one._replace(columns=one.columns[few] * weights[..., None]) for one in _tried(model, samples)]
    rows = len(y) * n
    freed = unspanned_part(
        own.reshape(rows, -1),
        np.concatenate([y.reshape(rows, 1), *(one.columns.reshape(rows, -1) for one in tried)], axis=1),
    )
    left, at = freed[:, 0], 1
    errors = (left.reshape(-1, n) ** 2).sum(axis=0)
    best, said = 0.0, ""
    for one in tried:
        columns = freed[:, at : (at := at + one.columns.shape[2])]
        found = np.linalg.lstsq(columns, left, rcond=None)[0]
        taken = errors - ((left - columns @ found).reshape(-1, n) ** 2).sum(axis=0)
        joint = int(np.argmax(taken))
        if taken.sum() > best and taken[joint] > EXPLAINED * errors[joint]:
            best, share = float(taken.sum()), 100 * taken[joint] / errors[joint]
            said = one.words.format(value=found[0], joint=samples.joint_names[joint], share=share)
    return said


def _tried(model: ArmModel, samples: Samples) -> Iterator[_Cause]:
    """Yield one possible cause for each joint without a spring in the model: a spring at this joint."""
    n = samples.q.shape[1]
    left = "would explain {share:.0f} % of the squared error of {joint}"
    sprung = {term.joint for term in model.drive.springs}  # joints whose springs are already in the model
    for k in (joint for joint in range(model.chain_size) if joint not in sprung):
        unit = "N/m" if model.prismatic[k] else "N m/rad"
        spring = f"a spring of {{value:.3g}} {unit} at {samples.joint_names[k]}"
        words = f"{spring} {left}: does a cable, a hose or a counterbalance pull?"
        yield _Cause(words, (samples.q * (np.arange(n) == k))[..., None])

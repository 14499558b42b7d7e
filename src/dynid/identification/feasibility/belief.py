"""Estimate of an arm's parameters from data alone, without physical constraints, in a file next to model.yaml."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynid.errors import DataError, InputNotFoundError
from dynid.resources import stored_arrays, write_whole
from dynid.robot import FloatArray, read_only

BELIEF_FILE = "belief.npz"
MOST_BYTES = 4 * 2**20  # largest file size [byte], enough for the covariance of 700 parameters; an arm has some 100


@dataclass(frozen=True, eq=False)
class Belief:
    """Multivariate normal distribution of base parameters and of additionally estimated Coulomb friction (FC).

    Attributes:
        names: names of the parameters, (k,).
        values: estimate without physical constraints, (k,), SI.
        covariance: covariance (k, k); friction that was fixed at zero has a row of zeros.
    """

    names: tuple[str, ...]
    values: FloatArray
    covariance: FloatArray

    def __post_init__(self) -> None:
        size = len(self.names)
        if np.shape(self.values) != (size,) or np.shape(self.covariance) != (size, size):
            raise DataError(
                f"{size} names, values {np.shape(self.values)} and covariance {np.shape(self.covariance)} do not fit"
            )
        if not (np.isfinite(self.values).all() and np.isfinite(self.covariance).all()):
            raise DataError("the estimate's values or its covariance are not finite: identify again")

    def save(self, folder: Path) -> None:
        """Write this distribution of an arm's parameters into the file `BELIEF_FILE` of a folder."""
        stream = io.BytesIO()
        np.savez_compressed(stream, names=np.array(self.names), values=self.values, covariance=self.covariance)
        write_whole(folder / BELIEF_FILE, stream.getvalue())

    @classmethod
    def load(cls, folder: Path) -> "Belief":
        """Return the parameter distribution that is stored in the folder of an identification result.

        Raises:
            InputNotFoundError: the result does not contain the file.
            DataError: the file cannot be read.
        """
        path = folder / BELIEF_FILE
        if not path.is_file():
            raise InputNotFoundError(
                f"{folder} holds no {BELIEF_FILE} with the covariance of the estimate: identify again with this "
                "version and an estimator that gives deviations, such as ols or wls"
            )
        try:
            with stored_arrays(path, MOST_BYTES) as stored:
                names = tuple(map(str, stored["names"]))
                return cls(names, read_only(stored["values"]), read_only(stored["covariance"]))
        except DataError as error:
            raise DataError(f"{error}: identify again") from error

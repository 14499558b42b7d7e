"""Types of numbers and arrays for all packages, and the base class of all schemas of configuration files."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

FloatArray = NDArray[np.float64]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Vector3 = tuple[float, float, float]
PLANNED_SHARE = 0.9  # share of a drive's limit for a planned motion; the rest is reserved for feedback


def read_only(values: object) -> FloatArray:
    """Return a read-only float64 copy of values of any shape."""
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array


class Strict(BaseModel):
    """Base of all configuration schemas: it refuses unknown keys, NaN and infinity, and its values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

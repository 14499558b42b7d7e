"""Reader of the traces that `dynid simulated-arm --trace` writes."""

import zipfile
from pathlib import Path

import numpy as np

from dynid.errors import DataError, InputNotFoundError
from dynid.simulation.servo.trace import ArmTrace


def load_trace(path: Path) -> ArmTrace:
    """Read a trace that `ArmTrace.save` wrote.

    Raises:
        InputNotFoundError: no such file.
        DataError: the file is not a trace.
    """
    try:
        with np.load(path) as found:
            return ArmTrace(found["time_s"], found["q"], found["dq"], found["current_a"])
    except FileNotFoundError:
        raise InputNotFoundError(f"no such file: {path}") from None
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a trace of a simulated arm: {error}") from error

"""The exported C of a model as a shared library of this process, whose functions take arrays of states."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np

from dynid.robot import FloatArray
from dynid.runtime.c_folder import write_c
from dynid.runtime.c_source import CSource
from dynid.runtime.model import Model

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-Wno-unknown-warning-option")
SHA256 = 64 * "a"  # in place of the hash of a model.yaml


class CLibrary:
    """The C functions of a model on arrays, compiled by gcc.

    Args:
        model: identified or known model.
        folder: new folder for the sources and the library.
        single: whether the sources use `float` instead of `double`.
    """

    def __init__(self, model: Model, folder: Path, single: bool = False) -> None:
        folder.mkdir()
        source = CSource(model, SHA256, single)
        write_c(folder, source)
        command = ["gcc", "-std=c99", "-O2", *STRICT, "-shared", "-fPIC", f"{source.name}.c", "-o", "model.so", "-lm"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            raise RuntimeError(f"gcc refused {source.name}.c: {done.stderr[:4000]}")
        self.name, self.folder, self.kind = source.name, folder, np.float32 if single else np.float64
        self.library = ctypes.CDLL(str(folder / "model.so"))

    def __call__(self, function: str, size: int, *given: FloatArray) -> FloatArray:
        """Return the results (N, size) of a function for rows (N, n) of its arguments."""
        rows = [np.ascontiguousarray(one, dtype=self.kind) for one in given]
        out = np.empty((len(rows[0]), size), dtype=self.kind)
        call = getattr(self.library, f"{self.name}_{function}")
        call.argtypes = [ctypes.c_void_p] * (len(rows) + 1)
        places = [(one.ctypes.data, one.strides[0]) for one in (*rows, out)]
        for k in range(len(out)):
            call(*(start + k * stride for start, stride in places))
        return out.astype(np.float64)

"""A process that continues in several ways from one moment, by copies of itself that return results (POSIX)."""

import contextlib
import os
import pickle  # nosec - only between this process and its own copies
import sys
import traceback
from typing import Any, NoReturn

from dynid.errors import DataError


class Branch:
    """Copy of this process made by `fork`; the original waits for the copy's result.

    Attributes:
        is_copy: whether this is the copy.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        self.is_copy = self._pid == 0
        os.close(self._read if self.is_copy else self._write)

    def hand_back(self, result: Any) -> NoReturn:
        """Return the result to the original and end this copy; called in the copy."""
        self._end(True, result)

    def give_up(self, error: BaseException) -> NoReturn:
        """Return an error to the original and end this copy; called in the copy."""
        self._end(False, "".join(traceback.format_exception(error)))

    def result(self) -> Any:
        """Wait for the copy's result and return it; called in the original.

        Raises:
            DataError: the copy failed or died.
        """
        with os.fdopen(self._read, "rb") as stream:
            data = stream.read()
        os.waitpid(self._pid, 0)
        if not data:
            raise DataError("a copy of this process died without a result")
        succeeded, result = pickle.loads(data)
        if not succeeded:
            raise DataError(f"a copy of this process failed: {result}")
        return result

    def _end(self, succeeded: bool, result: Any) -> NoReturn:
        code = 1
        with contextlib.suppress(BrokenPipeError):
            with os.fdopen(self._write, "wb") as stream:
                stream.write(pickle.dumps((succeeded, result)))
            code = 0
        os._exit(code)  # the copy must not clean up the original's resources

"""A process that a test starts."""

import subprocess
from types import TracebackType
from typing import Any


class Child(subprocess.Popen[Any]):
    """Is killed where its test fails: leaving the `with` of a Popen waits for a process that nobody ends any more."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, value, trace)

"""A process that a test starts."""

import subprocess
from types import TracebackType
from typing import Any


class Child(subprocess.Popen[Any]):
    """Process that is killed if its test fails; leaving the `with` of a plain Popen would wait for it for ever."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, value, trace)

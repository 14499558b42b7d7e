"""Whether logs can be used together: one mount, and no log twice."""

from collections.abc import Callable, Sequence
from typing import Any

from dynid.errors import DataError
from dynid.recording.log import Log, log_digest

Reading = Log | Callable[[], Log]


def _stated(reading: Reading, known: dict[int, Log]) -> tuple[str, str | None, str]:
    """Return what is known of a log without reading it: its name, mount (None if nobody says) and digest ("")."""
    log: Any = reading if isinstance(reading, Log) else known.get(id(reading))
    if log is not None:
        return log.name, log.mount, log_digest(log)
    facts = getattr(reading, "facts", None)
    name = getattr(reading, "name", type(reading).__name__)
    return name, getattr(facts, "mount", None), getattr(reading, "digest", "")


def common_mount(readings: Sequence[Reading], known: dict[int, Log], mount: str | None) -> str | None:
    """Return the mount of logs of one arm; None is the robot's default.

    Args:
        readings: logs, or what reads them.
        known: logs that were read already, by the `id` of what read them.
        mount: what the caller says; None takes that of the logs.

    Raises:
        DataError: logs of different mounts, or of another one than the caller says; or one log twice.
    """
    mounts: dict[str, str] = {}
    seen: dict[str, str] = {}
    for reading in readings:
        name, own, digest = _stated(reading, known)
        if own is not None:
            mounts.setdefault(own, name)
        if digest and digest in seen:
            raise DataError(f"{name} holds the same data as {seen[digest]}: name each log once")
        seen[digest] = name
    if len(mounts) > 1:
        told = ", ".join(f"{name} {own}" for own, name in mounts.items())
        raise DataError(f"the logs are of different mounts ({told}): identify from logs of one mount")
    if mount is not None and mounts and mount not in mounts:
        own, name = next(iter(mounts.items()))
        raise DataError(f"{name} was recorded with mount {own}, and --mount says {mount}: leave one out")
    return mount or next(iter(mounts), None)

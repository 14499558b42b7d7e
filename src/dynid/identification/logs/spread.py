"""How the pieces of work of many logs are spread: over processes, over machines by Dask, and over several runs.

Each is a `dynid.parallel.Map`: results come in the order of the items, whoever made them.
"""

import contextlib
import hashlib
import io
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dynid import __version__
from dynid.errors import ConfigurationError, DataError, DynidError, InputNotFoundError
from dynid.identification.logs.identify import Task
from dynid.model.dynamics import ArmModel
from dynid.parallel import AHEAD, Map, cores, in_order, process_map
from dynid.recording.log import Log, log_digest
from dynid.resources import make_folder, stored_arrays, write_whole
from dynid.robot import FloatArray

LOCAL = "local"
PROBES, PROBE_SEED = 8, 20
CONNECT_S = 20
FORMAT = 1  # of kept work

Reduced = tuple[int, FloatArray, FloatArray]


@contextlib.contextmanager
def spread_over(processes: int | None = None, dask: str | None = None) -> Iterator[Map]:
    """A map over so many processes of this machine (None: one per core), or over a Dask cluster.

    Args:
        processes: of this machine; 1 is this process.
        dask: address of a cluster's scheduler, such as tcp://host:8786; "local" starts one here. Its workers need
            dynid and the logs' files. None uses `processes`.

    Raises:
        ConfigurationError: Dask is not installed.
        InputNotFoundError: no scheduler answers.
    """
    if dask is None:
        with process_map(processes) as spread:
            yield spread
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ConfigurationError("to spread work by Dask, pip install 'dynid[dask]'") from error
    with contextlib.ExitStack() as stack:
        place: Any = dask
        if dask == LOCAL:
            one = {"n_workers": processes or cores(), "threads_per_worker": 1, "silence_logs": logging.ERROR}
            place = stack.enter_context(LocalCluster(**one, host="127.0.0.1", dashboard_address=None))
        try:
            client = stack.enter_context(Client(place, timeout=CONNECT_S))
        except (OSError, ValueError) as error:
            raise InputNotFoundError(f"no Dask scheduler answers at {dask}: {error}") from error

        def spread(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            workers = max(1, len(client.scheduler_info()["workers"]))
            return in_order(lambda item: _ClusterFuture(client.submit(work, item, pure=False)), items, AHEAD * workers)

        yield spread


class _ClusterFuture:
    """A future of Dask's that separates the cluster's failures from those of the work."""

    def __init__(self, future: Any) -> None:
        self._future = future

    def result(self) -> Any:
        """The result.

        Raises:
            DynidError: the cluster could not do the work; and what the work itself raises.
        """
        try:
            return self._future.result()
        except DynidError:
            raise
        except Exception as error:
            raise DynidError(
                f"the Dask cluster could not do a piece of work ({type(error).__name__}: {error}); its workers need "
                "dynid, and the logs under the same paths"
            ) from error


def kept(spread: Map, folder: Path) -> Map:
    """The same map, which keeps results in a folder and takes those from there that it holds.

    A run that was interrupted continues there. A piece is known by all that its result depends on, see `task_key`.
    """
    make_folder(folder)

    def keep(work: Callable[[Task], Reduced], items: Iterable[Task]) -> Iterator[Reduced]:
        tasks = list(items)
        files = [folder / f"{task_key(task)}.npz" for task in tasks]
        there = [file.exists() for file in files]
        made = iter(spread(work, [task for task, old in zip(tasks, there, strict=True) if not old]))
        for task, file, old in zip(tasks, files, there, strict=True):
            if old:
                yield _read(task, file)
                continue
            group, R, rows = next(made)
            _write(file, R, rows)
            yield group, R, rows

    return keep


def task_key(task: Task) -> str:
    """What a piece of work is known by: its logs' contents, the model, and the point of linearisation.

    Raises:
        ConfigurationError: a reading does not say what it reads.
    """
    digest = hashlib.sha256(_probe(task.model))
    digest.update(f"{__version__} {FORMAT}".encode())
    for reading in task.readings:
        content = log_digest(reading) if isinstance(reading, Log) else getattr(reading, "digest", None)
        if not content:
            name = getattr(reading, "name", type(reading).__name__)
            raise ConfigurationError(f"{name} does not say what it reads: work on it cannot be kept")
        digest.update(content.encode())
    digest.update(repr((task.group, task.delay_s, task.every, task.settings)).encode())
    digest.update(task.point.phi.tobytes() + task.point.friction.tobytes())
    return digest.hexdigest()


@lru_cache(maxsize=4)
def _probe(model: ArmModel) -> bytes:
    """What distinguishes models: their regressors at some states."""
    q, dq, ddq = np.random.default_rng(PROBE_SEED).standard_normal((3, PROBES, model.axes))
    return " ".join(model.names).encode() + model.regressor(q, dq, ddq).tobytes()


def _write(file: Path, R: FloatArray, rows: FloatArray) -> None:
    stream = io.BytesIO()
    np.savez(stream, R=R, rows=rows)
    write_whole(file, stream.getvalue())


def _read(task: Task, file: Path) -> Reduced:
    try:
        with stored_arrays(file) as arrays:
            return task.group, arrays["R"], arrays["rows"]
    except DataError as error:
        raise DataError(f"{file} is no piece of work that can be read ({error}); remove it") from error

"""Distribution of tasks over processes or, by Dask, over machines; a cache of results lets later runs continue.

The map functions return results in the order of the items, regardless of the order in which workers finish
(`dynid.parallel.Map`).
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
from dynid.identification.many.reduction import Reduced, Task
from dynid.model.dynamics import ArmModel
from dynid.parallel import AHEAD, Map, cores, in_order, process_map
from dynid.resources import make_folder, stored_arrays, write_whole

LOCAL = "local"
PROBES, PROBE_SEED = 8, 20
CONNECT_S = 20
FORMAT = 2  # version of the file format of cached results


@contextlib.contextmanager
def spread_over(processes: int | None = None, dask: str | None = None) -> Iterator[Map]:
    """Yield a map function that distributes its calls over processes of this machine, or over a Dask cluster.

    Args:
        processes: number of processes on this machine. With 1, this process does all the work; None means one process
            per core.
        dask: address of a cluster's scheduler, such as tcp://host:8786; "local" starts a cluster on this machine.
            Workers need dynid and access to the recordings' files. None means that no cluster is used.

    Raises:
        ConfigurationError: Dask is not installed.
        InputNotFoundError: no scheduler answers at the address.
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
    """Dask future whose errors distinguish failures of the cluster from errors of the task."""

    def __init__(self, future: Any) -> None:
        self._future = future

    def result(self) -> Any:
        """Wait until the task is finished, and return its result.

        Raises:
            DynidError: the task itself raised this error, or the cluster could not execute the task. Every error of
                another class counts as a failure of the cluster, and is raised as a DynidError.
        """
        try:
            return self._future.result()
        except DynidError:
            raise
        except Exception as error:
            raise DynidError(
                f"the Dask cluster could not do a piece of work ({type(error).__name__}: {error}); its workers need "
                "dynid, and the recordings under the same paths"
            ) from error


def kept(spread: Map, folder: Path) -> Map:
    """Return a map function that stores the results of tasks in a folder and reuses results found there.

    So an interrupted run can resume. A stored result is reused only if everything on which it depends is equal, see
    `task_key`.

    Args:
        spread: map function that computes the missing results.
        folder: folder of the results.
    """
    make_folder(folder)

    def keep(work: Callable[[Task], Reduced], items: Iterable[Task]) -> Iterator[Reduced]:
        tasks = list(items)
        files = [folder / f"{task_key(task)}.npz" for task in tasks]
        there = [file.exists() for file in files]
        made = iter(spread(work, [task for task, old in zip(tasks, there, strict=True) if not old]))
        for file, old in zip(files, there, strict=True):
            if old:
                yield _read(file)
                continue
            found = next(made)
            _write(file, found)
            yield found

    return keep


def task_key(task: Task) -> str:
    """Return the key under which a task's result is stored: a digest of everything on which the result depends.

    The result depends on the contents of the task's recordings, how they were read (such as units and the span of
    time), the model, the settings, known friction and backlash, and the estimated errors of the set-up (such as
    position zeros and delay).
    """
    digest = hashlib.sha256(_probe(task.model))
    digest.update(f"{__version__} {FORMAT} {task.numbers} {task.held_out_share!r}".encode())
    for one in task.sources:
        digest.update(f"{one.sha256} {one.content} {one.mount} {one.torque_constants!r}".encode())
    digest.update(task.settings.model_dump_json().encode())
    setup = task.setup
    for values in (setup.zeros, setup.scales, setup.gravity, np.array([setup.delay_s]), task.play):
        digest.update(b"none" if values is None else values.tobytes())
    if task.known is not None:
        point = task.known.point
        digest.update(f"{task.known.structure} {point.drift!r} {point.law.transition_rad_s!r}".encode())
        digest.update(point.phi.tobytes() + point.law.values.tobytes())
    return digest.hexdigest()


@lru_cache(maxsize=4)
def _probe(model: ArmModel) -> bytes:
    """Return bytes that identify a model of an arm: its parameter names, and its regressors at some random states."""
    q, dq, ddq = np.random.default_rng(PROBE_SEED).standard_normal((3, PROBES, model.axes))
    return " ".join(model.names).encode() + model.regressor(q, dq, ddq).tobytes()


def _write(file: Path, found: Reduced) -> None:
    stream, groups = io.BytesIO(), sorted(found.triangles)
    np.savez(
        stream,
        groups=np.array(groups, dtype=np.int64),
        triangles=np.array([found.triangles[group] for group in groups]),
        rows=found.rows,
        seconds=np.array(found.seconds),
        left_out=np.array(found.left_out, dtype=np.str_),
    )
    write_whole(file, stream.getvalue())


def _read(file: Path) -> Reduced:
    try:
        with stored_arrays(file) as arrays:
            triangles = dict(zip(arrays["groups"].tolist(), arrays["triangles"], strict=True))
            return Reduced(triangles, arrays["rows"], float(arrays["seconds"]), tuple(arrays["left_out"].tolist()))
    except DataError as error:
        raise DataError(f"{file} is no piece of work that can be read ({error}); remove it") from error

"""Nodes as real processes, each test in a ROS domain of its own."""

import gc
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
# How a process starts is what these test, or what it compiles with an empty cache.
BY_NAME = {"test_entry", "test_late_work", "test_processes"}


@pytest.fixture(autouse=True, scope="module")
def no_long_collections() -> Iterator[None]:
    """What the tests before have left is not looked through while the servo bus, a thread of this process, must answer
    within milliseconds: one collection of it takes longer than a servo may be silent."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def forks() -> Iterator["Forks"]:  # noqa: F821
    """Return the process that has loaded all nodes and forks them."""
    from forked import Forks

    made = Forks()
    yield made
    made.close()


@pytest.fixture(autouse=True, scope="module")
def forked_nodes(request: pytest.FixtureRequest, forks: "Forks") -> Iterator[None]:  # noqa: F821
    """Nodes that these tests start are forked, which spares each of them to load itself; see `forked`."""
    from dynid.nodes import processes

    with pytest.MonkeyPatch.context() as patch:
        if request.path.stem not in BY_NAME:
            patch.setattr(processes, "subprocess", forks)
        yield


@pytest.fixture(autouse=True)
def domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A domain that nobody else on this machine uses, with discovery on this machine only."""
    from dynid.nodes.domain import DOMAIN_VARIABLE, PrivateDomain

    monkeypatch.delenv(DOMAIN_VARIABLE, raising=False)
    with PrivateDomain() as chosen:
        monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        yield chosen.number


@pytest.fixture
def group(domain: str, tmp_path: Path) -> Iterator["ProcessGroup"]:  # noqa: F821
    """Return a group of processes that end with the test."""
    from dynid.nodes.processes import ProcessGroup

    with ProcessGroup(tmp_path / "logs", {}) as processes:
        yield processes


@pytest.fixture
def client(group: "ProcessGroup") -> Iterator["Supervisor"]:  # noqa: F821
    """Return a client in the same domain; it stops waiting when a process has ended."""
    from dynid.nodes.supervisor import Supervisor

    class PatientSupervisor(Supervisor):
        """Waits longer for what is expected to happen: a busy machine starts a node in half a minute."""

        def wait(self, condition: Callable[[], bool], timeout_s: float, *texts: Any, **more: Any) -> None:
            super().wait(condition, max(timeout_s, PATIENCE_S) if timeout_s > 1.0 else timeout_s, *texts, **more)

    with PatientSupervisor(group.check) as supervisor:
        yield supervisor


@pytest.fixture
def robot_folder(tmp_path: Path) -> Path:
    """A copy of a shipped robot, to be changed."""
    for part in ("config", "urdf"):
        shutil.copytree(ROOT / part / "crane_x7", tmp_path / "share" / part / "crane_x7")
    return tmp_path / "share" / "config" / "crane_x7"

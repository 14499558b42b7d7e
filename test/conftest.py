"""Requirements of a shared machine on the tests, and fixtures of all tests."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from skip_list import pytest_sessionfinish, pytest_terminal_summary  # noqa: F401 - pytest calls them

if TYPE_CHECKING:
    from made import Made
    from plain_bus import IndependentAxesPlant

    from dynid.robot import Robot
    from dynid.simulation.bus.servo_bus import EmulatedServoBus

# Small matrices in several threads cost five times the processor time, and stall where another process is busy. It is
# set before anything imports numpy, so imports of dynid are inside the fixtures.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# A shell's background jobs ignore SIGINT and `nohup` SIGHUP, and so would every process that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
TEST = Path(__file__).parent
pytest_plugins = ["layers", "processor_time"]
DRIVER = ("bus", "cycle", "doctor", "dynamixel_arm", "handshake", "state_cycle", "written_bytes")
# A driver's deadlines are milliseconds, and a shared host may stand still for longer. What talks to a servo bus in
# real time is tried again then; pytest counts it as rerun.
ON_THE_BUS = [
    *(TEST / "hardware" / f"test_{name}.py" for name in DRIVER),
    TEST / "simulation" / "test_foreign_clients.py",
    TEST / "simulation" / "test_servo_bus.py",
    TEST / "benchmarks" / "test_soak.py",
    *TEST.joinpath("nodes").glob("test_*.py"),
]
# Of them, what the quick layer has beside nodes that no process runs: one driver on one bus.
QUICK_BUS = [TEST / "hardware" / "test_bus.py", TEST / "hardware" / "test_dynamixel_arm.py"]
# Files of which some tests are, by their own mark `real_time`.
PARTLY = [TEST / "hardware" / "test_cycle_rate.py", TEST / "simulation" / "test_adapter.py"]
# The whole chain needs no second try: its arm waits for the host.
CHAIN = [TEST / "test_chain.py", TEST / "test_chain_ends.py"]
# Commands that come too late are taken for none, so what sends them to a node must have a processor; so must whoever
# couples two arms at 1 kHz, and ends that where a state is late.
ALONE = [TEST / "nodes" / name for name in ("test_hardware_node.py", "test_bilateral_node.py")]
RERUNS = 2
# What measures, and its long tables: no claim of README or docs rests on these alone.
STUDY = TEST / "benchmarks"
# Files that take longest come first, so that the processes end at nearly the same time; each takes whole files, and
# `./run` has pytest-xdist keep their order (by itself it begins with those of most tests). Of those in real time, what
# needs a whole processor (the chain) does not begin all at once.
LONGEST = [
    TEST / name
    for name in (
        "test_installed.py",
        "test_chain.py",
        "nodes/test_adaptive.py",
        "nodes/test_executor_node.py",
        "test_chain_ends.py",
        "nodes/test_identification_node.py",
        "benchmarks/test_soak.py",
        "nodes/test_recorder_node.py",
        "nodes/test_teaching.py",
        "hardware/test_cycle.py",
        "nodes/test_bus_benchmark.py",
        "nodes/test_fault_chain.py",
        "simulation/test_servo_bus.py",
        "nodes/test_payload_node.py",
        "hardware/test_state_cycle.py",
        "hardware/test_doctor.py",
        "test_docs.py",
        "identification/campaign/test_campaign.py",
        "identification/test_pipeline.py",
        "benchmarks/test_faults.py",
        "adaptive/test_session.py",
        "commands/test_own_arm.py",
        "commands/test_campaign.py",
        "test_lint.py",
        "test_kr300.py",
        "identification/test_diagnosis.py",
        "identification/elastic/test_study.py",
        "identification/joint_level/test_joint_level.py",
        "simulation/test_motor.py",
        "identification/test_many_recordings.py",
        "adaptive/test_after.py",
        "commands/test_joint_id.py",
        "benchmarks/test_control.py",
        "excitation/test_optimised.py",
        "identification/test_verdict_fooled.py",
        "contact/test_live_payload.py",
        "benchmarks/test_pipeline.py",
        "demo/test_two_arms.py",
        "commands/test_identify.py",
        "benchmarks/test_coverage.py",
        "control/test_bilateral.py",
        "control/test_servo_loads.py",
        "identification/test_long_recordings.py",
        "identification/test_setup.py",
        "test_front_door.py",
        "test_foreign_plant.py",
        "benchmarks/test_feel_bound.py",
        "test_architecture.py",
        "test_tx40.py",
        "identification/closed_loop/test_closed_loop.py",
    )
]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what an expression of markers leaves out as a whole file."""
    if config.getoption("markexpr").startswith("not real_time") and collection_path in (*ON_THE_BUS, *CHAIN):
        return True
    for marker, files in (("alone", ALONE), ("real_time", [*ON_THE_BUS, *PARTLY, *CHAIN])):
        if config.getoption("markexpr").startswith(marker) and collection_path.suffix == ".py":
            return True if collection_path not in files else None
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files; mark what runs in real time, what starts nodes, and what tests a benchmark; give reruns."""
    assert all(path.is_file() for path in (*ON_THE_BUS, *QUICK_BUS, *PARTLY, *CHAIN, *ALONE, *LONGEST))
    items.sort(key=lambda item: LONGEST.index(item.path) if item.path in LONGEST else len(LONGEST))
    for item in items:
        marked = item.get_closest_marker("real_time") is not None
        assert not marked or item.path in PARTLY, (
            f"{item.nodeid} runs in no part of ./run test: name its file in PARTLY"
        )
        if item.path in ON_THE_BUS or marked:
            item.add_marker(pytest.mark.flaky(reruns=RERUNS))
        if item.path in ON_THE_BUS or item.path in CHAIN:
            item.add_marker(pytest.mark.real_time)
        if STUDY in item.path.parents:
            item.add_marker(pytest.mark.study)
        if item.path in ALONE:
            item.add_marker(pytest.mark.alone)
        waits = item.path in ON_THE_BUS and item.path.parent.name != "nodes" and item.path not in QUICK_BUS
        if waits or item.path in CHAIN or {"group", "client"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True, scope="session")
def one_core() -> Iterator[None]:
    """Work that would be spread over all cores is done where it is: each of two processes here has a core, and a new
    one takes two seconds before it begins. What is asked for by a number of processes starts them."""
    from dynid import parallel

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "cores", lambda: 1)
        yield


@pytest.fixture(scope="session")
def made(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> "Made":
    """What several tests need and none changes, made once: `made(NAME, MAKE)` is its folder."""
    from made import Made, key_of

    cache = getattr(pytestconfig, "cache", None)  # none with `-p no:cacheprovider`
    return Made(cache.mkdir("made") if cache else tmp_path_factory.mktemp("made"), key_of())


@pytest.fixture(scope="session")
def robot() -> "Robot":
    """Return the CRANE-X7."""
    from dynid.robot import load_robot

    return load_robot("crane_x7")


@pytest.fixture
def plant(robot: "Robot") -> "IndependentAxesPlant":
    """Return axes without gravity or coupling, the simplest arm behind a servo bus."""
    from plain_bus import IndependentAxesPlant

    return IndependentAxesPlant(robot)


@pytest.fixture
def bus(robot: "Robot", plant: "IndependentAxesPlant") -> Iterator["EmulatedServoBus"]:
    """In lock-step: nothing moves but by goal-current writes."""
    from plain_bus import running_bus

    from dynid.simulation.bus.servo_bus import EmulatedServoBus

    with running_bus(EmulatedServoBus(robot, plant, lock_step=True)) as served:
        yield served


class Done(NamedTuple):
    """Exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """`dynid ARGUMENTS`, in this process: a new one takes a second or two before it does anything."""

    from dynid import cli

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["dynid", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, *capsys.readouterr())

    return run

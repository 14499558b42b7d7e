"""Time of a process from its start to an identified bag, with empty caches and with compiled kernels."""

import os
import subprocess
import sys
import time
from pathlib import Path

from dynid.codegen.cache import CACHE_VARIABLE
from dynid.errors import DataError
from dynid.identification.campaign.run import Runner
from dynid.identification.settings import load_identification
from dynid.recording.driver_recording import load_driver_recording
from dynid.robot import load_robot
from dynid.simulation.lockstep.bag_jobs import BagJob, make_bag

SEED = 1
NUMBA_VARIABLE = "NUMBA_CACHE_DIR"  # cache of the kernels that are part of the package


def fresh_process_seconds(job: BagJob, cache: Path) -> float:
    """Return the time of a new process that makes a bag and identifies from it, including its start [s].

    Args:
        job: the bag; its robot, trajectory, profile, mount and folder are passed to the process.
        cache: folder of compiled kernels; missing ones are compiled and stay there.

    Raises:
        DataError: the process failed; its last line is the reason.
    """
    code = "import sys; from benchmarks.speed.cold_start import simulate_and_identify as work; work(*sys.argv[1:])"
    words = [job.robot, job.trajectory, job.profile, job.mount or "", str(job.folder)]
    environment = {**os.environ, CACHE_VARIABLE: str(cache), NUMBA_VARIABLE: str(cache / "numba")}
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise DataError(f"a fresh process could not identify from {job.trajectory}: {reason}")
    return time.perf_counter() - begin


def simulate_and_identify(robot_name: str, trajectory: str, profile: str, mount: str, folder: str) -> None:
    """Make one bag and run the campaign's pipeline on it at the usual interval; the fresh process calls this."""
    job = BagJob(robot_name, trajectory, profile, mount or None, SEED, (), Path(folder))
    make_bag(job)
    robot = load_robot(robot_name)
    settings = load_identification(robot)
    recording = load_driver_recording(job.folder, robot)
    run = Runner(robot, settings, recording.hardware.mount).run(recording, settings.sampling_interval_s, key="cold")
    if run.clie is None:
        raise DataError(f"{run.label} was refused, so not every kernel was needed: {run.refusal}")

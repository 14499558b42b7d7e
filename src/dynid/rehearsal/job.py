"""Program that runs rehearsal jobs on one robot and prints the files of the functions that they compiled.

    python -m dynid.rehearsal.job ROBOT MOUNT JOB...

A job runs work once on dummy data, see `JOBS`. The job `model` compiles functions that are generated for the given
robot and mount.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping

from dynid.parent import end_with_parent
from dynid.rehearsal.arm import rehearse_arm
from dynid.rehearsal.compiling import DONE_PREFIX, Files
from dynid.rehearsal.identification import rehearse_identification
from dynid.rehearsal.model import rehearse_model
from dynid.rehearsal.motions import rehearse_motions
from dynid.rehearsal.recorder import rehearse_recording
from dynid.robot import Robot, load_robot
from dynid.threads import one_thread_each

Job = Callable[[Robot, str | None], None]
JOBS: Mapping[str, Job] = {
    "arm": lambda robot, mount: rehearse_arm(robot),
    "motions": rehearse_motions,
    "recording": lambda robot, mount: rehearse_recording(),
    "identification": rehearse_identification,
    "model": rehearse_model,
}


GENERATING = ("load_kernels", "load_programs", "load_loops", "SymbolicArm")  # names in modules that generate functions


def compiled_files() -> Files:
    """Return source and cache files of all numba functions that this process has compiled or loaded from the cache."""
    from numba.core.dispatcher import Dispatcher

    files = Files(set(), set())
    for module in [module for name, module in sys.modules.items() if name.startswith("dynid")]:
        values = vars(module)
        compiled = [one for one in values.values() if isinstance(one, Dispatcher) and one.overloads]
        if compiled or any(name in values for name in GENERATING):
            files.sources.add(str(module.__file__))
        for one in compiled:
            path = getattr(getattr(getattr(one, "_cache", None), "_cache_file", None), "_index_path", "")
            if os.path.exists(path):
                files.cache.add(path)
    return files


def main() -> None:
    """Run the jobs named on the command line; after each, print the files of all functions compiled so far."""
    end_with_parent(os.getppid())
    one_thread_each()
    folder, mount, *names = sys.argv[1:]
    robot = load_robot(folder)
    for name in names:
        JOBS[name](robot, mount)
        print(DONE_PREFIX + json.dumps([sorted(files) for files in compiled_files()]), flush=True)


if __name__ == "__main__":
    main()

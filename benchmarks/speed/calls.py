"""Time of a call of `Model` in a loop, and the largest difference of compiled calls from the reference."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed.c_library import CLibrary
from benchmarks.speed.known_models import LAWS, ROBOTS, known_model, random_states, reference_torques
from dynid.robot import FloatArray
from dynid.runtime.c_folder import ambiguous_torques, write_c
from dynid.runtime.c_source import CSource
from dynid.runtime.model import Model

TIMED = "crane_x7"  # eight joints
LIMITS_US = {
    "c_torques_us": 2.0,
    "controller_us": 15.0,
    "torques_us": 20.0,
    "gravity_us": 10.0,
    "inertia_matrix_us": 25.0,
}
# Largest difference from the reference, relative to the largest value or absolute if that is below 1
SAME, SAME_FLOAT = 1e-9, 1e-4
CHUNK, WARM, TIMED_CALLS = 5000, 300, 5000
LOOP_HZ = 500.0
FAST = 0.5  # smallest velocity at which the sign of friction is certain [rad/s]
C_TIMER = """#include "NAME.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define CALLS 2000
static int order(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * t.tv_sec + 1e-3 * t.tv_nsec;
}
#define MEDIAN(call) do { for (int k = 0; k < CALLS; k++) { \\
    for (int i = 0; i < AXES; i++) q[i] += 1e-4; \\
    double begin = now(); for (int r = 0; r < 10; r++) { call; } spent[k] = (now() - begin) / 10; } \\
    qsort(spent, CALLS, sizeof(double), order); printf("%.5f\\n", spent[CALLS / 2]); } while (0)
int main(void)
{
    static double spent[CALLS];
    double q[AXES], dq[AXES], ddq[AXES], tau[AXES], M[AXES * AXES];
    for (int i = 0; i < AXES; i++) { q[i] = 0.1 * i; dq[i] = 0.5 - 0.1 * i; ddq[i] = 1.0; }
    MEDIAN(NAME_inverse_dynamics(q, dq, ddq, tau));
    MEDIAN(NAME_gravity(q, tau));
    MEDIAN(NAME_inertia_matrix(q, M));
    return 0;
}
"""


def benchmark_calls(states: int, progress: Callable[[str], None] = print) -> dict[str, Any]:
    """Return median times of single calls [us], and the largest relative differences over random states.

    Args:
        states: number of states for each robot and friction law.
        progress: function that is called with the progress.
    """
    progress(f"timing the calls of {TIMED}")
    figures: dict[str, Any] = times(known_model(TIMED, "loaded"))
    figures |= c_times(known_model(TIMED, "loaded"))
    figures["states"] = states
    for robot in ROBOTS:
        for law in LAWS:
            progress(f"comparing {robot}, {law} friction")
            for kind, value in differences(known_model(robot, law), states).items():
                figures[f"difference_{kind}{robot}_{law}"] = value
    return figures


def times(model: Model) -> dict[str, float]:
    """Return median and 99th percentile of the time of one call for one state [us]."""
    q, dq, ddq = (one[0].copy() for one in random_states(model.robot.size, 1))
    controller = model.controller(LOOP_HZ)
    controller.reset(q)
    calls: dict[str, Callable[[], object]] = {
        "controller": lambda: controller.step(q, q, dq, ddq),
        "torques": lambda: model.torques(q, dq, ddq),
        "gravity": lambda: model.gravity(q),
        "inertia_matrix": lambda: model.inertia_matrix(q),
        "coriolis": lambda: model.coriolis(q, dq),
        "friction": lambda: model.friction(dq, ddq),
        "forward_dynamics": lambda: model.forward_dynamics(q, dq, ddq),
        "jacobian": lambda: model.jacobian(q),
    }
    found = {}
    for name, call in calls.items():
        spent = _spent(call)
        found[f"{name}_us"] = float(np.median(spent))
        found[f"{name}_p99_us"] = float(np.percentile(spent, 99))
    return found


def _spent(call: Callable[[], object]) -> FloatArray:
    """Return the times of `TIMED_CALLS` calls [us]."""
    out = np.empty(TIMED_CALLS)
    for k in range(-WARM, TIMED_CALLS):
        begin = time.perf_counter_ns()
        call()
        if k >= 0:
            out[k] = time.perf_counter_ns() - begin
    return out / 1000.0


def c_times(model: Model) -> dict[str, float]:
    """Return times of the exported C [us] for one state, compiled by gcc -O2; nothing where gcc is not installed."""
    if shutil.which("gcc") is None:
        return {}
    source = CSource(model, "0" * 64)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        write_c(folder, source)
        program = C_TIMER.replace("NAME", source.name).replace("AXES", str(model.robot.size))
        (folder / "timer.c").write_text(program, encoding="utf-8")
        command = ["gcc", "-std=gnu99", "-O2", f"{source.name}.c", "timer.c", "-o", "timer", "-lm"]
        subprocess.run(command, cwd=folder, check=True)
        done = subprocess.run([str(folder / "timer")], check=True, capture_output=True, text=True)
    names = ("c_torques_us", "c_gravity_us", "c_inertia_matrix_us")
    return dict(zip(names, map(float, done.stdout.split()), strict=True))


def differences(model: Model, states: int) -> dict[str, float]:
    """Return the largest differences of torques, gravity and inertia matrix from the reference, see `SAME`.

    The keys are "" for `Model`, "controller_" for the torques of a step of `Model.controller` without an error, and,
    where gcc is installed, "c_" for the exported C and "float_" for the same with `float`. States are numbers that
    `float` holds exactly. Torques of `float` are not compared where the friction law has two solutions.
    """
    n, arm = model.robot.size, model.arm()
    with tempfile.TemporaryDirectory() as work:
        libraries = {} if shutil.which("gcc") is None else {
            "c_": CLibrary(model, Path(work) / "double"),
            "float_": CLibrary(model, Path(work) / "float", single=True),
        }  # fmt: skip
        worst = dict.fromkeys(["", "controller_", *libraries], 0.0)
        for begin in range(0, states, CHUNK):
            drawn = random_states(n, min(CHUNK, states - begin), seed=begin)
            q, dq, ddq = (one.astype(np.float32).astype(np.float64) for one in drawn)
            expected = (
                reference_torques(model, q, dq, ddq),
                arm.inverse_dynamics(q, 0.0 * q, 0.0 * q, model.base),
                arm.inertia_matrix(q, model.base).reshape(len(q), -1),
            )
            given = {"": (model.torques(q, dq, ddq), model.gravity(q), model.inertia_matrix(q).reshape(len(q), -1))}
            for kind, library in libraries.items():
                given[kind] = (
                    library("inverse_dynamics", n, q, dq, ddq),
                    library("gravity", n, q),
                    library("inertia_matrix", n * n, q),
                )
            worst["controller_"] = max(worst["controller_"], controller_difference(model, q, dq, ddq))
            two = ambiguous_torques(model, q, dq, ddq)
            for kind, found in given.items():
                if kind == "float_":
                    found[0][two] = expected[0][two]
                ratios = [relative(one, other) for one, other in zip(found, expected, strict=True)]
                worst[kind] = max(worst[kind], *ratios)
    return worst


def controller_difference(model: Model, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> float:
    """Return the largest difference of steps without an error from the reference, at velocities of at least `FAST`.

    Near standstill the controller's friction changes its sign in its own, wider transition.
    """
    controller = model.controller(
        LOOP_HZ, proportional_gain_1_s2=100.0, velocity_gain_1_s=20.0, velocity_filter_s=0.01, torque_limits_nm=1e9
    )
    fast = np.copysign(np.maximum(np.abs(dq), FAST), dq)
    found = [controller.step(a, a, b, c, dq=b).copy() for a, b, c in zip(q, fast, ddq, strict=True)]
    return relative(np.array(found), reference_torques(model, q, fast, ddq))


def relative(found: FloatArray, expected: FloatArray) -> float:
    """Return the largest difference of two arrays, relative to the largest value, or absolute if that is below 1."""
    return float(np.abs(found - expected).max() / max(1.0, np.abs(expected).max()))


def missed(figures: dict[str, Any]) -> list[str]:
    """Return a sentence for each acceptance limit that figures of `benchmark_calls` miss."""
    found = [
        f"{name.removesuffix('_us')} takes {figures[name]:.3g} us, required at most {limit:g} us"
        for name, limit in LIMITS_US.items()
        if name in figures and not figures[name] <= limit
    ]
    for name, value in figures.items():
        limit = SAME_FLOAT if name.startswith("difference_float_") else SAME
        if name.startswith("difference_") and not value <= limit:
            found.append(f"{name.removeprefix('difference_')} differs by {value:.3g}, required at most {limit:g}")
    return found

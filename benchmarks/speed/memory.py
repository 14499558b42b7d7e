"""Memory and time of the identification of a long CSV recording, in a process of its own."""

import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.resident import run_measured
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_nominal
from dynid.resources import yaml_text
from dynid.robot import Robot

RATE_HZ, PIECE, TERMS, NOISE_NM, COULOMB_NM = 1000.0, 20_000, 4, 0.02, 0.05
MOST_MIB = 2048


def write_recording(robot: Robot, file: Path, rows: int, seed: int = 0) -> Path:
    """Write a CSV recording of sums of sines with nominal torques, dry friction and noise, and its mapping."""
    model, rng, n = ArmModel.of(robot), np.random.default_rng(seed), robot.size
    phi = model.base_parameters(load_nominal(robot, model.mdh, model.regrouping.standard)).values
    middle, half = 0.5 * (robot.lower + robot.upper), 0.45 * (robot.upper - robot.lower)
    amplitude = rng.dirichlet(np.ones(TERMS), n) * half[:, None]
    omega, phase = 2.0 * np.pi * rng.uniform(0.05, 0.35, (n, TERMS)), rng.uniform(0.0, 2.0 * np.pi, (n, TERMS))
    names = {kind: [f"{kind}{j + 1}" for j in range(n)] for kind in ("q", "tau")}
    with file.open("w", encoding="utf-8") as stream:
        stream.write(",".join(["t", *names["q"], *names["tau"]]) + "\n")
        for first in range(0, rows, PIECE):
            t = np.arange(first, min(first + PIECE, rows)) / RATE_HZ
            angle = omega * t[:, None, None] + phase
            q, dq, ddq = (
                (shape * amplitude * omega**k).sum(axis=-1)
                for k, shape in enumerate((np.sin(angle), np.cos(angle), -np.sin(angle)))
            )
            tau = model.regressor(middle + q, dq, ddq) @ phi + COULOMB_NM * np.sign(dq)
            tau += NOISE_NM * rng.standard_normal(tau.shape)
            np.savetxt(stream, np.c_[t, middle + q, tau], fmt="%.6f", delimiter=",")
    mapping = file.with_suffix(".yaml")
    content = {"schema_version": 1, "time": {"column": "t", "unit": "s"}}
    groups = {"position": {"columns": names["q"], "unit": "rad"}, "torque": {"columns": names["tau"], "unit": "N m"}}
    mapping.write_text(yaml_text(content | groups), encoding="utf-8")
    return mapping


def measure(robot: str, file: Path, mapping: Path, out: Path) -> dict[str, float | bool]:
    """Return peak resident memory [MiB], time [s] and exit code of `dynid identify` in a separate process."""
    words = ["identify", str(file), "--mapping", str(mapping), "--robot", robot, "--hold-out", "0.3", "--out", str(out)]
    begin = time.monotonic()
    code, peak = run_measured([sys.executable, "-m", "dynid", *words, "--quiet"])
    return {"peak_mib": peak, "seconds": time.monotonic() - begin, "accepted": code == 0, "exit_code": code}

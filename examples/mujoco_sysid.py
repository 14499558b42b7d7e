"""Start MuJoCo's system identification from a result of dynid: python examples/mujoco_sysid.py RESULT BAG

Armature, damping and frictionloss of every joint start at the values of the result's model.xml, within the intervals
that dynid states for them; link inertias are in the dictionary too, frozen at their values. It needs mujoco[sysid].
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from mujoco import sysid

import dynid

WINDOW_S, STEP_S, VELOCITY_S = 0.25, 0.002, 0.1
PREFIX = {"armature": "IA", "damping": "FV", "frictionloss": "FC"}
NARROWEST = 1e-4


def drive_modifier(name: str, field: str) -> Callable[[Any, Any], None]:
    """Return what writes one figure of a joint into a spec."""

    def change(spec: Any, parameter: Any) -> None:
        old, value = np.atleast_1d(getattr(spec.joint(name), field)), float(parameter.value[0])
        setattr(spec.joint(name), field, value if old.size == 1 else np.r_[value, np.zeros(old.size - 1)])

    return change


def inertia_modifier(body: str) -> Callable[[Any, Any], None]:
    """Return what writes mass, centre of mass and inertia about it (10,) into a body of a spec."""

    def change(spec: Any, parameter: Any) -> None:
        one = spec.body(body)
        one.mass, one.ipos, one.iquat = float(parameter.value[0]), parameter.value[1:4], (1.0, 0.0, 0.0, 0.0)
        one.fullinertia, one.explicitinertial = parameter.value[4:], True

    return change


def parameters(model: dynid.Model, plant: mujoco.MjModel) -> sysid.ParameterDict:
    """Return a result as the dictionary of mujoco.sysid, dynid's 95 % intervals being the bounds.

    What has no interval of its own, such as a rotor's inertia that adds to a link's, is frozen.
    """
    intervals, found = model.intervals(0.95), sysid.ParameterDict()
    for axis, name in enumerate(model.robot.joint_names):
        dof = int(plant.joint(name).dofadr[0])
        for field, prefix in PREFIX.items():
            value = float(np.atleast_1d(getattr(plant, f"dof_{field}")[dof])[0])
            low, high = intervals.get(f"{prefix}{axis + 1}", (0.0, 0.0))
            half = max(0.5 * (high - low), NARROWEST)
            bounds = max(value - half, 0.0), value + half
            frozen = f"{prefix}{axis + 1}" not in intervals
            change = drive_modifier(name, field)
            found.add(sysid.Parameter(f"{name}_{field}", value, *bounds, frozen=frozen, modifier=change))
    for name in model.robot.joint_names[: model.robot.chain_size]:
        number = int(plant.jnt_bodyid[plant.joint(name).id])
        axes = np.zeros(9)
        mujoco.mju_quat2Mat(axes, plant.body_iquat[number])
        about = axes.reshape(3, 3) @ np.diag(plant.body_inertia[number]) @ axes.reshape(3, 3).T
        value = np.r_[plant.body_mass[number], plant.body_ipos[number], about[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]]
        change = inertia_modifier(plant.body(number).name)
        width = 0.1 * np.abs(value) + NARROWEST
        found.add(sysid.Parameter(f"{name}_inertia", value, value - width, value + width, frozen=True, modifier=change))
    return found


def spec_of(result: Path, joints: tuple[str, ...]) -> mujoco.MjSpec:
    """Return the result's model.xml with sensors of all joints."""
    spec = mujoco.MjSpec.from_file(str(result / "model.xml"))
    spec.option.timestep, spec.option.integrator = STEP_S, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for name in joints:
        for kind, sensor in (("q", mujoco.mjtSensor.mjSENS_JOINTPOS), ("dq", mujoco.mjtSensor.mjSENS_JOINTVEL)):
            spec.add_sensor(name=f"{kind}_{name}", type=sensor, objtype=mujoco.mjtObj.mjOBJ_JOINT, objname=name)
    return spec


def sequences(spec: mujoco.MjSpec, recording: Any, count: int) -> sysid.ModelSequences:
    """Return windows of a recording that begin at measured states."""
    plant, steps = spec.compile(), round(WINDOW_S / STEP_S)
    for one in range(plant.nu):  # the recording's torques are what they are
        spec.actuators[one].ctrllimited = False
    names, begins, controls, sensors = [], [], [], []
    margin = 0.1 * (recording.time[-1] - recording.time[0])
    for start in np.linspace(recording.time[0] + margin, recording.time[-1] - margin - WINDOW_S, count):
        grid = STEP_S * np.arange(steps + 1)
        q, dq, tau = (
            np.column_stack([np.interp(start + grid, recording.time, column) for column in values.T])
            for values in (recording.q, recording.dq, recording.tau)
        )
        begins.append(sysid.create_initial_state(plant, q[0], dq[0]))
        controls.append(sysid.TimeSeries.from_control_names(grid, tau, plant))
        seen = np.stack([q, dq], axis=2).reshape(len(grid), -1)  # the sensors of a joint lie beside each other
        sensors.append(sysid.TimeSeries.from_names(grid, seen, plant))
        names.append(f"window {len(names)}")
    return sysid.ModelSequences("arm", spec, names, begins, controls, sensors)


def difference(_: Any, predicted: Any, measured: Any, *rest: Any, **more: Any) -> Any:
    """Return predicted minus measured states; the default divides by a norm that is zero where a joint rests."""
    weight = np.tile([1.0, VELOCITY_S], measured.data.shape[1] // 2)
    rows = min(len(predicted.data), len(measured.data) - 1)
    return (predicted.data[:rows] - measured.data[1 : rows + 1]) * weight, predicted, measured


def main() -> None:
    """Optimise what the recording is said to determine, and print what changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path, help="result folder that identify wrote")
    parser.add_argument("bag", type=Path, help="recorded motion")
    parser.add_argument("--windows", type=int, default=20, help="windows of 0.25 s (20)")
    parser.add_argument("--iterations", type=int, default=5, help="most iterations of the optimiser (5)")
    arguments = parser.parse_args()

    model = dynid.load_model(arguments.result)
    spec = spec_of(arguments.result, model.robot.joint_names)
    unknown = parameters(model, spec.compile())
    recording = dynid.load_recording(arguments.bag, model.robot)
    residual = sysid.build_residual_fn(
        models_sequences=[sequences(spec, recording, arguments.windows)],
        modify_residual=difference,
        resample_true=False,
    )
    start = unknown.as_vector()
    before = np.concatenate(residual(start, unknown)[0])
    found, outcome = sysid.optimize(unknown, residual, max_iters=arguments.iterations, verbose=False)
    after = np.concatenate(residual(outcome.x, found.copy())[0])
    free = [one for one in found.values() if not one.frozen]
    for one, first in zip(free, start, strict=True):
        low, high = float(one.min_value[0]), float(one.max_value[0])
        print(f"{one.name}: {first:.4g} -> {float(one.value[0]):.4g}, within {low:.4g} to {high:.4g}")
    print(f"{len(free)} free, {len(found) - len(free)} frozen; cost {before @ before:.5g} -> {after @ after:.5g}")


if __name__ == "__main__":
    main()

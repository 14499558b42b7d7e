"""MuJoCo's own system identification: rollouts of short windows, pseudo-inertia, armature, damping, frictionloss."""

import time
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
from mujoco import sysid
from mujoco.sysid._src.model_modifier import pi_from_theta, theta_from_pseudoinertia

from benchmarks.peers.exchange import Array, Found, Given
from benchmarks.peers.rows import filtered

STEP_S, WINDOW_S, LEFT_S = 0.002, 0.25, 15.0
PULL = 0.02  # weight of a parameter's distance from the URDF, in half-widths of its bounds
VELOCITY_S = 0.1  # weight of velocities against positions [s]
ITERATIONS = 40
REMEMBERED = 300  # number of cached models, more than a Jacobian needs
THETA = np.array([0.7, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.1, 0.1, 0.1])  # half-widths of log-Cholesky bounds
DRIVES = {"armature": (0.01, 1e-4, 0.1), "damping": (0.1, 0.0, 2.0), "frictionloss": (0.1, 0.0, 2.0)}


class Late(Exception):
    """Error for an exceeded time limit."""


def plant(given: Given) -> mujoco.MjSpec:
    """Return the URDF as a model with a motor and sensors at every joint."""
    spec = mujoco.MjSpec.from_string(given.urdf.read_text(encoding="utf-8"))
    spec.option.timestep, spec.option.gravity = STEP_S, given.gravity
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    for element in [*spec.geoms]:
        spec.delete(element)
    for name in given.joints:
        spec.joint(name).actfrclimited = False
        spec.add_actuator(name=name, trntype=mujoco.mjtTrn.mjTRN_JOINT, target=name)
        for kind, sensor in (("q", mujoco.mjtSensor.mjSENS_JOINTPOS), ("dq", mujoco.mjtSensor.mjSENS_JOINTVEL)):
            spec.add_sensor(name=f"{kind}_{name}", type=sensor, objtype=mujoco.mjtObj.mjOBJ_JOINT, objname=name)
    return spec


def pseudo(mass: float, centre: Array, about_centre: Array) -> Array:
    """Return the pseudo-inertia (4, 4) of a body about its own frame."""
    second = 0.5 * np.trace(about_centre) * np.eye(3) - about_centre + mass * np.outer(centre, centre)
    return np.block([[second, mass * centre[:, None]], [mass * centre[None], np.array([[mass]])]])


def set_body(body: Any, theta: Array) -> None:
    """Write a body's inertia; sysid's own modifier leaves a quaternion of NaN, which several bodies do not survive."""
    pi = pi_from_theta(theta)
    mass, centre = float(pi[0]), pi[1:4] / pi[0]
    about = pi[4:].reshape(3, 3) - mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    body.mass, body.ipos, body.iquat = mass, centre, (1.0, 0.0, 0.0, 0.0)
    body.fullinertia = (about[0, 0], about[1, 1], about[2, 2], about[0, 1], about[0, 2], about[1, 2])
    body.inertia, body.explicitinertial = (0.0, 0.0, 0.0), True


def parameters(given: Given, spec: mujoco.MjSpec) -> sysid.ParameterDict:
    """Return all unknowns at the URDF's values, with bounds around them."""
    model, found = spec.compile(), sysid.ParameterDict()
    for name in given.joints:
        number = int(model.jnt_bodyid[model.joint(name).id])
        axes = np.zeros(9)
        mujoco.mju_quat2Mat(axes, model.body_iquat[number])
        turned = axes.reshape(3, 3)
        about = turned @ np.diag(model.body_inertia[number]) @ turned.T
        theta = theta_from_pseudoinertia(pseudo(float(model.body_mass[number]), model.body_ipos[number], about))
        body = model.body(number).name

        def change(spec: Any, one: Any, body: str = body) -> None:
            set_body(spec.body(body), one.value)

        found.add(sysid.Parameter(f"{name}_inertia", theta, theta - THETA, theta + THETA, modifier=change))
        for kind, (start, low, high) in DRIVES.items():
            found.add(sysid.Parameter(f"{name}_{kind}", start, low, high, modifier=drive_modifier(name, kind)))
    return found


def drive_modifier(name: str, kind: str) -> Callable[[Any, Any], None]:
    """Return a function that writes one drive parameter of a joint into a model."""

    def change(spec: Any, one: Any) -> None:
        value = float(one.value[0])
        old = np.atleast_1d(getattr(spec.joint(name), kind))
        setattr(spec.joint(name), kind, value if old.size == 1 else np.r_[value, np.zeros(old.size - 1)])

    return change


def windows(given: Given, spec: mujoco.MjSpec) -> sysid.ModelSequences:
    """Return windows of the recording that begin at filtered states, all over its length, `LEFT_S` together."""
    model, n = spec.compile(), len(given.joints)
    q = filtered(given, given.q)
    dq = np.gradient(q, given.step_s, axis=0)
    count = round(WINDOW_S / STEP_S)
    starts = np.linspace(given.time[0] + 0.5, given.time[-1] - 0.5 - WINDOW_S, round(LEFT_S / WINDOW_S))
    names, begins, controls, sensors = [], [], [], []
    for k, start in enumerate(starts):
        grid = np.arange(count + 1) * STEP_S

        def at(values: Array, when: Array = grid + start) -> Array:
            return np.column_stack([np.interp(when, given.time, values[:, j]) for j in range(n)])

        begins.append(sysid.create_initial_state(model, at(q)[0], at(dq)[0]))
        controls.append(sysid.TimeSeries.from_control_names(grid, at(given.tau), model))
        seen = np.stack([at(q), at(dq)], axis=2).reshape(len(grid), 2 * n)  # sensors of a joint lie beside each other
        sensors.append(sysid.TimeSeries.from_names(grid, seen, model))
        names.append(f"window {k}")
    return sysid.ModelSequences("arm", spec, names, begins, controls, sensors)


def compiled_once() -> Callable[[Any, Any], mujoco.MjModel]:
    """Return a cached function that compiles a model from parameters; sysid requests the same ones in every window."""
    known: dict[bytes, mujoco.MjModel] = {}

    def build(params: Any, spec: Any) -> mujoco.MjModel:
        key = params.as_vector().tobytes()
        if key not in known:
            if len(known) > REMEMBERED:
                known.clear()
            known[key] = sysid.apply_param_modifiers(params, spec)
        return known[key]

    return build


def identify(given: Given) -> Found:
    """Return the best parameters within the time; the note says if it ran out."""
    spec = plant(given)
    unknown, sequences = parameters(given, spec), windows(given, spec)
    low, high = unknown.get_bounds()
    start, half = unknown.as_vector(), 0.5 * (high - low)
    n, until, best = len(given.joints), time.process_time() + 0.85 * given.seconds, [np.inf, start]
    weight = np.tile([1.0, VELOCITY_S], n)

    def difference(params: Any, predicted: Any, measured: Any, *_: Any, **__: Any) -> Any:
        """Return plain differences; the default divides by a window's norm, which is zero for a joint at rest."""
        rows = min(len(predicted.data), len(measured.data) - 1)
        return (predicted.data[:rows] - measured.data[1 : rows + 1]) * weight, predicted, measured

    inner = sysid.build_residual_fn(
        models_sequences=[sequences],
        build_model=compiled_once(),
        modify_residual=difference,
        resample_true=False,
        n_threads=1,
    )

    def residual(x: Array, params: Any) -> Any:
        if time.process_time() > until:
            raise Late
        found, predicted, measured = inner(x, params)
        columns = np.asarray(x).reshape(len(start), -1)
        pull = PULL * (columns - start[:, None]) / half[:, None]
        whole = [*found, pull.ravel() if np.ndim(x) == 1 else pull]
        if np.ndim(x) == 1 or columns.shape[1] == 1:
            cost = float(sum(np.sum(np.square(one)) for one in whole))
            if cost < best[0]:
                best[:] = [cost, columns[:, 0].copy()]
        return whole, predicted, measured

    note = ""
    try:
        sysid.optimize(unknown, residual, optimizer="mujoco", verbose=False, max_iters=ITERATIONS)
    except Late:
        note = f"stopped after {0.85 * given.seconds:.0f} s of processor time, at the best so far"
    unknown.update_from_vector(np.asarray(best[1]))
    return result(given, unknown, note)


def result(given: Given, unknown: sysid.ParameterDict, note: str) -> Found:
    """Return the unknowns in pinocchio's order."""
    links, drives = [], np.zeros((3, len(given.joints)))
    for k, name in enumerate(given.joints):
        pi = pi_from_theta(unknown[f"{name}_inertia"].value)
        about = pi[4:].reshape(3, 3)
        links.append([*pi[:4], *about[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])
        drives[:, k] = [unknown[f"{name}_{kind}"].value[0] for kind in DRIVES]
    return Found(np.array(links), drives[0], drives[1], drives[2], np.zeros(len(links)), note)

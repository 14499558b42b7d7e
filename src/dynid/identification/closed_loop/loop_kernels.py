"""Inner loops of the closed-loop simulation, which divide a motion into LANES segments and simulate them in parallel.

The functions of this module are not called directly. `dynid.codegen.kernels` copies their source into a generated
module, in which sizes are constants. A lane is one of the LANES parallel simulations; arrays of shape (n, LANES) have
one simulation per column. `k` is the number of a control cycle. `forward` is the address of a compiled program of the
arm, which computes accelerations and the smallest pivot of the inertia matrix M from q, dq, tau and phi. Explicit loops
are used because numba compiles numpy's array expressions much more slowly.
"""

from typing import Any

import numpy as np

from dynid.codegen.emit import RANGE
from dynid.codegen.vector_ir import LANES, run_program

CHAIN = AXES = 0  # sizes of the arm; replaced by constants in every generated module
COMPLETED, INDEFINITE, OUT_OF_RANGE = 0, 1, 2
CHECK_CYCLES = 8


def accelerate(forward: int, q: Any, dq: Any, tau: Any, phi: Any, ddq: Any, pivot: Any, indefinite: Any) -> None:
    """Compute the accelerations of LANES parallel simulations, and count evaluations with an indefinite inertia matrix.

    Args:
        forward: function pointer (address) of the compiled forward dynamics of the arm.
        q: positions, (n, LANES) [rad].
        dq: velocities, (n, LANES) [rad/s].
        tau: joint torques, (n, LANES) [N m].
        phi: base parameters, (p,) [SI].
        ddq: output, accelerations, (n, LANES) [rad/s^2].
        pivot: output, smallest pivot of M, (1, LANES).
        indefinite: number of evaluations with an indefinite M in each simulation, (LANES,); updated in place.
    """
    run_program(forward, (q, dq, tau, phi, ddq, pivot))
    for lane in range(LANES):
        indefinite[lane] += 0 if pivot[0, lane] > 0.0 else 1


def moved(start: Any, step: float, slope: Any, end: Any) -> None:
    """Compute end = start + step * slope for LANES parallel simulations, one per column.

    Args:
        start: values at the start, (n, LANES), any unit.
        step: length of the step.
        slope: change per unit of the step, (n, LANES).
        end: output, (n, LANES).
    """
    for i in range(AXES):
        for lane in range(LANES):
            end[i, lane] = start[i, lane] + step * slope[i, lane]


def runge_kutta(
    forward: int, q: Any, dq: Any, tau: Any, phi: Any, h: float, work: Any, pivot: Any, indefinite: Any
) -> None:
    """Advance LANES parallel simulations in place by one step of the classical fourth-order Runge-Kutta method.

    The torque is constant during the step.

    Args:
        forward: function pointer (address) of the compiled forward dynamics of the arm.
        q: positions, (n, LANES) [rad].
        dq: velocities, (n, LANES) [rad/s].
        tau: joint torques, (n, LANES) [N m].
        phi: base parameters, (p,) [SI].
        h: step [s].
        work: scratch memory, (6, n, LANES) [SI].
        pivot: output, smallest pivot of the inertia matrix M, (1, LANES).
        indefinite: number of evaluations with an indefinite M in each simulation, (LANES,); updated in place.
    """
    qs, vs, a1, a2, a3, a4 = work[0], work[1], work[2], work[3], work[4], work[5]
    accelerate(forward, q, dq, tau, phi, a1, pivot, indefinite)
    moved(q, 0.5 * h, dq, qs)
    moved(dq, 0.5 * h, a1, vs)
    accelerate(forward, qs, vs, tau, phi, a2, pivot, indefinite)
    moved(q, 0.5 * h, vs, qs)
    moved(dq, 0.5 * h, a2, vs)
    accelerate(forward, qs, vs, tau, phi, a3, pivot, indefinite)
    moved(q, h, vs, qs)
    moved(dq, h, a3, vs)
    accelerate(forward, qs, vs, tau, phi, a4, pivot, indefinite)
    for i in range(AXES):
        for lane in range(LANES):
            first = a1[i, lane] + a2[i, lane] + a3[i, lane]
            q[i, lane] += h * dq[i, lane] + h * h / 6.0 * first
            dq[i, lane] += h / 6.0 * (first + a2[i, lane] + a3[i, lane] + a4[i, lane])


def trapezoid(
    forward: int, q: Any, dq: Any, tau: Any, phi: Any, h: float, work: Any, pivot: Any, indefinite: Any
) -> None:
    """Advance LANES parallel simulations in place by one step of the explicit trapezoidal rule.

    The torque is constant during the step.

    Args:
        forward: function pointer (address) of the compiled forward dynamics of the arm.
        q: positions, (n, LANES) [rad].
        dq: velocities, (n, LANES) [rad/s].
        tau: joint torques, (n, LANES) [N m].
        phi: base parameters, (p,) [SI].
        h: step [s].
        work: scratch memory, (6, n, LANES) [SI].
        pivot: output, smallest pivot of the inertia matrix M, (1, LANES).
        indefinite: number of evaluations with an indefinite M in each simulation, (LANES,); updated in place.
    """
    qs, vs, a1, a2 = work[0], work[1], work[2], work[3]
    accelerate(forward, q, dq, tau, phi, a1, pivot, indefinite)
    moved(q, h, dq, qs)
    moved(dq, h, a1, vs)
    accelerate(forward, qs, vs, tau, phi, a2, pivot, indefinite)
    for i in range(AXES):
        for lane in range(LANES):
            q[i, lane] += 0.5 * h * (dq[i, lane] + vs[i, lane])
            dq[i, lane] += 0.5 * h * (a1[i, lane] + a2[i, lane])


def first_failure(q: Any, indefinite: Any) -> int:
    """Return the outcome of LANES parallel simulations: COMPLETED, or why the first one in order of lanes failed.

    A simulation fails with INDEFINITE if the inertia matrix M was not positive definite, and with OUT_OF_RANGE if a
    position is NaN or too large. The limit of |position| is RANGE (3.5 rad) for the joints of the kinematic chain, and
    1000 rad for the decoupled axes, such as a gripper, which follow them in `q`.

    Args:
        q: positions, joints of the chain first, (n, LANES) [rad].
        indefinite: number of evaluations with an indefinite M in each simulation, (LANES,).
    """
    for lane in range(LANES):
        if indefinite[lane] > 0:
            return INDEFINITE
        for i in range(AXES):
            if not (abs(q[i, lane]) <= RANGE or (i >= CHAIN and abs(q[i, lane]) < 1e3)):
                return OUT_OF_RANGE
    return COMPLETED


def start_lane(lane: int, start: Any, drive: Any, row: int, law: Any, step: float, state: Any, pending: Any) -> None:
    """Initialise one of LANES parallel simulations, as if the arm had moved at constant velocity before.

    The filtered velocity is set to the velocity dq, and all pending commands to the command for the given state.

    Args:
        lane: index of the simulation.
        start: q and dq, (2, n) [rad, rad/s].
        drive: part of the PD command that depends on the reference alone (the command for q = dq = 0), in every cycle,
            (K + 1, n) [N m].
        row: row of `drive` for this control cycle.
        law: stiffness and damping gains of the PD law, (2, n) [SI].
        step: cycle time [s].
        state: q, dq, last q and filtered velocity of all simulations, (4, n, LANES).
        pending: commands of the last `late` + 1 cycles, (late + 1, n, LANES) [N m], where `late` is the delay of
            commands in cycles. The oldest command comes first and acts now.
    """
    for i in range(AXES):
        q, dq = start[0, i], start[1, i]
        state[0, i, lane], state[1, i, lane], state[2, i, lane], state[3, i, lane] = q, dq, q - step * dq, dq
        for late in range(len(pending)):
            pending[late, i, lane] = drive[row, i] - law[0, i] * q - law[1, i] * dq


def enter_cycle(
    s: int,
    k: Any,
    starts: Any,
    initial: Any,
    drive: Any,
    external: Any,
    law: Any,
    step: float,
    state: Any,
    pending: Any,
    now: Any,
    load: Any,
) -> None:
    """Look up the command part that depends on the reference, and the joint load, for LANES parallel simulations.

    Each simulation computes one segment of the motion, after a warm-up: cycles before the segment in which the effect
    of the unknown initial state decays. The states of the simulations are initialised at the start of the warm-up, and
    once more at control cycle 0 if `initial` is given.

    Args:
        s: number of cycles since the start of the warm-up.
        k: present control cycle of each simulation, (LANES,); negative before the motion.
        starts: q and dq at which the warm-up of each simulation starts, (LANES, 2, n) [rad, rad/s].
        initial: q and dq at cycle 0, (2, n) [rad, rad/s], or (0, n) if they are not given.
        drive: part of the PD command that depends on the reference alone (the command for q = dq = 0), in every cycle,
            (K + 1, n) [N m]; the last row is for rest before the motion.
        external: torque on the joints in addition to the command, (K + 1, n) [N m]; the last row is for rest before
            the motion.
        law: stiffness and damping gains of the PD law, (2, n) [SI].
        step: cycle time [s].
        state: q, dq, last q and filtered velocity of all simulations, (4, n, LANES).
        pending: commands of the last `late` + 1 cycles, (late + 1, n, LANES) [N m], where `late` is the delay of
            commands in cycles. The oldest command comes first and acts now.
        now: output, rows of `drive` at the present cycles, (n, LANES) [N m].
        load: output, rows of `external` at the present cycles, (n, LANES) [N m].
    """
    last = len(drive) - 1
    for lane in range(LANES):
        row = min(k[lane], last - 1) if k[lane] >= 0 else last
        if s == 0:
            start_lane(lane, starts[lane], drive, row, law, step, state, pending)
        if k[lane] == 0 and len(initial):
            start_lane(lane, initial, drive, row, law, step, state, pending)
        for i in range(AXES):
            now[i, lane], load[i, lane] = drive[row, i], external[row, i]


def keep_lanes(k: Any, own: bool, state: Any, command: Any, motion: Any, overlap: Any) -> None:
    """Store q, dq and command of LANES parallel simulations at their present control cycles.

    Each simulation computes one segment of the motion and an extra cycle, which belongs to the next segment. For the
    extra cycle, only the command is stored, in `overlap`, to compare neighbouring segments.

    Args:
        k: present control cycle of each simulation, (LANES,).
        own: True if the cycles belong to the segments of the simulations; False for the extra cycle.
        state: q, dq, last q and filtered velocity, (4, n, LANES).
        command: newest command, (n, LANES) [N m].
        motion: output, q, dq and command at every cycle, (3, K, n) [SI].
        overlap: output, command of each simulation at the first cycle of the next segment, (LANES, n) [N m].
    """
    for lane in range(LANES):
        row = k[lane]
        if row < motion.shape[1]:
            for i in range(AXES):
                if own:
                    motion[0, row, i], motion[1, row, i] = state[0, i, lane], state[1, i, lane]
                    motion[2, row, i] = command[i, lane]
                else:
                    overlap[lane, i] = command[i, lane]


def command_lanes(state: Any, drive: Any, law: Any, decay: float, step: float, pending: Any) -> None:
    """Compute the newest command of LANES parallel simulations by the FF+PD law (arXiv:2605.15949, eq. 2).

    The law uses the pseudo-differentiated position as velocity. The command is appended to `pending`, and the oldest
    pending command is removed.

    Args:
        state: q, dq, last q and filtered velocity, (4, n, LANES); the last two are updated.
        drive: part of the PD command that depends on the reference alone (the command for q = dq = 0), (n, LANES)
            [N m].
        law: stiffness and damping gains of the PD law, (2, n) [SI].
        decay: factor by which the filtered velocity decays in one cycle, in the pseudo-differentiation [-].
        step: cycle time [s].
        pending: commands of the last `late` + 1 cycles, (late + 1, n, LANES) [N m], where `late` is the delay of
            commands in cycles. The oldest command comes first and acts now.
    """
    for late in range(len(pending) - 1):
        for i in range(AXES):
            for lane in range(LANES):
                pending[late, i, lane] = pending[late + 1, i, lane]
    gain = (1.0 - decay) / step
    for i in range(AXES):
        for lane in range(LANES):
            state[3, i, lane] = decay * state[3, i, lane] + gain * (state[0, i, lane] - state[2, i, lane])
            state[2, i, lane] = state[0, i, lane]
            torque = drive[i, lane] - law[0, i] * state[0, i, lane] - law[1, i] * state[3, i, lane]
            pending[len(pending) - 1, i, lane] = torque


def simulate_lanes(
    forward: int,
    drive: Any,
    external: Any,
    starts: Any,
    law: Any,
    decay: float,
    step: float,
    late: int,
    phi: Any,
    initial: Any,
    warm_up: int,
    substeps: int,
    fourth_order: bool,
    motion: Any,
    overlap: Any,
) -> tuple[int, int]:
    """Simulate a motion of K control cycles, divided in time into LANES segments that are simulated in parallel.

    The simulation of each segment begins with a warm-up before the segment.

    Args:
        forward: function pointer (address) of the compiled forward dynamics of the arm.
        drive: part of the PD command that depends on the reference alone (the command for q = dq = 0), in every cycle,
            (K + 1, n) [N m]; the last row is for an arm at rest at the first reference.
        external: torque on the joints in addition to the command in every cycle, (K + 1, n) [N m]; the last row is for
            rest.
        starts: q and dq at which the warm-up of each simulation starts, (LANES, 2, n) [rad, rad/s].
        law: stiffness and damping gains of the PD law, (2, n) [SI].
        decay: factor by which the filtered velocity decays in one cycle, in the pseudo-differentiation [-].
        step: cycle time [s].
        late: cycles from a measured state to the cycle in which the command computed from it acts.
        phi: base parameters, (p,) [SI].
        initial: q and dq at cycle 0, (2, n) [rad, rad/s], or (0, n) for an arm that has settled at the first reference.
        warm_up: number of cycles that are simulated before each segment, so that the unknown state at the start has no
            effect on the segment.
        substeps: integration steps per cycle.
        fourth_order: True uses the Runge-Kutta method, False the trapezoidal rule.
        motion: output, q, dq and command at every cycle, (3, K, n) [SI].
        overlap: output, command of each simulation at the first cycle of the next segment, (LANES, n) [N m].

    Returns:
        The outcome (COMPLETED, INDEFINITE or OUT_OF_RANGE), and the number of cycles completed by each simulation,
        including the warm-up.
    """
    length = (motion.shape[1] + LANES - 1) // LANES
    state, pending = np.zeros((4, AXES, LANES)), np.zeros((late + 1, AXES, LANES))  # q, dq, last q, velocity
    work, pivot, indefinite = np.empty((6, AXES, LANES)), np.empty((1, LANES)), np.zeros(LANES, np.int64)
    now, load, tau = np.empty((AXES, LANES)), np.empty((AXES, LANES)), np.empty((AXES, LANES))
    q, dq, applied, latest = state[0], state[1], pending[0], pending[late]
    for s in range(warm_up + length + 1):
        k = np.arange(LANES) * length - warm_up + s
        enter_cycle(s, k, starts, initial, drive, external, law, step, state, pending, now, load)
        command_lanes(state, now, law, decay, step, pending)
        moved(applied, 1.0, load, tau)
        if s >= warm_up:
            keep_lanes(k, s < warm_up + length, state, latest, motion, overlap)
        for _ in range(substeps):
            if fourth_order:
                runge_kutta(forward, q, dq, tau, phi, step / substeps, work, pivot, indefinite)
            else:
                trapezoid(forward, q, dq, tau, phi, step / substeps, work, pivot, indefinite)
        if s % CHECK_CYCLES == 0 or s == warm_up + length:
            failure = first_failure(q, indefinite)
            if failure != COMPLETED:
                return failure, s
    return COMPLETED, warm_up + length


def weigh_samples(signal: Any, first: Any, which: Any, weights: Any, samples: Any) -> None:
    """Compute samples as weighted sums of a signal: sum over j of weights[which[s], j] signal[first[s] + j].

    Args:
        signal: signal at every control cycle, (K, n), any unit.
        first: first cycle of each sample, (S,).
        which: row of `weights` that each sample uses, (S,).
        weights: weights of successive cycles, (rows, taps).
        samples: output, (S, n).
    """
    taps = weights.shape[1]
    for s in range(len(first)):
        for i in range(AXES):
            samples[s, i] = 0.0
        row, begin, j = which[s], first[s], 0
        while j + 4 <= taps and begin + j + 4 <= len(signal):  # four at a time: fewer loads and stores of the sum
            k = begin + j
            a, b, c, d = weights[row, j], weights[row, j + 1], weights[row, j + 2], weights[row, j + 3]
            for i in range(AXES):
                late = c * signal[k + 2, i] + d * signal[k + 3, i]
                samples[s, i] += a * signal[k, i] + b * signal[k + 1, i] + late
            j += 4
        while j < taps and begin + j < len(signal):
            for i in range(AXES):
                samples[s, i] += weights[row, j] * signal[begin + j, i]
            j += 1

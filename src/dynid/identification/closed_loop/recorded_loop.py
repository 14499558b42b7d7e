"""Extraction of closed-loop data from a recording: control gains, reference, commanded torques, and delay."""

import math
from pathlib import Path
from typing import NoReturn

import numpy as np

from dynid.control.controller import ControllerSettings
from dynid.errors import DataError
from dynid.identification.closed_loop.friction_history import KnownFriction
from dynid.identification.closed_loop.loop_data import ClosedLoopData
from dynid.identification.closed_loop.row_weights import loop_weights
from dynid.identification.closed_loop.sampling import impulse_response
from dynid.identification.data.preprocessing import LowPass, central_differences
from dynid.identification.data.signals import interpolate
from dynid.identification.settings import IdentificationSettings
from dynid.recording.driver_recording import DriverRecording
from dynid.recording.topics import EXPERIMENT
from dynid.robot import FloatArray, Robot

LEAD_S = 2.0  # duration of the reference before the first sample [s], longer than transients of the loop
CONTROLLER = "ff_pd"
MOST_COMMANDS = 6  # largest number of commands that a written torque is compared with
LARGEST_MISFIT = 0.1  # largest mean difference of written and commanded torques, over the variation of the commands


def refuse_open_loop(recording: DriverRecording) -> None:
    """Raise DataError if a recording lacks the data of its closed loop: reference, commands, applied torques and gains.

    The message names the missing content and the remedy.
    """
    topics = {
        "reference": recording.reference,
        "joint_commands": recording.commands,
        "applied_commands": recording.applied,
        EXPERIMENT: recording.experiment,
    }
    lacking = [name for name, content in topics.items() if content is None]
    if lacking:
        refuse_open(recording.source, f"{'topic' if len(lacking) == 1 else 'topics'} {', '.join(lacking)}")
    experiment = recording.experiment
    assert experiment is not None, "it is among the topics"
    missing = [name for name in ("K_P", "K_V", "M_hat", "D_hat", "Tf") if name not in experiment.gains]
    if experiment.controller != CONTROLLER or missing:
        refuse_open(
            recording.source,
            f"gains of the control law '{CONTROLLER}' (it ran '{experiment.controller}' with "
            f"{', '.join(experiment.gains) or 'no gains'})",
        )


def refuse_open(source: Path, lacking: str) -> NoReturn:
    """Raise DataError for a recording that lacks content needed to simulate its closed loop.

    Args:
        source: path of the recording.
        lacking: name of the missing content, for the message.
    """
    raise DataError(
        f"{source} lacks what closed-loop refinement needs: {lacking}; record the motion with dynid's recorder while "
        f"the executor runs it with controller '{CONTROLLER}', or identify from it with method 'regression'"
    )


def recorded_controller(recording: DriverRecording) -> ControllerSettings:
    """Return the settings of the FF+PD law (arXiv:2605.15949, eq. 2) of the recorded experiment.

    Raises:
        DataError: if the recording lacks reference, commands, applied torques or the gains of this law.
    """
    refuse_open_loop(recording)
    assert recording.experiment is not None, "else it was refused"
    gains = recording.experiment.gains
    return ControllerSettings.model_validate(
        {
            "schema_version": 1,
            "proportional_gain_1_s2": gains["K_P"],
            "velocity_gain_1_s": gains["K_V"],
            "inertia_kg_m2": gains["M_hat"],
            "damping_nm_s_rad": gains["D_hat"],
            "pseudo_differentiation_s": gains["Tf"],
        }
    )


def closed_loop_data(
    recording: DriverRecording,
    robot: Robot,
    settings: IdentificationSettings,
    interval_s: float | None = None,
    friction: KnownFriction | None = None,
) -> ClosedLoopData:
    """Return a recording's data for closed-loop refinement: reference, low-passed command torques and delay.

    The reference is given at every control cycle, the command torques at the sampling interval.

    Args:
        recording: recording with the topics reference, joint_commands and applied_commands.
        robot: the robot of the recording.
        settings: settings of the identification: low-pass, sampling interval, friction and delay of the torques.
        interval_s: sampling interval [s]; None uses the interval of the settings.
        friction: known friction, which acts as a load on the simulated joints. Friction near a standstill is uncertain,
            so samples there get a lower weight. None simulates without friction.

    Raises:
        DataError: if the recording lacks reference, commands, applied torques or control gains, is too short or too
            slow for a low-pass, or has applied torques that are not the commands; or if reference and commands cover
            fewer samples than the settings require.
    """
    refuse_open_loop(recording)
    assert recording.reference is not None and recording.commands is not None, "else it was refused"
    interval, cycle = interval_s or settings.sampling_interval_s, recording.hardware.cycle_s
    columns = [recording.joint_names.index(name) for name in robot.joint_names]
    low_pass = LowPass(settings.filter, interval, cycle)
    begin, end = recording.trajectory_span()
    reference, commands = recording.reference, recording.commands
    covered = max(reference.time[0], commands.time[0]), min(reference.time[-1], commands.time[-1])
    usable = max(begin, covered[0] + low_pass.settling_s), min(end, covered[1] - low_pass.settling_s)
    first_sample, last_sample = (usable[0] - begin) / interval - 1e-9, (usable[1] - begin) / interval + 1e-9
    samples = np.arange(math.ceil(first_sample), math.floor(last_sample) + 1)
    if len(samples) < settings.data.minimum_samples:
        raise DataError(
            f"{recording.source}: {len(samples)} usable samples every {interval:.3g} s; at least "
            f"{settings.data.minimum_samples} are needed"
        )
    # the grid of the control cycles has a node at the start of the trajectory, so samples fall on nodes
    times = begin + interval * samples
    first = math.ceil((max(times[0] - LEAD_S - low_pass.settling_s, covered[0]) - begin) / cycle - 1e-9)
    last = math.floor((min(times[-1] + low_pass.settling_s, covered[1]) - begin) / cycle + 1e-9)
    grid = begin + cycle * np.arange(first, last + 1)
    response = impulse_response(low_pass.apply, math.ceil(3 * low_pass.settling_s / cycle))

    def on_grid(values: FloatArray) -> FloatArray:
        return interpolate(grid, reference.time, values[:, columns])

    filtered = low_pass.apply(interpolate(grid, commands.time, commands.tau[:, columns]))
    nodes = np.rint((times - grid[0]) / cycle).astype(int)
    external, weights, deviation = None, None, None
    if friction is not None:
        q, tau = (interpolate(grid, recording.time, x[:, columns]) for x in (recording.q, recording.tau_present))
        loaded, uncertain = friction.along(q, tau, cycle, settings.coulomb_friction, _written(recording, grid, columns))
        external, deviation = -loaded, low_pass.apply(-uncertain)[nodes]
        dq, _ = central_differences(low_pass.apply(q), cycle)
        weights = loop_weights(dq, settings.coulomb_friction, cycle)[nodes]
    return ClosedLoopData(
        q_ref=on_grid(reference.q),
        dq_ref=on_grid(reference.dq),
        ddq_ref=on_grid(reference.ddq),
        sample_times=times - grid[0],
        tau=filtered[nodes],
        initial_state=np.array([interpolate(grid[:1], recording.time, x[:, columns])[0] for x in _states(recording)]),
        response=response,
        cycle_s=cycle,
        external=external,
        weights=weights,
        load_deviation=deviation,
        delay_cycles=delay_cycles(
            recording, robot, settings.goal_delay(robot, cycle, simulated=recording.hardware.simulated)
        ),
    )


def _written(recording: DriverRecording, grid: FloatArray, columns: list[int]) -> FloatArray | None:
    """Return the torques last written to the servos before each instant of a grid, (K, n) [N m].

    The result is None if the recording has no applied commands.

    Args:
        recording: the recording.
        grid: instants, (K,) [s].
        columns: index of each joint's column in the recording, in the robot's joint order.
    """
    applied = recording.applied
    if applied is None:
        return None
    return applied.tau[np.clip(np.searchsorted(applied.time, grid, side="right") - 1, 0, None)][:, columns]


def _states(recording: DriverRecording) -> tuple[FloatArray, FloatArray]:
    return recording.q, recording.dq


def delay_cycles(recording: DriverRecording, robot: Robot, goal_delay_s: float) -> int:
    """Return the delay from a measured state to the torque computed from it, in whole control cycles.

    The delay ends at the start of the cycle in which the torque acts. It is computed from recorded timestamps of
    states, commands and torques. The command that belongs to a written torque is identified by its value: torque and
    command are equal except for limits and the resolution of the current.

    Args:
        recording: recording with states, commands and applied torques.
        robot: the robot of the recording.
        goal_delay_s: time from the timestamp of a written torque to the middle of the cycle in which it acts [s].

    Raises:
        DataError: if the recording lacks reference, commands, applied torques or control gains, or the written torques
            are not the commands.
    """
    commands, applied = recording.commands, recording.applied
    refuse_open_loop(recording)
    assert commands is not None and applied is not None, "else it was refused"
    begin, end = recording.trajectory_span()
    inside = (applied.time >= begin) & (applied.time <= end)
    written, newest = applied.tau[inside], np.searchsorted(commands.time, applied.time[inside], side="right") - 1
    # each row separately: in a late cycle the newest command may be missing, or two may arrive at once
    candidates = [commands.tau[np.maximum(newest - age, 0)] for age in range(MOST_COMMANDS)]
    deviations = np.array([np.abs(written - candidate).mean(axis=1) for candidate in candidates])
    ages = np.argmin(deviations, axis=0)
    variation = float(np.abs(candidates[0] - candidates[0].mean(axis=0)).mean())
    if not deviations.min(axis=0).mean() < LARGEST_MISFIT * variation:
        raise DataError(
            f"{recording.source}: the torques written to the servos differ from the commands by "
            f"{deviations.min(axis=0).mean():.2g} N m on average, while the commands vary by {variation:.2g} N m; "
            "closed-loop refinement needs commands that were applied: did the guard intervene, or was another "
            "controller active?"
        )
    answered = np.maximum(newest - ages, 0)
    state = np.maximum(np.searchsorted(recording.time, commands.time[answered], side="right") - 1, 0)
    late = float(np.median(applied.time[inside] - recording.time[state]))
    cycle = recording.hardware.cycle_s
    return round((late + goal_delay_s - 0.5 * cycle) / cycle)

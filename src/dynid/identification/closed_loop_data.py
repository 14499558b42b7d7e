"""What a recording says about the closed loop: the law's settings, the reference, and the commands as samples."""

import math

import numpy as np

from dynid.control.controller import ControllerSettings
from dynid.errors import DataError
from dynid.identification.closed_loop import ClosedLoopData
from dynid.identification.coulomb import loop_weights
from dynid.identification.friction_history import KnownFriction
from dynid.identification.loop_delay import delay_cycles
from dynid.identification.preprocessing import LowPass, central_differences
from dynid.identification.sampling import impulse_response
from dynid.identification.settings import IdentificationSettings
from dynid.identification.signals import interpolate
from dynid.recording.recording import Recording
from dynid.robot import FloatArray, Robot

LEAD_S = 2.0  # of reference before the first sample: the loop forgets its start within it
CONTROLLER = "ff_pd"


def recorded_controller(recording: Recording) -> ControllerSettings:
    """Settings of the FF+PD law (paper eq. 2) that the experiment ran with.

    Raises:
        DataError: no experiment was recorded, another law ran, or its gains are not complete.
    """
    experiment = recording.experiment
    if experiment is None:
        raise DataError(f"{recording.source} holds no experiment: the control law's settings are not known")
    gains = experiment.gains
    missing = [name for name in ("K_P", "K_V", "M_hat", "D_hat", "Tf") if name not in gains]
    if experiment.controller != CONTROLLER or missing:
        raise DataError(
            f"{recording.source}: closed-loop refinement needs the gains of the law '{CONTROLLER}'; recorded is "
            f"'{experiment.controller}' with {', '.join(gains) or 'none'}"
        )
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
    recording: Recording, robot: Robot, settings: IdentificationSettings, interval_s: float | None = None,
    friction: KnownFriction | None = None,
) -> ClosedLoopData:  # fmt: skip
    """Reference and torque commands of a recording, behind the low-pass of the target interval, at its samples.

    Args:
        recording: with the topics reference and joint_commands.
        robot: of the recording.
        settings: filter and target interval.
        interval_s: target sampling interval; None is the settings' own.
        friction: known Coulomb friction. It loads the joints of the simulated arm as it loaded the measured ones, and
            samples near a standstill, where it is not known, weigh less.

    Raises:
        DataError: reference or commands were not recorded, or they do not cover the trajectory.
    """
    if recording.reference is None or recording.commands is None:
        lacking = "reference" if recording.reference is None else "joint_commands"
        raise DataError(f"{recording.source} holds no topic '{lacking}', which closed-loop refinement needs")
    interval, cycle = interval_s or settings.sampling_interval_s, robot.file.bus.cycle_s
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
    # the grid of the control cycles has a node at the begin of the trajectory, so samples fall on nodes
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
        external = -friction.along(q, tau, cycle, settings.coulomb_friction)
        deviation = low_pass.apply(friction.deviation(external))[nodes]
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
        delay_cycles=delay_cycles(recording, robot, settings.goal_delay(robot)),
    )


def _states(recording: Recording) -> tuple[FloatArray, FloatArray]:
    return recording.q, recording.dq

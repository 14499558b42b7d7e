"""How late the experiment's loop was: from a measured state to the answering torque being in force."""

import numpy as np

from dynid.errors import ConfigurationError, DataError
from dynid.recording.recording import Recording
from dynid.robot import Robot

OLDEST = 6  # commands that one could be the answer to
LARGEST_MISFIT = 0.1  # mean deviation of written from commanded torques, of the latters' variation


def delay_cycles(recording: Recording, robot: Robot, goal_delay_s: float) -> int:
    """Whole control cycles from a state to its command being in force, from the stamps of states and written torques.

    Which command a written torque answers is found by its value: limits and the current's resolution apart, it is the
    command itself.

    Args:
        recording: with states, commands and applied torques.
        robot: whose control cycle counts.
        goal_delay_s: from the stamp of a written torque to the middle of its effect, so half a cycle after its begin.

    Raises:
        DataError: the written torques were not recorded, or are not the commands.
    """
    commands, applied = recording.commands, recording.applied
    if commands is None or applied is None:
        raise DataError(
            f"{recording.source} holds no topic 'applied_commands', from which the loop's delay is seen; closed-loop "
            "refinement needs it"
        )
    begin, end = recording.trajectory_span()
    inside = (applied.time >= begin) & (applied.time <= end)
    written, newest = applied.tau[inside], np.searchsorted(commands.time, applied.time[inside], side="right") - 1
    # every row by itself: at a late cycle the newest command may be missing, or two arrive at once
    candidates = [commands.tau[np.maximum(newest - age, 0)] for age in range(OLDEST)]
    deviations = np.array([np.abs(written - candidate).mean(axis=1) for candidate in candidates])
    ages = np.argmin(deviations, axis=0)
    variation = float(np.abs(candidates[0] - candidates[0].mean(axis=0)).mean())
    if not deviations.min(axis=0).mean() < LARGEST_MISFIT * variation:
        raise DataError(
            f"{recording.source}: the torques written to the servos differ from the commands by "
            f"{deviations.min(axis=0).mean():.2g} N m in the mean, these vary by {variation:.2g} N m; closed-loop "
            "refinement needs commands that were carried out: did the guard intervene, or was another controller in "
            "charge?"
        )
    answered = np.maximum(newest - ages, 0)
    state = np.maximum(np.searchsorted(recording.time, commands.time[answered], side="right") - 1, 0)
    late = float(np.median(applied.time[inside] - recording.time[state]))
    cycle = robot.file.bus.cycle_s
    if goal_delay_s < 0.5 * cycle:
        raise ConfigurationError(
            f"goal_delay_s is {goal_delay_s:g} s, less than half of the control cycle of {cycle:g} s"
        )
    return round((late + goal_delay_s - 0.5 * cycle) / cycle)

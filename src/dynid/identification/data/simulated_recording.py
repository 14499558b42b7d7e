"""Recordings made directly from simulated runs, without writing a bag."""

from pathlib import Path

from dynid.identification.data.recordings import Recording
from dynid.identification.data.signals import Signals, Torques
from dynid.identification.settings import IdentificationSettings
from dynid.robot import Robot
from dynid.simulation.lockstep.run import SimulatedRun


def source_of(robot: Robot, run: SimulatedRun, name: str) -> Recording:
    """Return the recording of a simulated run; its signals equal those read from a bag of this run.

    Args:
        robot: the simulated robot.
        run: the simulated run.
        name: name of the recording.
    """
    begin = dict(run.phases)["trajectory"] / 1e9
    time = run.stamps_ns / 1e9
    window = (begin, begin + run.trajectory_duration)

    def signals(settings: IdentificationSettings) -> Signals:
        written = Torques(
            time, run.torque_goal, "goal", settings.goal_delay(robot, robot.file.bus.cycle_s, simulated=True)
        )
        return Signals(
            joint_names=run.joint_names,
            time=time,
            q=run.q,
            torque_time=time,
            tau=run.torque_present,
            torque_limits=robot.torque_limits,
            window=window,
            dq=run.dq,
            farthest=robot.farthest,
            other=written,
        )

    return Recording(Path(name), name, run.mount, tuple(robot.joint_constants.tolist()), (), signals)

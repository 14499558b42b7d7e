"""Servos of a soak test, in a process of their own: `python -m benchmarks.chain.soak_servos ROBOT PROBABILITY SEED`."""

import sys

from benchmarks.chain.soak import ClockPlant
from dynid.hardware.loop.realtime import prefer_latency
from dynid.robot import load_robot
from dynid.simulation.bus.process import serve
from dynid.simulation.faults.script import FaultScript, RandomFaults


def main(robot_name: str, probability: str, seed: str) -> None:
    """Serve until SIGTERM; the first printed line that is a path names the port."""
    prefer_latency()
    robot = load_robot(robot_name)
    faults = FaultScript(seed=int(seed), random=RandomFaults(probability=float(probability)))
    serve(robot, ClockPlant(robot), faults=faults, ignore_interrupt=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

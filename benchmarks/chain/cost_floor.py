"""Least processor time of a control cycle on this machine: bytes over a pseudo-terminal, and messages.

No arm is driven: a process answers on the bus with as many bytes as the servos would, and the nodes receive and publish
messages of the same sizes, from buffers, without decoding them.
"""

import json
import os
import pty
import select
import subprocess  # nosec - a fixed argument list, no shell
import sys
import termios
import time
import tty

from benchmarks.chain.cost_floor_node import ROLES, paced
from benchmarks.children import child_environment

REQUEST_BYTES, REPLY_BYTES, GOAL_BYTES = 22, 120, 38  # bytes for eight servos: fast sync read, its reply, sync write


def bus_floor(seconds: float, rate_hz: int) -> float:
    """Return the processor time of one exchange over a pseudo-terminal [us]: request, wait, reply, goal currents."""
    master, slave = pty.openpty()
    for one in (master, slave):
        tty.setraw(one, termios.TCSANOW)
    answering = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.chain.cost_floor", str(master)],
        pass_fds=[master],
        env={**os.environ, **child_environment()},
    )
    os.close(master)
    poll = select.poll()
    poll.register(slave, select.POLLIN)

    def exchange() -> None:
        os.write(slave, bytes(REQUEST_BYTES))
        left = REPLY_BYTES
        while left > 0 and poll.poll(1000):
            left -= len(os.read(slave, 4096))
        os.write(slave, bytes(GOAL_BYTES))

    try:
        exchange()  # the first exchange waits for the other process
        began_ns = time.thread_time_ns()
        count = paced(rate_hz, seconds, exchange)
        return (time.thread_time_ns() - began_ns) * 1e-3 / count
    finally:
        os.close(slave)
        answering.kill()
        answering.wait()


def answer(port: int) -> None:
    """Answer each request on a pseudo-terminal until its other side is closed."""
    waiting = 0
    while True:
        try:
            waiting += len(os.read(port, 4096))
        except OSError:
            return
        if waiting >= REQUEST_BYTES:
            waiting = -GOAL_BYTES  # bytes of the goals, which follow without an answer
            os.write(port, bytes(REPLY_BYTES))


def node_floor(seconds: float, rate_hz: int) -> dict[str, float]:
    """Return the processor time per cycle of processes that only receive and publish [us], by the node they represent.

    The messages follow the chain's topics: states to executor and recorder, commands to driver and recorder, applied
    commands and references to the recorder.
    """
    environment = {**os.environ, **child_environment()}
    children = {
        role: subprocess.Popen(
            [sys.executable, "-m", "benchmarks.chain.cost_floor_node", role, str(seconds), str(rate_hz)],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        for role in ROLES
    }
    try:
        found = {role: child.communicate(timeout=seconds + 60.0)[0] for role, child in children.items()}
    finally:
        for child in children.values():
            child.kill()
            child.wait()
    used = {role: json.loads(text.splitlines()[-1]) for role, text in found.items()}
    return {role: 1e-3 * one["ns"] / used["driver"]["cycles"] for role, one in used.items()}


if __name__ == "__main__":
    answer(int(sys.argv[1]))

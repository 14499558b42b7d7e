"""The fault benchmark's table as a document."""

import platform
from collections.abc import Sequence

from dynid import __version__
from dynid.benchmarking.faults import FaultRow
from dynid.benchmarking.faults_judge import (
    AFTER_WATCHDOG_S,
    DAMPING_BEGINS_S,
    FOLLOWS_RAD,
    HOLD_S,
    PUSHED_RAD_S,
    READ_AGE_S,
    STANDSTILL_RAD_S,
    STANDSTILL_S,
)
from dynid.simulation.faults_line import LINE_FAULTS

START_FAULTS = ("baud_rate", "same_id", "factory_fresh")

INTRODUCTION = """# Faults injected

Written by `dynid benchmark faults --out docs/faults.md`: every fault at a random moment of a random excitation motion
of the simulated arm, whose nuisances (dry friction, backlash, noise, register steps) are all on. Seeds make every run
in lock-step the same again.

**In lock-step** the production driver (start-up, cycle, parser, guard, control loop) runs on simulated time; wire,
servos and arm step along. Every other seed has servos that do not know the fast sync read. **Against processes** the
whole chain runs in real time with a recorder, and processes of the chain are killed, stopped or unplugged.

What must hold is measured at the arm, not in the driver:

- The current of a motor never exceeds its limit.
- No published state is older than {read_age} ms or none of the arm's.
- *Motion goes on*: the arm stays within {follows} rad of the motion without the fault, and the fault is counted.
- *Arm stops*: from {damping} ms after the fault on the arm gains no speed (kinetic energy), every joint is slower than
  {speed} rad/s after {standstill} s and still is {hold} s later, and no joint touches its stop. *Other joints stop*:
  the same, but slower than {pushed} rad/s will do, and nothing is asked of the joint whose servo cannot be read any
  more but its current limit, nor of the others once it has dropped onto its stop.
- *Without current*: the servos concerned carry none later than {watchdog} ms after their bus watchdog's time (100 ms).
- *Fault named*: of an arm of which nothing can be read any more nothing else is asked.
- *Start refused*: with words that name the cause, and without torque.
- The driver names the fault in its diagnostics.
- Against processes: the bag so far can be read, and holds every state that was published.

`stop` is the longest time from the fault to standstill, or to zero current where that is what must be.
"""
SCRIPTS = """
## Faults of your own

`dynid simulated-arm --link /tmp/arm --faults faults.yaml --trace arm.npz` serves a simulated arm that goes wrong as a
script says, for dynid's driver or any other; the trace is what the arm really did (times on the monotonic clock,
angles, velocities, currents). SIGUSR1 pulls the cable, SIGUSR2 plugs it in again.

```yaml
schema_version: 1
seed: 7
clock: first_current  # times count from the first current; `start` is from the start of the bus
faults:
  - {kind: missing_reply, at_s: 2.0, servo: 4, replies: 3}  # replies, or for_s; without servo it is all of them
  - {kind: late_reply, at_s: 2.5, delay_s: 0.008}
  - {kind: hardware_error, at_s: 3.0, servo: 3, error: overload}
  - {kind: reboot, at_s: 3.5, servo: 5}
  - {kind: unplugged, at_s: 4.0, for_s: 1.0}
random: {probability: 0.01}  # of every reply
```

Also: """


def fault_document(rows: Sequence[FaultRow], what: str, seconds: float) -> str:
    """The document: what must hold, what was run, the table, and some of the violations if there are any.

    Args:
        rows: the table.
        what: what was run, in words.
        seconds: how long it took [s].
    """
    text = INTRODUCTION.format(
        read_age=round(1e3 * READ_AGE_S),
        follows=FOLLOWS_RAD,
        damping=round(1e3 * DAMPING_BEGINS_S),
        speed=STANDSTILL_RAD_S,
        standstill=STANDSTILL_S,
        pushed=PUSHED_RAD_S,
        hold=HOLD_S,
        watchdog=round(1e3 * AFTER_WATCHDOG_S),
    )
    runs, bad = sum(row.runs for row in rows), sum(row.violations for row in rows)
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    text += f"\n{what}; {runs} runs in {seconds:.0f} s, {bad} with a violation (dynid {__version__}, {system}).\n\n"
    text += "| fault | what must become of it | runs | violations | stop [ms] |\n| --- | --- | --- | --- | --- |\n"
    for row in rows:
        stop = f"{row.worst_stop_ms:.0f}" if row.worst_stop_ms else ""
        text += f"| {row.fault} | {row.expectation} | {row.runs} | {row.violations} | {stop} |\n"
    findings = [(row.fault, finding) for row in rows for finding in row.findings]
    if findings:
        text += "\n## Violations, some of each fault\n\n"
        text += "".join(f"- {fault}, {finding}\n" for fault, finding in findings)
    text += SCRIPTS + ", ".join(f"`{kind}`" for kind in (*LINE_FAULTS, *START_FAULTS)) + ".\n"
    return text

"""The fault benchmark's table as a document."""

import platform
from collections.abc import Sequence

import numpy as np

from benchmarks.faults.drawn import DrawnRow
from benchmarks.faults.falls import FASTEST_M_S, LONGEST_S, MOST_RAD, SETTLED_S
from benchmarks.faults.guiding import AFTERMATH_S, FARTHEST_M, HARDEST_N, HEAVIEST_KG, LIGHTEST_KG
from benchmarks.faults.guiding import FASTEST_M_S as FASTEST_GUIDED_M_S
from benchmarks.faults.judge import (
    AFTER_WATCHDOG_S,
    DAMPING_BEGINS_S,
    ENERGY_GAIN,
    FOLLOWS_RAD,
    HOLD_S,
    MOST_PUSHED_RAD_S,
    PUSHED_RAD_S,
    PUSHED_SHARE,
    PUSHED_VELOCITY_SHARE,
    READ_AGE_S,
    STANDS_S,
    STANDSTILL_RAD_S,
    STANDSTILL_S,
)
from benchmarks.faults.table_run import FaultRow
from dynid import __version__
from dynid.simulation.faults.line import LINE_FAULTS

START_FAULTS = ("baud_rate", "same_id", "factory_fresh")

INTRODUCTION = """# Fault injection

Written by `./run benchmark faults --out docs/faults.md`: every fault is injected at a random moment of a random
excitation motion of the simulated arm, with all nuisances on (dry friction, backlash, noise, register quantisation).
Seeds make every run in lock-step reproducible.

**In lock-step** the production driver (startup, cycle, parser, guard, control loop) runs on simulated time, in step
with line, servos and arm. Every second seed uses servos without the fast sync read. **Against processes** the whole
chain runs in real time with a recorder, and processes of the chain are killed, stopped or unplugged.

The requirements are measured at the arm, not in the driver:

- The current of a motor never exceeds its limit.
- Every published state is a state of the arm, and at most {read_age} ms old.
- *Motion continues*: the arm stays within {follows} rad of the motion without the fault, and the fault is counted.
  A reply that is late, but not too late for its reading, need not be counted.
- *Arm stops*: from {damping} ms after the fault the arm gains no speed (kinetic energy), every joint is slower than
  {speed} rad/s after {standstill} s and still is {hold} s later, and no joint touches its stop. *Other joints stop*:
  the same, but with a limit of {pushed} rad/s, or {pushed_velocity} % of the velocity of the joint that cannot be read,
  if that is more, up to {most_pushed} rad/s: brakes are dampers, and yield to a fall (*wrong CRC, for good*, seed 37:
  the shoulder falls at 3.9 rad/s and pushes the held elbow to 0.29 rad/s). The joint whose servo cannot be read must
  only keep its current limit, and the requirement ends for the others once that joint has dropped onto its stop.
  *Reached joints stop*: the same for the servos before a cut cable; those behind it carry no current later than
  {watchdog} ms after their bus watchdog's time. Half of the cables also carry the power. Falling joints push the held
  ones, whose kinetic energy may gain {pushed_share} % of the arm's energy in free fall. (Seed 15, cut behind servo
  number 3: the elbow drops with 1,880 mJ; its 2.4 N m vanish from the held shoulder, whose brake of 6 N m s/rad yields
  at 0.2 rad/s, 3 mJ. In free fall it would have 2,330 mJ.)
- *No worse than free fall*, also for the other and the reached joints: the whole arm stands after {stands} s, or never
  has more kinetic energy (within {gain} %) than the same arm from the same moment on in free fall. Free fall means:
  without the driver until the watchdogs trip, and then without current; without any power if the cut also interrupts
  the power. If a fault leaves some joints held, the fall of the others with these joints fixed counts as well. A
  forearm that drops from a held shoulder may have more energy than one that drops with it, and no instruction can stop
  it (seed 68, cut behind servo number 3: 1,261 mJ, in free fall of the whole arm 1,160 mJ). Releasing the shoulder
  would not help.
- *Without current*: the affected servos carry no current later than {watchdog} ms after their bus watchdog's time (100
  ms).
- *Start refused*: with a message that names the cause, and without torque. A relay to an arm is no simulated line:
  without consent no byte is sent and no EEPROM written.
- *Joint obeys*: with a gear, also of negative ratio, angles are those of the joint, and a joint that is driven outwards
  with the largest current that the guard permits stays within its limits.
- Settings and slow data of the servos are read one block at a time. After a change the arm must stop as above, counted
  from the detection, at most 0.65 s after the change.
- *Current lowered, then arm stops*: at the ages of `safety.yaml` (here 0.8 and 1.6 s), within 0.2 s.
- *Nothing is lost* of a bag reported as closed, or a file reported as written, if the disk keeps only data written by
  `fsync`. *Results kept, none overwritten* on a disk without hard links; *refused before the work* if nothing can be
  written.
- *Nothing moves, one line describes the motion*: a script may not move a real arm without `--yes`.
- The driver names the fault in its diagnostics.
- Against processes: the bag recorded so far is readable and holds every published state.

`stop` is the longest time from the fault to standstill, or to zero current where zero current is required.
"""
FALLS = """
## Falls

The arm is held in a random posture, with up to 0.5 kg in its hand, upright, on a wall or upside down, and then stopped.
In every third posture a joint is within 10 deg of a balance; gears have the friction of the simulated arm, or Coulomb
and viscous friction alone. The production driver runs at 500 Hz, every seventh time at 1 kHz; the fault is a servo's
voltage alert. Required: torque goes off within {longest:g} s, no joint moves by more than {most:g} deg in the
{settled:g} s after that, and no link's end is ever faster than {fastest:g} m/s. *Unrested* counts stops that ended by
`longest_stop_s`. `./run benchmark faults --fault falls --falls N --first M` runs N cases of this table alone, from
number M on.

| stopped by | runs | violations | off, median [s] | latest [s] | moved after [deg] | fastest [m/s] | unrested |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
GUIDING = """
## Hand guiding

The arm is guided under `gravity_compensation`, upright or hanging, from a random posture. Meanwhile a load of
{lightest:g} to {heaviest:g} kg appears or vanishes at the tool, the tool is pushed with up to {hardest:g} N for up to
0.3 s, or the model takes over with a payload that is absent, or without one that is present. The model's friction
differs by up to a fifth from that of the gears. In six of ten cases with a load, a hand guides the tool until then.
Required: after the hand has released the arm, and {aftermath:g} s after a push, the tool stays within {farthest:g} m,
and is no faster than {fastest:g} m/s. *Held* counts the arms that were braked and held; with a hand alone there is no
fault, and the hand was mistaken for a load. `./run benchmark faults --fault guiding --guided N --first M` runs N
cases of this table alone, from number M on.

| what happens | cases | held | fastest [m/s] | farthest [m] | violations |
| --- | --- | --- | --- | --- | --- |
"""
SCRIPTS = """
## If no servo answers

The servos may still receive instructions. The best instructions were determined in lock-step on an arm with the
nominal parameters, by the largest kinetic energy [mJ] of the arm within 3 s, from the same moments on:

| instructions | seeds 0 to 30: mean, most, worse than free fall | stands after 0.3 s |
| --- | --- | --- |
| brake; after 50 ms position mode | 64, 390, 0 of 31 | 28 of 31, all after 0.4 s |
| brake; after 50 ms position mode, but no voltage | 64, 390, 0 of 31 | 0 of 31: it sinks |
| brake, then the load minus its uncertainty | 616, 5121, 3 of 31 | |
| brake, then half the load | 1011, 3260, 4 of 31 | |
| brake, then all of the load's estimate | 1073, 9637, 5 of 31 | |
| brake, then no current | 1500, 3128, 4 of 31 | |
| nothing: the watchdogs trip | 1623, 4687 | |

In this study the brake lasted for 35 ms. In cycles without an answer, of some 10 ms, it drove joints with little
inertia the other way (seed 52: from -0.9 rad/s to 7 rad/s), so the driver brakes for 12 ms. On the present arm, seeds
0 to 30: 43 mJ on average, 204 mJ at most, with 35 ms 44 and 212; seeds 44 to 55: 52 and 208 mJ, with 35 ms 73 and
318.

The uncertainty of a load is twice the current that accelerates the joint at that moment. Currents that are not
corrected let a joint drift, and may drive it over its highest point: in one seed the arm had 1534 mJ, in free fall
962. So after 50 ms without any answer the driver writes, twice each: torque off, position mode, torque on. Each servo
then holds its joint by its own loop. At first they get no voltage, and only brake by their back-EMF; after 0.1 s they
get the voltage that drives their current limit. After 2.5 s the voltage falls to zero, and the arm sinks as fast as
the back-EMF allows. Servos that still do not answer when the driver ends continue to brake. A single silent servo
gets none of these instructions: it may be booting, and must then stay without current.

## Your own faults

`dynid simulated-arm --link /tmp/arm --faults faults.yaml --trace arm.npz` serves a simulated arm that fails according
to a script, for dynid's driver or any other. The trace records what the arm really did (times on the monotonic clock,
angles, velocities, currents). SIGUSR1 unplugs the cable, SIGUSR2 plugs it in again.

```yaml
schema_version: 1
seed: 7
clock: first_current  # times count from the first current; with `start`, from the start of the bus
faults:
  - {kind: missing_reply, at_s: 2.0, servo: 4, replies: 3}  # replies, or for_s; without servo: all servos
  - {kind: late_reply, at_s: 2.5, delay_s: 0.008}
  - {kind: hardware_error, at_s: 3.0, servo: 3, error: overload}
  - {kind: reboot, at_s: 3.5, servo: 5}
  - {kind: cable_cut, at_s: 3.8, servo: 6, powered: true}  # behind servo 6; without servo: before all
  - {kind: unplugged, at_s: 4.0, for_s: 1.0}
  - {kind: stall, request: 40, for_s: 0.5}  # the simulated arm's process stands still before its 40th instruction
  - {kind: register, at_s: 5.0, servo: 3, register_name: bus watchdog, value: 0}  # whatever the servo's rules say
  - {kind: unread, at_s: 5.0, servo: 4, register_name: present temperature}  # is no longer answered
  - {kind: missed_write, servo: 5, register_name: bus watchdog, writes: 1}  # group writes; without writes: all
random: {probability: 0.01}  # per reply
```

Also: """


def fault_document(
    rows: Sequence[FaultRow], falls: Sequence[DrawnRow], guided: Sequence[DrawnRow], what: str, seconds: float
) -> str:
    """Return the document: requirements, runs, the table, and examples of violations if there are any.

    Args:
        rows: the table.
        falls: the table of stops in drawn postures; empty to leave it out.
        guided: the table of hand guiding; empty to leave it out.
        what: description of the runs.
        seconds: duration [s].
    """
    text = INTRODUCTION.format(
        read_age=round(1e3 * READ_AGE_S),
        follows=FOLLOWS_RAD,
        damping=round(1e3 * DAMPING_BEGINS_S),
        speed=STANDSTILL_RAD_S,
        standstill=STANDSTILL_S,
        pushed=PUSHED_RAD_S,
        pushed_velocity=round(100 * PUSHED_VELOCITY_SHARE),
        most_pushed=MOST_PUSHED_RAD_S,
        hold=HOLD_S,
        watchdog=round(1e3 * AFTER_WATCHDOG_S),
        stands=STANDS_S,
        pushed_share=100 * PUSHED_SHARE,
        gain=round(100 * (ENERGY_GAIN - 1.0)),
    )
    runs, bad = sum(row.runs for row in rows), sum(row.violations for row in rows)
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    text += f"\n{what}; {runs} runs in {seconds:.0f} s, {bad} with a violation (dynid {__version__}, {system}).\n\n"
    text += "| fault | required outcome | runs | violations | stop [ms] |\n| --- | --- | --- | --- | --- |\n"
    for row in rows:
        stop = f"{row.worst_stop_ms:.0f}" if row.worst_stop_ms else ""
        text += f"| {row.fault} | {row.expectation} | {row.runs} | {row.violations} | {stop} |\n"
    findings = [(row.fault, finding) for row in rows for finding in row.findings]
    findings += [(row.title, finding) for row in (*falls, *guided) for finding in row.findings]
    if findings:
        text += "\n## Examples of violations\n\n"
        text += "".join(f"- {fault}, {finding}\n" for fault, finding in findings)
    text += fall_section(falls) if falls else ""
    text += guided_section(guided) if guided else ""
    text += SCRIPTS + ", ".join(f"`{kind}`" for kind in (*LINE_FAULTS, *START_FAULTS)) + ".\n"
    return text


def fall_section(falls: Sequence[DrawnRow]) -> str:
    """Return the section about stops in random postures."""
    limits = {"longest": LONGEST_S, "most": np.rad2deg(MOST_RAD), "settled": SETTLED_S, "fastest": FASTEST_M_S}
    return FALLS.format(**limits) + "".join(f"| {row.title} | {' | '.join(row.figures)} |\n" for row in falls)


def guided_section(guided: Sequence[DrawnRow]) -> str:
    """Return the section about hand guiding."""
    limits = {"lightest": LIGHTEST_KG, "heaviest": HEAVIEST_KG, "farthest": FARTHEST_M, "fastest": FASTEST_GUIDED_M_S}
    limits |= {"hardest": HARDEST_N, "aftermath": AFTERMATH_S}
    return GUIDING.format(**limits) + "".join(f"| {row.title} | {' | '.join(row.figures)} |\n" for row in guided)

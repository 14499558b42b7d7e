"""Classes of motions and set-ups for which stated intervals must hold; `coverage --classes` draws them.

Every arm of a class has its own motion, through random postures within those of the robot's identification motion.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from dynid.errors import UnknownNameError
from dynid.identification.data.signals import Signals
from dynid.robot import FloatArray, Robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.trajectory import Trajectory, through

POSTURES_OF = "demo_identification"  # motion whose waypoints span the box of random postures
PROFILE = "limited"
DRAWS = 23  # stream of random numbers, separate from those of the arm and its nuisances
FASTEST, SLOW_RAD_S = 0.4, 0.4  # share of the time law's limits; largest velocity of the slow class [rad/s]
MOST_WAYPOINTS = 2000


@dataclass(frozen=True)
class MotionClass:
    """Common properties of the arms of a class.

    Attributes:
        about: description.
        seconds: length of the motion [s].
        dwell_s: time at rest at every posture [s].
        peak_rad_s: largest speed of any joint [rad/s]; None is the share `FASTEST` of the time law's limits.
        period_s: sampling period of the recording [s]; None is the control cycle.
        delay_s: delay of the torques' stamps [s].
        play_deg: backlash between joint and encoder [deg]; None is the robot's.
        gears: friction model, see `draw_arm`.
        full: links have all products of inertia, see `draw_arm`.
    """

    about: str
    seconds: float = 60.0
    dwell_s: float = 0.2
    peak_rad_s: float | None = None
    period_s: float | None = None
    delay_s: float = 0.0
    play_deg: float | None = None
    gears: str = "M6"
    full: bool = False


CLASSES: Mapping[str, MotionClass] = MappingProxyType(
    {
        "fast": MotionClass("fast excitation, 60 s"),
        "pauses": MotionClass("point to point with pauses of 4 s, 60 s", dwell_s=4.0),
        "slow": MotionClass("at most 0.4 rad/s, 60 s", peak_rad_s=SLOW_RAD_S),
        "led": MotionClass("as a hand leads an arm: at most 0.8 rad/s, rests of 0.5 s", dwell_s=0.5, peak_rad_s=0.8),
        "short": MotionClass("fast excitation, 20 s", seconds=20.0),
        "long": MotionClass("fast excitation, 300 s", seconds=300.0),
        "50hz": MotionClass("fast excitation, 60 s, recorded at 50 Hz", period_s=0.02),
        "200hz": MotionClass("fast excitation, 60 s, recorded at 200 Hz", period_s=0.005),
        "viscous": MotionClass("fast excitation, 60 s, viscous and Coulomb friction alone", gears="viscous"),
        "tight": MotionClass("fast excitation, 60 s, no play", play_deg=0.0),
        "worn": MotionClass("fast excitation, 60 s, play of 0.5 deg", play_deg=0.5),
        "delay2": MotionClass("fast excitation, 60 s, torques 2 ms late", delay_s=0.002),
        "delay5": MotionClass("fast excitation, 60 s, torques 5 ms late", delay_s=0.005),
        "delay9": MotionClass("fast excitation, 60 s, torques 9 ms late", delay_s=0.009),
        "full": MotionClass("fast excitation, 60 s, links with all products of inertia", full=True),
    }
)


def chosen_classes(names: tuple[str, ...]) -> dict[str, MotionClass]:
    """Return the classes with these names; all without names.

    Raises:
        UnknownNameError: there is no such class.
    """
    for name in names:
        if name not in CLASSES:
            raise UnknownNameError("class of motions", name, tuple(CLASSES))
    return {name: CLASSES[name] for name in names or CLASSES}


def as_worn(robot: Robot, one: MotionClass) -> Robot:
    """Return the robot with the backlash of a class in its simulated gears."""
    if one.play_deg is None:
        return robot
    nuisances = robot.nuisances.model_copy(update={"backlash_deg": one.play_deg})
    simulation = robot.file.simulation.model_copy(update={"nuisances": nuisances})
    return Robot(robot.file.model_copy(update={"simulation": simulation}), robot.folder)


def drawn_motion(robot: Robot, one: MotionClass, seed: int) -> Trajectory:
    """Return a random motion of a class, from posture to posture until its time is over.

    Raises:
        SafetyError: it leaves the profile's limits.
    """
    excitation = load_excitation(robot)
    corners = excitation.trajectory(POSTURES_OF, PROFILE).waypoints
    random = np.random.default_rng([seed, DRAWS])
    velocity, acceleration = np.array(excitation.file.velocity_rad_s), excitation.acceleration_limits
    factor = FASTEST if one.peak_rad_s is None else one.peak_rad_s / float(velocity.max())
    points: list[FloatArray] = [corners[0]]
    low, high = corners.min(axis=0), corners.max(axis=0)
    while len(points) < MOST_WAYPOINTS:
        points.append(random.uniform(low, high))
        motion = through(
            f"drawn-{seed}", robot.joint_names, np.array(points), velocity, acceleration, factor, one.dwell_s
        )
        if motion.duration >= one.seconds:
            break
    motion.check_limits(*excitation.limits(PROFILE), robot.velocity_limits)
    return motion


def as_recorded(signals: Signals, one: MotionClass) -> Signals:
    """Return the signals of a run at the control cycle as a recorder of this class would have them."""
    period = float(np.median(np.diff(signals.time)))
    step = 1 if one.period_s is None else max(1, round(one.period_s / period))
    kept = slice(None, None, step)
    return replace(
        signals,
        time=signals.time[kept],
        q=signals.q[kept],
        dq=None if signals.dq is None else signals.dq[kept],
        torque_time=signals.torque_time[kept] + one.delay_s,
        tau=signals.tau[kept],
        other=None if step > 1 or one.delay_s else signals.other,
    )

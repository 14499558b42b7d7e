"""Check of an arm's holding torques against a model, at two postures, before gravity compensation starts.

The arm moves to and fro about a posture under a control law that needs no model. Friction cancels in the mean of a
joint's torques in both directions. So this mean is the holding torque, which balances gravity and springs. It is
compared with the model, joint by joint. If they differ, the likely reason is searched: another mount, one joint with a
wrong sign or scale, another scale of all torques, or a payload.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError, DynidError, SafetyError
from dynid.robot import FloatArray, Robot, read_only
from dynid.runtime.hold_reasons import reason_of
from dynid.runtime.model import Model
from dynid.trajectory.trajectory import Trajectory, through
from dynid.verdict import Check, Verdict

SWAY_RAD, SWAY_RAD_S, SWAY_RAD_S2, STROKES = 0.14, 0.3, 1.0, 5
MOVING_RAD_S = 0.06  # speed above which a joint counts as moving; velocity registers count in 0.024 rad/s
CRUISE = 0.7, 1.4  # range of constant speed, relative to the joint's median speed
AVERAGED_S = 0.1  # time over which velocity and torque are averaged [s]: feedback at a low rate makes both oscillate
LEAST_SAMPLES = 25  # minimum number of samples per direction
SHARE, FRICTION_SHARE, FLOOR_SHARE = 0.12, 0.08, 0.004  # allowed fractions of gravity, friction, torque limit
CANDIDATES, LARGEST_OFFSET_RAD, SEED = 300, 0.8, 1
CERTAIN_RATIO = 2.0  # ratio to the allowed difference at which a fault is certainly detected
SCALE_FAULT = 0.3
BoolArray = NDArray[np.bool_]
Allows = Callable[[Trajectory], None]  # raises DynidError if the arm must not execute the motion


def sway_motion(robot: Robot, posture: FloatArray, name: str) -> Trajectory:
    """Return a motion of all joints to and fro about a posture (n,) [rad], within the joint limits.

    `name` is the name of the motion.
    """
    half = np.minimum(SWAY_RAD, 0.4 * (robot.upper - robot.lower))
    centre = np.clip(posture, robot.lower + 1.2 * half, robot.upper - 1.2 * half)
    swing = half * np.where(np.arange(robot.size) % 2, -1.0, 1.0)
    sides = [centre + (1 if k % 2 else -1) * swing for k in range(STROKES + 1)]
    speed = np.minimum(SWAY_RAD_S, robot.velocity_limits)
    points = np.array([centre, *sides, centre])
    return through(name, robot.joint_names, points, speed, np.full(robot.size, SWAY_RAD_S2))


def allowed_error(model: Model, q: FloatArray, friction: FloatArray | float = FRICTION_SHARE) -> FloatArray:
    """Return the allowed difference between measured and predicted holding torque, (n,) or (N, n) [N m].

    It is the sum of fixed fractions of the gravity torque, the friction torque and the torque limit.

    Args:
        model: model of the arm as mounted.
        q: postures, (n,) or (N, n) [rad].
        friction: fraction of the friction torque in the sum.
    """
    gravity = model.gravity(q)
    slow = np.full_like(gravity, MOVING_RAD_S)
    rubbing = 0.5 * np.abs(model.friction(slow, gravity) - model.friction(-slow, gravity))
    return np.asarray(SHARE * np.abs(gravity) + friction * rubbing + FLOOR_SHARE * model.robot.torque_limits)


@dataclass(frozen=True, eq=False)
class HeldTorques:
    """Measured and predicted holding torques of all joints at one posture; each array is (n,).

    Attributes:
        place: mean position [rad].
        measured: mean of the joint's torques in both directions of motion, in which friction cancels [N m]. For a joint
            that hardly moved, it is the mean torque.
        expected: mean of the torques that the model predicts for the samples of `measured`, without acceleration
            [N m]. For a joint that hardly moved, it is the gravity torque at `place`.
        allowed: allowed difference [N m]; for a joint that hardly moved it includes all friction.
        drives: half of the difference between the mean torques in positive and in negative direction of motion [N m].
            It must be positive, because the motor overcomes friction; otherwise a sign in robot.yaml is wrong.
        moved: whether the joint moved long enough in both directions.
        stopped: whether the motion was aborted before the samples were taken. If so, a joint that hardly moved does not
            fail the check for this reason.
    """

    place: FloatArray
    measured: FloatArray
    expected: FloatArray
    allowed: FloatArray
    drives: FloatArray
    moved: BoolArray
    stopped: bool = False

    @classmethod
    def of(cls, model: Model, time: FloatArray, q: FloatArray, dq: FloatArray, tau: FloatArray) -> "HeldTorques":
        """Return the holding torques from samples of a `sway_motion`.

        Velocities and torques are averaged over `AVERAGED_S`, then samples near constant speed are selected by their
        velocity. Feedback makes both oscillate together, so a selection by velocities that are not averaged would
        select certain phases of the oscillation and bias the mean torque.

        Args:
            model: model of the arm as mounted.
            time: times of the samples, (N,) [s].
            q: positions, (N, n) [rad].
            dq: velocities, (N, n) [rad/s].
            tau: torques, (N, n) [N m].

        Raises:
            DataError: too few samples have torques.
        """
        finite = np.isfinite(tau).all(axis=1)
        time, q, dq, tau = time[finite], q[finite], dq[finite], tau[finite]
        if len(q) < LEAST_SAMPLES:
            raise DataError(f"{len(q)} states hold torques; expected at least {LEAST_SAMPLES}: does the arm send them?")
        width = max(1, round(AVERAGED_S / max(float(np.median(np.diff(time))), 1e-6)))
        dq, tau = _averaged(dq, width), _averaged(tau, width)
        speed, place = np.abs(dq), q.mean(axis=0)
        typical = np.array(
            [np.median(one[one > MOVING_RAD_S]) if (one > MOVING_RAD_S).any() else 1.0 for one in speed.T]
        )
        cruising = (speed > np.maximum(MOVING_RAD_S, CRUISE[0] * typical)) & (speed < CRUISE[1] * typical)
        up, down = cruising & (dq > 0.0), cruising & (dq < 0.0)
        moved = np.minimum(up.sum(axis=0), down.sum(axis=0)) >= LEAST_SAMPLES
        predicted = model.torques(q, dq, np.zeros_like(q))
        (lifted, lowered), (more, less) = ([_mean(rows, way) for way in (up, down)] for rows in (tau, predicted))
        gravity = model.gravity(place)
        return cls(
            read_only(place),
            read_only(np.where(moved, 0.5 * (lifted + lowered), tau.mean(axis=0))),
            read_only(np.where(moved, 0.5 * (more + less), gravity)),
            read_only(allowed_error(model, place, np.where(moved, FRICTION_SHARE, 1.0))),
            read_only(0.5 * (lifted - lowered)),
            moved,
        )

    @property
    def excess(self) -> FloatArray:
        """Absolute difference between measured and predicted torque, divided by the allowed difference, (n,).

        A joint passes the check if its value is at most 1.
        """
        return np.asarray(np.abs(self.measured - self.expected) / self.allowed)


def _averaged(rows: FloatArray, width: int) -> FloatArray:
    """Return the centred moving average of each column of `rows` (N, n) over up to `width` rows, (N, n)."""
    sums = np.vstack([np.zeros(rows.shape[1]), np.cumsum(rows, axis=0)])
    at = np.arange(len(rows))
    first, last = np.maximum(at - width // 2, 0), np.minimum(at + (width + 1) // 2, len(rows))
    return np.asarray((sums[last] - sums[first]) / (last - first)[:, None])


def _mean(rows: FloatArray, chosen: BoolArray) -> FloatArray:
    """Return for each column of `rows` (N, n) the mean of the entries that the mask `chosen` (N, n) selects, (n,).

    The mean of a column without selected entries is 0.
    """
    return np.asarray(np.where(chosen, rows, 0.0).sum(axis=0) / np.maximum(chosen.sum(axis=0), 1))


def holding_verdict(model: Model, shown: Sequence[HeldTorques]) -> Verdict:
    """Return a verdict with one check per joint: the largest deviation from the model over all postures in `shown`."""
    return Verdict(tuple(_check(k, name, shown) for k, name in enumerate(model.robot.joint_names)))


def _check(k: int, name: str, shown: Sequence[HeldTorques]) -> Check:
    worst = max(shown, key=lambda one: float(one.excess[k]))
    value, unmoved = float(worst.excess[k]), any(not one.moved[k] and not one.stopped for one in shown)
    finding = f"carries {worst.measured[k]:.2f} N m where the model predicts {worst.expected[k]:.2f} N m"
    if any((one.drives[k] <= 0.0) & one.moved[k] for one in shown):
        value, finding = np.inf, "has a torque against its motion: the sign of its current or position is wrong"
    elif value <= 1.0 and unmoved:
        value, finding = np.inf, "hardly moved in the sway motion: is it blocked, or its current limit too low?"
    elif value <= 1.0 and max(abs(one.expected[k]) for one in shown) < worst.allowed[k]:
        finding += ": too little to check sign and scale"
    return Check(id=f"carried_{k + 1}", name=f"{name}, difference / allowed", value=value, limit=1.0, detail=finding)


def refuse_deviation(model: Model, shown: Sequence[HeldTorques]) -> None:
    """Raise SafetyError if measured holding torques differ too much from the model.

    The message names the joints and the likely reason. `shown` are the holding torques at all postures so far.
    """
    failed = holding_verdict(model, shown).failed
    if not failed:
        return
    joints = "; ".join(f"{one.name.split(',')[0]} {one.detail}" for one in failed)
    parts = [(one.place, one.measured, one.expected, one.allowed) for one in shown]
    raise SafetyError(f"the arm is not released for hand guiding: {joints.rstrip('?')}. {reason_of(model, parts)}")


def second_posture(model: Model, first: FloatArray, allows: Allows) -> FloatArray:
    """Return a second posture for the check, (n,) [rad], so that both postures together detect the most faults.

    Possible faults are a wrong torque scale of each joint, and a wrong sign of each chain joint.

    Args:
        model: model of the arm as mounted.
        first: first posture of the check, (n,) [rad].
        allows: function that receives a motion, and raises a DynidError if the arm must not execute it.

    Raises:
        SafetyError: no posture near the first one is allowed.
    """
    robot = model.robot
    offsets = np.random.default_rng(SEED).uniform(-LARGEST_OFFSET_RAD, LARGEST_OFFSET_RAD, (CANDIDATES, robot.size))
    offsets[:, robot.chain_size :] = 0.0
    margin = 1.2 * np.minimum(SWAY_RAD, 0.4 * (robot.upper - robot.lower))
    postures = np.clip(first + offsets, robot.lower + margin, robot.upper - margin)
    effects = np.minimum(np.maximum(_fault_effects(model, postures), _fault_effects(model, first[None])), CERTAIN_RATIO)
    order = np.argsort(-effects.sum(axis=1) - effects.min(axis=1), kind="stable")
    refusal: DynidError | None = None
    for posture in postures[order]:
        try:
            allows(sway_motion(robot, posture, "hold_check_2"))
            return np.asarray(posture)
        except DynidError as error:
            refusal = error
    raise SafetyError(f"no second posture near the rest posture is allowed, so the model cannot be checked: {refusal}")


def _fault_effects(model: Model, q: FloatArray) -> FloatArray:
    """Return the effect of each possible fault on the holding torques at q (N, n) [rad], as (N, faults) [-].

    The possible faults are a wrong torque scale of each joint, and a wrong sign of each chain joint. The effect is the
    largest change of any joint's torque, divided by the allowed difference. A fault with an effect above 1 is detected.
    """
    gravity, allowed = model.gravity(q), allowed_error(model, q)
    found = [SCALE_FAULT * np.abs(gravity) / allowed]
    for k in range(model.robot.chain_size):
        found.append(_largest_ratio(flipped_gravity(model, q, k) - gravity, allowed))
    return np.hstack(found)


def _largest_ratio(apart: FloatArray, allowed: FloatArray) -> FloatArray:
    return np.asarray((np.abs(apart) / allowed).max(axis=1, keepdims=True))


def flipped_gravity(model: Model, q: FloatArray, joint: int) -> FloatArray:
    """Return the holding torques (N, n) [N m] at encoder readings q (N, n) [rad] if one joint had the opposite sign.

    `joint` is the index of this joint.
    """
    sign = np.ones(q.shape[-1])
    sign[joint] = -1.0
    return np.asarray(sign * model.gravity(sign * q))

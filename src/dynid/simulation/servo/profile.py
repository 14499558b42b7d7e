"""Motion profile of a servo to a new goal position: a step, or a rectangular or trapezoidal velocity.

Source: ROBOTIS e-manual, "What is the Profile".

In velocity-based mode, profile velocity and acceleration are limits; 0 means no limit. In time-based mode (bit 2 of the
drive mode) they are the total time and the acceleration time, in milliseconds.
"""

import math
from dataclasses import dataclass

from dynid.hardware.bus import control_table as table
from dynid.simulation.servo.servo import Servo

TIME_BASED = 1 << 2  # time-based profile bit of the drive mode
VELOCITY_PER_MS = table.VELOCITY_RAD_S_PER_COUNT / table.POSITION_RAD_PER_COUNT * 1e-3  # counts/ms per count
ACCELERATION_PER_MS2 = 214.577 * table.COUNTS_PER_TURN / 60.0**2 * 1e-6


@dataclass
class PositionProfile:
    """Position profile from a start to a goal, both in counts, at rest at both ends.

    Attributes:
        start: start position.
        goal: goal position.
        velocity: largest velocity [counts/ms]; infinite for no limit.
        acceleration: largest acceleration [counts/ms^2].
        elapsed_ms: time since the start of the profile [ms].
    """

    start: float
    goal: float
    velocity: float = math.inf
    acceleration: float = math.inf
    elapsed_ms: float = 0.0

    @classmethod
    def of(cls, servo: Servo, start: float) -> "PositionProfile":
        """Return the profile from `start` [counts] to the goal position that a servo's registers define now."""
        goal = float(servo.get(table.GOAL_POSITION))
        velocity, acceleration = servo.get(table.PROFILE_VELOCITY), servo.get(table.PROFILE_ACCELERATION)
        if not servo.get(table.DRIVE_MODE) & TIME_BASED:
            limits = velocity * VELOCITY_PER_MS or math.inf, acceleration * ACCELERATION_PER_MS2 or math.inf
            return cls(start, goal, *limits)
        if not velocity:
            return cls(start, goal)
        gains_ms = min(acceleration, velocity / 2)
        fastest = abs(goal - start) / (velocity - gains_ms)
        return cls(start, goal, fastest, fastest / gains_ms if gains_ms else math.inf)

    def advance(self, duration_ms: float) -> float:
        """Advance the profile by a time [ms] and return the reference position [counts]."""
        self.elapsed_ms += duration_ms
        distance, t = abs(self.goal - self.start), self.elapsed_ms
        velocity = min(self.velocity, math.sqrt(self.acceleration * distance))
        if not distance or math.isinf(velocity):
            return self.goal
        gains = velocity / self.acceleration  # acceleration time [ms]
        left = distance / velocity + gains - t
        if left <= 0.0:
            return self.goal
        passed = velocity * (t - 0.5 * gains)
        if t < gains:
            passed = 0.5 * self.acceleration * t * t
        elif left < gains:
            passed = distance - 0.5 * self.acceleration * left * left
        return self.start + math.copysign(passed, self.goal - self.start)

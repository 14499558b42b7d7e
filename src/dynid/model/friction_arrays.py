"""Friction law as functions of whole arrays, for programs that trace or differentiate them, such as jax.

    import jax.numpy as jnp

    friction = dynid.load_model("runs/model").friction_arrays(jnp)
    budget = jax.jit(friction.budget)(dq, motor, load)       # bound of the friction: `frictionloss` of MJX
    torque = jax.vmap(friction.torque)(dq, motor, load)      # friction of a moving joint

`dynid.model.friction` defines the law. This file computes the law with functions that numpy and jax.numpy share,
without branches, indices or arrays that change in place. A test compares both implementations.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.errors import DataError
from dynid.model.friction import SYMBOLS, FrictionLaw

SUPPORTED_TERMS = ("fv", "fb", "fa", "of", "fs", "km", "ke", "kms", "kes", "kmq", "keq", "ws", "a")
Array = Any  # array of numpy, jax.numpy or a module with the same functions


@dataclass(frozen=True, eq=False)
class ArrayFriction:
    """Friction law of n axes as functions of arrays (..., n), created by `of`.

    Attributes:
        xp: module of the arrays: numpy, jax.numpy or another one with their functions.
        values: parameters of the law by symbol, (n,) each, SI.
        transition_rad_s: transition velocity v: tanh(dq / v) replaces sign(dq); 0 keeps sign(dq).
    """

    xp: Any
    values: dict[str, Array]
    transition_rad_s: float

    @classmethod
    def of(cls, law: FrictionLaw, xp: Any) -> "ArrayFriction":
        """Return a friction law as functions of the arrays of the module `xp`.

        Raises:
            DataError: the law has a term that this file lacks.
        """
        if unknown := [one for one in SYMBOLS if one not in SUPPORTED_TERMS and one in law.terms]:
            raise DataError(f"friction has the terms {', '.join(unknown)}, which dynid.model.friction_arrays lacks")
        return cls(xp, {one: xp.asarray(np.array(law[one])) for one in SUPPORTED_TERMS}, law.transition_rad_s)

    def direction(self, dq: Array) -> Array:
        """Return sign(dq) of velocities dq (..., n) [rad/s], or tanh(dq / v) if the law has a transition velocity v."""
        return self.xp.tanh(dq / self.transition_rad_s) if self.transition_rad_s > 0.0 else self.xp.sign(dq)

    def budget(self, dq: Array, motor: Array, load: Array) -> Array:
        """Return the friction budget of each joint, (..., n) [N m]: the largest friction torque against the motion.

        Args:
            dq: velocities (..., n) [rad/s].
            motor: torques of the motors on the joints, (..., n) [N m].
            load: torques that gravity, Coriolis forces and contact put on the joints, (..., n) [N m].
        """
        return self._budget(self.xp.sign(dq), dq, motor, load)

    def torque(self, dq: Array, motor: Array, load: Array) -> Array:
        """Return the friction torques of moving joints, (..., n) [N m].

        Args:
            dq: velocities (..., n) [rad/s].
            motor: torques of the motors on the joints, (..., n) [N m].
            load: torques that gravity, Coriolis forces and contact put on the joints, (..., n) [N m].
        """
        x, p = self.direction(dq), self.values
        return p["fv"] * dq + p["of"] + x * self._budget(x, dq, motor, load)

    def _budget(self, x: Array, dq: Array, motor: Array, load: Array) -> Array:
        xp, p = self.xp, self.values
        against, smaller = motor * load < 0.0, xp.abs(load) < xp.abs(motor)
        driving, driven = p["keq"] * load * load, p["kmq"] * motor * motor
        quadratic = xp.where(against, xp.where(smaller, driving, driven), 0.0)
        faded = p["fs"] + xp.abs(p["kes"] * load - p["kms"] * motor) + quadratic
        return p["fb"] + p["fa"] * x + xp.abs(p["ke"] * load - p["km"] * motor) + self._fading(dq) * faded

    def _fading(self, dq: Array) -> Array:
        """Return the factor s = exp(-(|dq| / ws)^a) of the Stribeck terms for velocities dq (..., n) [rad/s].

        s is 1 at rest, and 0 in motion for axes without a Stribeck velocity ws. In these cases the power is computed
        with 1 in place of |dq| or ws, and is not used. So only positive numbers are raised to a power, and derivatives
        are finite everywhere.
        """
        xp, ws, a = self.xp, self.values["ws"], self.values["a"]
        rests, known = dq == 0.0, ws > 0.0
        ratio = xp.where(rests, 1.0, xp.abs(dq)) / xp.where(known, ws, 1.0)
        return xp.where(rests, 1.0, xp.where(known, xp.exp(-(ratio**a)), 0.0))

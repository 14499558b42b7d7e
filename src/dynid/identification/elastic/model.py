"""Dynamics of an arm with elastic joints, linear in 14 parameters per joint.

The link positions are q. The motor positions theta are the rotor angles divided by the gear ratios N. Body i is link i
with the stator mounted on it, and has ten parameters. Rotor i has the inertia J_i about its axis, on the joint side of
the gear (N_i^2 times the inertia on the motor side). Spring i has the stiffness K_i. The kinetic and potential energies
are

    T = T_links(q, dq) + sum_i 1/2 J_i (dtheta_i + z_i . w_{i-1} / N_i)^2
    U = U_links(q) + sum_i 1/2 K_i (q_i - theta_i)^2,

because rotor i is mounted on body i - 1, which rotates at w_{i-1}; z_i is the axis of joint i. Lagrange's equations are
2 n rows, linear in every parameter. Jw is the Jacobian of w, and FV and FC are viscous and Coulomb friction:

    0   = Y(q, dq, ddq) pi + K (q - theta) + sum_i J_i / N_i Jw_{i-1}' [
              (ddtheta_i + z_i . dw_{i-1} / N_i) z_i + (dtheta_i + z_i . w_{i-1} / N_i) w_{i-1} x z_i ]
    tau = J (ddtheta + z . dw / N) + FV dtheta + FC sign(dtheta) - K (q - theta).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynid.errors import ConfigurationError, DataError
from dynid.identification.elastic.settings import ElasticFile
from dynid.model.base_parameters import standard_names
from dynid.model.dynamics import ArmModel
from dynid.model.regressor import link_motions, standard_regressor
from dynid.model.springs import refuse_springs
from dynid.model.standard import load_nominal
from dynid.robot import FloatArray, Robot, read_only


@dataclass(frozen=True, eq=False)
class ElasticStates:
    """States of an arm with elastic joints, (N, n) each.

    Attributes:
        q: link positions [rad].
        dq: link velocities [rad/s].
        ddq: link accelerations [rad/s^2].
        theta: motor positions divided by the gear ratio [rad].
        dtheta: motor velocities divided by the gear ratio [rad/s].
        ddtheta: motor accelerations divided by the gear ratio [rad/s^2].
    """

    q: FloatArray
    dq: FloatArray
    ddq: FloatArray
    theta: FloatArray
    dtheta: FloatArray
    ddtheta: FloatArray

    def rows(self, chosen: slice) -> "ElasticStates":
        """Return the states of the samples in a slice."""
        return ElasticStates(*(one[chosen] for one in self.arrays))

    @property
    def arrays(self) -> Sequence[FloatArray]:
        """Arrays q, dq, ddq, theta, dtheta and ddtheta in this order, (N, n) each."""
        return self.q, self.dq, self.ddq, self.theta, self.dtheta, self.ddtheta


class ElasticModel:
    """Model of an arm with elastic joints, whose equations of motion are linear in 14 parameters per joint.

    Args:
        robot: geometry, mount and names.
        file: properties of the elastic joints, from elastic.yaml.
        mount: name of the arm's mount, which sets the direction of gravity; None uses the default mount.

    Raises:
        ConfigurationError: if robot.yaml declares springs, or an axis that is not a joint of the kinematic chain.
    """

    def __init__(self, robot: Robot, file: ElasticFile, mount: str | None = None) -> None:
        refuse_springs(robot, "the model with elastic joints")
        self.rigid, self.file, self.robot = ArmModel.of(robot, mount=mount), file, robot
        if self.rigid.axes != self.rigid.chain_size:
            raise ConfigurationError(
                f"{robot.name} has {self.rigid.axes} axes, of which {self.rigid.chain_size} move the chain of links: "
                "the model with elastic joints is for arms without further axes, such as a gripper's"
            )

    @property
    def size(self) -> int:
        """Number of joints n."""
        return self.rigid.axes

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the 14 n parameters: ten per body, rotor inertias IA, friction FV and FC, stiffnesses K."""
        own = standard_names(self.size, self.size)[: 10 * self.size]
        return (*own, *(f"{kind}{j + 1}" for kind in ("IA", "FV", "FC", "K") for j in range(self.size)))

    def place(self, kind: str) -> slice:
        """Return the slice of `names` that contains the n parameters of one kind.

        Args:
            kind: "IA" (rotor inertia), "FV" (viscous friction), "FC" (Coulomb friction) or "K" (stiffness).
        """
        begin = self.names.index(f"{kind}1")
        return slice(begin, begin + self.size)

    @cached_property
    def nominal(self) -> FloatArray:
        """Nominal parameters of the robot in the order of `names`, (14 n,)."""
        standard = load_nominal(self.robot, self.rigid.mdh)
        known = dict(zip(standard.names, standard.values.tolist(), strict=True))
        known |= {f"K{j + 1}": value for j, value in enumerate(self.file.stiffness_nm_per_rad)}
        return read_only(np.array([known[name] for name in self.names]))

    def regressor(self, states: ElasticStates) -> FloatArray:
        """Return the regressor W (N, 2 n, 14 n), with n rows for the links and then n rows for the motors.

        W times the parameters is 0 in the rows of the links, and the motor torque in the rows of the motors.

        Args:
            states: states of N samples.

        Raises:
            DataError: if the states have the wrong shape.
        """
        n, shapes = self.size, {one.shape for one in states.arrays}
        if len(shapes) > 1 or states.q.ndim != 2 or states.q.shape[1] != n:
            raise DataError(f"elastic states must be (N, {n}) each, got {sorted(shapes)}")
        W = np.zeros((len(states.q), 2 * n, len(self.names)))
        links = self.rigid.mdh, states.q, states.dq, states.ddq, self.rigid.gravity
        motions, W[:, :n, : 10 * n] = link_motions(*links), standard_regressor(*links)
        each, motor = np.arange(n), n + np.arange(n)
        rotors, gears = self.place("IA").start, self.file.gears
        W[:, motor, rotors + each] = states.ddtheta
        for i in range(1, n):
            carrier, N = motions[i - 1], gears[i]
            z = self.axis_in_carrier(i)
            acceleration = states.ddtheta[:, i] + carrier.dw @ z / N
            speed = states.dtheta[:, i] + carrier.w @ z / N
            moment = (acceleration[:, None] * z + speed[:, None] * np.cross(carrier.w, z)) / N
            W[:, :i, rotors + i] = np.einsum("nia,na->ni", carrier.Jw, moment)
            W[:, n + i, rotors + i] = acceleration
        W[:, motor, self.place("FV").start + each] = states.dtheta
        W[:, motor, self.place("FC").start + each] = np.sign(states.dtheta)
        stretch = states.q - states.theta
        W[:, each, self.place("K").start + each] = stretch
        W[:, motor, self.place("K").start + each] = -stretch
        return W

    def axis_in_carrier(self, joint: int) -> FloatArray:
        """Return the axis of a joint in the frame of the preceding body, which carries the joint's motor, (3,).

        Args:
            joint: index of the joint, from 0.
        """
        return np.asarray(self.rigid.mdh.relative_rotations(np.zeros((1, self.size)))[0, joint][:, 2])

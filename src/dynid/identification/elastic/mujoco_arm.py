"""Simulation of an arm with elastic joints in MuJoCo, which does not use the equations of the module `model`.

In MuJoCo, rotors are bodies and springs are tendons. The coordinates are the joint angles q and the rotor angles N
theta, with gear ratios N and motor positions theta on the joint side of the gear.
"""

from xml.sax.saxutils import quoteattr

import mujoco
import numpy as np

from dynid.errors import ConfigurationError, DataError
from dynid.identification.elastic.model import ElasticModel
from dynid.model.standard import six, tensor
from dynid.robot import FloatArray

ROTOR_MASS_KG = 1e-9  # positive as MuJoCo requires; the true mass is part of the body on which the rotor is mounted


def _numbers(values: FloatArray) -> str:
    return " ".join(repr(float(value)) for value in np.ravel(values))


def _quaternion(rotation: FloatArray) -> str:
    quaternion = np.zeros(4)
    mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(rotation).ravel())
    return _numbers(quaternion)


def _inertial(mass: float, centre: FloatArray, inertia: FloatArray) -> str:
    xx, xy, xz, yy, yz, zz = six(inertia)
    full = _numbers(np.array([xx, yy, zz, xy, xz, yz]))
    return f'<inertial mass="{mass!r}" pos="{_numbers(centre)}" fullinertia="{full}"/>'


def _body_inertial(model: ElasticModel, parameters: FloatArray, body: int) -> str:
    """Return the MJCF element with mass and inertia of a body, without the inertia of the rotor mounted on it.

    The parameters of the body include the rotor's inertia about axes perpendicular to the rotor axis, so it is
    subtracted.

    Args:
        model: geometry and gear ratios.
        parameters: parameters in the order of the model's names, (14 n,).
        body: index of the body, from 0.
    """
    ten = parameters[10 * body : 10 * (body + 1)]
    inertia, mass = tensor(ten[:6]), float(ten[9])
    if body + 1 < model.size:
        z = model.axis_in_carrier(body + 1)
        inertia = inertia - 0.5 * _spin(model, parameters, body + 1) * (np.eye(3) - np.outer(z, z))
    centre = ten[6:9] / mass
    return _inertial(mass, centre, inertia - mass * (centre @ centre * np.eye(3) - np.outer(centre, centre)))


def _spin(model: ElasticModel, parameters: FloatArray, joint: int) -> float:
    """Return a rotor's inertia about its axis, on the motor side of the gear [kg m^2].

    Args:
        model: gear ratios.
        parameters: parameters in the order of the model's names, (14 n,).
        joint: index of the joint, from 0.
    """
    return float(parameters[model.place("IA")][joint] / model.file.gears[joint] ** 2)


def elastic_mjcf(model: ElasticModel, parameters: FloatArray, step_s: float) -> str:
    """Return the MJCF text of an arm with elastic joints, without friction.

    Args:
        model: geometry and gear ratios.
        parameters: parameters in the order of the model's names, (14 n,).
        step_s: step of the Runge-Kutta integration [s].

    Raises:
        DataError: if the number of parameters is wrong.
    """
    if parameters.shape != (len(model.names),):
        raise DataError(f"an arm with elastic joints has {len(model.names)} parameters, got {parameters.shape}")
    mdh, n = model.rigid.mdh, model.size
    rotations, positions = mdh.relative_rotations(np.zeros((1, n)))[0], mdh.relative_positions()
    base_position, base_rotation = mdh.base[:3, 3], mdh.base[:3, :3]
    opened, tendons = [], []
    for j in range(n):
        place, turn = positions[j], rotations[j]
        if j == 0:  # frame 0 is the base's
            place, turn = base_rotation @ place + base_position, base_rotation @ turn
        at = f'pos="{_numbers(place)}" quat="{_quaternion(turn)}"'
        spin = _spin(model, parameters, j)
        axis = 'axis="0 0 1" limited="false"'
        opened.append(
            f'<body name="rotor_{j}" {at}><joint name="theta_{j}" {axis}/>'
            f"{_inertial(ROTOR_MASS_KG, np.zeros(3), np.diag([0.5 * spin, 0.5 * spin, spin]))}</body>"
            f'<body name="link_{j}" {at}><joint name="q_{j}" {axis}/>{_body_inertial(model, parameters, j)}'
        )
        stiffness, ratio = parameters[model.place("K")][j], float(model.file.gears[j])
        tendons.append(
            f'<fixed name="spring_{j}" stiffness="{float(stiffness)!r}" springlength="0">'
            f'<joint joint="q_{j}" coef="1"/><joint joint="theta_{j}" coef="{-1.0 / ratio!r}"/></fixed>'
        )
    return (
        f"<mujoco model={quoteattr(model.robot.name)}>"
        '<compiler angle="radian" autolimits="false" balanceinertia="false" inertiafromgeom="false"/>'
        f'<option timestep="{step_s!r}" integrator="RK4" gravity="{_numbers(model.rigid.gravity)}"/>'
        f"<worldbody>{''.join(opened)}{'</body>' * n}</worldbody><tendon>{''.join(tendons)}</tendon></mujoco>"
    )


class MujocoElasticArm:
    """Arm with elastic joints in MuJoCo, without friction.

    Args:
        model: geometry and gear ratios.
        parameters: parameters in the order of the model's names, (14 n,).
        step_s: step of the Runge-Kutta integration [s].

    Raises:
        DataError: if the number of parameters is wrong.
        ConfigurationError: if MuJoCo rejects the arm.
    """

    def __init__(self, model: ElasticModel, parameters: FloatArray, step_s: float = 5e-5) -> None:
        text = elastic_mjcf(model, parameters, step_s)
        try:
            self.model = mujoco.MjModel.from_xml_string(text)
        except ValueError as error:
            raise ConfigurationError(
                f"robot '{model.robot.name}': MuJoCo refuses the arm with elastic joints ({error}); every rotor needs "
                "inertia, and every link enough to subtract the rotor it carries"
            ) from error
        self.data = mujoco.MjData(self.model)
        self.gears = model.file.gears
        places = [[self.model.joint(f"{kind}_{j}").qposadr[0] for j in range(model.size)] for kind in ("q", "theta")]
        self.links, self.rotors = np.array(places)

    def set_state(self, q: FloatArray, theta: FloatArray, dq: FloatArray, dtheta: FloatArray) -> None:
        """Set positions and velocities of links and motors, (n,) each.

        Args:
            q: link positions [rad].
            theta: motor positions divided by the gear ratio [rad].
            dq: link velocities [rad/s].
            dtheta: motor velocities divided by the gear ratio [rad/s].
        """
        self.data.qpos[self.links], self.data.qpos[self.rotors] = q, theta * self.gears
        self.data.qvel[self.links], self.data.qvel[self.rotors] = dq, dtheta * self.gears

    def accelerations(self, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the accelerations of links and motors in the present state, (n,) each [rad/s^2].

        The accelerations of the motors are divided by the gear ratios.

        Args:
            tau: motor torques on the joint side of the gears, (n,) [N m].
        """
        self.apply(tau)
        mujoco.mj_forward(self.model, self.data)
        return self.data.qacc[self.links].copy(), self.data.qacc[self.rotors] / self.gears

    def apply(self, tau: FloatArray) -> None:
        """Set the motor torques that act from now on.

        Args:
            tau: torques on the joint side of the gears, (n,) [N m].
        """
        self.data.qfrc_applied[self.rotors] = tau / self.gears

    def step(self) -> None:
        """Advance the simulation by one integration step."""
        mujoco.mj_step(self.model, self.data)

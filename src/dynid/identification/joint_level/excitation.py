"""Identification of single joints: extraction of open-loop segments from recorded excitations, and fits to them."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from dynid.control.controller import ControllerSettings
from dynid.control.motion_check import nominal_torques
from dynid.control.open_loop import PREFIX
from dynid.errors import DataError
from dynid.hardware.bus.control_table import POSITION_RAD_PER_COUNT
from dynid.identification.joint_level.arx import ArxFit, fit_arx
from dynid.identification.joint_level.first_order import LEAD, FirstOrderFit, Segment, fit_first_order
from dynid.recording.driver_recording import DriverRecording
from dynid.resources import write_whole, yaml_text
from dynid.robot import FloatArray, Robot

GAP_CYCLES = 1.5
SAME_STAMP_OF_CYCLE = 0.25
HELD_S = 0.02
RESPONSE_HZ = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)


@dataclass(frozen=True, eq=False)
class ExcitedJoint:
    """Recorded excitation of one joint of an arm, with N states of all n joints.

    Attributes:
        joint: index of the joint.
        time: timestamps of the states, (N,) [s].
        q: positions, (N, n) [rad].
        command: torques that the controller commanded in response to each state, (N, n) [N m].
        dq_ref: reference velocity of each state, (N, n) [rad/s].
        ddq_ref: reference acceleration of each state, (N, n) [rad/s^2]; it contains the excitation signal.
        torque_constants: torque constants, (n,) [N m/A].
        mount: name of the arm's mount.
        source: path of the recording.
    """

    joint: int
    time: FloatArray
    q: FloatArray
    command: FloatArray
    dq_ref: FloatArray
    ddq_ref: FloatArray
    torque_constants: FloatArray
    mount: str
    source: str


@dataclass(frozen=True, eq=False)
class JointLevel:
    """Identification result of one joint: the first-order model, the fourth-order model, and the recordings.

    Attributes:
        name: name of the joint.
        joint: index of the joint.
        first_order: first-order model with dead time (arXiv:2605.15949, eq. 1).
        arx: fourth-order model; if the data are not sufficient for a fit, the reason as text.
        source: paths of the recordings.
    """

    name: str
    joint: int
    first_order: FirstOrderFit
    arx: ArxFit | str
    source: str

    def as_dict(self) -> dict[str, Any]:
        """Return the joint's identification result as a dict of plain values, including both frequency responses."""
        fit, hertz = self.first_order, np.array(RESPONSE_HZ)
        bounded = {
            "gain_rad_s_per_nm": fit.gain,
            "time_constant_s": fit.time_constant,
            "dead_time_s": fit.dead_time,
            "coulomb_friction_nm": fit.coulomb,
        }
        responses = {"first_order": fit.response(hertz)}
        fourth: dict[str, Any] = {"refused": self.arx}
        if isinstance(self.arx, ArxFit):
            responses["arx"] = self.arx.response(hertz)
            fourth = {"a": self.arx.a.tolist(), "b": self.arx.b.tolist(), "interval_s": self.arx.interval_s}
        return {
            key: {"value": one.value, "lower_95": one.lower, "upper_95": one.upper} for key, one in bounded.items()
        } | {
            "inertia_kg_m2": fit.inertia,
            "damping_nm_s_rad": fit.damping,
            "play_deg": float(np.rad2deg(fit.play)),
            "samples": fit.samples,
            "missing_share": fit.missing,
            "doubts": list(fit.doubts),
            "normalised_error": fit.normalised_error,
            "arx": fourth,
            "response": {
                "frequency_hz": list(RESPONSE_HZ),
                **{
                    kind: {
                        "magnitude_db": (20.0 * np.log10(np.abs(values))).tolist(),
                        "phase_deg": np.rad2deg(np.unwrap(np.angle(values))).tolist(),
                    }
                    for kind, values in responses.items()
                },
            },
            "source": self.source,
        }


def excited_joints(recording: DriverRecording) -> list[ExcitedJoint]:
    """Return the excitations of single joints that a driver recording contains.

    Raises:
        DataError: the recording contains no excitation, or commands or reference were not recorded.
    """
    found = []
    for experiment in recording.experiments:
        if not experiment.trajectory.startswith(PREFIX):
            continue
        span = recording.trajectory_span(experiment)
        if recording.commands is None or recording.reference is None:
            raise DataError(f"{recording.source} lacks joint_commands or reference, so the excitation is unknown")
        part = recording.window(max(span[0] - LEAD * recording.hardware.cycle_s, recording.time[0]), span[1])
        assert part.commands is not None and part.reference is not None
        found.append(
            ExcitedJoint(
                joint=int(experiment.trajectory.removeprefix(PREFIX)) - 1,
                time=part.time,
                q=part.q,
                command=_at_states(part.time, part.commands.time, part.commands.tau, recording.hardware.cycle_s),
                dq_ref=_at_states(part.time, part.reference.time, part.reference.dq, recording.hardware.cycle_s),
                ddq_ref=_at_states(part.time, part.reference.time, part.reference.ddq, recording.hardware.cycle_s),
                torque_constants=np.array(recording.hardware.torque_constants_nm_per_a),
                mount=recording.hardware.mount,
                source=str(recording.source),
            )
        )
    if not found:
        names = ", ".join(one.trajectory for one in recording.experiments) or "none"
        raise DataError(
            f"{recording.source} holds no joint excitation ('{PREFIX}<number>'); its experiments are: {names}"
        )
    return found


def _at_states(time: FloatArray, stamps: FloatArray, values: FloatArray, cycle: float) -> FloatArray:
    """Return for each state the values of the message that was sent in response to this state, (N, n).

    If the message is missing, the values of the previous message are repeated.

    Args:
        time: timestamps of the states, (N,) [s].
        stamps: timestamps of the messages, (M,) [s].
        values: values of the messages, (M, n).
        cycle: control cycle [s].
    """
    index = np.searchsorted(stamps, time + SAME_STAMP_OF_CYCLE * cycle, side="right") - 1
    return np.asarray(values[np.maximum(index, 0)])


def segments(excited: ExcitedJoint, robot: Robot) -> tuple[list[Segment], float]:
    """Return the open-loop sections of a joint's excitation, and the time between two states [s].

    A section is recognised by its reference: the reference velocity is zero, but the reference acceleration, which
    contains the excitation signal, is not. The torques of a section are the commanded torques minus the gravity torques
    of the arm's nominal model. As in the servo, the commanded torques are first rounded to the resolution of the goal
    current, and limited to the torque of the largest permitted current.

    Args:
        excited: recorded excitation of the joint.
        robot: the robot.

    Raises:
        DataError: the excitation has too few states.
    """
    j = excited.joint
    if len(excited.time) < 2 * LEAD:
        raise DataError(f"{excited.source}: the excitation of joint {j + 1} has {len(excited.time)} states only")
    between = np.diff(excited.time)
    dt = float(between[between < GAP_CYCLES * np.median(between)].mean())
    unit = robot.current_units[j] * excited.torque_constants[j]
    limit = robot.current_limits[j] * excited.torque_constants[j]
    still = np.zeros_like(excited.q)
    load = nominal_torques(robot, excited.mount)(excited.q, still, still)[:, j]
    net = np.clip(np.rint(excited.command[:, j] / unit) * unit, -limit, limit) - load
    driven = (excited.dq_ref[:, j] == 0.0) & (excited.ddq_ref[:, j] != 0.0)
    # a servo holds its current while states are missing; after `HELD_S` the driver reduces it
    cycles = np.concatenate([[1], np.rint(between / dt).astype(int)])
    places = np.cumsum(cycles)
    found = []
    for begin, end in _stretches(driven, cycles * dt > HELD_S):
        if places[begin] - places[0] < LEAD:
            continue  # the commands that still act at the start of the section are unknown
        q = np.full(places[end - 1] - places[begin] + 1, np.nan)
        q[places[begin:end] - places[begin]] = excited.q[begin:end, j]
        instants = np.arange(places[begin] - LEAD, places[end - 1] + 1)
        found.append(Segment(q, net[np.searchsorted(places, instants, side="right") - 1]))
    return found, dt


def _stretches(driven: NDArray[np.bool_], late: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield start and end index of each section in which the joint is excited without feedback.

    Args:
        driven: mask of the states with excitation, (N,).
        late: mask of the states that came too late after the previous state, (N,); a section ends before its first late
            state.
    """
    for (states,) in ndimage.find_objects(ndimage.label(driven)[0]):
        gaps = np.flatnonzero(late[states.start + 1 : states.stop])
        yield states.start, states.start + 1 + int(gaps[0]) if len(gaps) else states.stop


def identify_joint(excited: Sequence[ExcitedJoint], robot: Robot, controller: ControllerSettings) -> JointLevel:
    """Fit a first-order and a fourth-order model to all excitations of one joint, and return both models.

    Args:
        excited: recorded excitations of the joint.
        robot: the robot.
        controller: controller settings, whose inertia and damping are the initial values of the fit.

    Raises:
        DataError: the excitations belong to several joints, or the first-order model cannot be fitted.
    """
    joint = excited[0].joint
    name = robot.joint_names[joint]
    parts, steps = [], []
    for one in excited:
        if one.joint != joint:
            raise DataError(f"excitations of joints {joint + 1} and {one.joint + 1} cannot be fitted together")
        found, dt = segments(one, robot)
        parts += found
        steps.append(dt)
    dt = float(np.median(steps))
    start = (controller.inertia_kg_m2[joint], max(controller.damping_nm_s_rad[joint], 1e-4))
    try:
        first = fit_first_order(parts, dt, POSITION_RAD_PER_COUNT, start)
    except DataError as error:
        raise DataError(f"{name}: {error}; {_tried_torque(excited, robot)}") from None
    try:
        arx: ArxFit | str = fit_arx(parts, dt, first)
    except DataError as error:
        arx = str(error)
    return JointLevel(name, joint, first, arx, ", ".join(dict.fromkeys(one.source for one in excited)))


def _tried_torque(excited: Sequence[ExcitedJoint], robot: Robot) -> str:
    """Return advice for a joint that hardly moved; the text states the largest torque applied by the excitations."""
    joint, most = excited[0].joint, 0.0
    for one in excited:
        still = np.zeros_like(one.q)
        load = nominal_torques(robot, one.mount)(one.q, still, still)[:, joint]
        most = max(most, float(np.abs(one.command[:, joint] - load).max()))
    return (
        f"up to {most:.3g} N m on top of the gravity torque did not move it, and its limit is "
        f"{robot.torque_limits[joint]:.3g} N m: check whether the joint is blocked, whether its servo has power, "
        "and whether the limit exceeds the friction of its gear"
    )


def controller_settings(found: Sequence[JointLevel], controller: ControllerSettings) -> ControllerSettings:
    """Return controller settings with the inertia M_hat = Tp1 / Kp and damping D_hat = 1 / Kp of identified joints.

    The time constant Tp1 and the gain Kp are those of arXiv:2605.15949, eq. 1. Other joints keep their values.
    """
    inertia, damping = list(controller.inertia_kg_m2), list(controller.damping_nm_s_rad)
    for one in found:
        inertia[one.joint] = float(f"{one.first_order.inertia:.6g}")
        damping[one.joint] = float(f"{one.first_order.damping:.6g}")
    return controller.model_copy(update={"inertia_kg_m2": tuple(inertia), "damping_nm_s_rad": tuple(damping)})


def write_controller(path: Path, found: Sequence[JointLevel], controller: ControllerSettings) -> None:
    """Write a new file controller.yaml with the identified inertia and damping of joints.

    Args:
        path: the new file.
        found: identification results of the joints.
        controller: previous settings, from which all other values are copied.

    Raises:
        OutputExistsError: the file exists.
        DataError: the fit of a joint is unreliable.
    """
    for one in found:
        if one.first_order.doubts:
            raise DataError(f"{path} is not written: joint {one.joint + 1}: {'; '.join(one.first_order.doubts)}")
    joints = ", ".join(str(one.joint + 1) for one in found)
    head = (
        "# FF+PD with pseudo-differentiation (arXiv:2605.15949, eq. 2), one value per joint, in robot.yaml's order.\n"
        f"# M_hat = Tp1 / Kp and D_hat = 1 / Kp of joints {joints} were identified (section III-B) from\n"
        + "".join(f"#   {source}\n" for source in dict.fromkeys(one.source for one in found))
        + "# They serve to execute motions, not as a model. The gains are copied from the previous file.\n"
    )
    content = json.loads(controller_settings(found, controller).model_dump_json())
    write_whole(path, head + yaml_text(content, width=120, rows=True))

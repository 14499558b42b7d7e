"""The closed-loop simulation against plain loops and MuJoCo, its Jacobian against finite differences."""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from arms import arm, nominal, plant

from dynid.control.controller import ControllerSettings, load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import ConfigurationError, DataError
from dynid.identification.closed_loop.loop_data import ClosedLoopData
from dynid.identification.closed_loop.sampling import impulse_response
from dynid.identification.closed_loop.simulation import ClosedLoop, LoopOptions, LoopSimulation
from dynid.identification.data.preprocessing import LowPass
from dynid.identification.settings import FilterSettings
from dynid.model.dynamics import ArmModel
from dynid.model.mdh import MdhChain
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Structure, load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.plant.nuisances import DELAY, NUISANCES
from dynid.trajectory.families import load_excitation
from dynid.trajectory.trajectory import Trajectory, through

pytestmark = pytest.mark.slow  # its kernels take a quarter of a minute to compile

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
PHI = nominal("crane_x7")
SETTINGS = load_controller(ROBOT)
CYCLE = 0.001


def short_motion() -> Trajectory:
    """All axes through a few postures, about 3 s."""
    corners = np.deg2rad(
        [[0, 0, 0, -90, 0, 0, 0, 0], [-30, 25, 35, -60, 40, 30, 40, 30], [20, -15, -20, -110, -30, -40, -30, 5]]
    )
    limits = np.full(8, 2.5), np.full(8, 8.0)
    return through("short", ROBOT.joint_names, np.concatenate([corners, corners[:1]]), *limits)


def data_of(
    trajectory: Trajectory, interval: float = 0.02, response: FloatArray | None = None, cycles: int | None = None
) -> ClosedLoopData:
    times = CYCLE * np.arange(cycles or int(trajectory.duration / CYCLE))
    q, dq, ddq = trajectory.sample_all(times)
    samples = np.arange(0.1, times[-1] - 0.1, interval)
    initial = np.array([q[0], dq[0]])
    weights = np.ones(1) if response is None else response
    return ClosedLoopData(q, dq, ddq, samples, np.zeros((len(samples), q.shape[1])), initial, weights)


@pytest.fixture(scope="module")
def loop() -> ClosedLoop:
    return ClosedLoop(MODEL, SETTINGS, data_of(short_motion()))


@pytest.fixture(scope="module")
def simulation(loop: ClosedLoop) -> LoopSimulation:
    return loop.simulate(PHI)


def plain_commands(
    model: ArmModel, settings: ControllerSettings, data: ClosedLoopData, phi: BaseParameters, late: int
) -> FloatArray:
    """The same loop with the product's controller and the reference model's forward dynamics, one step at a time."""
    law = FeedforwardPd(settings)
    assert data.initial_state is not None
    q, dq = np.array(data.initial_state)
    law.reset(q)
    commands: list[FloatArray] = []
    pending: deque[FloatArray] = deque()
    h = data.cycle_s
    for k in range(len(data.q_ref)):
        commands.append(law.update(h, q, data.q_ref[k], data.dq_ref[k], data.ddq_ref[k]))
        pending.extend([commands[-1]] * (late + 1 if k == 0 else 1))
        tau = pending.popleft() + (0.0 if data.external is None else data.external[k])

        def slope(x: FloatArray, v: FloatArray, tau: FloatArray = tau) -> FloatArray:
            return model.forward_dynamics(x[None], v[None], tau[None], phi)[0]

        a1 = slope(q, dq)
        v2 = dq + h / 2 * a1
        a2 = slope(q + h / 2 * dq, v2)
        v3 = dq + h / 2 * a2
        a3 = slope(q + h / 2 * v2, v3)
        v4 = dq + h * a3
        a4 = slope(q + h * v3, v4)
        q, dq = q + h / 6 * (dq + 2 * v2 + 2 * v3 + v4), dq + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    return np.array(commands)


def pendulum_with_hand() -> tuple[ArmModel, BaseParameters, ControllerSettings]:
    """Two skewed joints and one decoupled axis: nothing in the kernels knows the shipped robot."""
    alpha, d, r, offset = (np.array(a) for a in ([0.2, -1.3], [0.0, 0.25], [0.1, 0.2], [0.3, -0.4]))
    chain = MdhChain(alpha, d, r, offset, np.eye(4), np.tile(np.eye(4), (2, 1, 1)))
    model = ArmModel(chain, 3, Structure(products_of_inertia=True), np.array([0.0, 2.0, -9.0]))
    kinds = {"MX": 0.1, "MY": 0.05, "MYR": 0.07, "MXR": 0.1, "XXR": 0.01, "XY": 0.002, "XZ": 0.003, "YZ": -0.002}
    values = [kinds.get(name.rstrip("0123456789"), 0.08) for name in model.names]
    settings = ControllerSettings(
        schema_version=1,
        proportional_gain_1_s2=(900,) * 3,
        velocity_gain_1_s=(60,) * 3,
        inertia_kg_m2=(0.1, 0.1, 0.1),
        damping_nm_s_rad=(0.1, 0.1, 0.1),
        pseudo_differentiation_s=0.002,
    )
    return model, BaseParameters(model.names, np.array(values)), settings


@pytest.mark.parametrize(("late", "loaded"), [(0, False), (1, True), (2, False)])
def test_the_loop_equals_a_plain_loop_around_the_reference_model(late: int, loaded: bool) -> None:
    model, phi, settings = pendulum_with_hand()
    t = CYCLE * np.arange(400)[:, None]
    amplitude, rate = np.array([0.5, -0.7, 0.4]), np.array([3.0, 4.0, 5.0])
    q, dq = amplitude * (1 - np.cos(rate * t)), amplitude * rate * np.sin(rate * t)
    samples = np.array([0.1, 0.2])
    initial = np.array([q[0] + 0.05, 0 * q[0]])
    external = 0.3 * np.sin(np.array([7.0, 11.0, 13.0]) * t) if loaded else None
    data = ClosedLoopData(
        q,
        dq,
        amplitude * rate**2 * np.cos(rate * t),
        samples,
        np.zeros((2, 3)),
        initial,
        external=external,
        delay_cycles=late,
    )
    found = ClosedLoop(model, settings, data).simulate(phi)
    assert found.completed
    expected = plain_commands(model, settings, data, phi, late)
    np.testing.assert_allclose(found.motion[2], expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(found.tau, expected[[100, 200]], atol=1e-6 * np.abs(expected).max())


def test_the_loop_is_that_of_the_simulated_arm_with_its_delay() -> None:
    """MuJoCo behind the servo emulation, in lock-step: another plant, another law, another integrator."""
    motion = short_motion()
    off = [name for name in NUISANCES if name != DELAY]
    how = {"switched_off": off, "q0": motion.start, "to_rest": False, "friction": "viscous"}
    run = simulate(ROBOT, motion, FeedforwardPd(SETTINGS), **how)
    samples = np.arange(1.0, len(run.q) * CYCLE - 0.1, 0.01)
    measured = run.torque_command[np.rint(samples / CYCLE).astype(int)]
    start = np.array([run.q[0], 0 * run.q[0]])
    data, truth = ClosedLoopData(run.q_ref, run.dq_ref, run.ddq_ref, samples, measured, start), plant("crane_x7")
    errors = {
        late: np.abs(ClosedLoop(MODEL, SETTINGS, data, LoopOptions(delay_cycles=late)).simulate(truth).tau - measured)
        for late in (0, 1)
    }
    assert errors[1].max() < 1e-5
    assert errors[0].max() > 1e-3  # a loop without the delay is another loop


def test_the_gap_between_stretches_bounds_their_error(loop: ClosedLoop, simulation: LoopSimulation) -> None:
    everything = LoopOptions(warm_up_s=loop.cycles * CYCLE)  # every stretch starts at the motion's own start
    sequential = ClosedLoop(MODEL, SETTINGS, loop.data, everything).simulate(PHI)
    assert sequential.gap_nm < 1e-12
    assert simulation.gap_nm < 1e-6
    np.testing.assert_allclose(simulation.motion[2], sequential.motion[2], atol=1e-6)
    hasty = ClosedLoop(MODEL, SETTINGS, loop.data, LoopOptions(warm_up_s=0.05, gap_nm=1e9))
    error = np.abs(hasty.simulate(PHI).motion[2] - sequential.motion[2]).max()
    assert error > 1e-3 and hasty.simulate(PHI).gap_nm > 0.1 * error  # the gap tells
    patient = ClosedLoop(MODEL, SETTINGS, loop.data, LoopOptions(warm_up_s=0.05)).simulate(PHI)
    assert patient.warm_up_s > 0.05 and patient.gap_nm < 1e-6


def test_the_papers_integration_is_close(loop: ClosedLoop, simulation: LoopSimulation) -> None:
    paper = ClosedLoop(MODEL, SETTINGS, loop.data, LoopOptions(integrator="trapezoid")).simulate(PHI)
    difference = np.abs(paper.tau - simulation.tau).max()
    assert 1e-9 < difference < 1e-4


def test_an_arm_that_has_settled_starts_in_equilibrium(loop: ClosedLoop) -> None:
    settled = ClosedLoop(MODEL, SETTINGS, replace(loop.data, initial_state=None)).simulate(PHI)
    q, dq, command = settled.motion[:, 0]
    np.testing.assert_allclose(dq, 0.0, atol=1e-6)
    gravity = MODEL.inverse_dynamics(q[None], np.zeros((1, 8)), np.zeros((1, 8)), PHI)[0]
    np.testing.assert_allclose(command, gravity, atol=1e-5)
    assert np.abs(q - loop.data.q_ref[0]).max() > 1e-3  # the law has no gravity term: the arm sags


@pytest.mark.parametrize(
    ("filtered", "at_rest", "late", "loaded"),
    [(False, False, 1, False), (True, False, 2, True), (False, True, 0, False), (True, True, 1, True)],
)
def test_jacobian_is_that_of_finite_differences(filtered: bool, at_rest: bool, late: int, loaded: bool) -> None:
    low_pass = LowPass(FilterSettings(), 0.02, CYCLE)
    response = impulse_response(low_pass.apply, 600) if filtered else None
    data = data_of(short_motion(), response=response)
    if at_rest:
        data = replace(data, initial_state=None)
    load = 0.2 * np.tanh(data.dq_ref / 0.02) if loaded else None  # as sharp as known friction
    loop = ClosedLoop(MODEL, SETTINGS, replace(data, external=load, delay_cycles=late))
    simulation = loop.simulate(PHI)
    differences = np.empty((len(data.tau), 8, len(MODEL.names)))
    for k in range(len(MODEL.names)):
        step = np.zeros(len(MODEL.names))
        step[k] = 1e-5
        ahead, behind = loop.simulate(PHI.values + step), loop.simulate(PHI.values - step)
        differences[:, :, k] = (ahead.tau - behind.tau) / 2e-5
    size = np.linalg.norm(differences, axis=(0, 1))
    error = {
        stride: np.linalg.norm(loop.jacobian(simulation, PHI, stride) - differences, axis=(0, 1)) / size
        for stride in (2, 8)
    }
    assert error[2].max() < 0.01 and np.median(error[2]) < 1e-3
    assert np.median(error[8]) < 0.02
    assert np.median(error[8]) > np.median(error[2])  # finer steps are better steps
    # the regressor on the motion is not the Jacobian: the simulated states depend on phi, too
    q, dq = simulation.motion[0], simulation.motion[1]
    W = MODEL.regressor(q, dq, np.gradient(dq, CYCLE, axis=0))[np.rint(data.sample_times / CYCLE).astype(int)]
    assert np.median(np.linalg.norm(W - differences, axis=(0, 1)) / size) > 5 * np.median(error[2])


def test_failed_simulations_name_their_cause(loop: ClosedLoop) -> None:
    names = list(MODEL.names)
    indefinite = np.array(PHI.values)
    indefinite[names.index("IA7")] = -0.02
    found = loop.simulate(indefinite)
    assert found.outcome == "indefinite" and "not positive definite" in found.sentence() and len(found.tau) == 0
    runaway = np.array(PHI.values)
    runaway[names.index("FV4")] = -9.0
    found = loop.simulate(runaway)
    assert found.outcome == "out_of_range" and found.failed_after_s > 0
    with pytest.raises(DataError, match="did not complete"):
        loop.jacobian(found, runaway)


def test_inconsistent_loop_inputs_are_refused(loop: ClosedLoop, simulation: LoopSimulation) -> None:
    with pytest.raises(ConfigurationError, match="Coulomb"):
        ClosedLoop(ArmModel.of(ROBOT, structure=Structure(coulomb_friction=True)), SETTINGS, loop.data)
    with pytest.raises(ConfigurationError, match="3 joints"):
        ClosedLoop(MODEL, pendulum_with_hand()[2], loop.data)
    with pytest.raises(ConfigurationError, match="stride is 3"):
        loop.jacobian(simulation, PHI, 3)
    with pytest.raises(DataError, match="not finite"):
        replace(loop.data, tau=np.full_like(loop.data.tau, np.nan))
    with pytest.raises(DataError, match="increase"):
        replace(loop.data, sample_times=loop.data.sample_times[::-1])
    with pytest.raises(DataError, match="tau is"):
        replace(loop.data, tau=loop.data.tau[:-1])
    with pytest.raises(DataError, match="another model"):
        loop.simulate(BaseParameters(("A",), np.zeros(1)))
    with pytest.raises(ValueError, match="read-only"):
        simulation.tau[0] = 0.0


def test_samples_are_filtered_as_the_measured_side_is() -> None:
    trajectory = load_excitation(ROBOT).trajectory("AP01", "limited")
    low_pass = LowPass(FilterSettings(), 0.04, CYCLE)
    data = data_of(trajectory, 0.04, impulse_response(low_pass.apply, 1900))
    found = ClosedLoop(MODEL, SETTINGS, data).simulate(PHI)
    expected = low_pass.apply(found.motion[2])[np.rint(data.sample_times / CYCLE).astype(int)]
    inner = slice(10, -10)  # near the ends the two continue the data differently
    np.testing.assert_allclose(found.tau[inner], expected[inner], atol=1e-5)
    assert np.abs(found.tau - found.motion[2][np.rint(data.sample_times / CYCLE).astype(int)]).max() > 1e-3
    late = ClosedLoop(MODEL, SETTINGS, replace(data, sample_times=data.sample_times + 0.0003)).simulate(PHI).tau
    node = np.rint(data.sample_times / CYCLE).astype(int)
    smooth = low_pass.apply(found.motion[2])
    np.testing.assert_allclose(late[inner], (0.7 * smooth[node] + 0.3 * smooth[node + 1])[inner], atol=1e-5)

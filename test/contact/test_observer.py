"""The momentum observer against pinocchio: its terms, and its estimates for an arm simulated by pinocchio."""

import numpy as np
import pinocchio
import pytest

from dynid.contact.observer import STEP_RAD, MomentumObserver
from dynid.control.control_model import ControlModel
from dynid.errors import ConfigurationError, SafetyError
from dynid.model.chain import SerialChain
from dynid.model.drive import of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.standard import from_file, to_link_frame
from dynid.robot import FloatArray, load_robot
from dynid.simulation.plant.arm import plant_standard

ROBOT = load_robot("crane_x7")
ARM = ArmModel.of(ROBOT)
STANDARD = from_file(plant_standard(ROBOT), ARM.mdh)
N, C, CYCLE_NS = ROBOT.size, ROBOT.chain_size, 1_000_000
VISCOUS, COULOMB, TRANSITION = 0.08, 0.12, 0.02
LAW = FrictionLaw.of(N, {"fv": VISCOUS, "fb": COULOMB})
GAIN = 60.0


def reference() -> pinocchio.Model:
    model = SerialChain.from_robot(ROBOT).model.copy()
    for j in range(C):
        body = to_link_frame(STANDARD.link(j), ARM.mdh.in_link[j])
        model.inertias[j + 1] = pinocchio.Inertia(body.mass, body.centre_of_mass, body.inertia)
    model.gravity.linear = np.array(ARM.gravity)
    model.armature = STANDARD.axis("IA")[:C].copy()
    return model


def observer(scale: float = 1.0, **options: float) -> MomentumObserver:
    """Return an observer with the true model, its mass and inertia multiplied by `scale`."""
    phi = of_kinds(ARM.base_parameters(STANDARD), ("FV",), others=True)
    return MomentumObserver(
        ARM, ControlModel(ROBOT.name, "", phi.with_values(scale * phi.values), LAW, True), **options
    )


def test_the_observers_dynamics_equal_pinocchios() -> None:
    model, seen = reference(), observer(velocity_s=0.0)
    data, rng = model.createData(), np.random.default_rng(3)
    for _ in range(20):
        q, dq = rng.uniform(-1.5, 1.5, (2, N))
        seen.update(0, q, dq, np.zeros(N))
        seen.reset()
        M = pinocchio.crba(model, data, q[:C])
        np.testing.assert_allclose(seen.inertia[:C, :C], np.triu(M) + np.triu(M, 1).T, atol=1e-10)
        np.testing.assert_allclose(seen.load[:C], pinocchio.nonLinearEffects(model, data, q[:C], dq[:C]), atol=1e-10)
        coriolis = pinocchio.computeCoriolisMatrix(model, data, q[:C], dq[:C])
        gravity = pinocchio.computeGeneralizedGravity(model, data, q[:C])
        np.testing.assert_allclose(seen._gained[:C], coriolis.T @ dq[:C] - gravity, atol=10.0 * STEP_RAD**2)


def test_whole_turns_do_not_change_the_observers_dynamics() -> None:
    """Wrists of many arms turn to 360 deg and beyond, where the generated dynamics do not hold."""
    q, dq = np.random.default_rng(4).uniform(-1.5, 1.5, (2, N))
    seen, turned = observer(), observer()
    seen.update(0, q, dq, np.zeros(N))
    turned.update(0, q + 2.0 * np.pi * np.array([1, 0, -1, 2, 0, 1, -2, 0]), dq, np.zeros(N))
    np.testing.assert_allclose(turned.inertia, seen.inertia, atol=1e-12)
    np.testing.assert_allclose(turned.load, seen.load, atol=1e-12)


class Pushed:
    """An arm that pinocchio moves: motor torques that vary, friction, and from 0.4 s on an external torque."""

    def __init__(self) -> None:
        self.model = reference()
        self.data = self.model.createData()
        self.q, self.dq, self.time = np.deg2rad([10.0, 20.0, -15.0, -70.0, 20.0, 30.0, 10.0]), np.full(C, 0.3), 0.0
        self.external = np.array([0.5, -0.8, 0.3, 0.6, -0.2, 0.15, 0.1])

    def motor(self) -> FloatArray:
        """Computed along the way: moves every joint about its start, friction aside."""
        wave = np.sin(2.0 * np.pi * (0.7 + 0.1 * np.arange(C)) * self.time)
        held = pinocchio.computeGeneralizedGravity(self.model, self.data, self.q)
        return held - 0.8 * self.dq + 0.9 * wave * np.array([1, 1, 0.7, 0.8, 0.25, 0.25, 0.2])

    def step(self, pushed: bool) -> FloatArray:
        """One cycle in ten steps of Runge and Kutta; returns what the motors gave."""
        tau, h = self.motor(), 1e-4
        push = self.external if pushed else np.zeros(C)

        def rates(q: FloatArray, dq: FloatArray) -> tuple[FloatArray, FloatArray]:
            lost = VISCOUS * dq + COULOMB * np.tanh(dq / TRANSITION)
            return dq, pinocchio.aba(self.model, self.data, q, dq, tau - lost + push)

        for _ in range(10):
            a = rates(self.q, self.dq)
            b = rates(self.q + 0.5 * h * a[0], self.dq + 0.5 * h * a[1])
            c = rates(self.q + 0.5 * h * b[0], self.dq + 0.5 * h * b[1])
            d = rates(self.q + h * c[0], self.dq + h * c[1])
            self.q = self.q + h / 6.0 * (a[0] + 2.0 * b[0] + 2.0 * c[0] + d[0])
            self.dq = self.dq + h / 6.0 * (a[1] + 2.0 * b[1] + 2.0 * c[1] + d[1])
        self.time += 1e-3
        return tau


def followed(seen: MomentumObserver, given: bool = True, cycles: int = 900) -> tuple[FloatArray, FloatArray]:
    """Return observed torques and velocities of the pushed arm, (cycles, 7); the push begins after 400."""
    arm, found, moved, still = Pushed(), [], [], np.zeros(N - C)
    tau = np.zeros(C)
    for k in range(cycles):
        dq = np.concatenate([arm.dq, still]) if given else None
        found.append(seen.update(k * CYCLE_NS, np.concatenate([arm.q, still]), dq, np.concatenate([tau, still])))
        moved.append(arm.dq)
        tau = arm.step(k >= 400)
    return np.array(found)[:, :C], np.array(moved)


def expected(lag: float, cycles: int = 900) -> FloatArray:
    """A step of the external torque after 400 cycles behind 1 / (1 + s / K) / (1 + s lag)."""
    t = np.maximum(np.arange(cycles) - 400, 0) * 1e-3
    first = 1.0 - np.exp(-GAIN * t)
    if lag:
        a, b = GAIN, 1.0 / lag
        first = 1.0 - (b * np.exp(-a * t) - a * np.exp(-b * t)) / (b - a)
    return first[:, None] * Pushed().external


@pytest.mark.slow
@pytest.mark.parametrize(("given", "lag"), [(True, 0.0), (False, 0.01)])
def test_the_external_torque_is_found_with_the_stated_lag(given: bool, lag: float) -> None:
    found, dq = followed(observer(gain_1_s=GAIN, velocity_s=lag), given)
    slowest = np.lib.stride_tricks.sliding_window_view(np.abs(dq), 100, axis=0).min(axis=-1)
    slides = slowest > 0.05 * (lag > 0.0)  # a velocity that lags turns late, and friction with it
    assert slides.mean() > 0.3
    np.testing.assert_allclose((found - expected(lag))[99:][slides], 0.0, atol=0.02)


def test_lag_of_a_fast_motion_is_no_external_torque() -> None:
    """Friction, Coriolis terms and inertia are those of the moment that the late velocity is of."""
    seen, time = observer(gain_1_s=GAIN, velocity_s=0.015), np.arange(1500) * 1e-3
    model, still, found = reference(), np.zeros(N - C), []
    data, size, w = model.createData(), np.linspace(0.9, 0.5, C), 2.0 * np.pi * np.linspace(0.4, 0.8, C)
    for k, t in enumerate(time):
        q, dq, ddq = size * np.sin(w * t), size * w * np.cos(w * t), -size * w**2 * np.sin(w * t)
        tau = pinocchio.rnea(model, data, q, dq, ddq) + VISCOUS * dq + COULOMB * np.tanh(dq / TRANSITION)
        found.append(seen.update(k * CYCLE_NS, np.append(q, still), None, np.append(tau, still)))
    moves = np.abs(size * w * np.cos(w * time[:, None])) > 0.5
    assert (np.abs(np.array(found)[:, :C] * moves)[400:].max(axis=0) < 0.03).all()


def test_a_wrong_model_causes_a_false_external_torque() -> None:
    assert np.abs(followed(observer(1.2, gain_1_s=GAIN, velocity_s=0.0))[0][100:400]).max() > 0.1


def test_the_observer_restarts_after_a_gap_and_ignores_old_states() -> None:
    seen = observer(velocity_s=0.0)
    q, push = np.zeros(N), np.full(N, 0.5)
    for k in range(50):
        seen.update(k * CYCLE_NS, q, q, push)
    before = seen.torque.copy()
    assert np.abs(before).max() > 0.1
    np.testing.assert_array_equal(seen.update(49 * CYCLE_NS, q, q, 3.0 * push), before)
    np.testing.assert_array_equal(seen.update(100 * CYCLE_NS, q, q, push), np.zeros(N))


def test_invalid_input_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="positive gain"):
        observer(gain_1_s=0.0)
    with pytest.raises(ConfigurationError, match="no velocities"):
        observer(velocity_s=0.0).update(0, np.zeros(N), None, np.zeros(N))
    with pytest.raises(SafetyError, match="nan"):
        observer().update(0, np.full(N, np.nan), np.zeros(N), np.zeros(N))

"""Compiled observer, law and checks against the same formulas in numpy, at random states."""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from test.shared.felt import ARM, ROBOT, N, control_model

from dynid.control.bilateral import checks, equations
from dynid.control.bilateral.equations import ANCHOR, CENTRE, FRICTION, IN_FORCE, LOWER, OFFSET, UPPER, Z
from dynid.control.bilateral.law import MODES, BilateralLaw, BilateralSettings, Mode
from dynid.control.bilateral.observer import ArmObserver
from dynid.control.dynamics_kernel import compile_single
from dynid.model.drive import KINDS, of_kinds
from dynid.robot import FloatArray

DYNAMICS = compile_single(ARM)
DRAG = [0.3 if name.startswith("FV") else 0.0 for name in ARM.names]  # is in the bias, and no load of the gears
MODEL = control_model()
MODEL = replace(MODEL, phi=MODEL.phi.with_values(MODEL.phi.values + DRAG))
W, DT, PRESSED = 120.0, 0.0011, 0.4
STILL = np.zeros((1, N))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def scattered(observer: ArmObserver, rng: np.random.Generator) -> None:
    """Any state that an observer may be in, some joints slow and some fast."""
    observer.reset(rng.uniform(-1.2, 1.2, N))
    observer.dq[:] = rng.choice([0.02, 0.08, 0.5], N) * rng.standard_normal(N)
    observer.disturbance[:] = rng.standard_normal(N)
    for row, size in ((Z, 0.9), (FRICTION, 0.3)):
        observer.rows[row] = rng.uniform(-size, size, N)
    observer.rows[ANCHOR] = observer.q + rng.uniform(-0.002, 0.002, N)
    observer.external[:] = observer.inertia @ observer.disturbance


def friction(z: FloatArray, dq: FloatArray, tau: FloatArray, load: FloatArray) -> FloatArray:
    """Of the gears in directions z: what the law of friction says of motion, by its share that has a direction."""
    law = MODEL.friction
    sign = np.where(z < 0.0, -1.0, 1.0)
    assert not law["fa"].any()  # a budget that differs by direction would have to be asked for z
    fast = law.torque(np.abs(dq) * sign, tau, load) - law["fv"] * np.abs(dq) * sign - law["of"]
    return law["fv"] * dq + law["of"] + np.abs(z) * fast


def test_one_cycle_of_the_observer_equals_numpy(rng: np.random.Generator) -> None:
    observer, phi = ArmObserver(MODEL, DYNAMICS), MODEL.phi
    links = of_kinds(phi, KINDS, others=True)
    for _ in range(3):
        scattered(observer, rng)
        q, dq, d = observer.q.copy(), observer.dq.copy(), observer.disturbance.copy()
        z, anchor = observer.rows[[Z, ANCHOR]]
        M = ARM.inertia_matrix(q[None], phi)[0]
        bias = ARM.inverse_dynamics(q[None], STILL, STILL, phi)[0]
        measured, tau = q + 0.002 * rng.standard_normal(N), rng.standard_normal(N)
        u, e = np.linalg.solve(M, tau - bias - observer.friction), measured - q
        observer.update(DT, measured, PRESSED, tau)

        q, dq, d = q + DT * (dq + 3 * W * e), dq + DT * (u + d + 3 * W**2 * e), d + DT * W**3 * e
        for found, expected in ((observer.q, q), (observer.dq, dq), (observer.disturbance, d)):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
        M = ARM.inertia_matrix(q[None], phi)[0]
        np.testing.assert_allclose(observer.inertia, M, atol=1e-12)
        np.testing.assert_allclose(observer.bias, ARM.inverse_dynamics(q[None], dq[None], STILL, phi)[0], atol=1e-11)
        np.testing.assert_allclose(observer.external, M @ d, atol=1e-11)

        moved = np.clip(anchor, q - equations.DEAD_BAND_RAD, q + equations.DEAD_BAND_RAD) - anchor
        step = np.where(np.abs(dq) > equations.FAST_RAD_S, DT * dq, moved) / equations.REVERSAL_RAD
        z = (z + step) / (1 + np.abs(step))
        z *= 1 - np.clip(1 - np.abs(dq) / equations.SLOW_RAD_S, 0, None) * (1 - PRESSED) * DT / equations.FADE_S
        np.testing.assert_allclose(observer.rows[Z], z, atol=1e-11)
        load = M @ d - ARM.inverse_dynamics(q[None], dq[None], STILL, links)[0]
        np.testing.assert_allclose(observer.friction, friction(z, dq, tau, load), atol=1e-10)


def accelerations(law: BilateralLaw, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """a_l and a_f as the module `law` has them."""
    mode, one, two = law.settings.mode, law.leader, law.follower
    alpha, beta, K_P, K_V, k, r, b = list(law.settings.gains().values())[:7]
    u = K_P * y + K_V * (alpha * one.dq - two.dq)
    if mode != "four_channel":
        felt = one.external + (beta * two.external if mode == "force_reflecting" else 0.0)
        s = np.linalg.solve(one.inertia, felt) - b * one.dq
        return s - one.disturbance, alpha * s + u - r * two.disturbance
    u = u + r * (alpha * one.disturbance - two.disturbance)
    s = k * np.linalg.solve(one.inertia + alpha * beta * two.inertia, one.external + beta * two.external)
    s = s - (one.disturbance + alpha * two.disturbance) / (1 + alpha**2) - b * one.dq
    return s - alpha * u / (1 + alpha**2), alpha * s + u / (1 + alpha**2)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_one_cycle_of_the_law_equals_numpy(mode: Mode, rng: np.random.Generator) -> None:
    settings = BilateralSettings(mode, position_scale=0.8, force_scale=1.3, stiffness_1_s2=90.0, damping_1_s=9.0)
    law = BilateralLaw(ROBOT, MODEL, MODEL, DYNAMICS, settings)
    limited = 0
    for _ in range(5):
        for arm in (law.leader, law.follower):
            scattered(arm, rng)
        law.leader.q[1] = law._rows[UPPER, 1] + 0.01  # within the spring before a limit
        offset = law._rows[OFFSET] = rng.uniform(-0.001, 0.001, N)
        found = law._torques(DT, PRESSED)

        offset = np.sign(offset) * np.maximum(np.abs(offset) - equations.ALIGN_RAD_S * DT, 0)
        y = 0.8 * (law.leader.q - law._rows[CENTRE]) - (law.follower.q - law._rows[CENTRE]) - offset
        np.testing.assert_allclose(law.difference, y, atol=1e-13)
        share = settings.friction_share_free * (1 - PRESSED) + settings.friction_share_pressed * PRESSED
        for arm, a, tau in zip((law.leader, law.follower), accelerations(law, y), found, strict=True):
            beyond = arm.q - np.clip(arm.q, law._rows[LOWER], law._rows[UPPER])
            a = a - equations.STOP_1_S2 * beyond - equations.STOP_1_S * np.where(arm.dq * beyond > 0, arm.dq, 0)
            wanted = arm.inertia @ a + arm.bias + share * arm.friction
            limited += (np.abs(wanted) > law.limits).sum()
            np.testing.assert_allclose(tau, np.clip(wanted, -law.limits, law.limits), atol=1e-10)
    assert 0 < limited < 5 * N


def test_a_nan_torque_stays_nan_after_the_limits() -> None:
    law = BilateralLaw(ROBOT, MODEL, MODEL, DYNAMICS)
    law.follower.rows[IN_FORCE] = law.follower.friction[2] = np.nan
    leader, follower = law._torques(DT, PRESSED)
    assert np.isfinite(leader).all() and np.isnan(follower[2])


def test_sent_torques_take_effect_after_the_delay() -> None:
    observer = ArmObserver(MODEL, DYNAMICS, delay_cycles=2)
    sent = deque([np.full(N, 0.1 * k) for k in range(4)])
    for k, tau in enumerate(sent):
        observer.update(DT, np.zeros(N))
        assert np.allclose(observer.rows[IN_FORCE], sent[k - 3]) == (k >= 3)
        observer.applied(tau)


def test_elimination_solves_positive_definite_systems(rng: np.random.Generator) -> None:
    for _ in range(20):
        root, b = rng.standard_normal((N, N)), rng.standard_normal(N)
        M = root @ root.T + 1e-3 * np.eye(N)
        np.testing.assert_allclose(equations.solve(M, b), np.linalg.solve(M, b), rtol=1e-9)
    b[2] = np.nan
    assert np.isnan(equations.solve(M, b)).all()


@pytest.mark.parametrize("bad", [None, 5])
def test_compiled_checks_equal_numpy(bad: int | None, rng: np.random.Generator) -> None:
    since_s, expected_s = np.zeros((2, N)), np.zeros((2, N))
    for _ in range(50):
        values, limits, other = *rng.uniform(0.5, 2.0, (2, N)) * rng.choice([-1, 1], N), rng.standard_normal(N)
        limits = np.abs(limits)
        if bad is not None:
            values[bad] = np.nan
        share, joint = checks.largest_share(values, limits)
        np.testing.assert_equal(share, (np.abs(values) / limits).max())
        assert joint == np.argmax(np.abs(values) / limits)
        np.testing.assert_equal(checks.largest(values), np.abs(values).max())
        for most in (limits, 2.0 * limits, 9.0 * limits):
            assert checks.within(values, most) == bool((np.abs(values) <= most).all())
        assert checks.equal(values, values.copy()) == np.array_equal(values, values)
        assert not checks.equal(values, other) and not checks.equal(values, values[1:])
        expected_s = np.where(np.abs([values, other]) >= limits, expected_s + DT, 0.0)
        longest_s, side, joint = checks.longest_at_limit(values, other, limits, DT, since_s)
        np.testing.assert_array_equal(since_s, expected_s)
        assert (longest_s, side * N + joint) == (expected_s.max(), np.argmax(expected_s))

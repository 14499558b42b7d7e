"""Processor time per cycle of two arms: only cycles with commands count; it is printed next to that of one arm."""

import numpy as np
import pytest
from benchmarks.bilateral.cycle_cost import CYCLE_NS, START_DEG, cycle_costs, two_arms
from test.shared.felt import ARM, ROBOT, N, control_model

from dynid.control.dynamics_kernel import compile_single
from dynid.recording.messages import JointStateEncoder


def test_cycle_costs_include_the_ratio_of_two_arms_to_one() -> None:
    found = cycle_costs(ROBOT, compile_single(ARM), control_model(), blocks=2)
    assert set(found) == {
        *(f"{share}_cycle_us_{name}" for share in ("p50", "p99") for name in ("one", "two")),
        "p50_cycle_two_over_one",
        "p99_cycle_two_over_one",
    }
    assert all(found[f"p50_cycle_us_{name}"] <= found[f"p99_cycle_us_{name}"] for name in ("one", "two"))
    for share in ("p50", "p99"):
        ratio = found[f"{share}_cycle_us_two"] / found[f"{share}_cycle_us_one"]
        np.testing.assert_allclose(found[f"{share}_cycle_two_over_one"], ratio)


@pytest.mark.parametrize(("apart_rad", "commands"), [(0.0, True), (1.0, False)])
def test_a_cycle_counts_only_where_both_arms_are_commanded(apart_rad: float, commands: bool) -> None:
    """Arms that are pulled apart end the pair, so this cycle is not counted."""
    cycle, encode = two_arms(ROBOT, compile_single(ARM), control_model()), JointStateEncoder(ROBOT.joint_names)
    still, done = np.zeros(N), False
    for k in range(1, 4):
        sides = (np.deg2rad(START_DEG) + shift for shift in (0.0, apart_rad))
        raw = [encode.encode(k * CYCLE_NS, position=q, velocity=still, effort=still) for q in sides]
        done = cycle(k * CYCLE_NS, raw)
    assert done is commands

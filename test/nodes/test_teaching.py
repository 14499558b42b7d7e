"""One arm with the real nodes: hand-guided demonstration, its replay, and the estimate of a grasped payload."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from geometry_msgs.msg import InertiaStamped
from test.shared.felt import ROBOT, model_file

from dynid.commands.replay import TOLERANCE_DEG
from dynid.control.guided_replay import replay_of_bag
from dynid.errors import DataError, NodeError
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import save_model
from dynid.nodes.chain import Chain, ChainOptions
from dynid.nodes.collect import silent
from dynid.nodes.common import STREAM
from dynid.nodes.payload_parameters import payload_values
from dynid.nodes.supervisor import number
from dynid.nodes.teaching import record_guided_motion, replay_recorded
from dynid.recording.driver_recording import load_driver_recording

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
# The hand lowers the forearm: it is slow, and the elbow's motor may not lift the forearm for so long in a replay
SHOWN = """
schema_version: 1
name: shown
waypoints_deg:
  - [0, 0, 0, -90, 0, 0, 0, 0]
  - [20, 10, -10, -97, 30, 20, -30, 15]
  - [0, 5, 0, -103, 0, -30, 0, 0]
speed_factor: 0.4
"""
TO_AND_FRO = "  - [25, 6, -10, -45, 30, -10, -30, 15]\n  - [-15, 15, 5, -59, -20, -50, 20, 5]\n"
CARRYING = f"""
schema_version: 1
name: carrying
waypoints_deg:
  - [0, 5, 0, -41, 0, -30, 0, 0]
{20 * TO_AND_FRO}  - [0, 5, 0, -41, 0, -30, 0, 0]
speed_factor: 0.3
"""
HELD_KG, CLOSE_KG, SURE_KG = 0.25, 0.05, 0.02
LONGEST_S = 240.0  # on the clock of a busy host; the motion lasts 43 s of the arm's own time, and is cancelled
RATE_HZ = 500  # half of the messages, and of the time that they take


@pytest.fixture(autouse=True, scope="module")
def domain() -> None:
    """Reserve no ROS domain: the chain reserves its own."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("taught")
    save_model(made / "model.yaml", model_file())
    (made / "shown.yaml").write_text(SHOWN, encoding="utf-8")
    (made / "carrying.yaml").write_text(CARRYING, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def chain(folder: Path) -> Iterator[Chain]:
    lead = str(folder / "shown.yaml")
    options = ChainOptions("crane_x7", identification=False, lead=lead, held_kg=HELD_KG, rate_hz=RATE_HZ)
    with Chain(ROBOT, options, folder / "logs") as running:
        running.activate()
        yield running
        assert running.hardware is not None and running.arm is not None
        for process in (running.hardware, running.arm):  # nobody waits until a simulated arm is let down
            running.kill(process)


def test_guided_arm_stays_and_replays_the_demonstration(chain: Chain, folder: Path, tmp_path: Path) -> None:
    model = folder / "model.yaml"
    record_guided_motion(chain, model, tmp_path / "bag", silent, rest_s=1.0)
    recording = load_driver_recording(tmp_path / "bag", ROBOT)
    left = recording.q[recording.time >= recording.time[-1] - 0.8]
    assert np.rad2deg(np.ptp(left, axis=0).max()) < 0.5, "let go, it rests"
    shown = replay_of_bag(ROBOT, tmp_path / "bag", "taught")
    assert np.rad2deg(np.ptp(shown.path, axis=0)[:7]).min() > 5.0
    assert shown.as_dict()["least_speed"] > 0.7, "a joint that sticks stops hard, so the replay brakes longer"
    shown.save(tmp_path / "motion.yaml")
    chain.supervisor.set_parameters("executor", {"return_to_rest": False})
    found = replay_recorded(chain, model, tmp_path / "motion.yaml", tmp_path / "replay", silent, shown)
    assert found.shown_error_rad is not None and np.rad2deg(found.shown_error_rad) < TOLERANCE_DEG
    assert np.rad2deg(found.error_rad) < TOLERANCE_DEG
    with pytest.raises(DataError, match=r"no hand moved the arm|was never guided by hand"):
        replay_of_bag(ROBOT, tmp_path / "replay", "again")


def test_payload_is_estimated_applied_and_cleared(chain: Chain, folder: Path) -> None:
    """Depends on the test before for a controller with a model."""
    call, model = chain.supervisor, folder / "model.yaml"
    structure, nothing = ArmModel.of(ROBOT).structure_hash, np.zeros(10)
    light, wrong = np.array(nothing), np.array(nothing)
    light[9], wrong[8] = 0.1, 1.0
    sure = payload_values(light, structure)
    for values, why in (
        (sure | {"payload.certain": False}, "not certain"),
        (sure | {"payload.structure_hash": "other"}, "estimated with structure other"),
        ({"payload.certain": True}, "complete payload in one call"),
        (payload_values(wrong, structure), "not a possible payload"),
    ):
        with pytest.raises(NodeError, match=why):
            call.set_parameters("executor", values)
    assert chain.arm is not None
    chain.add_node("payload_node", "payload", {"model_file": str(model), "policy": "apply"})
    weighed: list[InertiaStamped] = []
    call.node.create_subscription(InertiaStamped, "payload", weighed.append, STREAM)
    call.wait(lambda: bool(weighed), LONGEST_S, "a first estimate")
    call.set_parameters("executor", {"trajectory": str(folder / "carrying.yaml")})

    def carried_kg() -> float:
        return number(call.reported("executor", "payload_kg"))

    if call.reported("executor", "phase") == "trajectory":  # of a try before
        call.trigger("executor/cancel")
    moving = "trajectory", "cancelled"
    call.wait(lambda: call.reported("executor", "phase") not in moving, 30.0, "an arm that stands")
    os.kill(chain.arm.pid, signal.SIGUSR1)
    call.trigger("executor/execute")
    call.wait(lambda: abs(carried_kg() - HELD_KG) < CLOSE_KG, LONGEST_S, "a model that carries what was picked up")
    call.wait(lambda: number(call.reported("payload", "mass_deviation_kg")) < SURE_KG, LONGEST_S, "a sure estimate")
    assert call.reported("payload", "torques_from") == "applied_commands"
    assert abs(weighed[-1].inertia.m - HELD_KG) < CLOSE_KG
    assert weighed[-1].header.frame_id == "crane_x7_gripper_base_link"
    os.kill(chain.arm.pid, signal.SIGUSR2)
    call.wait(lambda: carried_kg() == 0.0, LONGEST_S, "a model without what was put down")
    assert call.reported("executor", "phase") == "trajectory", "all of that while it moves"
    call.trigger("executor/cancel")

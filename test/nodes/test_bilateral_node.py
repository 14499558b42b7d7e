"""Two arms coupled by the node bilateral: two real drivers, each with simulated servos, and a hand at the leader."""

import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from test.shared.felt import ROBOT, model_file

from dynid.control.bilateral.pair import SIDES
from dynid.errors import NodeError
from dynid.model.model_file import save_model
from dynid.nodes.processes import Process, ProcessGroup
from dynid.nodes.supervisor import Supervisor, number

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
PUSHED = f"{ROBOT.joint_names[0]}:0.7:3"
ATTEMPTS, CYCLES, CLOSE_RAD = 8, 400, 0.06
LOWERED_S = 240.0  # a pushed arm is lowered for 30 s of its own time, which pauses while this machine is busy


def start_arm(group: ProcessGroup, client: Supervisor, name: str, seed: int, rate_hz: int, push: list[str]) -> Process:
    """A simulated arm and its driver in the namespace of its name; the driver is returned."""
    clock = Path(tempfile.gettempdir()) / f"dynid-clock-{uuid.uuid4().hex}"
    arguments = ["-m", "dynid", "simulated-arm", "--seed", str(seed), "--no-wire-time", "--clock", str(clock)]
    port_file = clock.with_name(f"{clock.name}-port")
    group.start(f"{name}_arm", [*arguments, "--port-file", str(port_file), *push])
    client.wait(port_file.exists, 30.0, "a simulated arm's port")
    port = port_file.read_text(encoding="utf-8").strip()
    given = {"port_name": port, "clock_file": str(clock), "rate_hz": str(rate_hz)}
    pairs = [text for key, value in given.items() for text in ("-p", f"{key}:={value}")]
    return group.start(name, ["-m", "dynid.nodes.hardware_node", "--ros-args", "-r", f"__ns:=/{name}", *pairs])


def start_pair(group: ProcessGroup, client: Supervisor, folder: Path, rate_hz: int = 1000) -> dict[str, Process]:
    """Both arms, active, and the node."""
    save_model(folder / "model.yaml", model_file())
    pushes = (["--push", PUSHED], [])
    drivers = {n: start_arm(group, client, n, k, rate_hz, pushes[k]) for k, n in enumerate(SIDES)}
    group.start_node("bilateral_node", "bilateral", {"leader_model": str(folder / "model.yaml")})
    for name in SIDES:
        for step in ("configure", "activate"):
            client.transition(f"{name}/hardware", step)
    client.wait(
        lambda: all(number(client.reported("bilateral", f"{one}_state_age_s")) < 0.2 for one in SIDES),
        60.0,
        "states of both arms",
    )
    return drivers


def ended(client: Supervisor) -> str:
    return client.reported("bilateral", "stopped")


def engaged(client: Supervisor) -> None:
    """Both arms coupled for some hundred cycles; it is tried again after a busy host has ended that.

    Meanwhile the hand moves the limp leader to and fro, sometimes farther away than arms may be engaged.
    """
    for _ in range(ATTEMPTS):
        try:
            client.trigger("bilateral/engage", LOWERED_S)
        except NodeError as error:
            if "rad apart" not in str(error):
                raise
            continue
        client.reports.pop("bilateral", None)  # of the time before
        client.wait(lambda: client.reported("bilateral", "engaged") != "", 20.0, "a report")
        client.wait(
            lambda: number(client.reported("bilateral", "cycles")) >= CYCLES or " ms old" in ended(client),
            60.0,
            "cycles",
        )
        if client.reported("bilateral", "engaged") == "true":
            return
        client.trigger("bilateral/disengage", LOWERED_S)
    raise AssertionError(f"the arms were not coupled for {CYCLES} cycles: {ended(client)}")


def test_both_arms_move_as_one_and_both_are_lowered_where_one_driver_is_killed(
    group: ProcessGroup, client: Supervisor, tmp_path: Path
) -> None:
    drivers = start_pair(group, client, tmp_path)
    with pytest.raises(NodeError, match="mode is 'both'; expected one of"):
        client.set_parameters("bilateral", {"mode": "both"})
    engaged(client)
    assert number(client.reported("bilateral", "largest_difference_rad")) < CLOSE_RAD
    with pytest.raises(NodeError, match="engaged"):
        client.trigger("bilateral/engage")
    with pytest.raises(NodeError, match="disengage them before settings are changed"):
        client.set_parameters("bilateral", {"stiffness_1_s2": 900.0})
    group.kill(drivers["follower"])
    client.wait(lambda: client.reported("bilateral", "engaged") == "false", 60.0, "the end of the pair")
    assert "the follower's state is" in ended(client)
    off = ("disabled", "torque went off after")  # the hand keeps pushing, so the arm may not come to rest in time
    client.wait(
        lambda: client.reported("bilateral", "leader_driver").startswith(off), LOWERED_S, "the leader without torque"
    )
    with pytest.raises(NodeError, match=r"no joint_states of the follower|the follower has no driver"):
        client.trigger("bilateral/engage")


def test_drivers_that_are_too_slow_together_are_refused(
    group: ProcessGroup, client: Supervisor, tmp_path: Path
) -> None:
    start_pair(group, client, tmp_path, rate_hz=500)
    with pytest.raises(NodeError, match="the leader's driver runs at 500 Hz"):
        client.trigger("bilateral/engage")
    assert client.reported("bilateral", "leader_driver") in ("", "disabled")


def refused(group: ProcessGroup, client: Supervisor, given: dict[str, str]) -> str:
    process = group.start_node("bilateral_node", "bilateral", given)
    group.processes.remove(process)
    ends: Callable[[], bool] = lambda: not process.running  # noqa: E731
    client.wait(ends, 60.0, "its end")
    return process.last_error()


def test_arms_that_cannot_be_coupled_give_one_sentence(group: ProcessGroup, client: Supervisor, tmp_path: Path) -> None:
    assert "needs a model: give the path of an accepted model.yaml as parameter leader_model" in refused(
        group, client, {}
    )
    save_model(tmp_path / "model.yaml", model_file(accepted=False))
    assert "did not pass its verdict" in refused(group, client, {"leader_model": str(tmp_path / "model.yaml")})

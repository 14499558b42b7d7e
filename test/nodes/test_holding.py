"""`dynid hold` with the real nodes: the arm is released only if its torques agree with the model."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from test.shared.felt import ROBOT, model_file
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import SafetyError
from dynid.model.model_file import save_model
from dynid.nodes.chain import Chain, ChainOptions
from dynid.nodes.holding import check_holding, check_motions, compensate_gravity
from dynid.runtime.model import Model, load_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


RATE_HZ, SECONDS = 500, 10.0  # half of the messages, and of the time that they take
HEAVIER = 1.4  # times all parameters of the true model


@pytest.fixture(autouse=True, scope="module")
def domain() -> None:
    """Reserve no ROS domain: the chain reserves its own."""


def saved(path: Path, factor: float = 1.0) -> Model:
    """Write the model whose parameters are the true ones times a factor, and return it."""
    content = model_file()
    rows = tuple(row.model_copy(update={"value": factor * row.value}) for row in content.parameters)
    save_model(path, content.model_copy(update={"parameters": rows}))
    return load_model(path)


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    """Of one test alone: an executor that was given a model keeps it."""
    options = ChainOptions("crane_x7", identification=False, rate_hz=RATE_HZ)
    with Chain(ROBOT, options, tmp_path / "logs") as running:
        running.bring_up()
        running.supervisor.trigger("executor/hold")
        yield running
        assert running.hardware is not None and running.arm is not None
        for process in (running.hardware, running.arm):  # nobody waits until a simulated arm is let down
            running.kill(process)


def test_model_of_heavier_links_is_refused_before_release(chain: Chain, tmp_path: Path) -> None:
    model = saved(tmp_path / "model.yaml", HEAVIER)
    with pytest.raises(SafetyError, match=r"the arm is not released for hand guiding: .* of the model's in all joints"):
        check_holding(chain.supervisor, model, check_motions(model))


def test_simulated_arm_is_released_after_its_checks_and_stays(chain: Chain, tmp_path: Path) -> None:
    model, call = saved(tmp_path / "model.yaml"), chain.supervisor
    verdict = check_holding(call, model, check_motions(model))
    assert verdict.accepted and len(verdict.checks) == ROBOT.size, str(verdict)
    end_s = call.now() + SECONDS
    held = compensate_gravity(call, ROBOT, tmp_path / "model.yaml", lambda: call.now() >= end_s)
    assert call.reported("executor", "controller") == "gravity_compensation"
    assert held.seconds > SECONDS - 1.0 and np.rad2deg(held.moved.max()) < 1.0


def test_rejected_model_is_refused_before_anything_starts(tmp_path: Path) -> None:
    save_model(tmp_path / "model.yaml", model_file(accepted=False))
    done = CliRunner().invoke(app, ["hold", "--model", str(tmp_path / "model.yaml"), "--logs", str(tmp_path / "logs")])
    assert isinstance(done.exception, SafetyError) and "did not pass its checks" in str(done.exception)
    assert not (tmp_path / "logs").exists()

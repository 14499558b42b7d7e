"""Node for bilateral control: it couples two arms, a leader and a follower, whose torques it commands.

Each arm has its own driver, in the namespace `leader` or `follower`. `~/engage` switches torque on at both arms and
couples them at their present postures; `~/disengage` lowers both arms and switches torque off. Commands start once
both arms have sent a state. Any fault of either arm ends the coupling: both drivers are then asked to switch torque
off, and each lowers its own arm. See `dynid.control.bilateral`.
"""

import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.parameter import Parameter

from dynid.control.bilateral.cycles import PairCycles
from dynid.control.bilateral.law import MODES, RANGES, BilateralLaw, BilateralSettings
from dynid.control.bilateral.pair import SIDES, ArmPair, Reading
from dynid.control.control_model import ControlModel, ModelGate, from_model_file
from dynid.control.dynamics_kernel import compile_single
from dynid.control.model_laws import GravityCompensation
from dynid.errors import ConfigurationError, DynidError, SafetyError
from dynid.hardware.loop.realtime import SWITCH_INTERVAL_S, prefer_latency
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import read_model_file
from dynid.nodes.common import check_parameters, compile_first, declare, run_node
from dynid.nodes.deferred import Answer, DeferredTrigger
from dynid.nodes.pair_side import PairSide
from dynid.recording.messages import DiagnosticStatus, encode_diagnostics
from dynid.robot import load_robot

POLL_S = 0.02
LONGEST_CYCLE_S = 0.0011
SILENT_S = 3.0  # time without states of both arms that ends the coupling [s]; a simulated arm pauses up to 2 s
STALE_STATE_S = 0.2
HELD_S = 0.8  # time for which drivers hold the arms before coupling, to measure their holding torques [s]
MODEL_HINT = "give the path of an accepted model.yaml as parameter {}"


@dataclass(eq=False)
class _Question:
    """Request to both drivers to switch torque on or off.

    Attributes:
        enabled: whether torque is to be switched on.
        answer: pending answer to the caller of `~/engage` or `~/disengage`.
        answers: number of drivers that have answered.
        refusals: reasons why the request fails.
        couple_s: monotonic time at which both arms have been held long enough to be coupled [s]; infinite until both
            drivers have switched torque on.
    """

    enabled: bool
    answer: Answer
    answers: int = 0
    refusals: list[str] = field(default_factory=list)
    couple_s: float = np.inf


class BilateralNode(Node):
    """Node that couples a leader and a follower arm by bilateral control."""

    def __init__(self) -> None:
        super().__init__("bilateral")
        self.robot = load_robot(declare(self, "robot", "crane_x7", "what both arms are: name or folder", fixed=True))
        leader = declare(self, "leader_model", "", "model.yaml of the leader, accepted", fixed=True)
        follower = declare(self, "follower_model", "", "model.yaml of the follower; '' is the leader's", fixed=True)
        default = BilateralSettings()
        declare(self, "mode", default.mode, f"coupling: {', '.join(MODES)}")
        for name, (low, high) in RANGES.items():
            declare(self, name, getattr(default, name), f"see dynid.control.bilateral.law; {low:g} to {high:g}")
        self._models = self._accepted({"leader_model": leader, "follower_model": follower or leader})
        self._mount = self.robot.file.default_mount
        self._expected: list[GravityCompensation] = []  # holding torques of both arms according to their models
        self._cycles = PairCycles(self._pair())
        check_parameters(self, self._on_set)
        self._question: _Question | None = None  # request to both drivers that is still open
        self._fall_back = ""
        self._diagnostics = self.create_publisher(DiagnosticArray, "diagnostics", 10)
        self._sides = [PairSide(self, self.robot, k, self._on_reading, self._end) for k in range(len(SIDES))]
        DeferredTrigger(self, "~/engage", self._on_engage)
        DeferredTrigger(self, "~/disengage", self._on_disengage)
        self.create_timer(POLL_S, self._poll)
        self.create_timer(1.0, self._publish_diagnostics)

    def rehearse(self) -> None:
        """Compile the functions that control both arms."""
        compile_first(self, self.robot, self._mount)

    def shut_down(self) -> None:
        """Stop commanding torques to both arms; each driver then brakes, holds and lowers its arm."""
        self._cycles.pair.stop("the node ended")

    def callback_failed(self, text: str) -> None:
        """End the coupling because a callback of this node failed; `text` describes the error."""
        self._end(text)

    # -- model and settings ------------------------------------------------------------------------------------------

    def _accepted(self, paths: dict[str, str]) -> list[ControlModel]:
        """Return the models of leader and follower; `paths` has the paths of their model files by parameter name.

        Raises:
            ConfigurationError: a path is empty.
            DataError: the structure of a model is not that of the robot, or a model is not physically consistent.
            SafetyError: a model did not pass the checks of its identification, or must not move the arm for another
                reason, see `ModelGate.check`.
        """
        for parameter, path in paths.items():
            if not path:
                raise ConfigurationError(f"the node bilateral needs a model: {MODEL_HINT.format(parameter)}")
        arm = ArmModel.of(self.robot)
        models = {path: from_model_file(read_model_file(Path(path)), arm) for path in paths.values()}
        gate = ModelGate(self.robot, arm)
        for model in models.values():
            gate.check(model)
        return [models[path] for path in paths.values()]

    def _pair(self) -> ArmPair:
        """Return a new bilateral control of both arms, from their models, the mount and the node's parameters."""
        dynamics = compile_single(ArmModel.of(self.robot, mount=self._mount))
        leader, follower = self._models
        self._expected = [GravityCompensation(one, dynamics) for one in self._models]
        return ArmPair(self.robot, BilateralLaw(self.robot, leader, follower, dynamics, self._settings()))

    def _settings(self, changed: dict[str, object] | None = None) -> BilateralSettings:
        values = {name: self.get_parameter(name).value for name in ("mode", *RANGES)} | (changed or {})
        return BilateralSettings(**values)

    def _on_set(self, parameters: list[Parameter]) -> None:
        changed = {one.name: one.value for one in parameters if one.name in ("mode", *RANGES)}
        if changed:
            if self._question is not None:
                raise SafetyError("the arms are being engaged or disengaged: set parameters before or after")
            self._cycles.pair.set(self._settings(changed))

    def _take_mount(self) -> None:
        """Adopt the mount that both drivers report, which determines the direction of gravity.

        Raises:
            SafetyError: the two mounts differ.
        """
        mounts = [side.settings.mount for side in self._sides if side.settings is not None]
        if len(set(mounts)) > 1:
            raise SafetyError(f"the leader is mounted '{mounts[0]}' and the follower '{mounts[1]}': mount both alike")
        if mounts[0] != self._mount:
            self._mount = mounts[0]
            self._cycles.pair = self._pair()

    def _refuse_slow_drivers(self) -> None:
        """Raise SafetyError if a driver's cycle is longer than 1.1 ms.

        The gains are tuned for a cycle of 1 ms. With a cycle of 2 ms, the arms began to oscillate.
        """
        for side in self._sides:
            if side.settings is not None and side.settings.cycle_s > LONGEST_CYCLE_S:
                raise SafetyError(
                    f"the {side.name}'s driver runs at {1.0 / side.settings.cycle_s:.0f} Hz: two arms are stable "
                    "together at 1000 Hz only; use an adapter and a baud rate that allow it"
                )

    # -- cycles ------------------------------------------------------------------------------------------------------

    def _on_reading(self, side: int, reading: Reading, age_s: float | None) -> None:
        torques = self._cycles.take(side, reading, age_s)
        if torques is not None:
            law = self._cycles.pair.law
            for one, tau, arm in zip(self._sides, torques, (law.leader, law.follower), strict=True):
                one.command(tau, arm.external)
            if self._cycles.pair.stopped:
                self._switch_off()

    def _end(self, reason: str) -> None:
        """End the coupling for this reason, if the arms are coupled, and request both drivers to lower their arms.

        A pending request to couple the arms fails for the same reason.
        """
        if self._question is not None and self._question.enabled:
            self._question.refusals.append(reason)
        if not self._cycles.pair.stopped:
            self._cycles.pair.stop(reason)
            self._switch_off()

    def _switch_off(self) -> None:
        """Request both drivers to lower their arms after the end of the coupling, without waiting for their answers.

        The reason for the end, which the coupling has stored, is logged, and diagnostics are published.
        """
        self.get_logger().error(f"the arms are not coupled any more: {self._cycles.pair.stopped}")
        self._lower_both()
        self._publish_diagnostics()

    def _lower_both(self) -> None:
        for side in self._sides:
            side.set_enabled(False, self._log_refusal)

    def _log_refusal(self, refusal: str) -> None:
        if refusal:
            self.get_logger().error(refusal)

    def _poll(self) -> None:
        pair, now_s = self._cycles.pair, time.monotonic()
        if not pair.stopped and now_s - max(side.arrived_s for side in self._sides) > SILENT_S:
            self._end(f"neither arm has sent a state for {SILENT_S:g} s")
        if pair.fell_back != self._fall_back:
            self._fall_back = pair.fell_back
            if self._fall_back:
                self.get_logger().warning(
                    f"force reflection to the leader has ended (mode unilateral): {self._fall_back}"
                )
        question = self._question
        if question is not None and now_s > question.couple_s:
            self._conclude(question)
        elif question is not None and (overdue := [side.overdue for side in self._sides if side.overdue]):
            question.refusals += overdue
            self._conclude(question)

    # -- services ----------------------------------------------------------------------------------------------------

    def _on_engage(self, answer: Answer) -> None:
        try:
            if self._question is not None or not self._cycles.pair.stopped:
                raise SafetyError("the arms are engaged already, or about to be: disengage them first")
            for side in self._sides:
                side.refuse()
                if time.monotonic() - side.arrived_s > STALE_STATE_S:
                    raise SafetyError(f"no joint_states of the {side.name} arrive: activate its driver")
            self._refuse_slow_drivers()
            self._take_mount()
            self._cycles.check()
        except DynidError as error:
            answer.give(False, str(error))
            return
        self._ask_both(True, answer)

    def _on_disengage(self, answer: Answer) -> None:
        if self._question is not None:
            answer.give(False, "the arms are being engaged or disengaged: wait for that")
            return
        self._cycles.pair.stop("disengaged")
        self._ask_both(False, answer)

    def _ask_both(self, enabled: bool, answer: Answer) -> None:
        self._question = _Question(enabled, answer)
        for side in self._sides:
            side.set_enabled(enabled, partial(self._answered, self._question))

    def _answered(self, question: _Question, refusal: str) -> None:
        """Process one driver's answer to a request; ignore it if the request is already closed.

        After the last answer the request is closed. If both drivers have switched torque on, they first hold the arms
        for `HELD_S`, before the arms are coupled.

        Args:
            question: the request that was answered.
            refusal: reason for which the driver refuses; "" if it agrees.
        """
        if question is not self._question:
            return
        question.refusals += [refusal] if refusal else []
        question.answers += 1
        if question.answers < len(self._sides):
            return
        if not question.enabled or question.refusals:
            self._conclude(question)
            return
        question.couple_s = time.monotonic() + HELD_S
        for side in self._sides:
            side.watch_holding()

    def _conclude(self, question: _Question) -> None:
        """Close the request and answer its caller; couple the arms if that was requested and both drivers agreed."""
        self._question = None
        if question.enabled and not question.refusals:
            try:
                for side, expected in zip(self._sides, self._expected, strict=True):
                    side.refuse_contradiction(expected)
                self._cycles.engage()
            except DynidError as error:
                question.refusals.append(str(error))
        if not question.refusals:
            question.answer.give(True, "both arms are coupled" if question.enabled else "torque is off at both arms")
            return
        if question.enabled:
            self._lower_both()
        question.answer.give(False, "; ".join(dict.fromkeys(question.refusals)))

    # -- reports -----------------------------------------------------------------------------------------------------

    def _publish_diagnostics(self) -> None:
        pair = self._cycles.pair
        law, now_s = pair.law, time.monotonic()
        engaged = not pair.stopped
        values = {
            "engaged": str(engaged).lower(),
            "mode": law.settings.mode,
            "cycles": str(self._cycles.cycles),
            "largest_difference_rad": f"{np.abs(law.difference).max():.4f}",
            "follower_pressed": f"{law.pressed:.2f}",
            "energy_j": f"{pair.energy.energy_j:.4f}",
            "stopped": pair.stopped,
            "fell_back": pair.fell_back,
        }
        for side in self._sides:
            values |= {
                f"{side.name}_state_age_s": f"{now_s - side.arrived_s:.3f}",
                f"{side.name}_clock": side.clock,
                f"{side.name}_driver": side.state,
                f"{side.name}_malformed": str(side.malformed),
            }
        expected = engaged or pair.stopped in ("not started", "disengaged")
        level = 1 if pair.fell_back else 0 if expected else 2
        text = pair.fell_back or ("coupled" if engaged else pair.stopped)
        report = [DiagnosticStatus("bilateral", level, text, "", values)]
        self._diagnostics.publish(encode_diagnostics(time.time_ns(), report))


def main() -> None:
    """Run the node for bilateral control."""
    prefer_latency()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    run_node(BilateralNode, events=True)


if __name__ == "__main__":
    main()

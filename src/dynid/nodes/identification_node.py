"""Node that identifies a model from bags and publishes it, once accepted, as ROS parameters and robot description.

The service `~/identify` reads the bags of parameter `bags`, identifies by parameter `method` and writes the result to
the folder of parameter `output`. It then sets the model (see `model_parameters`) on this node and on the running nodes
of parameter `controllers`, in one atomic parameter call each. A model that was not accepted is written to disk with its
verdict, but never set on a node.
"""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import ParameterDescriptor
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.client import Client
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import Trigger

from dynid.control.control_model import ControlModel, friction_or_zero, refuse_other_constants
from dynid.errors import ConfigurationError, DynidError, InputNotFoundError, OutputExistsError, SafetyError
from dynid.hardware.loop.realtime import prefer_throughput
from dynid.identification.campaign.store import runs_folder
from dynid.identification.methods import identify
from dynid.identification.result import Identification, exported_urdf
from dynid.identification.stages import METHODS, Method, refuse_unknown_method
from dynid.model.dynamics import ArmModel
from dynid.nodes.common import LATCHED, check_parameters, compile_first, declare, run_node, string
from dynid.nodes.model_parameters import PREFIX, as_values, declare_model
from dynid.recording.messages import DiagnosticStatus, encode_diagnostics
from dynid.reporting.result_writer import write_result
from dynid.robot import load_robot
from dynid.robot.urdf_text import read_urdf_text

CONTROLLER_TIMEOUT_S = 5.0


class IdentificationNode(Node):
    """Node that identifies a model from bags on request, and publishes it if it is accepted."""

    def __init__(self) -> None:
        super().__init__("identification")
        self.robot = load_robot(declare(self, "robot", "crane_x7", "robot name or folder", fixed=True))
        self._model = ArmModel.of(self.robot)
        self._handing_over = False
        for name in ("bags", "validation_bags"):
            descriptor = ParameterDescriptor(description=f"folders of the {name}")
            self.declare_parameter(name, Parameter.Type.STRING_ARRAY, descriptor)
        refuse_unknown_method(declare(self, "method", METHODS[0], f"how to identify: {', '.join(METHODS)}"))
        declare(self, "output", "", "folder for the result; it must not exist")
        self._parallel_group = ReentrantCallbackGroup()  # timers and answers must run while a service call waits
        self._controllers: dict[str, Client] = {}
        self._create_clients(declare(self, "controllers", ["executor"], "running nodes that receive an accepted model"))
        declare_model(self, self._model)
        check_parameters(self, self._on_set)
        self._description = self.create_publisher(String, "robot_description", LATCHED)
        self._verdict = self.create_publisher(String, "verdict", LATCHED)
        self._diagnostics = self.create_publisher(DiagnosticArray, "diagnostics", 10)
        self._stage = "idle"
        self.create_service(Trigger, "~/identify", self._on_identify, callback_group=self._parallel_group)
        self.create_timer(1.0, self._publish_diagnostics)
        self._description.publish(String(data=read_urdf_text(self.robot.urdf_path)))

    def rehearse(self) -> None:
        """Compile the functions that an identification uses."""
        compile_first(self, self.robot)

    def shut_down(self) -> None:
        """Terminate the worker processes, which identify models from several bags in parallel (a campaign).

        This damages no file: results are written completely or not at all. The results of finished runs stay stored.
        """
        for process in multiprocessing.active_children():
            process.terminate()

    def _on_set(self, parameters: list[Parameter]) -> None:
        """Raise an error for parameter values that would otherwise fail only later, in an identification."""
        for parameter in parameters:
            if parameter.name.startswith(PREFIX) and not self._handing_over:
                raise ConfigurationError(f"{parameter.name} is an output of ~/identify")
            if parameter.name == "method":
                refuse_unknown_method(parameter.value)
            if parameter.name == "controllers":
                self._create_clients(parameter.value or [])
            if parameter.name in ("bags", "validation_bags"):
                missing = [bag for bag in parameter.value or [] if not os.path.exists(bag)]
                if missing:
                    raise InputNotFoundError(f"no such bag: {', '.join(missing)}")
            if parameter.name == "output" and parameter.value and os.path.lexists(parameter.value):
                raise OutputExistsError(f"output {parameter.value} exists; choose another")

    def _create_clients(self, controllers: list[str]) -> None:
        """Create the service clients of the nodes with these names, which may receive a model.

        Clients are created early, because discovery takes longer than a service call may wait.
        """
        for name in controllers:
            if name not in self._controllers:
                service = f"{name}/set_parameters_atomically"
                self._controllers[name] = self.create_client(
                    SetParametersAtomically, service, callback_group=self._parallel_group
                )

    async def _on_identify(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._stage != "idle":
            response.message = f"an identification is running ({self._stage})"
            return response
        bags, validation, output = self._bags("bags"), self._bags("validation_bags"), string(self, "output")
        if not bags or not output:
            response.message = f"parameter '{'bags' if not bags else 'output'}' is empty"
            return response
        method: Method = string(self, "method")  # type: ignore[assignment] # others are refused when they are set
        self.get_logger().info(f"identifying by {method} from {', '.join(bag.name for bag in bags)}")
        self._stage = "reading"
        done = Future(executor=self.executor)
        work = lambda: self._work(lambda: self._identify(method, bags, validation, Path(output)), done)  # noqa: E731
        threading.Thread(target=work, daemon=True).start()
        outcome = await done
        self._stage = "idle"
        if not isinstance(outcome, Identification):
            response.message = str(outcome)
            return response
        self._verdict.publish(String(data=outcome.verdict_json()))
        response.message = f"result written to {output}{_of_campaign(outcome)}"
        if not outcome.verdict.accepted:
            failed = "; ".join(check.sentence() for check in outcome.verdict.failed)
            response.message += f"; not accepted and not handed over: {failed}"
            return response
        refusals = self._hand_over(outcome)
        if not refusals:
            response.message += "; accepted and handed over"
            notes, refusals = await self._feed(outcome)
            response.message += "".join(f"; {note}" for note in notes)
        response.success = not refusals
        response.message += "".join(f"; {refusal}" for refusal in refusals)
        return response

    def _bags(self, name: str) -> list[Path]:
        return [Path(bag) for bag in self.get_parameter_or(name).value or []]

    @staticmethod
    def _work(job: Callable[[], Identification], done: Future) -> None:
        """Run a job and put its result or error into `done`; a separate thread calls this to keep the node free."""
        try:
            done.set_result(job())
        except DynidError as error:
            done.set_result(error)
        except Exception as error:  # a program error must be answered, or the caller would wait forever
            done.set_result(f"internal error: {error!r}")

    def _identify(self, method: Method, bags: list[Path], validation: list[Path], output: Path) -> Identification:
        result = identify(
            self.robot,
            bags,
            method=method,
            validation=validation,
            progress=self._set_stage,
            runs=runs_folder(output) if method == "campaign" else None,
        )
        self._set_stage("writing the result")
        write_result(result, output)
        return result

    def _set_stage(self, stage: str) -> None:
        self._stage = stage

    def _hand_over(self, result: Identification) -> list[str]:
        """Publish an accepted model: set its parameters on this node in one atomic call, and publish its URDF.

        Return [] if the parameters were set, else a list with one sentence, the reason for the refusal.
        """
        values = as_values(control_model(result))
        self._handing_over = True
        try:
            outcome = self.set_parameters_atomically([Parameter(key, value=value) for key, value in values.items()])
        finally:
            self._handing_over = False
        if not outcome.successful:
            return [f"the parameters were refused: {outcome.reason}"]
        self._description.publish(String(data=exported_urdf(result)))
        return []

    async def _feed(self, result: Identification) -> tuple[list[str], list[str]]:
        """Set a model on the controllers, see `_feed_controllers`, unless the arm has other torque constants by now."""
        try:
            refuse_other_constants(self.robot, result.torque_constants)  # parameters do not carry them
        except SafetyError as error:
            return [], [f"not given to controllers: {error}"]
        return await self._feed_controllers(as_values(control_model(result)))

    async def _feed_controllers(self, values: dict[str, object]) -> tuple[list[str], list[str]]:
        """Set a model on every running node of parameter `controllers`, in one atomic call each.

        Args:
            values: ROS parameters of the model by name.

        Returns:
            Phrases about nodes that accepted the model or are not running, and phrases about nodes that refused it or
                did not answer.
        """
        notes, refused = [], []
        request = SetParametersAtomically.Request()
        request.parameters = [Parameter(key, value=value).to_parameter_msg() for key, value in values.items()]
        for name in self.get_parameter("controllers").value or []:
            client = self._controllers[name]
            if not client.service_is_ready():
                notes.append(f"{name} is not running")
                continue
            answer = client.call_async(request)
            timer = self.create_timer(CONTROLLER_TIMEOUT_S, answer.cancel)
            result = await answer
            self.destroy_timer(timer)
            if result is None:
                refused.append(f"{name} did not answer within {CONTROLLER_TIMEOUT_S:.0f} s")
            elif result.result.successful:
                notes.append(f"{name} accepted it")
            else:
                refused.append(f"{name} refused it: {result.result.reason}")
        return notes, refused

    def _publish_diagnostics(self) -> None:
        status = DiagnosticStatus("identification", 0, self._stage, "", {})
        self._diagnostics.publish(encode_diagnostics(time.time_ns(), [status]))


def _of_campaign(result: Identification) -> str:
    """Return text about unusable bags and failed checks of a campaign, which is an identification from several bags.

    The text is appended to a message. It is "" if the result does not come from a campaign.
    """
    if result.campaign is None:
        return ""
    failures, failed = result.campaign.summary["failures"], result.campaign.processing.failed
    notes = [f"{name} was not used: {reason}" for name, reason in failures.items()]
    notes += [f"of the campaign as a whole: {check.sentence()}" for check in failed]
    return "".join(f"; {one}" for one in notes)


def control_model(result: Identification) -> ControlModel:
    """Return the part of an identification that controllers use.

    It contains base parameters, friction, the hash of the model's structure, and whether the model was accepted.
    """
    friction = friction_or_zero(result.friction, result.model.axes)
    return ControlModel(result.robot.name, result.model.structure_hash, result.base, friction, result.verdict.accepted)


def main() -> None:
    """Run the identification node in this process."""
    prefer_throughput()
    run_node(IdentificationNode)


if __name__ == "__main__":
    main()

"""dynid: physically feasible dynamic identification for ROS 2 arms, from motor current to an accepted model.

    import dynid

    robot = dynid.load_robot("crane_x7")                          # a name, or a folder with a robot.yaml
    result = dynid.identify(robot, ["run"], validation=["other"])    # bags, CSV files, arrays
    dynid.write_result(result, "model")                           # model.yaml, URDF, MJCF, report.html
    model = dynid.load_model("model")
    tau = model.torques(q, dq, ddq)                               # [N m], one state (n,) or many (N, n)
    controller = model.controller(500.0)                          # for a loop of your own at 500 Hz

| name | what |
|---|---|
| `load_robot` | loads a robot from its folder |
| `load_recording`, `Recording` | a recorded motion, from a bag or from a CSV file: `time`, `q`, `dq`, `tau`, `plot()` |
| `recording_from_arrays` | makes a `Recording` from numpy arrays |
| `identify` | identifies a model from recordings and checks it, by the chosen `method`: an `Identification` |
| `validate` | compares the predictions of a model with other recordings, with checks |
| `write_result` | writes an `Identification` as a folder, with exports and report |
| `load_model`, `Model` | a written model: torques, gravity, inertia matrix, friction, and a controller |
| `mujoco_model` | an identified model as a MuJoCo model that can be stepped, its friction included |
| `ArmModel` | geometry and equations of motion: regressor, base parameters, dynamics |
| `Verdict`, `Check` | named checks; a verdict is accepted if every check passed |
| `DynidError` | base class of all errors that a user can fix; its message is one sentence |

These names are stable. They load when they are first used, so that `import dynid` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dynid.errors import DynidError as DynidError
    from dynid.identification.data.arrays import recording_from_arrays as recording_from_arrays
    from dynid.identification.data.recordings import Recording as Recording
    from dynid.identification.data.recordings import load_recording as load_recording
    from dynid.identification.held_out import validate as validate
    from dynid.identification.methods import identify as identify
    from dynid.identification.result import Identification as Identification
    from dynid.model.dynamics import ArmModel as ArmModel
    from dynid.reporting.result_writer import write_result as write_result
    from dynid.robot import load_robot as load_robot
    from dynid.runtime.model import Model as Model
    from dynid.runtime.model import load_model as load_model
    from dynid.runtime.to_mujoco import mujoco_model as mujoco_model
    from dynid.verdict import Check as Check
    from dynid.verdict import Verdict as Verdict

_PLACES = {
    "ArmModel": "model.dynamics",
    "Check": "verdict",
    "DynidError": "errors",
    "Identification": "identification.pipeline",
    "Model": "runtime.model",
    "Recording": "identification.data.recordings",
    "Verdict": "verdict",
    "identify": "identification.methods",
    "load_model": "runtime.model",
    "load_recording": "identification.data.recordings",
    "load_robot": "robot",
    "mujoco_model": "runtime.to_mujoco",
    "recording_from_arrays": "identification.data.arrays",
    "validate": "identification.held_out",
    "write_result": "reporting.result_writer",
}
__all__ = [*_PLACES]


def __getattr__(name: str) -> Any:
    """Return the public object with this name, which is imported at its first use."""
    if name not in _PLACES:
        raise AttributeError(f"module 'dynid' has no attribute '{name}'")
    globals()[name] = getattr(import_module(f"dynid.{_PLACES[name]}"), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

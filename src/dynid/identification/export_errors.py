"""Torque errors of exported MJCF and URDF files on held-out recordings, compared with those of the identified model.

A file with two friction values per joint predicts less accurately than the whole friction law, and a URDF has no rotor
inertias. Each file is therefore read back as a simulator would read it, and the resulting model predicts the torques of
the held-out recordings. The header of the file states the resulting error.
"""

from collections.abc import Mapping, Sequence

from dynid.export.result_files import MJCF_FILE, URDF_FILE, simulator_texts
from dynid.identification.data.recordings import Portion
from dynid.identification.prediction import Motion, pooled_errors, predict
from dynid.model.friction import FrictionLaw
from dynid.model.mdh import MdhChain
from dynid.model.model_file import ExportError
from dynid.model.parameters import StandardParameters
from dynid.robot import Robot
from dynid.runtime.model import Model
from dynid.runtime.simulator_file import model_of_text

MODEL_FILE = "model.yaml"
FILES = (MODEL_FILE, MJCF_FILE, URDF_FILE)


def exported_models(
    robot: Robot, mdh: MdhChain, standard: StandardParameters, mount: str, friction: FrictionLaw | None
) -> dict[str, Model]:
    """Return the models that the MJCF and URDF exports of a result contain, by file name.

    Args:
        robot: the robot.
        mdh: kinematic chain of the robot.
        standard: standard parameters of the result.
        mount: name of the mount.
        friction: friction law of the result; None if there is none.
    """
    texts = simulator_texts(robot, mdh, standard, mount, friction)
    return {name: model_of_text(text, robot, name) for name, text in texts.items()}


def predicted_by(models: Mapping[str, Model], portions: Sequence[Portion]) -> dict[str, tuple[Motion, ...]]:
    """Return the torques that each model predicts for portions of recordings, by the name of the model."""
    return {name: tuple(predict(model, one) for one in portions) for name, model in models.items()}


def errors_of(judged: Mapping[str, Sequence[Motion]]) -> tuple[ExportError, ...]:
    """Return each file's torque errors on held-out motions.

    The first entry of a file is the error over all motions together. One entry per motion follows if there are several.

    Args:
        judged: predictions of the held-out motions, by file name.
    """
    found = []
    for file, motions in judged.items():
        parts = [("", motions), *((one.name, [one]) for one in motions)] if len(motions) > 1 else [("", motions)]
        for name, part in parts if motions else ():
            errors = pooled_errors(part)
            over = name or ", ".join(one.name for one in motions)
            found.append(ExportError(file=file, recordings=over, moving=errors.moving, relative=errors.relative))
    return tuple(found)


def error_sentences(errors: Sequence[ExportError]) -> dict[str, str]:
    """Return a sentence about the held-out torque error of each exported file, by file name.

    The sentence is for the header of the file. If `errors` is empty, it states that no recording was held out.
    """
    first: dict[str, ExportError] = {}
    for one in errors:
        first.setdefault(one.file, one)
    if not first:
        return dict.fromkeys(
            FILES[1:],
            "The torque error of this file is not known, because no recording was held out; dynid validate measures "
            "it on one.",
        )
    model = first[MODEL_FILE]
    return {
        file: f"Held-out torque error of this file: {_percent(one.moving)} of the torque of joints in motion, of "
        f"model.yaml {_percent(model.moving)} (with samples at rest {_percent(one.relative)} and "
        f"{_percent(model.relative)}); predicted: {one.recordings}."
        for file, one in first.items()
        if file != MODEL_FILE
    }


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g} %"

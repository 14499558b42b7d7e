"""model.yaml: an identified model as a file, with names, units, deviations, verdict and provenance."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from dynid.errors import DataError
from dynid.identification.coulomb import CoulombFriction
from dynid.identification.verdict import Check, Verdict
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.model.standard import StandardFile, from_file
from dynid.resources import load_validated, write_whole
from dynid.robot import NonNegative, Positive, Strict


class ParameterRow(Strict):
    """One base parameter; `standard_deviation` is of the estimate before its consistent projection.

    From one motion it does not hold what only other motions show; a campaign's holds its scatter over motions.
    """

    name: str
    unit: str
    value: float
    standard_deviation: float | None = None
    grouping: str = ""


class FrictionRow(Strict):
    """Coulomb friction of one axis."""

    name: str
    value: NonNegative
    standard_deviation: float | None = None


class FrictionBlock(Strict):
    """Coulomb friction beside the base parameters: FC_j tanh(dq_j / transition_rad_s), every FC in N m."""

    transition_rad_s: Positive
    axes_nm: tuple[FrictionRow, ...]


class ModelFile(Strict):
    """The schema of model.yaml.

    `verdict` holds the checks that decided on acceptance; a published table has none and is not `accepted`.
    """

    schema_version: Literal[1] = 1
    robot: str
    structure_hash: str
    geometry_overrides_m: dict[str, float] = {}
    mount: str | None = None
    torque_constants_nm_per_a: tuple[float, ...] = ()
    accepted: bool = False
    feasibility: Literal["unknown", "audited", "projected", "consistent"] = "unknown"
    source: str = ""
    parameters: tuple[ParameterRow, ...]
    coulomb_friction: FrictionBlock | None = None
    standard: StandardFile | None = None
    verdict: tuple[Check, ...] = ()
    provenance: dict[str, Any] = {}

    def base_parameters(self, model: ArmModel) -> BaseParameters:
        """The parameters as phi of `model`.

        Raises:
            DataError: the file is of another robot or structure.
        """
        names = tuple(row.name for row in self.parameters)
        if names != model.names or self.structure_hash != model.structure_hash:
            differing = sorted(set(names) ^ set(model.names))
            raise DataError(
                f"this model file is of another structure (robot {self.robot}, hash {self.structure_hash}, expected "
                f"{model.structure_hash}){'; names that differ: ' + ', '.join(differing) if differing else ''}"
            )
        deviations = [row.standard_deviation for row in self.parameters]
        known = all(value is not None for value in deviations)
        covariance = np.diag(np.square(np.array(deviations, dtype=float))) if known else None
        return BaseParameters(names, np.array([row.value for row in self.parameters]), covariance)

    def friction(self) -> CoulombFriction | None:
        """Coulomb friction beside the base parameters; None where none was estimated."""
        block = self.coulomb_friction
        if block is None:
            return None
        deviations = [row.standard_deviation for row in block.axes_nm]
        known = all(value is not None for value in deviations)
        return CoulombFriction(
            np.array([row.value for row in block.axes_nm]), block.transition_rad_s,
            np.array(deviations, dtype=float) if known else None,
        )  # fmt: skip

    def standard_parameters(self, model: ArmModel) -> StandardParameters:
        """The consistent standard parameters.

        Raises:
            DataError: the file has none.
        """
        if self.standard is None:
            raise DataError(f"this model file of {self.robot} has no standard parameters, so no URDF can be made of it")
        return from_file(self.standard, model.mdh)


def parameter_rows(model: ArmModel, phi: BaseParameters) -> tuple[ParameterRow, ...]:
    """The rows of model.yaml for base parameters."""
    deviations = phi.standard_deviations
    return tuple(
        ParameterRow(
            name=name,
            unit=model.unit(name),
            value=float(phi.values[k]),
            standard_deviation=None if deviations is None else float(deviations[k]),
            grouping=model.regrouping.formula(name).split(" = ", 1)[1],
        )
        for k, name in enumerate(phi.names)
    )


def friction_block(friction: CoulombFriction | None) -> FrictionBlock | None:
    """The block of model.yaml for Coulomb friction."""
    if friction is None:
        return None
    deviations = friction.standard_deviations
    known: list[float | None] = [None] * len(friction.names) if deviations is None else [*map(float, deviations)]
    rows = [
        FrictionRow(name=name, value=float(value), standard_deviation=deviation)
        for name, value, deviation in zip(friction.names, friction.values, known, strict=True)
    ]
    return FrictionBlock(transition_rad_s=friction.transition_rad_s, axes_nm=tuple(rows))


def accepted_by(verdict: Verdict) -> dict[str, Any]:
    """The two fields of model.yaml that a verdict fills."""
    return {"accepted": verdict.accepted, "verdict": verdict.checks}


def load_model(path: Path) -> ModelFile:
    """Read a model.yaml; errors name the file and the field."""
    return load_validated(path, ModelFile)


def save_model(path: Path, content: ModelFile) -> None:
    """Write a model.yaml whole; never over an existing one."""
    write_whole(path, yaml.safe_dump(content.model_dump(mode="json"), sort_keys=False, width=140, allow_unicode=True))

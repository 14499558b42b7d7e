"""File model.yaml: an identified model with names, units, standard deviations, verdict and provenance."""

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dynid.errors import DataError
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FB, SYMBOLS, TERMS, FrictionLaw
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.model.springs import is_spring
from dynid.model.standard import StandardFile, from_file
from dynid.resources import load_validated, write_whole, yaml_text
from dynid.robot import FloatArray, NonNegative, Positive, Strict
from dynid.verdict import Check, Verdict


class ParameterRow(Strict):
    """One base parameter in model.yaml.

    Attributes:
        name: name of the parameter.
        unit: SI unit.
        value: value of the parameter.
        standard_deviation: standard deviation of the estimate before projection to physically consistent parameters;
            None if unknown. It includes errors due to backlash between joints and encoders, and due to friction that
            the friction law does not represent. A campaign identifies a model from every recording; there, the standard
            deviation also includes the scatter over motions.
        determined: whether the data determine the parameter: half its 95 % confidence interval is at most 10 % of its
            value, see `identification.determined`. None if unknown, and in files of former versions.
        grouping: formula of the parameter in standard parameters.
    """

    name: str
    unit: str
    value: float
    standard_deviation: float | None = None
    determined: bool | None = None
    grouping: str = ""


class CoulombRow(Strict):
    """Coulomb friction of one axis [N m]."""

    name: str
    value: NonNegative
    standard_deviation: float | None = None


class CoulombBlock(Strict):
    """Coulomb friction in addition to that of the base parameters [N m]; only files of former versions have it."""

    transition_rad_s: Positive
    axes_nm: tuple[CoulombRow, ...]


class FrictionTerm(Strict):
    """One term of the friction law, see `dynid.model.friction.TERMS`: values and standard deviations for all axes."""

    symbol: str
    unit: str
    values: tuple[float, ...]
    standard_deviations: tuple[float | None, ...] = ()


class FrictionRung(Strict):
    """Result of one friction structure (set of friction terms) in a comparison of several structures.

    Attributes:
        name: name of the structure, such as "Stribeck". Variants have a suffix: "alike" if servos of one type have
            equal parameters, "constant" if friction does not drift, "offset" for an additional torque offset.
        parameters: number of friction parameters in addition to the base parameters.
        held_out: cross-validation error: weighted rms error on blocks of time that were not fitted, divided by the
            weighted rms torque.
        excess: relative excess of the squared error over that of the best structure.
        standard_error: standard error of `excess`, from its scatter over the blocks of time.
        chosen: whether this structure was chosen.
    """

    name: str
    parameters: int
    held_out: float
    excess: float
    standard_error: float
    chosen: bool = False


class FrictionBlock(Strict):
    """Friction in addition to that of the base parameters.

    Attributes:
        structure: name of the friction structure, a set of friction terms.
        transition_rad_s: transition velocity v: tanh(dq / v) replaces sign(dq).
        terms: terms of the friction law that at least one axis has.
        left_out: names of friction parameters that are zero because the motion does not excite them.
        change_per_minute: relative change of friction per minute of the recordings; None if it was constant.
        ladder: structures that were compared to choose this one; () without a comparison.
    """

    structure: str = ""
    transition_rad_s: NonNegative
    terms: tuple[FrictionTerm, ...]
    left_out: tuple[str, ...] = ()
    change_per_minute: float | None = None
    ladder: tuple[FrictionRung, ...] = ()


class TorqueDeviations(Strict):
    """Expected errors of the model's torques for moving joints, by classes of joint speed.

    Attributes:
        speeds_rad_s: boundaries between classes of speed; one fewer than there are classes.
        deviations_nm: root mean squares of the errors [N m], a row of all axes per class.
        lasting_nm: part of the errors that is constant while a joint moves in one direction; () if unknown.
        passing_nm: part of the errors that changes with speed, such as friction that the friction law does not
            represent; () if unknown. Joints may stick in the slowest class, so its value includes static friction
            beyond that of the friction law.
    """

    speeds_rad_s: tuple[Positive, ...]
    deviations_nm: tuple[tuple[NonNegative, ...], ...]
    lasting_nm: tuple[tuple[NonNegative, ...], ...] = ()
    passing_nm: tuple[tuple[NonNegative, ...], ...] = ()

    @property
    def lasting(self) -> FloatArray:
        """Part of the torque errors that is constant while a joint moves in one direction, (classes, n) [N m].

        If `lasting_nm` is (), the whole errors `deviations_nm` are returned.
        """
        return np.array(self.lasting_nm or self.deviations_nm)

    @property
    def passing(self) -> FloatArray:
        """Part of the torque errors that changes with speed, (classes, n) [N m]; zero if the parts are unknown."""
        return np.array(self.passing_nm or np.zeros_like(self.deviations_nm))


class UndeterminedGroup(Strict):
    """Group of parameters that the motion does not determine: errors of 50 % would be within the noise of the data.

    Attributes:
        what: description of the group.
        parameters: names of the parameters in the group.
        distance: Mahalanobis norm of half of the parameter values, with the covariance of the estimate.
        needed: smallest `distance` at which the motion would determine the group.
    """

    what: str
    parameters: tuple[str, ...]
    distance: float
    needed: float


class ExportError(Strict):
    """Relative errors of the torques that a model file predicts for one or all held-out recordings.

    tau are measured and tau_hat predicted torques.

    Attributes:
        file: name of the file: model.yaml, MJCF or URDF.
        recordings: names of the recordings. In lists, the first element of each file covers all held-out recordings; if
            there are several, an element for each of them follows.
        moving: || tau - tau_hat || / || tau || of joints in motion.
        relative: || tau - tau_hat || / || tau || over all samples.
    """

    file: str
    recordings: str
    moving: float
    relative: float


class ModelFile(Strict):
    """Content of model.yaml.

    `not_determined` lists groups of parameters that the motion hardly excites. `export_errors` are the torque errors of
    model.yaml, MJCF and URDF on held-out recordings; () without such recordings. `verdict` holds the checks that
    decided whether the model is `accepted`. A model from a published table has no checks and is not `accepted`.
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
    not_determined: tuple[UndeterminedGroup, ...] = ()
    coulomb_friction: CoulombBlock | None = None
    friction_law: FrictionBlock | None = None
    torque_deviations: TorqueDeviations | None = None
    export_errors: tuple[ExportError, ...] = ()
    standard: StandardFile | None = None
    verdict: tuple[Check, ...] = ()
    provenance: dict[str, Any] = {}

    def base_parameters(self, model: ArmModel) -> BaseParameters:
        """Return the base parameters of the file, after a check that they belong to the structure of `model`.

        Their covariance is a diagonal matrix of squared standard deviations. If a standard deviation is unknown, the
        covariance is None.

        Raises:
            DataError: the file is of another robot or structure.
        """
        names = tuple(row.name for row in self.parameters)
        if names != model.names or self.structure_hash != model.structure_hash:
            differing = sorted(set(names) ^ set(model.names))
            if lacking := [name for name in differing if is_spring(name) and name in model.names]:
                raise DataError(
                    f"this model file of {self.robot} lacks {', '.join(lacking)}, which springs in robot.yaml declare: "
                    "identify again"
                )
            raise DataError(
                f"this model file has another structure (robot {self.robot}, hash {self.structure_hash}, expected "
                f"{model.structure_hash}){'; names that differ: ' + ', '.join(differing) if differing else ''}"
            )
        deviations = [row.standard_deviation for row in self.parameters]
        known = all(value is not None for value in deviations)
        covariance = np.diag(np.square(np.array(deviations, dtype=float))) if known else None
        return BaseParameters(names, np.array([row.value for row in self.parameters]), covariance)

    def friction(self) -> FrictionLaw | None:
        """Return the friction law that applies in addition to the base parameters; None if the file has none."""
        old, block = self.coulomb_friction, self.friction_law
        if block is not None:
            viscous = [row for row in self.parameters if re.fullmatch(r"FV\d+", row.name)]  # one for each axis
            size = len(block.terms[0].values) if block.terms else len(viscous)
            values, known = np.zeros((len(SYMBOLS), size)), np.full((len(SYMBOLS), size), np.nan)
            for term in block.terms:
                row = SYMBOLS.index(term.symbol)
                values[row] = term.values
                if term.standard_deviations:
                    known[row] = [np.nan if one is None else one for one in term.standard_deviations]
            return FrictionLaw(values, block.transition_rad_s, known)
        if old is None:
            return None
        law = FrictionLaw.of(len(old.axes_nm), {"fb": np.array([row.value for row in old.axes_nm])})
        deviations = np.full_like(law.values, np.nan)
        deviations[FB] = [np.nan if row.standard_deviation is None else row.standard_deviation for row in old.axes_nm]
        return FrictionLaw(law.values, old.transition_rad_s, deviations)

    def standard_parameters(self, model: ArmModel) -> StandardParameters:
        """Return the physically consistent standard parameters of the file, in the modified DH frames of `model`.

        Raises:
            DataError: the file has no standard parameters.
        """
        if self.standard is None:
            raise DataError(
                f"this model file of {self.robot} has no standard parameters, which a URDF needs; identify again"
            )
        return from_file(self.standard, model.mdh)


def parameter_rows(
    model: ArmModel, phi: BaseParameters, determined: Collection[str] | None = None
) -> tuple[ParameterRow, ...]:
    """Return the rows of model.yaml for base parameters.

    Args:
        model: model to which the parameters belong.
        phi: base parameters.
        determined: names of the parameters that the data determine; None if unknown.
    """
    deviations, springs = phi.standard_deviations, {term.name: term.formula for term in model.drive.springs}
    return tuple(
        ParameterRow(
            name=name,
            unit=model.unit(name),
            value=float(phi.values[k]),
            standard_deviation=None if deviations is None else float(deviations[k]),
            determined=None if determined is None else name in determined,
            grouping=springs.get(name) or model.regrouping.formula(name).split(" = ", 1)[1],
        )
        for k, name in enumerate(phi.names)
    )


def friction_block(
    friction: FrictionLaw | None,
    structure: str = "",
    left_out: tuple[str, ...] = (),
    change_per_minute: float | None = None,
    ladder: tuple[FrictionRung, ...] = (),
) -> FrictionBlock | None:
    """Return the block of model.yaml for friction in addition to the base parameters; None without friction.

    The arguments are the attributes of `FrictionBlock`.
    """
    if friction is None:
        return None
    known = np.full_like(friction.values, np.nan) if friction.deviations is None else friction.deviations
    terms = tuple(
        FrictionTerm(
            symbol=term.symbol,
            unit=term.unit,
            values=tuple(row.tolist()),
            standard_deviations=tuple(None if np.isnan(one) else float(one) for one in deviations),
        )
        for term, row, deviations in zip(TERMS, friction.values, known, strict=True)
        if row.any()
    )
    return FrictionBlock(
        structure=structure,
        transition_rad_s=friction.transition_rad_s,
        terms=terms,
        left_out=left_out,
        change_per_minute=change_per_minute,
        ladder=ladder,
    )


def with_friction(standard: StandardParameters, friction: FrictionLaw | None) -> StandardParameters:
    """Return standard parameters whose Coulomb friction FC is replaced by the FC of a friction law.

    Standard parameters cannot hold the law's other terms. If the law is None, the parameters stay unchanged.
    """
    if friction is None:
        return standard
    values = np.array(standard.values)
    for axis, value in enumerate(friction["fb"]):
        values[standard.names.index(f"FC{axis + 1}")] = value
    return replace(standard, values=values)


def accepted_by(verdict: Verdict) -> dict[str, Any]:
    """Return the two fields of model.yaml that a verdict determines: `accepted`, and `verdict` with its checks."""
    return {"accepted": verdict.accepted, "verdict": verdict.checks}


def read_model_file(path: Path) -> ModelFile:
    """Read a model.yaml; errors name the file and the field."""
    return load_validated(path, ModelFile)


def save_model(path: Path, content: ModelFile) -> None:
    """Write a model.yaml completely or not at all; an existing one is never overwritten."""
    write_whole(path, yaml_text(content.model_dump(mode="json")))

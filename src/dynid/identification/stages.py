"""Intermediate results (stages) of an identification method, and the additional result files of a campaign.

Stages are, for example, the parameters from least squares and from the closed-loop refinement. A campaign identifies
every bag at every sampling interval, and chooses one of these models.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from dynid.errors import UnknownNameError
from dynid.model.parameters import BaseParameters
from dynid.verdict import Verdict

Method = Literal["regression", "closed-loop", "campaign"]
METHODS: tuple[Method, ...] = get_args(Method)
StageName = Literal["ols", "sdp", "clie", "final", "result"]


def refuse_unknown_method(method: str) -> None:
    """Raise UnknownNameError if there is no identification method of this name; the message lists the methods."""
    if method not in METHODS:
        raise UnknownNameError("method", str(method), METHODS)


@dataclass(frozen=True, eq=False)
class Stage:
    """Parameters after one stage of an identification, such as least squares, with their errors.

    Attributes:
        name: "ols" (the unconstrained estimate), "sdp" (projected so that M(q) is positive definite), "clie" (refined
            in the closed loop), "final" (projected again if M(q) was not positive definite after the refinement) or
            "result" (the nearest parameters of physically possible links).
        base: base parameters.
        rmse_nm: root mean square torque error of inverse dynamics on the fitted samples [N m].
        relative: relative torque error || error || / || torque || on the same samples.
        lambda_min: smallest eigenvalue of M(q) that an audit found [kg m^2]; None without an audit.
        seconds: computing time [s]; None if it was not measured.
    """

    name: StageName
    base: BaseParameters
    rmse_nm: float
    relative: float
    lambda_min: float | None = None
    seconds: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the stage as plain values, with parameters by name.

        The stages "ols" and "result" have no parameters here, because model.yaml states them elsewhere.
        """
        elsewhere = self.name in ("ols", "result")
        parameters = {} if elsewhere else dict(zip(self.base.names, self.base.values.tolist(), strict=True))
        return {
            "name": self.name,
            "rmse_nm": self.rmse_nm,
            "relative": self.relative,
            "lambda_min": self.lambda_min,
            "seconds": self.seconds,
            "parameters": parameters,
        }


@dataclass(frozen=True, eq=False)
class Refined:
    """Outcome of a closed-loop refinement inside an identification.

    Attributes:
        base: refined parameters with their covariance.
        stages: parameters before and after the refinement, those from least squares ("ols") first.
        converged: whether the refinement ended because a further step would reduce the cost by less than the tolerance.
        how: description of how the refinement ended.
    """

    base: BaseParameters
    stages: tuple[Stage, ...]
    converged: bool
    how: str


@dataclass(frozen=True, eq=False)
class CampaignFiles:
    """Content that a campaign adds to the folder of its result.

    Attributes:
        provenance: additional fields of the provenance in model.yaml.
        summary: content of campaign.json.
        tables: CSV text by file name without suffix.
        runs: JSON text of every run (one bag at one sampling interval) by file name.
        processing: checks of the campaign as a whole.
        stored: folder of the finished runs. They are removed from it after they are written to the result's folder.
            None if the folder is temporary.
    """

    provenance: Mapping[str, Any]
    summary: Mapping[str, Any]
    tables: Mapping[str, str]
    runs: Mapping[str, str]
    processing: Verdict
    stored: Path | None = None

    def forget_stored(self) -> None:
        """Remove the stored runs of this campaign, and their folder if no other runs remain in it."""
        if self.stored is None or not self.stored.is_dir():
            return
        for name in self.runs:
            (self.stored / name).unlink(missing_ok=True)
        if not any(self.stored.iterdir()):  # runs of other settings stay
            self.stored.rmdir()

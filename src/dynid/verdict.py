"""Verdict on a result as a list of named checks.

The list is printed as a table, and determines the exit code and whether a model is published.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

from dynid.robot import Strict

Group = Literal["", "Data", "Estimation", "Physics", "Prediction", "Campaign", "Chain"]


class Check(Strict):
    """Check that compares a value with a limit.

    Attributes:
        id: name of the check for programs, which never changes; "" in files of older versions.
        group: subject of the check; "" in files of older versions.
        name: name of the check for people, which may change.
        value: measured value, which is compared with the limit. If the check could not be made, the value is NaN and
            the check does not pass.
        limit: limit of the value.
        sense: how the value must compare with the limit: "at most", "at least" or "equals".
        unit: unit of value and limit; "" without one.
        detail: explanation in words; "" without one.
    """

    id: str = ""
    group: Group = ""
    name: str
    value: float
    limit: float
    sense: Literal["at most", "at least", "equals"] = "at most"
    unit: str = ""
    detail: str = ""

    model_config = Strict.model_config | {"allow_inf_nan": True}

    @property
    def passed(self) -> bool:
        """Whether the value satisfies the limit; False if the check could not be made."""
        if self.sense == "at most":
            return self.value <= self.limit
        if self.sense == "at least":
            return self.value >= self.limit
        return self.value == self.limit

    @property
    def made(self) -> bool:
        """Whether the check could be made; if not, `detail` gives the reason."""
        return not math.isnan(self.value)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of the check and its outcome `passed` as a dictionary of plain values."""
        return self.model_dump() | {"passed": self.passed}

    def sentence(self) -> str:
        """Return the check and its outcome as a sentence."""
        unit = f" {self.unit}" if self.unit else ""
        if not self.made:
            return f"{self.name}: not checked ({self.detail or 'no value'})"
        word = "passed" if self.passed else "FAILED"
        detail = f" - {self.detail}" if self.detail else ""
        return f"{self.name}: {self.value:.6g}{unit}, {self.sense} {self.limit:.6g}{unit}: {word}{detail}"


@dataclass(frozen=True)
class Verdict:
    """Verdict on a result: it is accepted if there is at least one check and every check passed."""

    checks: tuple[Check, ...]

    @property
    def accepted(self) -> bool:
        """Whether there is at least one check and every check passed."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict and its checks as a dictionary of plain values."""
        return {"accepted": self.accepted, "checks": [check.as_dict() for check in self.checks]}

    @property
    def failed(self) -> tuple[Check, ...]:
        """Checks that failed or could not be made."""
        return tuple(check for check in self.checks if not check.passed)

    def __str__(self) -> str:
        return "\n".join([*(one.sentence() for one in self.checks), "accepted" if self.accepted else "not accepted"])

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(self.checks + other.checks)

"""Verdict of a result, as a list of named checks.

The same list serves the table, the exit code and the decision to publish.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

from dynid.robot import Strict

Group = Literal["", "Data", "Estimation", "Physics", "Prediction", "Campaign", "Chain"]


class Check(Strict):
    """Criterion that compares a value with a limit; NaN, the value of a check that could not be made, never passes.

    `id` names the criterion for programs and never changes; `name` is for people and may change. `group` is the
    question that the check answers. Both are empty in files of older versions. `sense` says which side is good: "at
    most", "at least", or "equals".
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
        """Whether the value is on the good side of the limit."""
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
        """Return the check and its outcome as plain values."""
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
    """Verdict that accepts a result if every check passed; without any check nothing is accepted."""

    checks: tuple[Check, ...]

    @property
    def accepted(self) -> bool:
        """Whether there are checks and every one passed."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values."""
        return {"accepted": self.accepted, "checks": [check.as_dict() for check in self.checks]}

    @property
    def failed(self) -> tuple[Check, ...]:
        """Checks that did not pass."""
        return tuple(check for check in self.checks if not check.passed)

    def __str__(self) -> str:
        return "\n".join([*(one.sentence() for one in self.checks), "accepted" if self.accepted else "not accepted"])

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(self.checks + other.checks)

"""Cases of `./run benchmark changes`, the shares that are refused and named, and limits of these shares."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.studies.shares import share_of

LARGE, MEDIUM = 0.1, 0.05  # gravity errors from which a model is wrong, and from which it is doubtful
REFUSED_BAR, MEDIUM_BAR, NAMED_BAR, ALARMS_BAR = 0.98, 0.9, 0.9, 0.0
UNCHANGED = "none"  # kind of a recording without a change


@dataclass(frozen=True)
class Case:
    """Result of one recording.

    Attributes:
        arm: seed of the arm.
        gears: friction model of the arm.
        kind: kind of the change, or `UNCHANGED`.
        repeat: number of the case among those of this arm and kind, from 0.
        size: size of the change in `unit`; 0 without one.
        unit: unit of the size.
        joint: name of the joint that changes; "" for none or all.
        when: moment of a step as a share of the time; 0 without one.
        seconds: length of the recording [s].
        rate_hz: rate of the recording [Hz].
        held_out: share of the time that is held out.
        error: gravity error that the change causes, relative to the model of the unchanged recording at the same rate
            (root mean square); that of an unchanged recording is `true_error`. NaN without a model.
        true_error: gravity error from the true arm as it was before all changes, relative; NaN without a model.
        refused: whether the model is refused, or there is none.
        failed: ids of the failed checks, or the kind of the error.
        first: first sentence about the recording; "" without one.
        suspicions: all sentences.
        named: whether the first sentence names the true cause.
        noisy: whether the first sentence names noise as the only reason, rightly: the model is within 5 % of the true
            gravity, and the unchanged recording at this rate is refused for the same reason.
        placed: whether it also gives the true course of time: step or drift.
        stated: whether a note on an accepted model names the true cause.
        uncertainty: stated relative uncertainty of gravity torques by an offset of the joint; NaN without a note.
    """

    arm: int
    gears: str
    kind: str
    repeat: int
    size: float
    unit: str
    joint: str
    when: float
    seconds: float
    rate_hz: float
    held_out: float
    error: float
    true_error: float
    refused: bool
    failed: tuple[str, ...]
    first: str
    suspicions: tuple[str, ...]
    named: bool
    placed: bool
    stated: bool
    uncertainty: float
    noisy: bool = False

    @property
    def alarm(self) -> bool:
        """Whether an unchanged recording is refused although noise is not the reason."""
        return self.kind == UNCHANGED and self.refused and not self.noisy

    @property
    def words(self) -> str:
        """Description of the case, with the options that repeat it."""
        size = f"{self.size:.3g} {self.unit}".strip() if self.size else ""
        joint = f"of {self.joint}" if self.joint else ""
        when = f"at {self.when * self.seconds:.0f} s" if self.when else ""
        what = " ".join(one for one in (size, joint, when) if one)
        how = f"{self.gears}, {self.seconds:.0f} s, {self.rate_hz:.0f} Hz, {100 * self.held_out:.0f} % held out"
        again = f"--seed {self.arm} --arms 1 --kind {self.kind}"
        again += f" --repeats {self.repeat + 1}" if self.repeat else ""
        return f"{again}: {f'{what}; ' if what else ''}{how}; gravity error {100 * self.error:.1f} %"


@dataclass(frozen=True)
class Changes:
    """Results of all cases, and the number of arms that do not follow their motion."""

    cases: tuple[Case, ...]
    arms: int
    arms_left_out: int = 0

    @property
    def changed(self) -> list[Case]:
        """Cases with a change."""
        return [one for one in self.cases if one.kind != UNCHANGED]

    @property
    def unchanged(self) -> list[Case]:
        """Cases without a change."""
        return [one for one in self.cases if one.kind == UNCHANGED]

    def figures(self, cases: Sequence[Case]) -> dict[str, Any]:
        """Return counts and shares of changed recordings; a share of no case is NaN."""
        large = [one.refused for one in cases if one.error > LARGE]
        medium = [one.refused for one in cases if MEDIUM < one.error <= LARGE]
        small = [one.refused for one in cases if one.error <= MEDIUM]
        refused = [one for one in cases if one.refused]
        accepted = [one for one in cases if not one.refused]
        return {
            "cases": len(cases),
            "large": len(large),
            "refused_of_large": share_of(large),
            "medium": len(medium),
            "refused_of_medium": share_of(medium),
            "small": len(small),
            "refused_of_small": share_of(small),
            "without_model": sum(not np.isfinite(one.error) for one in cases),
            "refused": len(refused),
            "cause_first": share_of(one.named for one in refused),
            "course_first": share_of(one.placed for one in refused),
            "accepted": len(accepted),
            "stated_of_accepted": share_of(one.stated for one in accepted),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return all figures as plain values, with every missed case and all cases."""
        kinds = dict.fromkeys(one.kind for one in self.changed)
        total = self.figures(self.changed)
        return {
            **total,
            "unchanged": len(self.unchanged),
            "refused_as_noisy": sum(one.refused and not one.alarm for one in self.unchanged),
            "false_alarms": share_of(one.alarm for one in self.unchanged),
            "unchanged_error": max((one.error for one in self.unchanged), default=float("nan")),
            "arms": self.arms,
            "arms_left_out": self.arms_left_out,
            "kinds": {kind: self.figures([one for one in self.changed if one.kind == kind]) for kind in kinds},
            **self.listed,
            "all_cases": [asdict(one) for one in self.cases],
        }

    @property
    def listed(self) -> dict[str, list[str]]:
        """Words about accepted wrong models (largest error first), wrong causes, and false alarms."""
        wrong = sorted(
            (one for one in self.changed if not one.refused and one.error > MEDIUM), key=lambda one: -one.error
        )
        return {
            "accepted_wrong": [f"{one.words}; {_stated(one)}" for one in wrong],
            "wrong_cause": [f"{one.words}; {_first(one)}" for one in self.changed if one.refused and not one.named],
            "alarms": [f"{one.words}; {_first(one)}" for one in self.unchanged if one.alarm],
        }

    @property
    def misses(self) -> list[str]:
        """All of these descriptions, each with the name of its list."""
        return [f"{name}: {words}" for name, listed in self.listed.items() for words in listed]

    def missed(self) -> list[str]:
        """Return a sentence for every missed limit; a share of no case misses none."""
        if not self.cases:
            return ["no arm followed its motion, so nothing was judged"]
        total = self.figures(self.changed)
        alarms = share_of(one.alarm for one in self.unchanged)
        limits = (
            ("refused_of_large", REFUSED_BAR, f"models with a gravity error above {100 * LARGE:g} % are refused"),
            (
                "refused_of_medium",
                MEDIUM_BAR,
                f"models with a gravity error of {100 * MEDIUM:g} to {100 * LARGE:g} % are refused",
            ),
            ("cause_first", NAMED_BAR, "refused recordings have the true cause named first"),
        )
        found = [
            f"{100 * total[key]:.1f} % of {words}, expected {100 * bar:g} %"
            for key, bar, words in limits
            if total[key] < bar
        ]
        if alarms > ALARMS_BAR:
            found.append(
                f"{100 * alarms:.1f} % of good recordings are refused, at most {100 * ALARMS_BAR:g} % expected"
            )
        return found


def _first(one: Case) -> str:
    return f"failed {', '.join(one.failed)}; first: {one.first or 'no cause named'}"


def _stated(one: Case) -> str:
    said = "a note names the cause" if one.stated else "no note names the cause"
    return f"{said}, stated uncertainty {100 * one.uncertainty:.2g} %" if np.isfinite(one.uncertainty) else said

"""Verdicts in the terminal: every check with its value, limit and outcome, failures also as sentences."""

import io

import pytest
from rich.console import Console

from dynid.reporting.tables import number, print_verdict
from dynid.verdict import Check, Verdict

GOOD = Check(name="missed cycles of 39,000", value=0.01, limit=0.1, unit="%")
BAD = Check(name="smallest eigenvalue", value=-2.13e-3, limit=1e-4, sense="at least", unit="kg m^2", detail="at q = 0")
UNKNOWN = Check(name="published parameters", value=float("nan"), limit=0.0)


def printed(verdict: Verdict, width: int = 120) -> list[str]:
    stream = io.StringIO()
    print_verdict(Console(file=stream, width=width), verdict, "the title")
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (39.0, "39"),
        (1_000_729.0, "1,000,729"),
        (-3.0, "-3"),
        (0.12345, "0.1235"),
        (1e-6, "1e-06"),
        (4.0e12, "4e+12"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_are_printed_short_and_integers_without_decimals(value: float, text: str) -> None:
    assert number(value) == text


def test_every_check_is_a_row_with_its_outcome() -> None:
    lines = printed(Verdict((GOOD, BAD, UNKNOWN)))
    assert lines[0].strip() == "the title"
    (good,) = (line for line in lines if "missed cycles" in line)
    assert "0.01 %" in good and "<= 0.1 %" in good and "passed" in good and "FAILED" not in good
    (bad,) = (line for line in lines if "smallest eigenvalue" in line and "│" in line)
    assert "-0.00213 kg m^2" in bad and ">= 0.0001 kg m^2" in bad and "FAILED" in bad
    (unknown,) = (line for line in lines if "published" in line and "│" in line)
    assert "not checked" in unknown and "FAILED" not in unknown
    assert not Verdict((UNKNOWN,)).accepted


def test_failures_are_explained_below_the_table() -> None:
    lines = printed(Verdict((GOOD, BAD)))
    assert lines[-1] == "x smallest eigenvalue: -0.00213 kg m^2, at least 0.0001 kg m^2: FAILED - at q = 0"
    assert not printed(Verdict((GOOD,)))[-1].startswith("x")


def test_names_that_look_like_markup_are_printed_as_they_are() -> None:
    strange = Check(name="error of [bold]arm[/bold], bags/[1]", value=2.0, limit=1.0, detail="[/x]")
    lines = printed(Verdict((strange,)))
    assert any("[bold]arm[/bold], bags/[1]" in line and "│" in line for line in lines)
    assert lines[-1].endswith("FAILED - [/x]")


def test_a_narrow_terminal_folds_names_and_keeps_the_figures_whole() -> None:
    lines = printed(Verdict((BAD,)), width=80)
    assert any("-0.00213 kg m^2" in line for line in lines) and any(">= 0.0001 kg m^2" in line for line in lines)

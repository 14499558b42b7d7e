"""Tables of checks and torque errors for the terminal."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dynid.identification.prediction import Motion
from dynid.reporting.verdict_words import joint_labels
from dynid.verdict import Verdict

_LIMIT_SIGNS = {"at most": "<=", "at least": ">=", "equals": "=="}


def number(value: float) -> str:
    """Return a number as text: integers with thousands separators, other numbers with four significant digits."""
    if np.isfinite(value) and value == round(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    return f"{value:.4g}"


def verdict_table(verdict: Verdict, title: str) -> Table:
    """Return a table of a verdict's checks with value, limit and outcome."""
    table = Table(title=escape(title), title_justify="left")
    table.add_column("check", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("limit", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for check in verdict.checks:
        unit = f" {check.unit}" if check.unit else ""
        outcome = "[green]passed[/green]" if check.passed else "[bold red]FAILED[/bold red]"
        outcome = outcome if check.made else "[yellow]not checked[/yellow]"
        limit = f"{_LIMIT_SIGNS[check.sense]} {number(check.limit)}{unit}"
        table.add_row(escape(check.name), f"{number(check.value)}{unit}", limit, outcome)
    return table


def joint_table(motions: Sequence[Motion], joints: tuple[str, ...]) -> Table:
    """Return a table of relative torque errors, with a row per joint and a column per motion.

    Each cell states the error over samples in motion, and in brackets the error over all samples.
    """
    table = Table("joint", title="relative torque error in motion (with samples at rest)", title_justify="left")
    for one in motions:
        table.add_column(escape(f"{one.name}, {one.kind}"), justify="right")
    for j, joint in enumerate(joint_labels(joints)):
        errors = [(one.errors.moving_per_axis[j], one.errors.relative_per_axis[j]) for one in motions]
        table.add_row(escape(joint), *(f"{_percent(moving)} ({_percent(whole)})" for moving, whole in errors))
    return table


def _percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{100 * value:.3g} %"


def print_verdict(console: Console, verdict: Verdict, title: str) -> None:
    """Print the table of a verdict's checks, then a sentence for each check that failed or could not be made."""
    console.print(verdict_table(verdict, title))
    for check in verdict.failed:
        mark = "[bold red]x[/bold red]" if check.made else "[yellow]-[/yellow]"
        console.print(f"{mark} {escape(check.sentence())}", soft_wrap=True)

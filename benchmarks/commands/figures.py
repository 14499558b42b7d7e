"""A benchmark's figures as a table."""

from collections.abc import Mapping

from rich.table import Table


def figure_table(benchmark: str, figures: Mapping[str, object]) -> Table:
    """The numbers among figures, one row each; a caller may add rows."""
    table = Table("figure", "value", title=f"dynid benchmark {benchmark}", title_justify="left")
    for key, value in figures.items():
        if isinstance(value, float | int):
            table.add_row(key, f"{value:.4g}")
    return table

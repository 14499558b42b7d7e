"""The layers of the suite: what a run of pytest takes by --quick, --promised or --study, with or without a choice.

`./run test` passes them on. Without one of them all chosen tests run; with one, those of the chosen that it holds.
"""

from collections.abc import Callable

import pytest

MARKS = "slow", "study"
LAYERS: dict[str, tuple[Callable[[set[str]], bool], str]] = {
    "promised": (lambda marks: "study" not in marks, "all that a user is promised"),
    "quick": (lambda marks: not marks & {"study", "slow"}, "what a change of one file may break"),
    "study": (lambda marks: "study" in marks, "the tests of benchmarks/, and statistics over many arms"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option for each layer."""
    for name, (_, text) in LAYERS.items():
        parser.addoption(f"--{name}", dest="layers", action="append_const", const=name, help=f"run only {text}")


def layer(config: pytest.Config) -> str | None:
    """Return the name of the layer that runs; None is all.

    Raises pytest.UsageError for two of them.
    """
    chosen = list(dict.fromkeys(config.getoption("layers") or []))
    if len(chosen) > 1:
        raise pytest.UsageError(f"{' and '.join(f'--{name}' for name in chosen)} are two layers: choose one")
    return chosen[0] if chosen else None


def pytest_configure(config: pytest.Config) -> None:
    """Refuse two layers before anything is collected."""
    layer(config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what the layer does not hold, once all marks are given."""
    if (name := layer(config)) is None:
        return
    holds, _ = LAYERS[name]
    kept, left = [], []
    for item in items:
        marks = {mark for mark in MARKS if item.get_closest_marker(mark)}
        (kept if holds(marks) else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept

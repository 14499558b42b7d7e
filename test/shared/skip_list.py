"""Tell at the end of a run which tests were skipped and why, and fail in CI if one is not on the list of known skips.

`./run` names a file in DYNID_SKIPPED, to which each of its parts adds a line per skipped test; it prints their sum as
its last line. With DYNID_LISTED_SKIPS_ONLY set, a reason that `test/known_skips.txt` does not have fails the run.
"""

import os
import re
from pathlib import Path
from typing import Any

import pytest

SUM_FILE, STRICT = "DYNID_SKIPPED", "DYNID_LISTED_SKIPS_ONLY"
KNOWN = Path(__file__).resolve().parents[1] / "known_skips.txt"


def known_reasons(text: str) -> list[re.Pattern[str]]:
    """Return the regular expressions of a list of known skips: one a line, behind # a comment."""
    lines = (line.split(" # ")[0].strip() for line in text.splitlines() if not line.startswith("#"))
    return [re.compile(line) for line in lines if line]


def reason_of(report: Any) -> str:
    """Return why a test was skipped, in one line."""
    longrepr = report.longrepr
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return " ".join(str(text).removeprefix("Skipped: ").split())


def unlisted(reasons: list[str], known: list[re.Pattern[str]]) -> list[str]:
    """Return the reasons that no known one matches, each once."""
    return sorted({reason for reason in reasons if not any(one.search(reason) for one in known)})


def _skipped(reporter: Any) -> list[str]:
    """Return the reasons of all skipped tests that a terminal reporter knows."""
    return [] if reporter is None else [reason_of(one) for one in reporter.stats.get("skipped", [])]


def _refused(reporter: Any) -> list[str]:
    """Return the reasons that fail this run: in CI those that are not listed, elsewhere none."""
    if not os.environ.get(STRICT):
        return []
    return unlisted(_skipped(reporter), known_reasons(KNOWN.read_text(encoding="utf-8")))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Add the skips to the sum of all parts; fail in CI if a skip is not in the list."""
    if hasattr(session.config, "workerinput"):  # the controller has the reports of all workers
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if path := os.environ.get(SUM_FILE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(f"{reason}\n" for reason in _skipped(reporter))
    if _refused(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the skips that are not in the list."""
    for reason in _refused(terminalreporter):
        terminalreporter.write_line(f"skipped, and not listed in {KNOWN.name}: {reason}", red=True)

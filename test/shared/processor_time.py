"""Tell at the end of a run which tests took the most processor time, that of the processes they started included.

Where others compute beside the tests, the time that passes says little: `./run test --processor-time=20` prints the
sum and the longest 20. The time of a fixture is that of the first test that asked for it.
"""

import resource
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

NAME = "processor_s"
OWN_AND_CHILDREN = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def used_s() -> float:
    """Return the processor time [s] of this process and of the children whose end it has waited for."""
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, OWN_AND_CHILDREN))


class ProcessorTime:
    """Adds the processor time of each phase of a test to its report, and prints the longest."""

    def __init__(self, longest: int) -> None:
        self.longest, self.tests, self.since = longest, Counter[str](), used_s()

    def pytest_runtest_logstart(self) -> None:
        """Start the clock at the first phase, so that collecting the tests does not count."""
        self.since = used_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        """Note the time since the last phase ended, where the test runs."""
        report, now = (yield), used_s()
        report.user_properties.append((NAME, now - self.since))
        self.since = now
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Sum the times in the process that receives the reports of all workers."""
        self.tests[report.nodeid] += sum(value for name, value in report.user_properties if name == NAME)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the sum and the longest times."""
        terminalreporter.section(f"{sum(self.tests.values()):.0f} s of processor time")
        for nodeid, seconds in self.tests.most_common(self.longest):
            terminalreporter.write_line(f"{seconds:8.2f} s  {nodeid}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --processor-time=N."""
    text = "print the sum of the processor time, and the N tests that took the most"
    parser.addoption("--processor-time", type=int, metavar="N", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Measure only if the option was given."""
    if (longest := config.getoption("--processor-time")) is not None:
        config.pluginmanager.register(ProcessorTime(longest))

"""An unlisted skip fails CI; a listed one does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from skip_list import KNOWN, STRICT, SUM_FILE, known_reasons, unlisted

SHARED = Path(__file__).parent / "shared"


def run_pytest(folder: Path, reason: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one skipped test in a process of its own."""
    (folder / "conftest.py").write_text("from skip_list import pytest_sessionfinish, pytest_terminal_summary\n")
    (folder / "test_one.py").write_text(
        f"import pytest\n\ndef test_one():\n    pytest.skip({reason!r})\n\ndef test_two():\n    assert True\n"
    )
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        env={**os.environ, "PYTHONPATH": str(SHARED), "PYTEST_ADDOPTS": "", **environment},
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reason", "code"), [("no Chromium on this machine (Debian: apt install chromium)", 0), ("pyarrow is missing", 1)]
)
def test_ci_fails_only_for_an_unlisted_skip(tmp_path: Path, reason: str, code: int) -> None:
    total = tmp_path / "total.txt"
    done = run_pytest(tmp_path, reason, **{STRICT: "1", SUM_FILE: str(total)})
    assert done.returncode == code, done.stdout
    assert ("not listed in known_skips.txt: pyarrow is missing" in done.stdout) == bool(code)
    assert total.read_text() == f"{reason}\n"


@pytest.mark.slow
def test_outside_ci_a_skip_never_fails(tmp_path: Path) -> None:
    assert run_pytest(tmp_path, "pyarrow is missing", **{STRICT: ""}).returncode == 0


def test_installed_packages_are_no_known_skips() -> None:
    known = known_reasons(KNOWN.read_text(encoding="utf-8"))
    promised = ["could not import 'distributed'", "could not import 'pyarrow'", "ROS 2 for Python is not installed"]
    assert unlisted(promised, known) == sorted(promised)

"""A run's ROS domain is nobody else's."""

import os
import subprocess
import sys

import pytest

from dynid.errors import NodeError
from dynid.nodes import domain as module
from dynid.nodes.domain import CHOSEN, PrivateDomain

HOLD = """
import sys
from dynid.nodes.domain import PrivateDomain
domain = PrivateDomain()
print(domain.number, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def domain(monkeypatch: pytest.MonkeyPatch) -> None:
    """None chosen: each test reserves its own, from few enough that two would meet."""
    monkeypatch.delenv(CHOSEN, raising=False)
    monkeypatch.setattr(module, "_is_free", lambda _: True)  # as before the first node runs


def test_no_two_hold_one_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    held = []
    for _ in range(module.LARGEST_DOMAIN // 2):
        held.append(PrivateDomain())
        monkeypatch.delenv(CHOSEN)  # another run's environment does not name it
    assert len({one.number for one in held}) == len(held)
    for one in held:
        monkeypatch.setenv(CHOSEN, one.number)
        one.release()


def test_another_process_does_not_get_it_until_its_holder_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", HOLD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        number = int(other.stdout.readline())
        monkeypatch.setattr(module.random, "sample", lambda *_: [number])
        with pytest.raises(NodeError, match=f"set {CHOSEN} yourself"):
            PrivateDomain()
        other.kill()  # whatever its end was like
    with PrivateDomain() as own:
        assert own.number == str(number) == os.environ[CHOSEN]
    assert CHOSEN not in os.environ


def test_the_users_choice_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOSEN, "7")
    with PrivateDomain() as one, PrivateDomain() as other:
        assert one.number == other.number == "7"
    assert os.environ[CHOSEN] == "7"

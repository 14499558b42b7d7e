"""The order of the tests."""

from collections.abc import MutableSequence

import pytest


def pytest_collection_modifyitems(items: MutableSequence[pytest.Item]) -> None:
    """The demos keep a thousand cycles a second: first, while a shared machine still grants its full share."""
    chain = [item for item in items if item.path.name == "test_chain.py"]
    items[:] = chain + [item for item in items if item.path.name != "test_chain.py"]

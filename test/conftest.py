"""The order of the tests."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The demos keep a thousand cycles a second: first, while a shared machine still grants its full share."""
    items.sort(key=lambda item: item.path.name != "test_chain.py")

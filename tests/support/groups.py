"""Keeps tests of one ``xdist_group`` together.

pytest-xdist (3.8) appends the group to an attribute that pytest (9.2) does not read any more, so that each process
would build what a group shares. Where either of them has learned, this changes nothing.
"""

import pytest
from _pytest.nodeid import coerce_node_id

__all__: list[str] = []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Call each test as pytest-xdist wants it to be called."""
    for item in items:
        grouped = getattr(item, "_nodeid", None)
        if isinstance(grouped, str) and grouped != item.nodeid:
            item._id = coerce_node_id(grouped)

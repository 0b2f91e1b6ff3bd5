"""Nodes and images for tests of Pods: fake nodes that may fail, and the small image on the real node."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from testbed import images
from testbed.fake_nodes import FakeNodes
from testbed.providers import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.cluster import Cluster

FakeNodesFactory = Callable[..., FakeNodes]


@pytest.fixture
def fake_nodes(cluster: Cluster) -> Iterator[FakeNodesFactory]:
    """Give a maker of groups of fake nodes, ``fake_nodes(count, prefix=...)``; they go with the test.

    Pods get there with ``placement`` of the group; everybody else's are kept away by a taint.
    """
    with ExitStack() as stack:

        def make(count: int = 1, *, prefix: str = "fake") -> FakeNodes:
            return stack.enter_context(cluster.fake_nodes(count, prefix=prefix))

        yield make


@pytest.fixture(scope="session")
def tiny_pod_image(cluster: Cluster, tiny_image: str) -> Iterator[str]:
    """Give the small image's full name, by which Pods on the real node find it there."""
    try:
        cluster.load_image(tiny_image)
    except RefusedError as error:
        pytest.skip(str(error))
    try:
        yield images.full_name(tiny_image)
    finally:
        cluster.unload_image(tiny_image)

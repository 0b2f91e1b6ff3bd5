"""An operator that serves some namespaces by name watches each of them; that leaves room for everything else."""

import pytest

from support.operator import OperatorFactory, Sandboxes
from support.pods import serving_pods

pytestmark = [pytest.mark.cluster, pytest.mark.engine]


def test_watches_do_not_take_all_connections(operator_factory: OperatorFactory, sandboxes: Sandboxes) -> None:
    others = [f"{sandboxes.namespace}-{number}" for number in range(30)]
    operator_factory(**serving_pods(watchNamespaces=[sandboxes.namespace, *others])).wait_ready()
    sandboxes.apply(sandboxes.policy(backend="docker"), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")

"""The storms that there are."""

from typing import Final

from chaos.api_faults import api_faults, lasting_faults, server_faults
from chaos.containers import on_own_engine
from chaos.engine_faults import ENGINE, PEOPLE, WAY
from chaos.pod_faults import Removed
from chaos.pods import on_own_control_plane, on_shared_cluster
from chaos.process_faults import (
    ClockStepped,
    Frozen,
    Killed,
    OutOfDescriptors,
    with_a_clock_of_its_own,
)
from chaos.storm import Group, Storm

__all__ = ["STORMS"]

_NETWORK: Final = Group(api_faults(), (0.2, 1.0))
_PODS: Final = Group([Removed()], (1, 4))
_KILLS: Final = Group([Killed()], (20, 35))
"""Much longer than the lease lasts: one that never leads does nothing wrong."""

STORMS: Final = {
    storm.name: storm
    for storm in (
        Storm(
            name="pods",
            title="Pods; the way to the API server fails in every way, and the operator is killed at random.",
            scene=on_shared_cluster,
            groups=(_NETWORK, _PODS, _KILLS),
            lasting=(Group(lasting_faults(), (60, 120)),),
        ),
        Storm(
            name="api-down",
            title="Pods; the API server is killed and started again, and forgets what happened meanwhile.",
            scene=on_own_control_plane,
            groups=(Group(server_faults(), (1, 5)), _PODS),
            # The controllers of Kubernetes have to find their way back as well, and are in no hurry.
            patience=240,
        ),
        Storm(
            name="containers",
            title="Containers; the engine is killed, hangs and loses answers, and people meddle with its containers.",
            scene=on_own_engine,
            groups=(
                Group(ENGINE, (5, 12)),
                Group(WAY, (1, 3)),
                Group(PEOPLE, (0.5, 2)),
                Group(api_faults(), (3, 8)),
            ),
            crowd=0.2,
        ),
        Storm(
            name="process",
            title="Pods; the operator is killed, frozen and out of file descriptors, and its clock is set both ways.",
            scene=with_a_clock_of_its_own(on_shared_cluster),
            groups=(
                _KILLS,
                Group([Frozen(), ClockStepped(), OutOfDescriptors()], (0.5, 2)),
                Group(api_faults(), (3, 8)),
            ),
            crowd=0.5,
        ),
    )
}
"""By name."""

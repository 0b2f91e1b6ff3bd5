"""Helm, with which the tests render and install the chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed import binaries
from testbed.binaries import Kit, Program

if TYPE_CHECKING:
    from pathlib import Path

    from testbed.paths import Layout

KIT = Kit("helm", (Program("helm", "helm", "helm.sh/helm/v4/cmd/helm"),))


def ensure(layout: Layout) -> Path:
    """Build Helm unless it is there, and give its path."""
    return binaries.ensure(layout, KIT) / "helm"

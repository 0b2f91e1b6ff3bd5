"""Where the demo keeps things: beside the test bed's state, and the household where binds may come from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from sandkeeper.config import binds
from sandkeeper.config.operator import Ceilings
from testbed.paths import Layout

SOURCE: Final = Path(__file__).resolve().parents[3]
"""The checkout."""

MANIFESTS: Final = SOURCE / "deploy" / "demo" / "household"
"""The same for every backend."""


@dataclass(frozen=True)
class Places:
    """The folders and files of one demo. As many of them live side by side as test beds do."""

    layout: Layout

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Find them as the test bed finds its own."""
        return cls(Layout.from_environment(environ))

    @property
    def state(self) -> Path:
        """Beside the test bed's own, which goes with the test bed."""
        return self.layout.state.with_name(f"{self.layout.state.name}-demo")

    @property
    def household(self) -> Path:
        """The bind root: everybody's directories."""
        near = self.state / "household"
        # No ceiling opens what lies in root's home, for example. Whether it is allowed, the operator's own rule says.
        allowed = binds.check_directory(str(near), Ceilings(bind_roots=(str(near),))) is None
        return near if allowed else Path("/srv") / f"sandkeeper-demo-{self.layout.identity}"

    @property
    def config(self) -> Path:
        """The operator's configuration."""
        return self.state / "operator.yaml"

    @property
    def log(self) -> Path:
        """What the operator says."""
        return self.state / "operator.log"

    @property
    def process(self) -> Path:
        """Which process the operator is."""
        return self.state / "operator.json"

    @property
    def loaded(self) -> Path:
        """Which image the node has, see `image`."""
        return self.state / "node-image"

    @property
    def made(self) -> Path:
        """What the demo made, see `belongings`."""
        return self.state / "made.json"

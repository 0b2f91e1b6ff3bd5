"""The baseline: the same container, created and started by hand on the same engine, with nothing in between."""

import secrets
from contextlib import suppress
from typing import Any

from docker import APIClient
from docker.errors import APIError

from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.naming import labels
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.config.resolve import resolve
from sandkeeper.runtimes.docker.arguments import HostFacts, create_body

__all__ = ["Bare"]

_NOBODYS = "0" * 16
"""An installation that no operator has, so that none takes these containers for its own."""


class Bare:
    """Makes containers as the operator would, from the same body, over connections that stay open as its own do."""

    def __init__(self, client: APIClient, *, namespace: str, policy: dict[str, Any]) -> None:
        self._client = client
        resolution = resolve(
            namespace=namespace,
            namespace_uid="0",
            spec=SandboxSpec.model_validate({"agentId": "bare"}),
            policies={(namespace, "default"): AgentSandboxPolicySpec.model_validate(policy)},
            recorded_policy=None,
            operator=OperatorConfig(),
        )
        config = resolution.config
        assert config is not None
        assert resolution.config_hash is not None
        key = RuntimeKey(namespace, "0", "default", "agent:bare")
        self.body = create_body(
            config,
            HostFacts(user=config.user),
            labels=labels(key, installation=_NOBODYS, config_hash=resolution.config_hash),
            image=config.image,
        )

    def make(self) -> str:
        """Create one and start it; return its id."""
        name = f"sandkeeper-bare-{secrets.token_hex(6)}"
        made = self._client.create_container_from_config(  # type: ignore[no-untyped-call]
            self.body, name=name
        )
        self._client.start(made["Id"])
        return str(made["Id"])

    def kill(self, container_id: str) -> None:
        """Kill it."""
        self._client.kill(container_id)

    def remove(self, container_id: str) -> None:
        """Remove it; gone already is a success."""
        with suppress(APIError):
            self._client.remove_container(container_id, force=True, v=True)

    def is_like(self, container_id: str, other_id: str) -> bool:
        """Whether two containers are made alike, but for names and labels."""
        one, other = (self._client.inspect_container(each) for each in (container_id, other_id))
        for found in (one, other):
            found["Config"].pop("Labels")
            found["Config"].pop("Hostname")
        return (one["HostConfig"], one["Config"]) == (other["HostConfig"], other["Config"])

"""The household as Pods of a cluster, with its directories on the node."""

import json
from typing import Any

from demo import image
from demo.narration import check
from demo.stage import NAMESPACE, Stage
from sandkeeper.api.conditions import ConditionType
from sandkeeper.api.names import MANAGED_BY, Label
from testbed.bed import Bed
from testbed.providers import Provider

_OURS = f"{Label.MANAGED_BY}={MANAGED_BY}"


class InPods:
    """Looks through kubectl, and at the node's directories."""

    noun = "Pod"

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def equip(self, bed: Bed) -> None:
        """Load the image into the node."""
        if bed.provider is not Provider.LOCAL:
            raise RuntimeError(
                "The Pods of the demo keep their directories on the node, which has to be this machine: "
                "with another cluster, run `make demo BACKEND=docker`."
            )
        image.load(self.stage.places, bed)

    def runtimes(self, agent: str | None = None) -> list[str]:
        """List Pods by their UIDs, those that are on their way out included."""
        return [pod["metadata"]["uid"] for pod in self._pods(agent)]

    def is_gone(self, agent: str) -> bool:
        """Wait for it: a Pod goes after its Sandbox, by the cluster's own garbage collection."""
        for pod in self._pods(agent):
            name = pod["metadata"]["name"]
            self.stage.kubectl("wait", "--for=delete", f"pod/{name}", "--timeout=60s")
        return not self._pods(agent)

    def kill(self, runtime: str) -> None:
        """Kill every process that is the agent's: the sandbox's own main process is."""
        (name,) = [pod["metadata"]["name"] for pod in self._pods() if pod["metadata"]["uid"] == runtime]
        self.stage.kubectl("exec", name, "--", "sh", "-c", "kill -9 -1")

    def isolate(self) -> None:
        """Show the NetworkPolicy, and that nobody knows whether it is enforced."""
        said = self.stage.kubectl("get", "networkpolicies", "-l", _OURS, "-o", "json", aloud=False)
        self.stage.kubectl("get", "networkpolicies")
        walls = [policy["spec"] for policy in json.loads(said)["items"]]
        check(
            any({"Ingress", "Egress"} == set(wall["policyTypes"]) for wall in walls)
            and not any(wall.get("ingress") or wall.get("egress") for wall in walls),
            "a NetworkPolicy lets nothing in and nothing out",
        )
        isolated = self.stage.condition("rain", ConditionType.NETWORK_ISOLATED)
        check(isolated and isolated["status"] == "Unknown", isolated["message"] if isolated else "it is said")

    def hints(self) -> list[str]:
        """Name the Pods and what they may reach."""
        return [f"kubectl -n {NAMESPACE} get pods,networkpolicies"]

    def _pods(self, agent: str | None = None) -> list[dict[str, Any]]:
        said = self.stage.kubectl("get", "pods", "-l", _OURS, "-o", "json", aloud=False)
        pods: list[dict[str, Any]] = json.loads(said)["items"]
        # Not by a label: keys may be longer than those.
        keys = [pod["metadata"]["annotations"][Label.KEY] for pod in pods]
        return [pod for pod, key in zip(pods, keys, strict=True) if agent is None or key == f"agent:{agent}"]

"""What anybody would write first: Sandboxes as Pods with kopf, and nothing of what Sandkeeper is for.

``python -m bench.sketch NAMESPACE FILE`` makes a Pod from the body in FILE for each Sandbox of the namespace, and says
in the status that it is Ready: two writes. There is no policy, no hash, no drift, no prune, no lease, no Event and no
proof of what is whose. It shows what a Sandbox costs with these libraries whatever is done with it.
"""

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any, Final

import aiohttp
import kopf

from sandkeeper.api.names import API_VERSION, GROUP, VERSION

logger = logging.getLogger(__name__)

_WORKERS: Final = 32


class _Sketch:
    """Two dictionaries of what is there, a queue of names, and workers."""

    def __init__(self, namespace: str, pod: dict[str, Any], info: kopf.ConnectionInfo) -> None:
        self._pod = pod
        self._namespace = namespace
        self._pods_url = f"{info.server}/api/v1/namespaces/{namespace}/pods"
        self._sandboxes_url = f"{info.server}/apis/{GROUP}/{VERSION}/namespaces/{namespace}/sandboxes"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=info.as_ssl_context()), headers=info.as_http_headers()
        )
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._sandboxes: dict[str, Any] = {}
        self._pods: dict[str, Any] = {}
        self._said: set[str] = set()
        """UIDs of the Sandboxes whose status says Ready."""

    def take_sandbox(self, event: kopf.RawEvent, name: str) -> None:
        """Note a Sandbox as it is now."""
        if event["type"] == "DELETED":
            self._sandboxes.pop(name, None)
        else:
            self._sandboxes[name] = event["object"]
            self._queue.put_nowait(name)

    def take_pod(self, event: kopf.RawEvent, name: str) -> None:
        """Note a Pod as it is now; it is called like its Sandbox."""
        if event["type"] == "DELETED":
            self._pods.pop(name, None)
        else:
            self._pods[name] = event["object"]
        self._queue.put_nowait(name)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def work(self) -> None:
        """Look at one name after the other."""
        while True:
            name = await self._queue.get()
            sandbox = self._sandboxes.get(name)
            if sandbox is None or "deletionTimestamp" in sandbox["metadata"]:
                continue
            if name not in self._pods:
                await self._create(name, sandbox["metadata"]["uid"])
            elif _is_ready(self._pods[name]) and sandbox["metadata"]["uid"] not in self._said:
                await self._say_ready(name, sandbox["metadata"])

    async def _create(self, name: str, uid: str) -> None:
        owner = {"apiVersion": API_VERSION, "kind": "Sandbox", "name": name, "uid": uid, "controller": True}
        metadata = {
            **self._pod["metadata"],
            "name": name,
            "namespace": self._namespace,
            "ownerReferences": [owner],
        }
        body = {**self._pod, "metadata": metadata}
        async with self._session.post(self._pods_url, json=body) as response:
            answer = await response.json()
            if response.ok:
                self._pods.setdefault(name, answer)
            else:
                logger.warning("No Pod for %s: %s", name, answer)

    async def _say_ready(self, name: str, metadata: dict[str, Any]) -> None:
        generation = metadata["generation"]
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "Running",
            "message": "",
            "observedGeneration": generation,
            "lastTransitionTime": metadata["creationTimestamp"],
        }
        status = {"phase": "Ready", "observedGeneration": generation, "conditions": [condition]}
        async with self._session.patch(
            f"{self._sandboxes_url}/{name}/status",
            data=json.dumps({"status": status}),
            headers={"Content-Type": "application/merge-patch+json"},
        ) as response:
            answer = await response.json()
            if response.ok:
                self._said.add(metadata["uid"])
            else:
                logger.warning("No status for %s: %s", name, answer)


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


async def _main(namespace: str, pod: dict[str, Any]) -> None:
    registry = kopf.OperatorRegistry()
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    info = kopf.login_via_client(logger=logger, settings=settings)
    assert info is not None
    sketch = _Sketch(namespace, pod, info)

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return info

    @kopf.on.event(GROUP, VERSION, "sandboxes", registry=registry)
    async def on_sandbox(event: kopf.RawEvent, name: str, **_: Any) -> None:
        sketch.take_sandbox(event, name)

    @kopf.on.event("", "v1", "pods", registry=registry)
    async def on_pod(event: kopf.RawEvent, name: str, **_: Any) -> None:
        sketch.take_pod(event, name)

    workers = [asyncio.create_task(sketch.work()) for _ in range(_WORKERS)]
    await kopf.operator(registry=registry, settings=settings, namespaces=[namespace], standalone=True)
    for worker in workers:
        worker.cancel()
    await sketch.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(_main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))))

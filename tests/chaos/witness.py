"""Sees every version of every Sandbox and every runtime, past the operator and the faults in between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from bench.kube import sandboxes
from chaos.client import Json
from chaos.following import follow
from chaos.scene import Place, now

__all__ = ["witnessed"]


@asynccontextmanager
async def witnessed(scene: Place) -> AsyncIterator[None]:
    """Tell the scene's history everything for as long as this lasts."""

    def take(kind: str, raw: Json) -> None:
        metadata = raw["metadata"]
        if kind != "DELETED":
            scene.history.see_status(metadata["uid"], metadata["name"], raw.get("status", {}), now())

    tasks = [
        asyncio.create_task(follow(scene.client, sandboxes(scene.namespace), take)),
        asyncio.create_task(scene.side.witness(scene.history)),
    ]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()  # A witness that is gone has seen nothing, and nothing wrong.
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

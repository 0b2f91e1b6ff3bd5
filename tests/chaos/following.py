"""A watch that is not lost: it goes on whatever becomes of its API server.

Where it has to list again, what happened in between it cannot tell; but it never takes a thing for gone that is there.
"""

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import aiohttp

from chaos.client import Client, Json

__all__ = ["Take", "follow"]

_PAUSE: Final = 0.3

Take = Callable[[str, Json], None]
"""Told the kind of each event, ADDED, MODIFIED or DELETED, and the object."""


async def follow(client: Client, path: str, take: Take) -> None:
    """Tell of everything at a path, until cancelled."""
    known: dict[str, Json] = {}
    version = ""
    while True:
        if not version:
            version = await _list(client, path, known, take)
        try:
            async with client.events(path, version) as response:
                response.raise_for_status()
                async for line in response.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        version = ""
                        break
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        _take(event["type"], event["object"], known, take)
        except aiohttp.ClientResponseError as error:
            if error.status in {HTTPStatus.GONE, HTTPStatus.NOT_FOUND}:
                version = ""
            await asyncio.sleep(_PAUSE)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            # A line that was cut in the middle is no JSON.
            await asyncio.sleep(_PAUSE)


async def _list(client: Client, path: str, known: dict[str, Json], take: Take) -> str:
    listed = await client.insist("GET", path)
    assert listed is not None
    there = {found["metadata"]["uid"] for found in listed["items"]}
    for uid in [uid for uid in known if uid not in there]:
        take("DELETED", known.pop(uid))
    for found in listed["items"]:
        _take("ADDED", found, known, take)
    return str(listed["metadata"]["resourceVersion"])


def _take(kind: str, raw: Json, known: dict[str, Json], take: Take) -> None:
    uid = raw["metadata"]["uid"]
    if kind == "DELETED":
        known.pop(uid, None)
    else:
        known[uid] = raw
    take(kind, raw)

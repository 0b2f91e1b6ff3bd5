"""The users' way to the API server: it goes on asking until there is an answer, whatever happens to the server."""

import asyncio
import time
from http import HTTPStatus
from typing import Any, Final, Self

import aiohttp

from bench.kube import Kube

__all__ = ["Client", "Json"]

Json = dict[str, Any]

_TRIES_SECONDS: Final = 90.0
_PAUSE: Final = 0.2
_PASSING: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.CONFLICT})


class Client(Kube):
    """An administrator who is patient."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def insist(
        self, method: str, path: str, body: Json | None = None, *, query: str = ""
    ) -> Json | None:
        """Make a request until it is answered; None: there is no such object (404).

        Whoever creates what is there already reads it: the answer to an earlier try may have been lost.
        """
        deadline = time.monotonic() + _TRIES_SECONDS
        while True:
            try:
                return await self.request(method, path, body=body, query=query)
            except aiohttp.ClientResponseError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    return None
                if error.status == HTTPStatus.CONFLICT and method == "POST" and body is not None:
                    method, path, body = "GET", f"{path}/{body['metadata']['name']}", None
                    continue
                if error.status not in _PASSING and error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise
            except (aiohttp.ClientError, TimeoutError, OSError):
                pass
            if time.monotonic() > deadline:
                raise TimeoutError(f"{method} {path} was not answered within {_TRIES_SECONDS:g} s")
            await asyncio.sleep(_PAUSE)

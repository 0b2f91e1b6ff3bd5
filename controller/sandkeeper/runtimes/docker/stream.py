"""One subscription to the engine's events, read on a thread of its own."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import requests
import urllib3
from docker import APIClient
from docker.types import CancellableStream

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Transient
from sandkeeper.api.names import Label
from sandkeeper.runtimes.docker.failures import why_unreachable

__all__ = ["EventStream", "subscribe"]

Deliver = Callable[[Mapping[str, Any]], None]
"""Takes one event, on the event loop."""

_CONNECT_SECONDS: Final = 10.0
_LOST: Final = (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError)


class EventStream:
    """A stream that is being read, until :meth:`close` or the engine ends it."""

    def __init__(self, deliver: Deliver) -> None:
        self._loop = asyncio.get_running_loop()
        self._deliver = deliver
        self._cancel: CancellableStream[bytes] | None = None
        self._closed = False
        self.ended = asyncio.Event()

    @property
    def is_alive(self) -> bool:
        """Whether it is open as far as we know."""
        return not self.ended.is_set()

    def close(self) -> None:
        """Stop reading. The thread ends on its own."""
        self._closed = True
        self.ended.set()
        if self._cancel is not None:
            # It looks for the socket below the response, which may be gone by now.
            with suppress(OSError, AttributeError):
                self._cancel.close()
            self._cancel = None

    # --- on the thread ------------------------------------------------------------------------------------------------

    def read(self, request: Callable[[], requests.Response], opened: "asyncio.Future[None]") -> None:
        """Read events until there are no more."""
        try:
            with request() as response:
                response.raise_for_status()
                lines = _lines(response)
                self._on_loop(self._opened, opened, CancellableStream(lines, response))
                for line in lines:
                    self._on_loop(self._hand_out, json.loads(line))
        except _LOST as error:
            self._on_loop(_fail, opened, error)
        finally:
            self._on_loop(self._end, opened)

    def _on_loop(self, call: Callable[..., None], *values: object) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody listens any more
            self._loop.call_soon_threadsafe(call, *values)

    # --- on the loop --------------------------------------------------------------------------------------------------

    def _opened(self, opened: "asyncio.Future[None]", cancel: "CancellableStream[bytes]") -> None:
        self._cancel = cancel
        if self._closed:
            self.close()
        elif not opened.done():
            opened.set_result(None)

    def _hand_out(self, event: Mapping[str, Any]) -> None:
        if not self._closed:
            self._deliver(event)

    def _end(self, opened: "asyncio.Future[None]") -> None:
        self._cancel = None
        self.ended.set()
        _fail(opened, EOFError("the engine closed the stream"))


async def subscribe(
    client: APIClient,
    *,
    installation: str,
    events: Sequence[str],
    since: str | None,
    deliver: Deliver,
    quiet: float,
) -> EventStream:
    """Open a stream of our containers' events; Transient where that fails.

    A stream without events for ``quiet`` seconds is taken for dead and ends. Unlike docker-py's own method, this one
    does not wait for ever.
    """
    stream = EventStream(deliver)
    filters = {
        "type": ["container"],
        "event": list(events),
        "label": [f"{Label.INSTALLATION}={installation}"],
    }
    params = {"filters": json.dumps(filters), **({"since": since} if since else {})}

    def request() -> requests.Response:
        url = f"{client.base_url}/v{client.api_version}/events"
        return client.get(url, params=params, stream=True, timeout=(_CONNECT_SECONDS, quiet))

    opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    threading.Thread(target=stream.read, args=(request, opened), name="docker-events", daemon=True).start()
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            await opened
    except (*_LOST, EOFError) as error:
        stream.close()
        raise Transient(
            Reason.ENGINE_UNREACHABLE, f"The engine's events cannot be had: {why_unreachable(error)}."
        ) from error
    except BaseException:
        stream.close()
        raise
    return stream


def _lines(response: requests.Response) -> Iterator[bytes]:
    """Yield the lines of a response as they come."""
    rest = b""
    for chunk in response.iter_content(chunk_size=None):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from filter(None, (line.strip() for line in lines))


def _fail(opened: "asyncio.Future[None]", error: BaseException) -> None:
    if not opened.done():
        opened.set_exception(error)

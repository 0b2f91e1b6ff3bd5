"""What a request carries, and the last moment at which it can be held back."""

from collections.abc import Callable

import aiohttp
from aiohttp.abc import AbstractStreamWriter

__all__ = ["GuardedBody"]


class GuardedBody(aiohttp.BytesPayload):
    """A body that asks whether it may go out right before it does: a connection may have been waited for until then.

    Without its body a request is none to the API server.
    """

    def __init__(self, data: bytes, *, guard: Callable[[], None]) -> None:
        super().__init__(data)
        self._guard = guard
        self.barred: Exception | None = None
        """What the guard raised; to whoever made the request it looks as if the connection had failed."""

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write it, if that is allowed."""
        try:
            self._guard()
        except Exception as error:
            self.barred = error
            raise
        await super().write_with_length(writer, content_length)

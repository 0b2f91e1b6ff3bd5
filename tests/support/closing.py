"""How connections end whose answer nobody waits for."""

import asyncio
from asyncio.sslproto import SSLProtocol
from typing import Any

__all__ = ["hang_up"]


async def hang_up() -> None:
    """End the TLS connections of this loop that are being closed, without waiting for the other side's farewell.

    aiohttp closes one that was in use, as a watch is, by telling the other side, and lets the loop wait for the
    answer. If the loop ends before it comes, the socket stays open, and Python complains of it in a later test.
    """
    loop: Any = asyncio.get_running_loop()
    for transport in tuple(loop._transports.values()):
        tls: Any = transport.get_protocol()
        if isinstance(tls, SSLProtocol) and tls._app_transport.is_closing():
            transport.abort()
    # One turn of the loop, in which they are closed.
    await asyncio.sleep(0)

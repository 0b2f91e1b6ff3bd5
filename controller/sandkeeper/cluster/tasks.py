"""Tasks that are cancelled, and such as only seem to be.

Whoever waits for something that is cancelled gets the same error as who is cancelled himself; and a task group takes no
notice of a task that ends with it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

__all__ = ["is_cancelled", "lasting"]


def is_cancelled() -> bool:
    """Whether somebody cancels the present task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def lasting(what: Coroutine[Any, Any, None]) -> None:
    """Do what the process cannot do without: RuntimeError where that ends as if it were cancelled, and nobody did."""
    try:
        await what
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise RuntimeError("a task ended though nobody had cancelled it") from error

"""Blocking calls from asyncio code, and work that a cancellation must not cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

#: Of our own: the loop's default pool is small, and a create that long-polls would keep deletes waiting.
_pool = ThreadPoolExecutor(max_workers=64, thread_name_prefix="denv")


async def in_thread(call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_pool, call)


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Awaits work to its end, however often the caller is cancelled meanwhile; the cancellation then goes on."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:
            break  # The task's own, raised below.
    if cancelled is not None and not task.cancelled():
        task.exception()  # Looked at, so that nobody is told of it twice.
        raise cancelled
    return task.result()

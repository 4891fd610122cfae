"""A HUD environment with one MCP capability: a counter, served on a loopback port of its own.

That port is never published: clients reach it through the control port.
"""

import asyncio
import socket

from fastmcp import FastMCP
from hud import Environment
from hud.capabilities import Capability

env = Environment(name="counter", version="1.0.0")
counter = FastMCP("counter")
state = {"count": 0}
serving: list[asyncio.Task[None]] = []


@counter.tool
def bump(by: int = 1) -> int:
    """Add `by` to the counter and return its new value."""
    state["count"] += by
    return state["count"]


@env.initialize
async def _serve() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serving.append(
        asyncio.create_task(
            counter.run_http_async(host="127.0.0.1", port=port, path="/mcp", show_banner=False)
        )
    )
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            break
        except OSError:
            await asyncio.sleep(0.05)
    env.add_capability(Capability.mcp(name="tools", url=f"http://127.0.0.1:{port}/mcp"))


@env.shutdown
async def _stop() -> None:
    for task in serving:
        task.cancel()


@env.template(description="Bring the counter to `target` with the bump tool.")
async def count_to(target: int = 3):
    state["count"] = 0
    yield f"Use the bump tool until the counter is exactly {target}, then say done."
    yield {"score": 1.0 if state["count"] == target else 0.0, "info": {"count": state["count"]}}


tasks = [count_to(target=3), count_to(target=5)]

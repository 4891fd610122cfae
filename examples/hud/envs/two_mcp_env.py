"""A HUD environment with two MCP capabilities, so that the tools of both go by prefixed names.

`counter` speaks Streamable HTTP and wants a bearer token, `notes` speaks SSE; both have a tool
called `reset`.
"""

import asyncio
import secrets
import socket

from fastmcp import FastMCP
from fastmcp.server.auth import StaticTokenVerifier
from hud import Environment
from hud.capabilities import Capability

env = Environment(name="two-servers", version="1.0.0")
token = secrets.token_urlsafe(24)
counter = FastMCP(
    "counter", auth=StaticTokenVerifier(tokens={token: {"client_id": "agent", "scopes": []}})
)
notes = FastMCP("notes")
state = {"count": 0}
written: list[str] = []
serving: list[asyncio.Task[None]] = []


@counter.tool
def bump(by: int = 1) -> int:
    """Add `by` to the counter and return its new value."""
    state["count"] += by
    return state["count"]


@counter.tool(name="reset")
def reset_counter() -> int:
    """Set the counter to 0."""
    state["count"] = 0
    return 0


@notes.tool
def write(text: str) -> int:
    """Add a note and return how many there are."""
    written.append(text)
    return len(written)


@notes.tool(name="reset")
def reset_notes() -> int:
    """Throw all notes away."""
    written.clear()
    return 0


async def serve(server: FastMCP, transport: str, path: str) -> str:
    """Serves on a free loopback port and returns the address once it accepts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serving.append(
        asyncio.create_task(
            server.run_http_async(
                transport=transport, host="127.0.0.1", port=port, path=path, show_banner=False
            )
        )
    )
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return f"http://127.0.0.1:{port}{path}"
        except OSError:
            await asyncio.sleep(0.05)


@env.initialize
async def _serve() -> None:
    counter_url = await serve(counter, "http", "/counter/mcp")
    notes_url = await serve(notes, "sse", "/sse")
    env.add_capability(Capability.mcp(name="counter", url=counter_url, auth_token=token))
    env.add_capability(Capability.mcp(name="notes", url=notes_url, transport="sse"))


@env.shutdown
async def _stop() -> None:
    for task in serving:
        task.cancel()


@env.template(description="Count to `target` and note it down.")
async def count_and_note(target: int = 2):
    state["count"] = 0
    written.clear()
    yield f"Bump the counter until it is exactly {target}, then write a note that says {target}."
    counted = state["count"] == target
    noted = str(target) in written
    yield {"score": 1.0 if counted and noted else 0.0, "info": {"counted": counted, "noted": noted}}


tasks = [count_and_note(target=2)]

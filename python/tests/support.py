"""What the tests run on: a denv server, given by the environment, and HUD's example environments."""

import json
import os
import re
import threading
import unittest
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from denv import PackedTree, pack_files

os.environ.setdefault("HUD_TELEMETRY_ENABLED", "false")

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / ".hud" / "packages"
ENVIRONMENTS = ROOT / "examples" / "hud" / "envs"

needs_server = unittest.skipUnless(
    os.environ.get("DENV_SERVER") and os.environ.get("DENV_API_KEY"),
    "needs a denv server: DENV_SERVER and DENV_API_KEY",
)
needs_packages = unittest.skipUnless(
    PACKAGES.is_dir(), "needs .hud/packages, which scripts/setup-hud makes for Python 3.11 and 3.12"
)


def new_label() -> dict[str, str]:
    """Tells the sandboxes of one test from all others."""
    return {"rolloutId": f"test-{uuid.uuid4().hex}"}


@cache
def trees() -> list[PackedTree]:
    return pack_files({"/opt/hud": PACKAGES, "/app": ENVIRONMENTS})


def runtime_options(env: str, **more: Any) -> dict[str, Any]:
    """For a DenvRuntime: an example environment on the host's own Python, with HUD's packages uploaded."""
    serve = ["python3", "-m", "hud.environment.server", f"/app/{env}"]
    return {
        "image": "host",
        "files": trees(),
        "command": [*serve, "--host", "127.0.0.1", "--port", "8765"],
        "env": {"PYTHONPATH": "/opt/hud", "HUD_TELEMETRY_ENABLED": "false"},
        "ready_timeout": 120.0,
        **more,
    }


def sum_in(prompt: str) -> str:
    a, b = map(int, re.findall(r"-?\d+", prompt)[:2])
    return str(a + b)


@contextmanager
def chat_server(tool: str, times: int) -> Iterator[str]:
    """A model that calls a tool so often, then says that it is done. Yields its base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            called = sum(message["role"] == "tool" for message in request["messages"])
            message: dict[str, Any] = {"role": "assistant", "content": "done"}
            if called < times:
                function = {"name": tool, "arguments": json.dumps({"by": 1})}
                call = {"id": f"call-{called}", "type": "function", "function": function}
                message = {"role": "assistant", "content": None, "tool_calls": [call]}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            reply = {"id": "r", "object": "chat.completion", "created": 0, "model": "scripted"}
            body = json.dumps({**reply, "choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()

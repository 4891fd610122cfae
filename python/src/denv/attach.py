"""Raw streams into a sandbox: a command's input and output, or a connection to one of its ports."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from .client import Client
from .errors import DenvError
from .wire import error_of_body

STDOUT, STDERR = 1, 2


class AttachStream:
    """Half-closable and binary-safe; ends with the connection. `exit_code` is there once a command's output has ended."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.exit_code: int | None = None

    async def write(self, data: bytes) -> None:
        await self._connection.send(data)

    async def write_eof(self) -> None:
        """No more from here; what comes back still comes."""
        await self._connection.send(json.dumps({"eof": True}))

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """What comes back, as it comes: 1 for stdout or the port, 2 for stderr."""
        try:
            async for message in self._connection:
                if isinstance(message, bytes):
                    yield message[0], message[1:]
                    continue
                said = json.loads(message)
                if "error" in said:
                    raise error_of_body(said, 0, "attach")
                if "exit" in said:
                    self.exit_code = said["exit"]["exitCode"]
                return
        except ConnectionClosed as error:
            raise DenvError("unavailable", f"the stream broke off: {error}") from error


@asynccontextmanager
async def attach(
    client: Client,
    sandbox_id: str,
    *,
    argv: Sequence[str] | None = None,
    port: int | None = None,
    **options: Any,
) -> AsyncIterator[AttachStream]:
    """Opens a stream to a command (`argv`; `user`, `cwd`, `env`) or to a port on the sandbox's own loopback.

    Leaving kills a command that still runs. :raises DenvError: what the server answers instead
    """
    if (argv is None) == (port is None):
        raise ValueError("attach to either argv or port")
    start = {"port": port} if argv is None else {"argv": list(argv), **options}
    async with _connected(client, sandbox_id) as connection:
        await connection.send(json.dumps(start))
        said = json.loads(await connection.recv())
        if "error" in said:
            raise error_of_body(said, 0, f"attach to {sandbox_id}")
        yield AttachStream(connection)


@asynccontextmanager
async def _connected(client: Client, sandbox_id: str) -> AsyncIterator[ClientConnection]:
    parts = urlsplit(client.server if "//" in client.server else f"http://{client.server}")
    scheme = "wss" if parts.scheme == "https" else "ws"
    url = f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}/v1/envs/{quote(sandbox_id, safe='')}/attach"
    try:
        connection = await connect(
            url,
            additional_headers={"Authorization": f"Bearer {client.api_key}"},
            compression=None,
            max_size=None,
            # A side that is held back reads no pings either.
            ping_interval=None,
            proxy=None,
        )
    except InvalidStatus as error:
        body = _json_or_none(error.response.body)
        raise error_of_body(body, error.response.status_code, f"attach to {sandbox_id}") from error
    except OSError as error:
        raise DenvError("unavailable", f"no answer from attach to {sandbox_id}: {error}") from error
    try:
        yield connection
    finally:
        await connection.close()


def _json_or_none(data: bytes | bytearray | None) -> Any:
    try:
        return json.loads(data or b"")
    except ValueError:
        return None


@asynccontextmanager
async def forward_port(client: Client, sandbox_id: str, port: int) -> AsyncIterator[tuple[str, int]]:
    """A listener on this machine's loopback: each connection to it is a stream of its own to the sandbox's port."""
    open_ones: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task:
            open_ones.add(task)
            task.add_done_callback(open_ones.discard)
        try:
            async with attach(client, sandbox_id, port=port) as stream:
                await _splice(reader, writer, stream)
        except (DenvError, OSError, ConnectionClosed):
            _reset(writer)
        finally:
            writer.close()

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        host, local_port = listener.sockets[0].getsockname()[:2]
        yield host, local_port
    finally:
        listener.close()
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Breaks the connection off: whoever is there sees no end that was none."""
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


async def _splice(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: AttachStream
) -> None:
    """Both ways at once; the end of one way leaves the other open, a break of either ends both."""

    async def inwards() -> None:
        while data := await reader.read(65_536):
            await stream.write(data)
        await stream.write_eof()

    async def outwards() -> None:
        async for _, data in stream.output():
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(inwards())
            both.create_task(outwards())
    except* (DenvError, OSError, ConnectionClosed) as group:
        raise group.exceptions[0] from None

"""Raw streams, against a real server."""

import asyncio
import os
import unittest

from denv import Client, DenvError, attach, forward_port

from .support import needs_server

ECHO = (
    "require('node:net').createServer({ allowHalfOpen: true }, (s) => s.pipe(s)).listen(7000, '127.0.0.1')"
)


@needs_server
class Streams(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.client = Client()
        request = {"image": "host", "command": ["node", "-e", ECHO], "leaseS": 60}
        self.sandbox = self.client.create_sandbox(**request)["id"]
        self.addCleanup(self.client.delete, self.sandbox)

    async def test_a_command_is_talked_to(self) -> None:
        script = "cat; echo err >&2; exit 3"
        sent = os.urandom(3_000_000)
        got = {1: b"", 2: b""}

        async with attach(self.client, self.sandbox, argv=["sh", "-c", script]) as stream:

            async def write() -> None:
                for at in range(0, len(sent), 65_536):
                    await stream.write(sent[at : at + 65_536])
                await stream.write_eof()

            writing = asyncio.create_task(write())
            async for tag, data in stream.output():
                got[tag] += data
            await writing

        self.assertEqual(got[1], sent)
        self.assertEqual((got[2], stream.exit_code), (b"err\n", 3))

    async def test_connections_to_a_forwarded_port_are_streams_of_their_own(self) -> None:
        await self.listening()
        async with forward_port(self.client, self.sandbox, 7000) as (host, port):

            async def talk(data: bytes) -> bytes:
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(data)
                writer.write_eof()
                got = await reader.read()
                writer.close()
                return got

            sent = [os.urandom(200_000) for _ in range(5)]
            got = await asyncio.gather(*map(talk, sent))

        self.assertEqual(got, sent)
        with self.assertRaises(OSError):
            await asyncio.open_connection(host, port)

    async def test_a_port_that_nobody_serves_is_a_reset(self) -> None:
        async with forward_port(self.client, self.sandbox, 7999) as (host, port):
            reader, writer = await asyncio.open_connection(host, port)
            with self.assertRaises(ConnectionResetError):
                await reader.read()
            writer.close()

    async def test_what_cannot_be_attached_to_is_said(self) -> None:
        other = Client(api_key="dak_wrong")
        for client, sandbox, options, code in (
            (self.client, "sb_none", {"argv": ["true"]}, "sandbox_not_found"),
            (self.client, self.sandbox, {"port": 7999}, "unavailable"),
            (other, self.sandbox, {"argv": ["true"]}, "unauthorized"),
        ):
            with self.assertRaises(DenvError) as refused:
                async with attach(client, sandbox, **options):
                    pass
            self.assertEqual(refused.exception.code, code)

    async def listening(self) -> None:
        while True:
            try:
                async with attach(self.client, self.sandbox, port=7000):
                    return
            except DenvError as error:
                self.assertEqual(error.code, "unavailable")
                await asyncio.sleep(0.05)

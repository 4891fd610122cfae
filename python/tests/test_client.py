"""The HTTP API, against a real server."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

import denv.client
from denv import Client, DenvError, new_key, sandbox_id_of

from .support import needs_server

VERIFIER = 'test "$(cat /submission/workspace/answer)" = 42 && echo 1 > /verdict/reward.txt || echo 0 > /verdict/reward.txt'


@needs_server
class Calls(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client()
        self.sandbox = self.client.create_sandbox(image="host", leaseS=60)["id"]
        self.addCleanup(self.client.delete, self.sandbox)

    def sh(self, script: str, sandbox: str | None = None) -> str:
        reply = self.client.exec(sandbox or self.sandbox, ["sh", "-c", script])
        return reply["stdout"]

    def test_a_command_has_an_exit_code_and_both_streams(self) -> None:
        reply = self.client.exec(
            self.sandbox, ["sh", "-c", 'cat; echo "$A" >&2; exit 3'], stdin="in", env={"A": "a"}
        )

        self.assertEqual((reply["exitCode"], reply["stdout"], reply["stderr"]), (3, "in", "a\n"))

    def test_a_key_has_one_effect(self) -> None:
        key = new_key()
        script = ["sh", "-c", "echo x >> effects; cat effects"]

        replies = [self.client.exec(self.sandbox, script, key=key) for _ in range(2)]

        self.assertEqual([reply["stdout"] for reply in replies], ["x\n", "x\n"])
        with self.assertRaises(DenvError) as refused:
            self.client.exec(self.sandbox, ["true"], key=key)
        self.assertEqual((refused.exception.code, refused.exception.status), ("key_conflict", 409))

    def test_what_takes_longer_than_one_request_is_waited_for(self) -> None:
        with mock.patch.object(denv.client, "POLL_S", 1):
            reply = self.client.exec(self.sandbox, ["sh", "-c", "sleep 2.5; echo late"])
            with self.assertRaises(DenvError) as refused:
                self.client.create_sandbox(
                    image="host",
                    controller={"kind": "mcp-http", "port": 9, "command": ["sleep", "9"], "timeoutS": 2},
                )

        self.assertEqual(reply["stdout"], "late\n")
        self.assertEqual(refused.exception.code, "controller_failed")

    def test_files_go_in_and_come_out(self) -> None:
        data = bytes(range(256)) * 100
        self.client.write_file(self.sandbox, "/workspace/deep/file", data)

        self.assertEqual(self.client.read_file(self.sandbox, "/workspace/deep/file"), data)

    def test_versions_and_forks_have_what_was_there(self) -> None:
        self.sh("echo before > note")
        version = self.client.snapshot(self.sandbox, labels={"a": "b"})
        self.sh("echo after > note")

        forks = [
            self.client.fork(self.sandbox, leaseS=60),
            self.client.fork_version(version["id"], leaseS=60, count=2),
        ]

        notes = []
        for fork in forks:
            for child in fork["children"]:
                self.addCleanup(self.client.delete, child["sandbox"]["id"])
                notes.append(self.sh("cat note", child["sandbox"]["id"]))
        self.assertEqual(notes, ["after\n", "before\n", "before\n"])
        self.assertEqual(self.client.version(version["id"])["labels"], {"a": "b"})

    def test_a_verifier_with_local_files_judges_a_sandbox_and_a_version(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "verify.sh"
            script.write_text(VERIFIER)
            verifier: denv.types.Verifier = {
                "image": "host",
                "files": {"/verify/": script},
                "command": ["sh", "/verify/verify.sh"],
                "collect": ["/workspace/answer"],
            }
            self.sh("echo 41 > answer")
            wrong = self.client.snapshot(self.sandbox)["id"]
            self.sh("echo 42 > answer")

            right = self.client.verify(self.sandbox, verifier, stop=False)

            self.assertEqual((right["verdict"], right["reward"]), ("reward", 1))
            self.assertEqual(self.client.verify_version(wrong, verifier)["reward"], 0)
        self.assertEqual(self.sh("cat answer"), "42\n")
        events = [entry["event"] for entry in self.client.record(self.sandbox)["entries"]]
        self.assertEqual(events, ["created", "snapshot", "snapshot", "verified", "verified"])

    def test_what_lives_is_listed_and_its_lease_renewed(self) -> None:
        before = self.client.sandbox(self.sandbox)

        after = self.client.renew(self.sandbox, 600)

        self.assertGreater(after["leaseUntil"], before["leaseUntil"])
        self.assertIn(self.sandbox, [sandbox["id"] for sandbox in self.client.sandboxes()])
        self.assertTrue(next(t for t in self.client.targets() if t["name"] == "linux")["attach"])

    def test_a_sandbox_is_deleted_before_its_create_was_heard_of(self) -> None:
        key = new_key()

        self.client.delete(sandbox_id_of(key))

        with self.assertRaises(DenvError) as refused:
            self.client.create_sandbox(image="host", key=key)
        self.assertEqual((refused.exception.code, refused.exception.status), ("sandbox_gone", 410))

    def test_errors_have_the_servers_code_and_words(self) -> None:
        with self.assertRaises(DenvError) as missing:
            self.client.sandbox("sb_none")
        with self.assertRaises(DenvError) as refused:
            self.client.create_sandbox(image="host", gpu={"count": 1})

        self.assertEqual((missing.exception.code, missing.exception.status), ("sandbox_not_found", 404))
        self.assertEqual(refused.exception.code, "capability_missing")
        self.assertRegex(str(refused.exception), "gpu")


class Addresses(unittest.TestCase):
    @needs_server
    def test_a_wrong_key_is_refused(self) -> None:
        with self.assertRaises(DenvError) as refused:
            Client(api_key="dak_wrong").sandboxes()

        self.assertEqual((refused.exception.code, refused.exception.status), ("unauthorized", 401))

    def test_nobody_there_is_unavailable(self) -> None:
        client = Client("http://127.0.0.1:9", "dak_x", retry_s=0)

        with self.assertRaises(DenvError) as refused:
            client.sandboxes()

        self.assertEqual((refused.exception.code, refused.exception.status), ("unavailable", 0))

    def test_what_is_no_address_or_missing_is_said(self) -> None:
        with mock.patch.dict("os.environ", clear=True):
            for server, key, words in (
                (None, "k", "DENV_SERVER"),
                ("http://127.0.0.1:9", None, "DENV_API_KEY"),
                ("ftp://127.0.0.1:9", "k", "not the address"),
            ):
                with self.assertRaisesRegex(ValueError, words):
                    Client(server, key)

"""The HTTP API of a denv server."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, Unpack, cast
from urllib.parse import quote, urlencode

from .errors import DenvError
from .wire import Http, error_of_body
from .trees import PackedTree, pack_files
from .types import (
    CallReply,
    CallRequest,
    CreateRequest,
    DeploymentRecord,
    ExecReply,
    ExecRequest,
    Files,
    ForkReply,
    ForkRequest,
    Sandbox,
    SnapshotRequest,
    Target,
    Verifier,
    VerifyReply,
    VerifyRequest,
    Version,
)

T = TypeVar("T")
#: How long one request may wait at the server for an operation, before it is asked for again.
POLL_S = 30


def sandbox_id_of(key: str) -> str:
    """The id of the sandbox that a create with this key makes: known before any reply, so it can be deleted in any case."""
    return f"sb_{_digest(key)}"


def fork_child_key(key: str, n: int = 0) -> str:
    """The key under which the n-th child of a fork is created."""
    return f"{key}#{n}"


def new_key() -> str:
    return f"py-{uuid.uuid4().hex}"


class Client:
    """A client of one denv server. Any number of threads may use it.

    Whatever changes something takes a `key`: asked again with the same key it has no second effect, and gives the outcome of
    the first. Without one, each call is its own. Fields have the API's names. Files are local: see `Files`.

    :param server: base address; default: the variable DENV_SERVER
    :param api_key: default: the variable DENV_API_KEY
    :param retry_s: for how long a call is asked again while nobody answers
    """

    def __init__(
        self, server: str | None = None, api_key: str | None = None, *, retry_s: float = 20.0
    ) -> None:
        self.server = server or os.environ.get("DENV_SERVER", "")
        self.api_key = api_key or os.environ.get("DENV_API_KEY", "")
        if not self.server:
            raise ValueError("no denv server: give `server`, or set DENV_SERVER")
        if not self.api_key:
            raise ValueError("no API key: give `api_key`, or set DENV_API_KEY")
        self._http = Http(self.server, self.api_key, retry_s)

    @property
    def host(self) -> str:
        return self._http.host

    # Sandboxes

    def create_sandbox(self, *, key: str | None = None, **request: Unpack[CreateRequest]) -> Sandbox:
        """Starts a sandbox and waits until its controller answers."""
        files = request.pop("files", {})
        return self.create_with(pack_files(files), request, key=key)

    def create_with(
        self, trees: Sequence[PackedTree], request: CreateRequest, *, key: str | None = None
    ) -> Sandbox:
        """The same with files that are packed already, for many sandboxes of one kind."""
        return self._with_trees(
            trees,
            lambda files: cast(
                Sandbox, self._keyed("/v1/sandboxes", {**request, **_named("files", files)}, key)
            ),
        )

    def sandbox(self, sandbox_id: str) -> Sandbox:
        return cast(Sandbox, self._get(_env(sandbox_id)))

    def sandboxes(self, **filters: str) -> list[Sandbox]:
        """All that live; filters: `owner` and `rolloutId`, by label."""
        return cast(list[Sandbox], self._get(f"/v1/envs?{urlencode(filters)}")["sandboxes"])

    def renew(self, sandbox_id: str, lease_s: int, *, retry_s: float | None = None) -> Sandbox:
        """Moves the end of the lease to `lease_s` from now."""
        path, body = f"{_env(sandbox_id)}/renew", {"leaseS": lease_s}
        return cast(Sandbox, self._http.json("POST", path, body, retry_s=retry_s)[1])

    def delete(self, sandbox_id: str) -> None:
        """Stops and removes it. Gone is success; a create of that id that comes later is refused."""
        self._http.json("DELETE", _env(sandbox_id), wait_s=120.0)

    def record(self, sandbox_id: str) -> DeploymentRecord:
        """What happened to it; outlives it."""
        return cast(DeploymentRecord, self._get(f"{_env(sandbox_id)}/record"))

    # Work in a sandbox

    def exec(
        self, sandbox_id: str, argv: Sequence[str], *, key: str | None = None, **options: Unpack[ExecRequest]
    ) -> ExecReply:
        """Runs one command to its end. Its exit code is data; None when it was killed."""
        body = {"argv": list(argv), **options}
        return cast(ExecReply, self._keyed(f"{_env(sandbox_id)}/exec", body, key))

    def call(
        self,
        sandbox_id: str,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        key: str | None = None,
        **options: Unpack[CallRequest],
    ) -> CallReply:
        """One call of the controller: `tools/list`, `tools/call`, `hud/start`, …"""
        body = {"method": method, "params": params or {}, **options}
        return cast(CallReply, self._keyed(f"{_env(sandbox_id)}/calls", body, key))

    def read_file(self, sandbox_id: str, path: str) -> bytes:
        return self._http.raw("GET", _files(sandbox_id, path))

    def write_file(self, sandbox_id: str, path: str, data: bytes, *, key: str | None = None) -> None:
        self._http.raw("PUT", _files(sandbox_id, path), data, key=key or new_key())

    # Versions

    def snapshot(
        self, sandbox_id: str, *, key: str | None = None, **options: Unpack[SnapshotRequest]
    ) -> Version:
        """Freezes a sandbox as it is now, running or stopped."""
        return cast(Version, self._keyed(f"{_env(sandbox_id)}/snapshot", {**options}, key))

    def version(self, version_id: str) -> Version:
        return cast(Version, self._get(_version(version_id)))

    def fork(
        self, sandbox_id: str, *, key: str | None = None, **options: Unpack[ForkRequest]
    ) -> ForkReply:
        """New sandboxes from a live one: files as they are now, processes started anew. Each child succeeds or fails alone."""
        return cast(ForkReply, self._keyed(f"{_env(sandbox_id)}/fork", {**options}, key))

    def fork_version(
        self, version_id: str, *, key: str | None = None, **options: Unpack[ForkRequest]
    ) -> ForkReply:
        return cast(ForkReply, self._keyed(f"{_version(version_id)}/fork", {**options}, key))

    def verify(
        self,
        sandbox_id: str,
        verifier: Verifier,
        *,
        key: str | None = None,
        **options: Unpack[VerifyRequest],
    ) -> VerifyReply:
        """Has a verifier judge the sandbox, as another principal. The sandbox is stopped unless `stop=False`."""
        return self._verify(_env(sandbox_id), verifier, options, key)

    def verify_version(
        self,
        version_id: str,
        verifier: Verifier,
        *,
        key: str | None = None,
        **options: Unpack[VerifyRequest],
    ) -> VerifyReply:
        return self._verify(_version(version_id), verifier, options, key)

    # The server

    def targets(self) -> list[Target]:
        """What each target can do, as shown on its host."""
        return cast(list[Target], self._http.json("GET", "/v1/targets", wait_s=120.0)[1]["targets"])

    def cancel(self, key: str) -> None:
        """Kills the running command or call of that key, if there is one; its outcome is then kept as killed."""
        self._http.json("DELETE", f"/v1/operations/{quote(key, safe='')}")

    def _verify(
        self, path: str, verifier: Verifier, options: VerifyRequest, key: str | None
    ) -> VerifyReply:
        # Of the local files nothing is sent but their digests.
        spec = {name: value for name, value in verifier.items() if name != "files"}
        return self._with_trees(
            pack_files(verifier.get("files", {})),
            lambda files: cast(
                VerifyReply,
                self._keyed(
                    f"{path}/verify", {**options, "verifier": {**spec, **_named("files", files)}}, key
                ),
            ),
        )

    def _with_trees(
        self, trees: Sequence[PackedTree], send: Callable[[list[dict[str, str]]], T]
    ) -> T:
        """Sends trees by digest; a server that lacks some is sent those, and asked again."""
        named = [{"to": tree.to, "sha256": tree.sha256} for tree in trees]
        try:
            return send(named)
        except DenvError as error:
            if error.code != "files_missing":
                raise
            missing = error.details.get("sha256", [])
        for tree in {tree.sha256: tree for tree in trees if tree.sha256 in missing}.values():
            self._http.upload(f"/v1/trees/{tree.sha256}", tree.open, tree.size)
        return send(named)

    def _get(self, path: str) -> Any:
        return self._http.json("GET", path)[1]

    def _keyed(self, path: str, body: dict[str, Any], key: str | None) -> Any:
        key = key or new_key()
        wait_s = float(POLL_S)
        status, reply = self._http.json("POST", path, {**body, "wait": POLL_S}, key=key, wait_s=wait_s)
        operation = f"/v1/operations/{quote(key, safe='')}?wait={POLL_S}"
        while status == 202:
            _, found = self._http.json("GET", operation, wait_s=wait_s)
            if found["state"] == "running":
                continue
            if found["status"] >= 400:
                raise error_of_body(found["body"], found["status"], f"POST {path}")
            return found["body"]
        return reply


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _env(sandbox_id: str) -> str:
    return f"/v1/envs/{quote(sandbox_id, safe='')}"


def _version(version_id: str) -> str:
    return f"/v1/versions/{quote(version_id, safe='')}"


def _files(sandbox_id: str, path: str) -> str:
    return f"{_env(sandbox_id)}/files?{urlencode({'path': path, 'kind': 'file'})}"


def _named(name: str, value: list[dict[str, str]]) -> dict[str, Any]:
    return {name: value} if value else {}

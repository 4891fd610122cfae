"""A HUD runtime on denv sandboxes: `Taskset.run(agent, runtime=DenvRuntime(...))`."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

try:
    from hud import Runtime, Task
    from hud.eval.runtime import RuntimeConfig, RuntimeResources
except ImportError as error:
    raise ImportError("denv.hud needs HUD: pip install 'denv-rollouts[hud]'") from error

from .attach import forward_port
from .client import Client, fork_child_key, new_key, sandbox_id_of
from .errors import DenvError, NoVerdict
from .leases import LeaseKeeper
from .threads import in_thread, to_the_end
from .trees import PackedTree, pack_files
from .types import Caps, ControllerSpec, CreateRequest, Files, Sandbox, Verifier, VerifyReply

log = logging.getLogger("denv")
Transport = Literal["port", "stdio"]


class DenvRuntime:
    """A runtime function for HUD: each rollout gets a sandbox of its own on a denv server, and its control channel's address.

    The sandbox is deleted on every way out. It is leased: when this process is killed it goes once its lease has ended.
    A row's `runtime_config` is merged over this runtime's as HUD does; what cannot be honoured is refused by name.

    :param image: what it is made from: `host`, `dir:/path`, `tar:/path`; or a `version` that was frozen before
    :param command: what serves the environment; default: what the version or image says
    :param files: local files for the sandbox, by where they go there; or `pack_files` of them, for several runtimes
    :param transport: `port`: the control port is published on the server's loopback; `stdio`: nothing is published, and each
        connection is carried by an attach stream of the denv API
    :param ready_timeout: seconds the environment may take to answer
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        version: str | None = None,
        command: Sequence[str] | None = None,
        files: Files | Sequence[PackedTree] | None = None,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
        transport: Transport = "port",
        cpus: float | None = None,
        memory_mb: int | None = None,
        pids: int | None = None,
        egress: Literal["deny"] = "deny",
        target: str | None = None,
        port: int = 8765,
        ready_timeout: float = 240.0,
        lease_s: int = 60,
        labels: Mapping[str, str] | None = None,
        runtime_config: RuntimeConfig | dict[str, Any] | None = None,
        server: str | None = None,
        api_key: str | None = None,
    ) -> None:
        if transport not in ("port", "stdio"):
            raise ValueError(f"transport: 'port' or 'stdio', not {transport!r}")
        if egress != "deny":
            raise ValueError(f"egress: a denv sandbox has none ('deny'), so not {egress!r}")
        if version is not None and files:
            raise ValueError("files: not with version; a version has its files")
        self.client = Client(server, api_key)
        if transport == "port" and not _is_loopback(self.client.host):
            raise ValueError(
                f"transport 'port' publishes on the loopback of {self.client.host}, which is another machine: "
                "use transport='stdio'"
            )
        base = RuntimeConfig(image=image, resources=RuntimeResources(cpu=cpus, memory_mb=memory_mb))
        given = None if runtime_config is None else RuntimeConfig.model_validate(runtime_config)
        #: What HUD itself asks of a runtime: this one's part of a placement, under the row's.
        self.runtime_config: RuntimeConfig | None = base.with_overrides(given)
        if (self.runtime_config.image is None) == (version is None):
            raise ValueError("exactly one of image and version is needed")
        self.version = version
        self.command = list(command) if command is not None else None
        self.files = files or {}
        self.env = dict(env or {})
        self.workdir = workdir
        self.transport = transport
        self.pids = pids
        self.target = target
        self.port = port
        self.ready_timeout = ready_timeout
        self.lease_s = lease_s
        self.labels = dict(labels or {})
        #: The sandboxes that live now, by id, and how many there were.
        self.sandboxes: dict[str, Sandbox] = {}
        self.started = 0
        self.stopped = 0
        self._leases = LeaseKeeper(self.client, lease_s)
        self._packing = asyncio.Lock()
        self._packed: list[PackedTree] | None = None

    @classmethod
    def from_version(cls, version: str, **options: Any) -> DenvRuntime:
        """Sandboxes from a version that was frozen before: see `pin`."""
        return cls(version=version, **options)

    @asynccontextmanager
    async def __call__(self, task: Task, /) -> AsyncIterator[Runtime]:
        placement = self._placement(task)
        async with self._sandbox(placement) as sandbox:
            async with self._reachable(sandbox, placement) as runtime:
                yield runtime

    @asynccontextmanager
    async def fork(self, sandbox_id: str) -> AsyncIterator[Runtime]:
        """The same for a fork of a live sandbox: its files as they are now, its environment started anew."""
        key = new_key()
        child_id = sandbox_id_of(fork_child_key(key))
        placement = self._placement(None)
        try:
            ports = [self.port] if self.transport == "port" else []
            reply = await in_thread(
                lambda: self.client.fork(
                    sandbox_id, key=key, leaseS=self.lease_s, labels=self.labels, ports=ports
                )
            )
            child = reply["children"][0]
            if "sandbox" not in child:
                error = child.get("error")
                raise DenvError(error["code"], error["message"]) if error else DenvError("internal", "no child")
            self._hold(child["sandbox"])
            async with self._reachable(child["sandbox"], placement) as runtime:
                yield runtime
        finally:
            await to_the_end(self._delete(child_id))

    async def verify(self, sandbox_id: str, verifier: Verifier, *, stop: bool = True) -> VerifyReply:
        """Has a verifier judge a sandbox from outside it, as another principal; `stop` ends the sandbox's processes."""
        return await in_thread(lambda: self.client.verify(sandbox_id, verifier, stop=stop))

    async def grade(self, sandbox_id: str, verifier: Verifier, *, stop: bool = True) -> float:
        """The reward of `verify`. :raises NoVerdict: when there is none; a refused submission is 0"""
        reply = await self.verify(sandbox_id, verifier, stop=stop)
        if reply["reward"] is None:
            raise NoVerdict(reply)
        return reply["reward"]

    async def pin(self, sandbox_id: str | None = None) -> str:
        """A version for `from_version`: of a live sandbox as it is now, or of what this runtime's sandboxes start from."""
        if sandbox_id is not None:
            frozen = await in_thread(lambda: self.client.snapshot(sandbox_id))
            return frozen["id"]
        if self.version is not None:
            return self.version
        async with self._sandbox(self._placement(None)) as sandbox:
            return sandbox["version"]

    # Placement

    def _placement(self, task: Task | None) -> _Placement:
        config = (self.runtime_config or RuntimeConfig()).with_overrides(
            task.runtime_config if task is not None else None
        )
        _refuse_unsupported(config, pinned=self.version)
        resources, limits = config.resources, config.limits
        caps: Caps = {}
        if resources is not None and resources.cpu is not None:
            caps["cpus"] = resources.cpu
        if resources is not None and resources.memory_mb is not None:
            caps["memoryMb"] = resources.memory_mb
        if self.pids is not None:
            caps["pids"] = self.pids
        startup = limits.startup_timeout_s if limits is not None else None
        labels = {**self.labels, **({"hudTask": task.slug[:512]} if task is not None else {})}
        return _Placement(
            config=config,
            caps=caps,
            labels=labels,
            ready_s=float(startup) if startup is not None else self.ready_timeout,
            run_s=limits.run_timeout_s if limits is not None else None,
        )

    def _request(self, placement: _Placement) -> CreateRequest:
        request: CreateRequest = {
            "egress": "deny",
            "caps": placement.caps,
            "labels": placement.labels,
            "leaseS": self.lease_s,
        }
        if self.version is not None:
            request["version"] = self.version
        elif placement.config.image is not None:
            request["image"] = placement.config.image
        if self.version is None or self.command is not None:
            controller: ControllerSpec = {"kind": "hud", "port": self.port, "timeoutS": placement.ready_s}
            if self.command is not None:
                controller["command"] = self.command
            request["controller"] = controller
        if self.env:
            request["env"] = self.env
        if self.workdir is not None:
            request["workdir"] = self.workdir
        if self.target is not None:
            request["target"] = self.target
        if self.transport == "port":
            request["ports"] = [self.port]
        return request

    async def _trees(self) -> list[PackedTree]:
        async with self._packing:
            if self._packed is None:
                files = self.files
                self._packed = (
                    await in_thread(lambda: pack_files(files))
                    if isinstance(files, Mapping)
                    else list(files)
                )
            return self._packed

    # Life

    @asynccontextmanager
    async def _sandbox(self, placement: _Placement) -> AsyncIterator[Sandbox]:
        key = new_key()
        trees = await self._trees()
        request = self._request(placement)
        try:
            try:
                # The server counts its own start-up beside the environment's.
                async with asyncio.timeout(placement.ready_s + 30):
                    sandbox = await in_thread(
                        lambda: self.client.create_with(trees, request, key=key)
                    )
            except TimeoutError:
                raise TimeoutError(f"the environment did not answer within {placement.ready_s:g} s") from None
            self._hold(sandbox)
            yield sandbox
        finally:
            # Also one whose create is still on its way: its id follows from the key.
            await to_the_end(self._delete(sandbox_id_of(key)))

    def _hold(self, sandbox: Sandbox) -> None:
        self.started += 1
        self.sandboxes[sandbox["id"]] = sandbox
        self._leases.hold(sandbox["id"])

    async def _delete(self, sandbox_id: str) -> None:
        self._leases.let_go(sandbox_id)
        held = self.sandboxes.pop(sandbox_id, None)
        try:
            await in_thread(lambda: self.client.delete(sandbox_id))
        except DenvError as error:
            log.warning("%s was not deleted, and goes when its lease of %s s ends: %s", sandbox_id, self.lease_s, error)
            return
        self.stopped += held is not None

    @asynccontextmanager
    async def _reachable(self, sandbox: Sandbox, placement: _Placement) -> AsyncIterator[Runtime]:
        """The address of its control channel, for as long as the row's `run_timeout_s` allows."""

        def runtime(address: str) -> Runtime:
            params = {"ready_timeout": placement.ready_s, "sandbox_id": sandbox["id"]}
            return Runtime(f"tcp://{address}", params=params, config=placement.config)

        async with _deadline(placement.run_s, lambda: self.client.delete(sandbox["id"])):
            if self.transport == "port":
                yield runtime(sandbox["ports"][str(self.port)])
                return
            async with forward_port(self.client, sandbox["id"], self.port) as (host, port):
                yield runtime(f"{host}:{port}")


@dataclass(frozen=True)
class _Placement:
    config: RuntimeConfig
    ready_s: float
    run_s: int | None
    caps: Caps = field(default_factory=lambda: Caps())
    labels: dict[str, str] = field(default_factory=dict)


def _refuse_unsupported(config: RuntimeConfig, *, pinned: str | None) -> None:
    """:raises ValueError: naming each field that no denv sandbox can honour"""
    refused: list[str] = []
    if config.compose is not None:
        refused.append("runtime_config.compose")
    if pinned is not None and config.image is not None:
        refused.append(f"runtime_config.image (this runtime is pinned to version {pinned})")
    resources = config.resources
    if resources is not None:
        asked = resources.model_dump(exclude_none=True)
        honoured = {"cpu", "memory_mb"}
        refused += [f"runtime_config.resources.{name}" for name in sorted(asked.keys() - honoured)]
    if refused:
        raise ValueError(f"DenvRuntime does not support {', '.join(refused)}")


@asynccontextmanager
async def _deadline(seconds: float | None, end: Any) -> AsyncIterator[None]:
    if seconds is None:
        yield
        return

    async def expire() -> None:
        await asyncio.sleep(seconds)
        await in_thread(end)

    expiry = asyncio.create_task(expire())
    try:
        yield
    finally:
        expiry.cancel()
        await asyncio.gather(expiry, return_exceptions=True)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

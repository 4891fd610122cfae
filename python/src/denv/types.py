"""Requests and replies of the denv API, field by field as they are on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal, NotRequired, TypedDict

#: Local files for a sandbox: where they go there → a file or folder here. A folder's entries go below the place; a file takes
#: the place itself, or goes below it when it ends in `/`.
Files = Mapping[str, str | PathLike[str]]

User = Literal["agent"] | int


class Caps(TypedDict, total=False):
    cpus: float
    memoryMb: int
    pids: int
    diskMb: int


class ControllerSpec(TypedDict):
    kind: Literal["shell", "mcp-http", "mcp-stdio", "hud"]
    command: NotRequired[list[str]]
    port: NotRequired[int]
    path: NotRequired[str]
    user: NotRequired[User]
    timeoutS: NotRequired[float]


class CreateRequest(TypedDict, total=False):
    image: str
    version: str
    address: str
    shared: int
    command: list[str]
    env: dict[str, str]
    workdir: str
    user: User
    files: Files
    ports: list[int]
    egress: Literal["deny"]
    caps: Caps
    gpu: Any
    controller: ControllerSpec
    labels: dict[str, str]
    leaseS: int
    target: str


class ForkedFrom(TypedDict):
    sandbox: str | None
    version: str


class ControllerState(TypedDict):
    kind: Literal["shell", "mcp-http", "mcp-stdio", "hud"]
    ready: bool
    hud: NotRequired[dict[str, Any]]


class StopEvidence(TypedDict):
    by: Literal["inside", "outside"]
    what: Literal[
        "init_ended", "controller_ended", "oom_kill", "host_restart", "verify_stop", "stop_request"
    ]
    at: str
    detail: NotRequired[str]


class Sandbox(TypedDict):
    id: str
    state: Literal["creating", "running", "stopped", "deleted"]
    ports: dict[str, str]
    version: str
    reproducible: bool
    forkedFrom: ForkedFrom | None
    labels: dict[str, str]
    createdAt: str
    leaseUntil: str
    controller: ControllerState
    target: str
    stopped: StopEvidence | None


class ExecRequest(TypedDict, total=False):
    user: User
    cwd: str
    env: dict[str, str]
    stdin: str
    timeoutS: float
    maxOutputBytes: int
    snapshot: Literal["before", "after", "changed"]


class ExecReply(TypedDict):
    exitCode: int | None
    stdout: str
    stderr: str
    truncated: bool
    timedOut: bool
    durationS: float
    version: NotRequired[str]
    snapshotS: NotRequired[float]
    flushS: NotRequired[float]
    unchanged: NotRequired[bool]


class CallRequest(TypedDict, total=False):
    timeoutS: float
    resetTimeoutOnProgress: bool
    snapshot: Literal["before", "after", "changed"]


class CallError(TypedDict):
    code: float
    message: str
    data: NotRequired[Any]


class CallReply(TypedDict):
    result: NotRequired[dict[str, Any]]
    error: NotRequired[CallError]
    timedOut: bool
    durationS: float
    version: NotRequired[str]
    snapshotS: NotRequired[float]
    flushS: NotRequired[float]
    unchanged: NotRequired[bool]


class SnapshotRequest(TypedDict, total=False):
    labels: dict[str, str]
    retentionS: int


class Version(TypedDict):
    id: str
    sandbox: str | None
    createdAt: str
    retainUntil: str
    reproducible: bool
    labels: dict[str, str]
    pausedMs: float | None
    flushMs: float | None
    bytes: float | None
    usedBy: list[str]


class ForkRequest(TypedDict, total=False):
    count: int
    labels: dict[str, str]
    leaseS: int
    ports: list[int]


ErrorCode = Literal[
    "invalid_request",
    "unauthorized",
    "sandbox_not_found",
    "version_not_found",
    "operation_not_found",
    "key_conflict",
    "sandbox_stopped",
    "sandbox_gone",
    "capability_missing",
    "image_not_found",
    "version_in_use",
    "files_missing",
    "controller_failed",
    "outcome_unknown",
    "rate_limited",
    "over_capacity",
    "disk_full",
    "unavailable",
    "internal",
]


class ErrorBody(TypedDict):
    code: ErrorCode
    message: str
    details: NotRequired[dict[str, Any]]


class ForkChild(TypedDict):
    """One of the two: a child that lacks what was written before the fork is a failed one."""

    sandbox: NotRequired[Sandbox]
    error: NotRequired[ErrorBody]


class ForkReply(TypedDict):
    version: str
    pausedMs: float | None
    children: list[ForkChild]


class CollectEntry(TypedDict):
    path: str
    exclude: NotRequired[list[str]]


class Verifier(TypedDict):
    image: str
    files: NotRequired[Files]
    command: list[str]
    collect: NotRequired[list[str | CollectEntry]]
    timeoutS: NotRequired[float]
    env: NotRequired[dict[str, str]]
    network: NotRequired[Literal["deny"]]


class VerifyRequest(TypedDict, total=False):
    stop: bool
    labels: dict[str, str]


class VerifyReply(TypedDict):
    version: str
    verdict: Literal["reward", "refused", "none"]
    reward: float | None
    rewards: dict[str, float]
    evidence: dict[str, Any]


class RecordEntry(TypedDict):
    seq: int
    at: str
    event: Literal[
        "created", "forked", "snapshot", "verified", "stopped", "deleted", "lost", "restarted"
    ]
    data: dict[str, Any]


class DeploymentRecord(TypedDict):
    sandbox: str
    entries: list[RecordEntry]


class Target(TypedDict):
    name: str
    missing: str | None
    fork: Literal["O(1)", "O(change)", "none"]
    memoryFork: bool
    egressDeny: bool
    caps: dict[str, bool]
    gpu: bool
    exec: bool
    stdio: bool
    publish: bool
    attach: bool
    userNamespaces: bool
    separateVerify: bool
    images: list[str]
    notes: list[str]

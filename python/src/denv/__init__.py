"""Forkable sandboxes of a denv server. `denv.hud` has a HUD runtime on them."""

from .attach import AttachStream, attach, forward_port
from .client import Client, fork_child_key, new_key, sandbox_id_of
from .errors import DenvError, NoVerdict
from .trees import PackedTree, TreeRefused, pack_files

__all__ = [
    "AttachStream",
    "Client",
    "DenvError",
    "NoVerdict",
    "PackedTree",
    "TreeRefused",
    "attach",
    "fork_child_key",
    "forward_port",
    "new_key",
    "pack_files",
    "sandbox_id_of",
]

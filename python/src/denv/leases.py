"""Keeps sandboxes alive for as long as this process is."""

from __future__ import annotations

import logging
import threading

from .client import Client
from .errors import DenvError

log = logging.getLogger("denv")


class LeaseKeeper:
    """Renews every third of a lease, in a thread of its own: an event loop that is busy for long loses no sandbox.

    Whatever ends this process ends the renewals, and the server then deletes what was held.
    """

    def __init__(self, client: Client, lease_s: int) -> None:
        self._client = client
        self._lease_s = lease_s
        self._held: set[str] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def hold(self, sandbox_id: str) -> None:
        with self._changed:
            self._held.add(sandbox_id)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="denv-leases", daemon=True)
                self._thread.start()

    def let_go(self, sandbox_id: str) -> None:
        with self._changed:
            self._held.discard(sandbox_id)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                # Leaves at once when there is nothing to hold any more, and begins anew with the next.
                if self._changed.wait_for(lambda: not self._held, timeout=self._lease_s / 3):
                    self._thread = None
                    return
                held = list(self._held)
            for sandbox_id in held:
                self._renew(sandbox_id)

    def _renew(self, sandbox_id: str) -> None:
        try:
            self._client.renew(sandbox_id, self._lease_s, retry_s=0)
        except DenvError as error:
            if error.code in ("sandbox_gone", "sandbox_not_found"):
                self.let_go(sandbox_id)
            else:
                log.warning("the lease of %s was not renewed: %s", sandbox_id, error)

"""Requests to a denv server: one at a time on a connection of its own, so that any number of threads may ask."""

from __future__ import annotations

import http.client
import json
import socket
import time
from typing import IO, Any
from urllib.parse import urlsplit

from .errors import DenvError

#: Over what a request may take at the server: after that, nobody is there.
GRACE_S = 60.0


class Http:
    """`retry_s`: for how long a request is asked again when nobody answers. Every request can be: keys see to it."""

    def __init__(self, server: str, api_key: str, retry_s: float) -> None:
        parts = urlsplit(server if "//" in server else f"http://{server}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not the address of a denv server: {server!r}")
        self.secure = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.secure else 80)
        self.prefix = parts.path.rstrip("/")
        self.api_key = api_key
        self.retry_s = retry_s

    def json(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        wait_s: float = 0.0,
        retry_s: float | None = None,
    ) -> tuple[int, Any]:
        """The status and the parsed reply. :raises DenvError: whatever is no success"""
        payload = None if body is None else json.dumps(body).encode()
        status, data = self._patiently(
            method, path, payload, "application/json", key, wait_s, retry_s
        )
        try:
            return status, json.loads(data)
        except ValueError:
            raise DenvError("internal", f"{method} {path}: the reply is no JSON", status=status) from None

    def raw(
        self, method: str, path: str, data: bytes | None = None, *, key: str | None = None
    ) -> bytes:
        return self._patiently(method, path, data, "application/octet-stream", key, 300.0, None)[1]

    def upload(self, path: str, open_file: Any, size: int) -> None:
        with open_file() as file:
            self._once("PUT", path, file, "application/x-tar", None, 1800.0, size)

    def _patiently(
        self,
        method: str,
        path: str,
        payload: bytes | None,
        kind: str,
        key: str | None,
        wait_s: float,
        retry_s: float | None,
    ) -> tuple[int, bytes]:
        until = time.monotonic() + (self.retry_s if retry_s is None else retry_s)
        pause = 0.1
        while True:
            try:
                return self._once(method, path, payload, kind, key, wait_s)
            except DenvError as error:
                if error.code != "unavailable" or time.monotonic() + pause > until:
                    raise
                time.sleep(error.retry_after_s or pause)
                pause = min(pause * 2, 2.0)

    def _once(
        self,
        method: str,
        path: str,
        payload: bytes | IO[bytes] | None,
        kind: str,
        key: str | None,
        wait_s: float,
        size: int | None = None,
    ) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self.api_key}"}
        if payload is not None:
            headers["Content-Type"] = kind
        if size is not None:
            headers["Content-Length"] = str(size)
        if key is not None:
            headers["Idempotency-Key"] = key
        make = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
        connection = make(self.host, self.port, timeout=wait_s + GRACE_S, blocksize=1 << 20)
        what = f"{method} {path.split('?')[0]}"
        try:
            connection.request(method, self.prefix + path, body=payload, headers=headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException, socket.timeout) as error:
            message = f"no answer from {what} at {self.host}:{self.port}: {error}"
            raise DenvError("unavailable", message) from error
        finally:
            connection.close()
        if response.status < 400:
            return response.status, data
        raise _error_of(response.status, data, response.getheader("retry-after"), what)


def error_of_body(body: Any, status: int, what: str, retry_after_s: float | None = None) -> DenvError:
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return DenvError("unavailable" if status >= 500 else "internal", f"{status} from {what}", status=status)
    return DenvError(
        str(error.get("code")),
        str(error.get("message")),
        status=status,
        details=error.get("details"),
        retry_after_s=retry_after_s,
    )


def _error_of(status: int, data: bytes, retry_after: str | None, what: str) -> DenvError:
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    return error_of_body(body, status, what, seconds)

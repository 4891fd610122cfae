"""What a denv server answers instead of a reply."""

from __future__ import annotations

from typing import Any


class DenvError(Exception):
    """A call was refused, or nobody answered.

    `code` is one of the denv API's (`sandbox_not_found`, `capability_missing`, …); `unavailable` with status 0 means that no
    answer came. `status` is HTTP's, `details` what the server said beside the message.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 0,
        details: dict[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.details = details or {}
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class NoVerdict(Exception):
    """A verifier gave no reward. `reply` is all that is known of it."""

    def __init__(self, reply: Any) -> None:
        super().__init__(f"no verdict: {reply['evidence'].get('noVerdict')}")
        self.reply = reply

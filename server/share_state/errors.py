"""A `ShareStateError` is a refusal by the share coordinator; it carries one of Kafka's error codes."""

from __future__ import annotations

from ottla.wire.errors import ErrorCode


class ShareStateError(Exception):
    """The operation was refused and has changed nothing. `text` is the error message for the client."""

    def __init__(self, code: ErrorCode, text: str = "") -> None:
        super().__init__(text or code.name)
        self.code = code
        self.text = text or f"The share coordinator answers {code.name}."

"""A refusal by the share coordinator: a code of Kafka's table."""

from __future__ import annotations

from ottla.wire.errors import ErrorCode


class ShareStateError(Exception):
    """The operation was refused; nothing has changed. `text` is for who asked."""

    def __init__(self, code: ErrorCode, text: str = "") -> None:
        super().__init__(text or code.name)
        self.code = code
        self.text = text or f"The share coordinator answers {code.name}."

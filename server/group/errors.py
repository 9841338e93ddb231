"""A `GroupError` is a refusal by the group coordinator; it carries one of Kafka's error codes, and a text for the APIs whose
answers have an error message.
"""

from __future__ import annotations

from ottla.wire.errors import ErrorCode


class GroupError(Exception):
    """The operation was refused and has changed nothing."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message

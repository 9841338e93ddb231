"""A refusal by the group coordinator: a code of Kafka's table, and a text for the APIs whose answers have room for one."""

from __future__ import annotations

from ottla.wire.errors import ErrorCode


class GroupError(Exception):
    """The operation was refused; nothing has changed."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message

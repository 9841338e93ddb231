"""A refusal by the transaction coordinator: a code of Kafka's table."""

from __future__ import annotations

from ottla.wire.errors import ErrorCode


class TransactionError(Exception):
    """The operation was refused; nothing has changed."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code

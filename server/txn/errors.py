"""A refusal by the transaction coordinator: a code of Kafka's table."""

from __future__ import annotations

from ottla.wire.errors import ErrorCode


class TransactionError(Exception):
    """The operation was refused; nothing has changed."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code

    def code_for(self, *, knows_fencing: bool) -> ErrorCode:
        """As the client hears it: older versions of the requests do not know that a producer can be fenced."""
        if self.code is ErrorCode.PRODUCER_FENCED and not knows_fencing:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return self.code

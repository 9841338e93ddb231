"""A `TransactionError` is a refusal by the transaction coordinator; it carries one of Kafka's error codes."""

from __future__ import annotations

from typing import Final

from ottla.wire.errors import ErrorCode

FENCED_SINCE: Final = 2
"""The version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn from which on clients know PRODUCER_FENCED."""
INIT_FENCED_SINCE: Final = 4
"""The same version of InitProducerId."""


class TransactionError(Exception):
    """The operation was refused and has changed nothing."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code

    def code_for(self, *, knows_fencing: bool) -> ErrorCode:
        """Returns the code for the client. Older versions of the requests do not know PRODUCER_FENCED and get
        INVALID_PRODUCER_EPOCH instead.
        """
        if self.code is ErrorCode.PRODUCER_FENCED and not knows_fencing:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return self.code

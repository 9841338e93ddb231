"""A `ShareStateError` is a refusal by the share coordinator; it carries one of Kafka's error codes."""

from __future__ import annotations

from typing import Final

from ottla.wire.errors import ErrorCode

MAY_BE_GONE: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
"""The codes of refusals that may soon be gone, so that the operation is tried again."""


class ShareStateError(Exception):
    """The operation was refused and has changed nothing. `text` is the error message for the client."""

    def __init__(self, code: ErrorCode, text: str = "") -> None:
        super().__init__(text or code.name)
        self.code = code
        self.text = text or f"The share coordinator answers {code.name}."

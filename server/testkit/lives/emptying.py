"""Empties a broker that goes on: a reset by which no connection is lost.

All topics are deleted through the controller, those of the coordinators among them. So groups, commits, transactions and share
groups are gone, and a client that had to do with one learns what it would from any broker: that it asked the wrong coordinator,
and from the right one that nobody knows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from ottla.log.errors import StorageError
from ottla.server.base.answers import wait_for
from ottla.server.metadata.operation import Caller
from ottla.server.security.principals import ANONYMOUS
from ottla.server.testkit.fields import Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

if TYPE_CHECKING:
    from ottla.server.requests.context import BrokerContext

TIMEOUT_MS: Final = 60_000
_CALLER: Final = Caller(ANONYMOUS, "127.0.0.1", "ottla-testkit", 6)


async def delete_topics(context: BrokerContext, names: Sequence[str]) -> None:
    """Deletes topics with their records; they are gone when this returns. Raises Refused if one cannot be deleted."""
    if not names:
        return
    request = DeleteTopicsRequest([DeleteTopicState(name) for name in names], timeout_ms=TIMEOUT_MS)
    try:
        answer = await context.controller.delete_topics(request, _CALLER)
    except StorageError as error:
        raise Refused(f"the topics cannot be deleted: {error}", HTTPStatus.CONFLICT) from error
    for each in answer.responses:
        if each.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):  # a client may have been faster
            reason = each.error_message or ErrorCode(each.error_code).name
            raise Refused(f"topic {each.name} cannot be deleted: {reason}", HTTPStatus.CONFLICT)
    await wait_for(context.replicas.deleted())

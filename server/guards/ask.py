"""What all guards use: the errors and their texts, and how an answer is mended that may come later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

from ottla.server.base.answers import map_answer
from ottla.server.base.promise import Promise
from ottla.server.requests.link import Handle
from ottla.server.requests.request import Request
from ottla.server.security.authorizer import Ask
from ottla.wire.errors import ErrorCode
from ottla.wire.primitives import ZERO_UUID, WireStruct

T = TypeVar("T")

TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TEXTS: Final = {
    TOPIC: "This needs a right to the topic.",
    GROUP: "This needs a right to the group.",
    CLUSTER: "This needs a right to the cluster.",
    TRANSACTION: "This needs a right to the transactional id.",
}


Guard = Callable[[Ask, Handle, Any, Request], Any]
"""Takes the handler's `handle` and what this takes; returns what this returns."""


def mend(answer: Any, change: Callable[[Any], Any]) -> Any:
    """Returns what `change` makes of an answer, in whatever form a handler gives that: now, promised, or awaitable."""
    if isinstance(answer, Promise):
        return map_answer(answer, change)
    if answer is None or isinstance(answer, WireStruct):
        return change(answer)
    return _mend_later(answer, change)


async def _mend_later(answer: Awaitable[T], change: Callable[[T], Any]) -> Any:
    return change(await answer)


def without(items: Iterable[T], refused: Iterable[T]) -> list[T]:
    """Returns the items that are not among the refused, which are some of them: the objects count, not what is in them.

    A request may name tens of thousands of things, so this takes no longer than looking at each of them once.
    """
    gone = set(map(id, refused))
    return [each for each in items if id(each) not in gone]


def topic_name(name: str | None, topic_id: bytes, request: Request) -> str | None:
    """Returns the name of a topic that a request names by name or id; None for an id that no topic has."""
    if topic_id == ZERO_UUID:
        return name
    topic = request.broker.metadata.topics_by_id.get(topic_id)
    return None if topic is None else topic.name

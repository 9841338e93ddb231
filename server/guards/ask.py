"""Asks the authorizer on behalf of one request, and notes in the audit log what it says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.server.base.answers import map_answer
from ottla.server.base.promise import Promise
from ottla.server.requests.link import Handle
from ottla.server.requests.request import Request
from ottla.server.security.authorizer import CLUSTER_NAME
from ottla.server.security.rights import Operation, Resource
from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.primitives import ZERO_UUID, WireStruct

if TYPE_CHECKING:
    from ottla.server.security.audit import Audit
    from ottla.server.security.authorizer import Rights

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


class Ask:
    """Answers what the client of one request may do. `quiet` questions, about what is only left out, are not in the audit log."""

    __slots__ = ("_api", "_audit", "rights")

    def __init__(self, rights: Rights, audit: Audit, api: str) -> None:
        self.rights = rights
        self._audit = audit
        self._api = api

    def may(self, operation: Operation, resource: Resource, name: str, *, quiet: bool = False) -> bool:
        allowed = self.rights.may(operation, resource, name)
        if not quiet and (not allowed or self._audit.notes_allowed):
            self._audit.note(self.rights, self._api, operation, resource, name, allowed=allowed)
        return allowed

    def topic(self, operation: Operation, name: str, *, quiet: bool = False) -> bool:
        return self.may(operation, Resource.TOPIC, name, quiet=quiet)

    def group(self, operation: Operation, name: str, *, quiet: bool = False) -> bool:
        return self.may(operation, Resource.GROUP, name, quiet=quiet)

    def transaction(self, operation: Operation, name: str, *, quiet: bool = False) -> bool:
        return self.may(operation, Resource.TRANSACTIONAL_ID, name, quiet=quiet)

    def cluster(self, operation: Operation, *, quiet: bool = False) -> bool:
        return self.may(operation, Resource.CLUSTER, CLUSTER_NAME, quiet=quiet)


Guard = Callable[[Ask, Handle, Any, Request], Any]
"""Takes the handler's `handle` and what this takes; returns what this returns."""


def ask_for(request: Request) -> Ask | None:
    """Returns what answers questions about the client's rights, for handlers that ask themselves; None without an authorizer."""
    authorizer = request.broker.authorizer
    if authorizer is None:
        return None
    session = request.session
    return Ask(authorizer.rights(session.principal, session.client_host), authorizer.audit, APIS[request.api_key].name)


def mend(answer: Any, change: Callable[[Any], Any]) -> Any:
    """Returns what `change` makes of an answer, in whatever form a handler gives that: now, promised, or awaitable."""
    if isinstance(answer, Promise):
        return map_answer(answer, change)
    if answer is None or isinstance(answer, WireStruct):
        return change(answer)
    return _mend_later(answer, change)


async def _mend_later(answer: Awaitable[T], change: Callable[[T], Any]) -> Any:
    return change(await answer)


def topic_name(name: str | None, topic_id: bytes, request: Request) -> str | None:
    """Returns the name of a topic that a request names by name or id; None for an id that no topic has."""
    if topic_id == ZERO_UUID:
        return name
    topic = request.broker.metadata.topics_by_id.get(topic_id)
    return None if topic is None else topic.name

"""Represents a request as its handler gets it, without the body: the fields of its header, its session, and the broker's parts.

Each request is an object of its own that the next request does not overwrite, so an answer that is given later finds the same
values. Dispatch makes one for every request, so the class is compiled, has few fields, and computes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.metadata.operation import NO_LIMIT, Caller, Permits
from ottla.wire.api import APIS

if TYPE_CHECKING:
    from ottla.server.requests.context import BrokerContext
    from ottla.server.requests.session import Session
    from ottla.server.security.authorizer import Ask


class Request:
    """Holds what handlers need to know about one request of a session."""

    __slots__ = ("api_key", "api_version", "broker", "client_id", "correlation_id", "failed", "session")

    def __init__(
        self,
        broker: BrokerContext,
        session: Session,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self.broker = broker
        self.session = session
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.failed = False
        """Set by handlers with the trait `reports_failure` if their answer holds errors; other handlers' answers are searched."""

    def ask(self) -> Ask | None:
        """Returns what answers questions about the client's rights, for the few handlers that ask themselves; None without an
        authorizer."""
        authorizer = self.broker.authorizer
        if authorizer is None:
            return None
        return authorizer.ask(self.session.principal, self.session.client_host, APIS[self.api_key].name)

    def caller(self) -> Caller:
        """Returns who sent this request, for operations of the controller."""
        session = self.session
        return Caller(session.principal, session.client_host, self.client_id, self.api_version, session.by_delegation_token)

    def permits(self, strict_since: int) -> Permits:
        """Returns how many partitions the client's quota lets this request create and delete.

        From version `strict_since` of the API on, the client understands that some of them are refused.
        """
        quotas = self.broker.quotas
        if quotas is None:
            return NO_LIMIT
        return quotas.permits(self.session, self.client_id, strict=self.api_version >= strict_since)

"""A request as its handler gets it, without the body: what its header says, whose it is, and the broker that serves it.

Each request has its own, which nothing overwrites when the next one comes: an answer that is given later finds the same here.
Dispatch makes one for every request, so it is compiled, has few fields, and computes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.metadata.operation import NO_LIMIT, Permits

if TYPE_CHECKING:
    from ottla.server.requests.context import BrokerContext
    from ottla.server.requests.session import Session


class Request:
    """One request of a session."""

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
        """Set by the handlers of Produce and Fetch when there are errors in their answer; those of other APIs' are looked for."""

    def permits(self, strict_since: int) -> Permits:
        """What the quota of its client lets it make and remove of partitions.

        From version `strict_since` of the API on, the client knows what a refusal is.
        """
        quotas = self.broker.quotas
        if quotas is None:
            return NO_LIMIT
        return quotas.permits(self.session, self.client_id, strict=self.api_version >= strict_since)

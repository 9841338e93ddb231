"""Whose request it is, and its limits of what it may make and remove of partitions."""

from __future__ import annotations

from ottla.server.metadata.operation import NO_LIMIT, Caller, Permits
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from tests.fakes import MemoryBroker


class Quotas:
    """Notes who was asked about, and whether that client knows refusals."""

    def __init__(self) -> None:
        self.asked: list[tuple[Session, str | None, bool]] = []
        self.given = Permits()

    def charge_fetch(self, session: Session, client_id: str | None, size: int) -> int:
        raise AssertionError("nothing was fetched")

    def permits(self, session: Session, client_id: str | None, *, strict: bool) -> Permits:
        self.asked.append((session, client_id, strict))
        return self.given

    def used(self, quota: str) -> list[tuple[tuple[str, str], float]]:
        raise AssertionError(quota)


def test_the_controller_gets_the_asking_principal() -> None:
    session = Session("PLAINTEXT", "127.0.0.5", principal="User:alice")
    request = Request(MemoryBroker({}).context, session, 19, 7, 1, "me")
    session.client_id = "another request's"
    assert request.caller() == Caller("User:alice", "127.0.0.5", "me", 7)


def test_without_quotas_nothing_is_limited() -> None:
    assert MemoryBroker({}).request(7).permits(strict_since=6) is NO_LIMIT


def test_the_quotas_are_asked_for_this_client_and_its_version() -> None:
    broker, quotas = MemoryBroker({}), Quotas()
    broker.context.quotas = quotas
    for version in (5, 6):
        request = broker.request(version)
        assert request.permits(strict_since=6) is quotas.given
        assert quotas.asked.pop() == (request.session, "client", version == 6)

"""Every handler that declares rights has a guard, which is nowhere else; and who is a super user passes by all of them."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from compat_tests.wire import batch
from ottla.server.guards import GUARD_MODULES
from ottla.server.guards.link import Authorization, UnguardedApi, find_guard
from ottla.server.requests.link import Steps
from ottla.server.requests.session import Session
from ottla.server.requests.traits import Traits
from ottla.server.security.authorizer import Authorizer
from ottla.server.security.rights import Inside, Need, Open, Operation, Resource
from ottla.wire.api import BY_MODULE
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.fakes import ManualClock
from tests.server.handlers.test_traits import MODULES, source, traits
from tests.server.security.test_authorizer import rule

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("module", MODULES)
def test_declared_rights_are_enforced(module: str) -> None:
    rights = traits(module).rights
    guard = find_guard(module, rights)
    if isinstance(rights, Inside) and rights.in_handler:
        assert ".ask()" in source(module)
        assert guard is None
    elif isinstance(rights, Open):
        assert (guard is not None) == (module == "describe_cluster"), "whose bits are the client's"
    else:
        assert guard is not None


def test_a_handler_without_a_guard_is_found() -> None:
    with pytest.raises(UnguardedApi, match="astray"):
        find_guard("astray", Inside(Need(Operation.READ, Resource.TOPIC)))


def test_the_table_names_no_api_that_there_is_not() -> None:
    assert GUARD_MODULES.keys() <= set(MODULES)
    for api, place in GUARD_MODULES.items():
        guard = getattr(import_module(f"ottla.server.guards.{place}"), api)
        assert callable(guard)


def test_what_needs_no_right_is_left_alone() -> None:
    steps = Steps(lambda frame, pos: (None, 0), lambda body, request: None, lambda answer, parts: None)
    link = Authorization(Authorizer())
    assert link.around(BY_MODULE["api_versions"], Traits(Open("any")), steps) is steps
    heartbeat = link.around(BY_MODULE["heartbeat"], traits("heartbeat"), steps)
    assert heartbeat.handle is not steps.handle
    assert heartbeat[::2] == steps[::2]


class Produces:
    """Sends Produce requests of one client through the link, and counts those that reach the handler."""

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer
        self.handled = 0
        steps = Steps(lambda frame, pos: (None, 0), self._handle, lambda answer, parts: None)
        self._handle_guarded = Authorization(authorizer).around(BY_MODULE["produce"], traits("produce"), steps).handle
        metadata = SimpleNamespace(topics_by_id={b"\1" * 16: SimpleNamespace(name="secret")})
        broker = SimpleNamespace(metadata=metadata, clock=ManualClock())
        self._request: Any = SimpleNamespace(session=Session("PLAINTEXT", "h", principal="User:a"), broker=broker, failed=False)

    def _handle(self, body: ProduceRequest, request: Any) -> ProduceResponse:
        self.handled += 1
        return ProduceResponse()

    def send(self, *topics: TopicProduceData, transactional_id: str | None = None) -> list[int]:
        """The errors of what is refused."""
        answer = self._handle_guarded(ProduceRequest(transactional_id, -1, 1000, list(topics)), self._request)
        return [partition.error_code for topic in answer.responses for partition in topic.partition_responses]


def data(name: str, topic_id: bytes = bytes(16)) -> TopicProduceData:
    return TopicProduceData(name, topic_id, [PartitionProduceData(0, b"")])


def test_what_is_known_about_a_produce_is_looked_up(caplog: pytest.LogCaptureFixture) -> None:
    allowance = rule(Operation.WRITE, "t")
    client = Produces(Authorizer(rules=[allowance]))
    for times in (1, 2, 3):
        assert client.send(data("t")) == []
        assert (client.handled, client.authorizer.audit.allowed) == (times, times)
    with caplog.at_level("DEBUG", "kafka.authorizer.logger"):
        assert client.send(data("t")) == []
    assert len(caplog.records) == 1, "what is known is noted as well"
    assert client.send(data("t"), data("u")) == [REFUSED]
    client.authorizer.change([(allowance, None)])
    assert client.send(data("t")) == [REFUSED]


def test_a_topic_without_a_name_is_never_known() -> None:
    """Checks that who may write to a topic called "" may not write to one that is named by its id."""
    client = Produces(Authorizer(rules=[rule(Operation.WRITE, "")]))
    for _ in range(2):
        assert client.send(data("")) == []
        assert client.send(data("", b"\1" * 16)) == [REFUSED]


def test_a_transaction_needs_its_right_whatever_is_known_about_topics() -> None:
    client = Produces(Authorizer(rules=[rule(Operation.WRITE, "t")]))
    transactional = TopicProduceData(
        "t", partition_data=[PartitionProduceData(0, batch(b"v", producer_id=1, transactional=True))]
    )
    assert client.send(data("t")) == []
    assert client.send(transactional, transactional_id="x") == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]

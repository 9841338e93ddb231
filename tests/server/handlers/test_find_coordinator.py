"""FindCoordinator at every version, through the codecs."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.handlers import find_coordinator
from ottla.server.metadata.operation import Caller
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import find_coordinator as messages
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.server.coordination.memory import CoordinatorLog
from tests.server.group.fakes import Broker
from tests.server.handlers.group_calls import encoded, versions

TOPIC = "__consumer_offsets"
SHARE_STATE = "__share_group_state"


class Cluster(Broker):
    """Two brokers, each on two listeners; partition p of the offsets topic is led by broker `leaders[p]`."""

    def __init__(self, leaders: list[int]) -> None:
        super().__init__(CoordinatorLog(partitions=len(leaders)))
        self.created: list[str] = []
        self.share_coordinator: Any = None
        self.controller = self
        self.metadata.brokers = {
            broker_id: SimpleNamespace(
                broker_id=broker_id,
                active=broker_id != 3,
                endpoints={name: SimpleNamespace(host=name.lower(), port=9000 + broker_id) for name in ("PLAINTEXT", "EXTERNAL")},
            )
            for broker_id in (1, 2, 3)
        }
        if leaders:
            self.show_topic(leaders)

    def show_topic(self, leaders: list[int]) -> None:
        partitions = {index: SimpleNamespace(leader=leader) for index, leader in enumerate(leaders)}
        self.metadata.topics[TOPIC] = SimpleNamespace(name=TOPIC, topic_id=bytes(16), partitions=partitions)

    def create_in_background(self, names: Iterable[str], caller: Caller | None) -> None:
        self.created.extend(names)

    def create(self) -> None:
        self.log.batches = [[]]
        self.show_topic([1])

    def find(self, version: int, *keys: str, key_type: int = 0, listener: str = "PLAINTEXT") -> Any:
        request = FindCoordinatorRequest(key_type=key_type)
        if version >= 4:
            request.coordinator_keys = list(keys)
        else:
            (request.key,) = keys
        context = self.context(version)
        context.session.listener = listener
        answer = find_coordinator.handle(request, context)
        body = encoded(messages.ENCODE_RESPONSE[version], answer)
        return messages.DECODE_RESPONSE[version](body, 0)[0]


@pytest.mark.parametrize("version", versions("find_coordinator"))
def test_fc0_fc7_a_group_at_every_version(version: int) -> None:
    answer = Cluster([2]).find(version, "g", listener="EXTERNAL")
    if version >= 4:
        (answer,) = answer.coordinators
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (ErrorCode.NONE, 2, "external", 9002)
    assert answer.error_message == ("NONE" if 1 <= version <= 3 else "")


def test_fc1_fc3_fc8_several_none_and_the_empty_group() -> None:
    cluster = Cluster([1, 2])
    answer = cluster.find(6, "g1", "g2", "")
    assert {each.key: (each.error_code, each.node_id) for each in answer.coordinators} == {"g1": (0, 1), "g2": (0, 2), "": (0, 1)}
    assert cluster.find(6).coordinators == []


@pytest.mark.parametrize("version", versions("find_coordinator"))
def test_the_first_call_of_all_creates_the_topic(version: int) -> None:
    cluster = Cluster([])
    answer = cluster.find(version, "g")
    code = answer.coordinators[0].error_code if version >= 4 else answer.error_code
    assert (code, cluster.created) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [TOPIC])
    cluster.create()
    answer = cluster.find(version, "g")
    code = answer.coordinators[0].error_code if version >= 4 else answer.error_code
    assert (code, cluster.created) == (ErrorCode.NONE, [TOPIC])


@pytest.mark.parametrize("leader", [-1, 3, 7])
def test_no_leader_a_fenced_one_or_one_that_is_gone(leader: int) -> None:
    (answer,) = Cluster([leader]).find(6, "g").coordinators
    assert (answer.error_code, answer.node_id, answer.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)


def test_a_listener_that_the_coordinator_does_not_have() -> None:
    (answer,) = Cluster([1]).find(6, "g", listener="OTHER").coordinators
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_share_partition_is_looked_for_in_the_topic_of_its_own() -> None:
    cluster = Cluster([1])
    key = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
    (answer,) = cluster.find(6, key, key_type=2).coordinators
    assert (answer.error_code, cluster.created) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [SHARE_STATE])
    partitions = {index: SimpleNamespace(leader=2) for index in range(3)}
    cluster.metadata.topics[SHARE_STATE] = SimpleNamespace(name=SHARE_STATE, topic_id=bytes(16), partitions=partitions)
    cluster.share_coordinator = lambda: SimpleNamespace(partition_for=lambda name: name.partition)
    (answer,) = cluster.find(6, key, key_type=2).coordinators
    assert (answer.error_code, answer.node_id, answer.key) == (ErrorCode.NONE, 2, key)
    for version, wrong in ((6, "g"), (6, "g:x:0"), (6, ":AAAAAAAAAAAAAAAAAAAAAQ:0"), (5, key)):
        (answer,) = cluster.find(version, wrong, key_type=2).coordinators
        assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, ""), wrong


@pytest.mark.parametrize("key_type", [9, -1])
def test_fc5_other_coordinators_are_refused_with_a_text_and_create_nothing(key_type: int) -> None:
    cluster = Cluster([])
    for version in (1, 3, 6):
        answer = cluster.find(version, "tx", key_type=key_type)
        if version >= 4:
            (answer,) = answer.coordinators
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (ErrorCode.INVALID_REQUEST, -1, "", -1)
        assert len(answer.error_message) > 20
    assert cluster.created == []

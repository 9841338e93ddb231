"""StandaloneController: what could not be written never happened, and topics that are made in the background."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
from collections.abc import Callable
from typing import Any

import pytest

from ottla.log.errors import StorageError
from ottla.server.metadata import access, scram, standalone
from ottla.server.metadata.image import NO_LEADER, TOPIC
from ottla.server.metadata.operation import MAX_RECORDS, Refused
from ottla.server.metadata.topics import Creation
from ottla.server.settings.authorizer_settings import STANDARD_AUTHORIZER
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.internal.register_broker_record import RegisterBrokerRecord
from tests.fakes import CALLER
from tests.server.metadata.support import Node, StillClock


def test_what_could_not_be_made_durable_for_want_of_descriptors_never_happened() -> None:
    """The client got an error, so neither this broker nor the next start may find it in the log."""
    node = Node()
    node.start()
    assert node.logs is not None
    log = node.logs.logs["__cluster_metadata", 0]
    end_offset = log.log_end_offset
    log.unsynced.names_in(log.path)
    node.disk.fail("sync_dir", errno.EMFILE, path=log.path)
    with pytest.raises(StorageError):
        asyncio.run(node.controller.create_topics(CreateTopicsRequest([CreatableTopic("a", 1, 1)]), CALLER))
    assert (log.log_end_offset, node.image.topics) == (end_offset, {})
    asyncio.run(node.controller.create_topics(CreateTopicsRequest([CreatableTopic("b", 1, 1)]), CALLER))
    assert list(node.image.topics) == ["b"]
    node.power_cut()
    node.start()
    assert list(node.image.topics) == ["b"]


def test_topics_are_made_in_the_background_once() -> None:
    node = Node(num_partitions="3")
    controller = node.start()
    controller.create_in_background(["a"], CALLER)
    controller.create_in_background(["a", "b"], CALLER)
    assert not node.image.topics
    before = node.image.highest_offset
    assert node.clock.run() == 1
    assert {name: len(topic.partitions) for name, topic in node.image.topics.items()} == {"a": 3, "b": 3}
    assert node.image.highest_offset == before + 8
    controller.create_in_background(["a"], CALLER)
    assert node.clock.run() == 0
    controller.create_in_background(["c"], CALLER)
    node.clock.run()
    assert "c" in node.image.topics


def test_a_topic_that_somebody_else_made_meanwhile() -> None:
    node = Node()
    controller = node.start()
    controller.create_in_background(["a", "b"], CALLER)
    asyncio.run(controller.create_topics(CreateTopicsRequest([CreatableTopic("a", 5, 1)]), CALLER))
    node.clock.run()
    assert {name: len(topic.partitions) for name, topic in node.image.topics.items()} == {"a": 5, "b": 1}


def test_internal_topics_are_made_as_kafka_makes_them() -> None:
    node = Node(offsets_topic_num_partitions="4")
    controller = node.start()
    controller.create_in_background(["__consumer_offsets", "__transaction_state"], CALLER)
    node.clock.run()
    offsets, transactions = node.image.topics["__consumer_offsets"], node.image.topics["__transaction_state"]
    assert len(offsets.partitions) == 4
    assert len(transactions.partitions) == 50
    assert offsets.partitions[0].replicas == (1,)  # three are configured, and there is one broker
    assert node.image.config_of(TOPIC, "__consumer_offsets") == {
        "compression.type": "producer",
        "cleanup.policy": "compact",
        "segment.bytes": "104857600",
    }
    assert node.image.config_of(TOPIC, "__transaction_state") == {
        "compression.type": "uncompressed",
        "cleanup.policy": "compact",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


def test_internal_topics_get_their_replicas_where_there_are_brokers() -> None:
    node = Node()
    controller = node.start()
    for broker_id in (2, 3, 4):
        node.image.apply(RegisterBrokerRecord(broker_id=broker_id, broker_epoch=1))
    controller.create_in_background(["__consumer_offsets"], CALLER)
    node.clock.run()
    assert {len(partition.replicas) for partition in node.image.topics["__consumer_offsets"].partitions.values()} == {3}


def test_a_failure_in_the_background_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ottla.server.metadata")
    node = Node(default_replication_factor="2")
    controller = node.start()
    controller.create_in_background(["a"], CALLER)
    node.clock.run()
    assert "INVALID_REPLICATION_FACTOR" in caplog.text
    node.disk.fail("append", path="__cluster_metadata-0")
    controller.create_in_background(["__consumer_offsets"], CALLER)
    node.clock.run()
    assert "topic __consumer_offsets is not created: KAFKA_STORAGE_ERROR" in caplog.text
    assert not node.image.topics


def test_what_one_client_wants_too_much_of_takes_nothing_from_others(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ottla.server.metadata")
    node = Node(num_partitions="2000")
    controller = node.start()
    controller.create_in_background([f"t{number}" for number in range(MAX_RECORDS + 1)], CALLER)
    assert node.clock.run() == 0
    assert caplog.messages == [
        f"topics {', '.join(f't{number}' for number in range(10))} and {MAX_RECORDS - 9} more are not created: "
        "so many cannot wait to be created at a time"
    ]
    controller.create_in_background([f"t{number}" for number in range(8)], CALLER)
    controller.create_in_background(["__consumer_offsets"], CALLER)
    while node.clock.run():
        continue
    assert list(node.image.topics) == [*(f"t{number}" for number in range(8)), "__consumer_offsets"]


def test_topics_that_are_refused_for_one_reason_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ottla.server.metadata")
    node = Node(default_replication_factor="2")
    node.start().create_in_background([f"t{number}" for number in range(12)], CALLER)
    node.clock.run()
    (line,) = caplog.messages
    assert line.startswith("topics t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 2 more are not created: INVALID_REPLICATION_FACTOR")


def test_a_bug_is_not_the_end_of_all_creations_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    controller = node.start()
    with monkeypatch.context() as patch:
        patch.setattr(Creation, "plan", lambda creation: 1 // 0)
        controller.create_in_background(["a"], CALLER)
        with pytest.raises(ZeroDivisionError):
            node.clock.run()
    controller.create_in_background(["a", "b"], CALLER)
    node.clock.run()
    assert list(node.image.topics) == ["a", "b"]


class Hurried(StillClock):
    """A look at its ticks is a millisecond after the one before, and what comes later is left to the running loop."""

    def __init__(self) -> None:
        super().__init__()
        self._looks = itertools.count()

    def ticks_ns(self) -> int:
        return next(self._looks) * 1_000_000

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Any:
        return asyncio.get_running_loop().call_later(seconds, callback)


def hurried() -> Node:
    node = Node(authorizer_class_name=STANDARD_AUTHORIZER)
    node.clock = Hurried()
    node.start()
    return node


def some_rules(count: int, name: str = "t") -> CreateAclsRequest:
    return CreateAclsRequest([AclCreation(2, f"{name}-{number}", 3, "User:a", "*", 3, 3) for number in range(count)])


ALL_RULES = DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 1, 1)])


def count_rules(node: Node) -> int:
    return sum(1 for _ in access.rules(node.image))


def test_an_operation_on_many_rules_takes_effect_as_a_whole_while_others_come_in_between() -> None:
    """Another of its kind waits for it, so that none is made from rules that are not there any more."""
    node, seen, topics = hurried(), [0], list[int]()

    async def watch() -> None:
        while True:
            if seen[-1] != count_rules(node):
                seen.append(count_rules(node))
            await asyncio.sleep(0)

    async def create(number: int) -> None:
        await node.controller.create_topics(CreateTopicsRequest([CreatableTopic(f"topic-{number}", 1, 1)]), CALLER)
        topics.append(len(seen))

    async def scenario() -> None:
        watching = asyncio.ensure_future(watch())
        controller = node.controller
        first = asyncio.ensure_future(controller.create_acls(some_rules(3000), CALLER))
        again = asyncio.ensure_future(controller.create_acls(some_rules(3000), CALLER))
        gone = asyncio.ensure_future(controller.delete_acls(ALL_RULES, CALLER))
        new = asyncio.ensure_future(controller.create_acls(some_rules(2000, "u"), CALLER))
        for number in range(5):
            await create(number)
            await asyncio.sleep(0)
        answers = await asyncio.gather(first, again, gone, new)
        assert [len(answer.results) for answer in (answers[0], answers[1], answers[3])] == [3000, 3000, 2000]
        assert len(answers[2].filter_results[0].matching_acls) == 3000
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        watching.cancel()

    asyncio.run(scenario())
    assert seen == [0, 3000, 0, 2000]
    assert topics == [1] * 5, "topics are made before the first of them is done"
    kept = list(access.rules(node.image))
    node.power_cut()
    node.start()
    assert list(access.rules(node.image)) == kept


def test_an_election_is_planned_anew_if_one_of_its_topics_goes_meanwhile() -> None:
    node = hurried()

    async def scenario() -> Any:
        for name in ("gone", "stays"):
            await node.controller.create_topics(CreateTopicsRequest([CreatableTopic(name, 1000, 1)]), CALLER)
        lost = [
            PartitionChangeRecord(index, topic.topic_id, leader=NO_LEADER)
            for topic in node.image.topics.values()
            for index in topic.partitions
        ]
        node.controller.commit(lost)
        electing = asyncio.ensure_future(node.controller.elect_leaders(ElectLeadersRequest(0, None), CALLER))
        await asyncio.sleep(0)
        assert not electing.done()
        await node.controller.delete_topics(DeleteTopicsRequest([DeleteTopicState("gone")], timeout_ms=1000), CALLER)
        assert not electing.done()
        return await electing

    answer = asyncio.run(scenario())
    assert [(each.topic, len(each.partition_result)) for each in answer.replica_election_results] == [("stays", 1000)]
    assert {partition.leader for partition in node.image.topics["stays"].partitions.values()} == {1}
    node.power_cut()
    node.start()
    assert list(node.image.topics) == ["stays"]


def test_without_an_authorizer_there_are_no_rules() -> None:
    node = Node()
    controller = node.start()
    for operation in (controller.create_acls(some_rules(3), CALLER), controller.delete_acls(ALL_RULES, CALLER)):
        with pytest.raises(Refused, match="no authorizer") as refused:
            asyncio.run(operation)
        assert refused.value.code == ErrorCode.SECURITY_DISABLED
    assert count_rules(node) == 0


def test_an_operation_that_could_not_be_written_is_over() -> None:
    node = hurried()
    node.disk.fail("append", path="__cluster_metadata-0")
    with pytest.raises(StorageError):
        asyncio.run(node.controller.create_acls(some_rules(3), CALLER))
    assert count_rules(node) == 0
    node.stop()
    node.start()
    asyncio.run(node.controller.create_acls(some_rules(2), CALLER))
    assert count_rules(node) == 2


def test_a_change_of_too_many_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    node = hurried()
    end_offset = node.image.highest_offset
    monkeypatch.setattr(standalone, "LARGEST_CHANGE", 1000)
    with pytest.raises(Refused, match="at most 1000 bytes of metadata") as refused:
        asyncio.run(node.controller.create_acls(some_rules(100), CALLER))
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    assert (count_rules(node), node.image.highest_offset) == (0, end_offset)
    asyncio.run(node.controller.create_acls(some_rules(10), CALLER))
    assert count_rules(node) == 10


def test_what_was_planned_for_another_metadata_version_is_planned_anew() -> None:
    node = hurried()
    users = [ScramCredentialUpsertion(f"u{number}", 1, 4096, b"salt", b"salted") for number in range(500)]

    async def scenario() -> Any:
        altering = asyncio.ensure_future(
            node.controller.alter_user_scram_credentials(AlterUserScramCredentialsRequest([], users), CALLER)
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not altering.done()
        node.image.features["metadata.version"] = scram.SINCE - 1
        return await altering

    answer = asyncio.run(scenario())
    assert {each.error_code for each in answer.results} == {ErrorCode.UNSUPPORTED_VERSION}
    assert not list(scram.credentials(node.image))

"""Attacks of the stall bench by share groups: one that reads thousands of partitions, and one whose dead letters are many."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from compat_tests.wire import Connection
from ottla.wire.batch import wrap
from ottla.wire.compression import ZSTD
from ottla.wire.messages import (
    alter_share_group_offsets,
    create_topics,
    delete_groups,
    find_coordinator,
    incremental_alter_configs,
    initialize_share_group_state,
    produce,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
)
from ottla.wire.primitives import uuid_to_text
from ottla.wire.records import encode_values
from scripts.bench.stall_attacks import SETTLE_S, Attack, framed, pipelined

WIDE: Final = 9_900
"""About as many partitions as one request may create, with ottla and with Kafka."""
REJECTED: Final = 1_000_000
MEMBER: Final = uuid_to_text(bytes(range(16)))
GROUP: Final = 32
REJECT: Final = 3
WAIT_S: Final = 0.1


def _topic(connection: Connection, name: str, partitions: int = 1, **settings: str) -> bytes:
    """Creates a topic and returns its id. Settings have _ for dots."""
    configs = [create_topics.CreatableTopicConfig(key.replace("_", "."), value) for key, value in settings.items()]
    topic = create_topics.CreatableTopic(name, partitions, 1, [], configs)
    (created,) = connection.call(create_topics.CreateTopicsRequest([topic], 60_000), 7, SETTLE_S).topics
    assert not created.error_code, created
    return bytes(created.topic_id)


def _wait_for_coordinator(connection: Connection, key: str, kind: int) -> None:
    asked = find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    while connection.call(asked, 6, SETTLE_S).coordinators[0].error_code:
        time.sleep(WAIT_S)


def _heartbeat(group: str, epoch: int, topic: str | None) -> share_group_heartbeat.ShareGroupHeartbeatRequest:
    return share_group_heartbeat.ShareGroupHeartbeatRequest(group, MEMBER, epoch, None, None if topic is None else [topic])


def hold_wide_topic(connection: Connection) -> None:
    """Makes the topic, and a small share group, so that the topic of share groups' state is there."""
    _topic(connection, "wide", WIDE)
    small = _topic(connection, "small")
    _wait_for_coordinator(connection, "g", 0)
    _wait_for_coordinator(connection, f"s:{uuid_to_text(small)}:0", 2)
    assert not connection.call(_heartbeat("s", 0, "small"), 1, SETTLE_S).error_code


def _leave_and_alter(connection: Connection) -> Iterator[bytes]:
    connection.call(_heartbeat("g", -1, None), 1, SETTLE_S)
    partitions = [alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(index, 0) for index in range(WIDE)]
    topic = alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic("wide", partitions)
    yield framed(alter_share_group_offsets.AlterShareGroupOffsetsRequest("g", [topic]), 0)


def hold_million(connection: Connection) -> None:
    """Makes a topic with one batch of a million records, and a share group at its beginning that wants dead letters."""
    topic_id = _topic(connection, "src")
    _topic(connection, "dlq.x", errors_deadletterqueue_group_enable="true")
    wanted = {"errors.deadletterqueue.topic.name": "dlq.x", "errors.deadletterqueue.copy.record.enable": "true"}
    configs = [incremental_alter_configs.AlterableConfig(name, 0, value) for name, value in wanted.items()]
    resource = incremental_alter_configs.AlterConfigsResource(GROUP, "g", configs)
    connection.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resource]), 1, SETTLE_S)
    now_ms = time.time_ns() // 1_000_000
    batch = wrap(encode_values([b""] * REJECTED), REJECTED, now_ms, now_ms, codec=ZSTD)
    data = produce.TopicProduceData("src", partition_data=[produce.PartitionProduceData(0, batch)])
    assert (
        not connection.call(produce.ProduceRequest(None, -1, 30_000, [data]), 9, SETTLE_S)
        .responses[0]
        .partition_responses[0]
        .error_code
    )
    _wait_for_coordinator(connection, f"g:{uuid_to_text(topic_id)}:0", 2)
    state = initialize_share_group_state.InitializeStateData(topic_id, [initialize_share_group_state.PartitionData(0, 1, 0)])
    request = initialize_share_group_state.InitializeShareGroupStateRequest("g", [state])
    while connection.call(request, 0, SETTLE_S).results[0].partitions[0].error_code:
        time.sleep(WAIT_S)


def _fetch_and_reject(connection: Connection) -> Iterator[bytes]:
    topic_id = _topic_id(connection)
    asked = [share_fetch.FetchTopic(topic_id, [share_fetch.FetchPartition(0)])]
    epoch = 0
    acquired: list[share_fetch.AcquiredRecords] = []
    while not acquired:
        request = share_fetch.ShareFetchRequest("g", MEMBER, epoch, 100, 1, 1 << 26, 1 << 20, 1, topics=[] if epoch else asked)
        answer = connection.call(request, 1, SETTLE_S)
        acquired = [each for topic in answer.responses for part in topic.partitions for each in part.acquired_records]
        epoch += 1
    rejected = share_acknowledge.AcknowledgementBatch(acquired[0].first_offset, acquired[-1].last_offset, [REJECT])
    topic = share_acknowledge.AcknowledgeTopic(topic_id, [share_acknowledge.AcknowledgePartition(0, [rejected])])
    yield framed(share_acknowledge.ShareAcknowledgeRequest("g", MEMBER, epoch, topics=[topic]), 1)


def _topic_id(connection: Connection) -> bytes:
    from ottla.wire.messages import metadata

    (topic,) = connection.call(metadata.MetadataRequest([metadata.MetadataRequestTopic(name="src")]), 12, SETTLE_S).topics
    return bytes(topic.topic_id)


def share_attacks() -> list[Attack]:
    """Returns the attacks; those on a wide topic come one after the other."""
    wide = f"a topic of {WIDE:,} partitions and a share group"
    return [
        Attack(
            f"ShareGroupHeartbeat joins a topic of {WIDE:,} partitions",
            pipelined(lambda: _heartbeat("g", 0, "wide"), 1),
            hold_wide_topic,
            held=wide,
        ),
        Attack(f"AlterShareGroupOffsets of {WIDE:,} partitions", _leave_and_alter, hold_wide_topic, held=wide),
        Attack(
            f"DeleteGroups of a share group in {WIDE:,} partitions",
            pipelined(lambda: delete_groups.DeleteGroupsRequest(["g"]), 2),
            hold_wide_topic,
            held=wide,
        ),
        Attack(
            "ShareAcknowledge that rejects 1,000,000 records, dead letters copied",
            _fetch_and_reject,
            hold_million,
            uses_up=True,
        ),
    ]

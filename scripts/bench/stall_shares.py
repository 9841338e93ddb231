"""Attacks of the stall bench by share groups: one that reads thousands of partitions, and one whose dead letters are many."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Final

from compat_tests.waiting import wait_for
from compat_tests.wire import Connection
from ottla.wire.batch import wrap
from ottla.wire.compression import ZSTD
from ottla.wire.messages import (
    alter_share_group_offsets,
    delete_groups,
    incremental_alter_configs,
    initialize_share_group_state,
    produce,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
)
from ottla.wire.primitives import uuid_to_text
from ottla.wire.records import encode_values
from scripts.bench.stall_attacks import (
    GROUP,
    MEMBER,
    SETTLE_S,
    SHARE,
    Attack,
    coordinated,
    create,
    framed,
    has_begun,
    id_of,
    pipelined,
)

WIDE: Final = 9_900
"""About as many partitions as one request may create, with ottla and with Kafka."""
REJECTED: Final = 1_000_000
GROUP_RESOURCE: Final = 32
REJECT: Final = 3


def _heartbeat(group: str, epoch: int, topic: str | None) -> share_group_heartbeat.ShareGroupHeartbeatRequest:
    return share_group_heartbeat.ShareGroupHeartbeatRequest(group, MEMBER, epoch, None, None if topic is None else [topic])


def hold_wide_topic(connection: Connection) -> None:
    """Makes the topic, and a small share group, so that the topic of share groups' state is there."""
    create("wide", WIDE)(connection)
    create("small")(connection)
    coordinated(connection, GROUP, "g")
    coordinated(connection, SHARE, f"s:{uuid_to_text(id_of('small', connection))}:0")
    assert not connection.call(_heartbeat("s", 0, "small"), 1, SETTLE_S).error_code


def _leave_and_alter(connection: Connection) -> Iterator[bytes]:
    connection.call(_heartbeat("g", -1, None), 1, SETTLE_S)
    partitions = [alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(index, 0) for index in range(WIDE)]
    topic = alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic("wide", partitions)
    yield framed(alter_share_group_offsets.AlterShareGroupOffsetsRequest("g", [topic]), 0)


def hold_million(connection: Connection) -> None:
    """Makes a topic with one batch of a million records, and a share group at its beginning that wants dead letters."""
    create("src")(connection)
    create("dlq.x", errors_deadletterqueue_group_enable="true")(connection)
    topic_id = id_of("src", connection)
    wanted = {"errors.deadletterqueue.topic.name": "dlq.x", "errors.deadletterqueue.copy.record.enable": "true"}
    configs = [incremental_alter_configs.AlterableConfig(name, 0, value) for name, value in wanted.items()]
    resource = incremental_alter_configs.AlterConfigsResource(GROUP_RESOURCE, "g", configs)
    connection.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resource]), 1, SETTLE_S)
    now_ms = time.time_ns() // 1_000_000
    batch = wrap(encode_values([b""] * REJECTED), REJECTED, now_ms, now_ms, codec=ZSTD)
    data = produce.TopicProduceData("src", partition_data=[produce.PartitionProduceData(0, batch)])
    answer = connection.call(produce.ProduceRequest(None, -1, 30_000, [data]), 9, SETTLE_S)
    assert not answer.responses[0].partition_responses[0].error_code, answer
    coordinated(connection, SHARE, f"g:{uuid_to_text(topic_id)}:0")
    state = initialize_share_group_state.InitializeStateData(topic_id, [initialize_share_group_state.PartitionData(0, 1, 0)])
    request = initialize_share_group_state.InitializeShareGroupStateRequest("g", [state])
    wait_for(partial(has_begun, connection, request), "the group does not begin", SETTLE_S)


def _fetch_and_reject(connection: Connection) -> Iterator[bytes]:
    topic_id = id_of("src", connection)
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

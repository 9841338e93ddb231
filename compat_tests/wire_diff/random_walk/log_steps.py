"""Steps at partitions: produce (plain and idempotent), fetch with and without sessions, offsets, epochs, deleted records."""

from __future__ import annotations

import random
from typing import Any

from compat_tests.wire import TIME_MS, batch
from compat_tests.wire_diff.random_walk.session import Session
from compat_tests.wire_diff.random_walk.steps import PARTITIONS, TOPICS, draws, some, step, version_of
from ottla.wire.messages import (
    delete_records,
    describe_producers,
    fetch,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)

TOPIC_OF = some(*TOPICS)
PARTITION = some(*range(PARTITIONS), 0, 0)
TOPIC_IDS_IN_PRODUCE = 13
TOPIC_IDS_IN_FETCH = 13
UNKNOWN_PRODUCER = 77_000_000
FIRST_MS = TIME_MS - 86_400_000


def values(rng: random.Random) -> list[str]:
    return [rng.choice(("", "v", "value " * 5, "long " * 60)) for _ in range(rng.choice((1, 1, 2, 3)))]


def placed(name: dict[str, Any], partition: int, records: bytes) -> produce.TopicProduceData:
    return produce.TopicProduceData(**name, partition_data=[produce.PartitionProduceData(partition, records)])


@step(
    "log",
    8,
    draws(
        places=lambda rng: [[rng.choice(TOPICS), rng.choice((0, 0, 1, 2))] for _ in range(rng.choice((1, 1, 1, 2)))],
        values=values,
        key=some("k", "k", "j", None),
        codec=some(0, 0, 0, 1, 2, 3, 4),
        later_ms=some(0, 1000, 2000, 60_000, -5_000_000),
        acks=some(-1, -1, 1),
        version=version_of("produce"),
    ),
)
def send(
    session: Session, places: list[Any], values: list[str], key: str | None, codec: int, later_ms: int, acks: int, version: int
) -> Any:
    raw_key = None if key is None else key.encode()
    records = batch(*[value.encode() for value in values], key=raw_key, first_ms=FIRST_MS + later_ms, codec=codec)
    unique = {tuple(place): place for place in places}
    data = [
        placed(session.named(topic, version, TOPIC_IDS_IN_PRODUCE), partition, records) for topic, partition in unique.values()
    ]
    return session.call(produce.ProduceRequest(None, acks, 5000, data), version)


PRODUCER = some("p0", "p1")


@step("idempotent", 1, draws(producer=PRODUCER, version=version_of("init_producer_id")))
def new_producer(session: Session, producer: str, version: int) -> Any:
    answer = session.call(init_producer_id.InitProducerIdRequest(None, 60_000), version)
    session.producers[producer] = (session.label_producer(answer.producer_id), answer.producer_epoch)
    return answer


@step(
    "idempotent",
    10,
    draws(
        producer=PRODUCER,
        topic=some("t0", "t1"),
        partition=some(0, 0, 0, 1),
        count=some(1, 1, 2, 3),
        sequence=some(0, 0, 0, 0, 0, 0, -1, -2, -3, -6, 1, 5),
        epoch=some(0, 0, 0, 0, 0, 0, 1, -1),
        version=version_of("produce"),
    ),
)
def send_again(
    session: Session, producer: str, topic: str, partition: int, count: int, sequence: int, epoch: int, version: int
) -> Any:
    """`sequence` is added to the right one, `epoch` to the producer's."""
    producer_id, known_epoch = session.producers.get(producer, (UNKNOWN_PRODUCER, 0))
    used_epoch = max(known_epoch + epoch, 0)
    place = (producer_id, used_epoch, session.topic_id(topic), partition)
    first = max(session.sequences.get(place, 0) + sequence, 0)
    records = batch(*[b"v"] * count, first_ms=FIRST_MS, producer_id=producer_id, producer_epoch=used_epoch, base_sequence=first)
    data = placed(session.named(topic, version, TOPIC_IDS_IN_PRODUCE), partition, records)
    answer = session.call(produce.ProduceRequest(None, -1, 5000, [data]), version)
    if not answer.responses[0].partition_responses[0].error_code:
        if sequence >= 0:
            session.sequences[place] = first + count
        if epoch > 0:
            session.producers[producer] = (producer_id, used_epoch)
    return answer


def fetch_topic(session: Session, topic: str, version: int, *partitions: fetch.FetchPartition) -> fetch.FetchTopic:
    if version >= TOPIC_IDS_IN_FETCH:
        return fetch.FetchTopic(topic_id=session.topic_id(topic), partitions=list(partitions))
    return fetch.FetchTopic(topic=session.name(topic), partitions=list(partitions))


def with_records(session: Session, answer: Any) -> Any:
    """The records as values, and each topic once: where a session's partitions are answered in another order than they came,
    Kafka has a topic twice, with other topics between; and the order of entries is masked.
    """
    merged: dict[Any, Any] = {}
    for topic in answer.responses:
        if (first := merged.setdefault((topic.topic, topic.topic_id), topic)) is not topic:
            first.partitions += topic.partitions
    answer.responses = list(merged.values())
    for topic in answer.responses:
        for part in topic.partitions:
            part.records = session.records(part.records)
            if part.aborted_transactions:
                part.aborted_transactions.sort(key=lambda each: each.first_offset)
    return answer


@step(
    "log",
    7,
    draws(
        topic=TOPIC_OF,
        partition=PARTITION,
        offset=lambda rng: rng.choice((0, 0, rng.randint(-1, 30))),
        isolation=some(0, 1),
        most_bytes=some(1 << 20, 1 << 20, 0, 100, 300),
        leader_epoch=some(-1, -1, -1, 0, 1),
        last_epoch=some(-1, -1, -1, 0, 3),
        version=version_of("fetch"),
    ),
)
def read(
    session: Session,
    topic: str,
    partition: int,
    offset: int,
    isolation: int,
    most_bytes: int,
    leader_epoch: int,
    last_epoch: int,
    version: int,
) -> Any:
    wanted = fetch.FetchPartition(partition, leader_epoch, offset, last_epoch, partition_max_bytes=most_bytes)
    topics = [fetch_topic(session, topic, version, wanted)]
    request = fetch.FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=isolation, topics=topics)
    return with_records(session, session.call(request, version))


@step(
    "sessions",
    8,
    draws(
        role=some("f0", "f1"),
        wanted=lambda rng: [
            [rng.choice(TOPICS), rng.choice((0, 0, 1, 2)), rng.randint(0, 12)] for _ in range(rng.choice((0, 0, 1, 2)))
        ],
        forgotten=lambda rng: [[rng.choice(TOPICS), rng.choice((0, 1))]] if rng.random() < 0.2 else [],
        epoch=some("next", "next", "next", "next", "next", "new", "new", "ahead", "behind", "close"),
        isolation=some(0, 0, 0, 1),
        version=some(7, 11, 12, 13, 15, 17, 18, 18, 18, 18, 18),
    ),
)
def read_on(
    session: Session, role: str, wanted: list[Any], forgotten: list[Any], epoch: str, isolation: int, version: int
) -> Any:
    session_id, following = session.fetch_sessions.get(role, (0, 0))
    if epoch == "new":
        session_id, following = 0, 0
    given = {"ahead": following + 1, "behind": max(following - 1, 0), "close": -1}.get(epoch, following)
    unique = {(topic, partition): offset for topic, partition, offset in wanted}
    topics = [
        fetch_topic(session, topic, version, fetch.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20))
        for (topic, partition), offset in unique.items()
    ]
    left = [
        fetch.ForgottenTopic(topic_id=session.topic_id(topic), partitions=[partition])
        if version >= TOPIC_IDS_IN_FETCH
        else fetch.ForgottenTopic(topic=session.name(topic), partitions=[partition])
        for topic, partition in forgotten
    ]
    request = fetch.FetchRequest(None, -1, None, 0, 1, 1 << 26, isolation, session_id, given, topics, left)
    answer = with_records(session, session.call(request, version))
    if answer.error_code or given == -1:
        session.fetch_sessions.pop(role, None)
    else:
        session.fetch_sessions[role] = (answer.session_id, given + 1 if answer.session_id else 0)
    return answer


@step(
    "log",
    4,
    draws(
        topic=TOPIC_OF,
        partition=PARTITION,
        timestamp=lambda rng: rng.choice((-1, -2, -3, -4, -5, -6, -7, FIRST_MS + rng.choice((-5_000_000, 0, 1, 1000, 90_000)))),
        isolation=some(0, 1),
        leader_epoch=some(-1, -1, -1, 0, 1),
        version=version_of("list_offsets"),
    ),
)
def find_offset(
    session: Session, topic: str, partition: int, timestamp: int, isolation: int, leader_epoch: int, version: int
) -> Any:
    wanted = list_offsets.ListOffsetsPartition(partition, leader_epoch, timestamp)
    topics = [list_offsets.ListOffsetsTopic(session.name(topic), [wanted])]
    answer = session.call(list_offsets.ListOffsetsRequest(-1, isolation, topics, 5000), version)
    found = answer.topics[0].partitions[0]
    found.timestamp = min(found.timestamp, 0) if of_broker(found.timestamp) else found.timestamp
    return answer


def of_broker(timestamp_ms: int) -> bool:
    """Returns whether a broker's clock made it: LogAppendTime, or a marker. Those of the walk are of yesterday."""
    return timestamp_ms > FIRST_MS + 100_000


@step(
    "log",
    2,
    draws(topic=TOPIC_OF, partition=PARTITION, offset=some(-1, 0, 1, 2, 4, 8, 20, -5), version=version_of("delete_records")),
)
def cut(session: Session, topic: str, partition: int, offset: int, version: int) -> Any:
    wanted = [delete_records.DeleteRecordsPartition(partition, offset)]
    topics = [delete_records.DeleteRecordsTopic(session.name(topic), wanted)]
    return session.call(delete_records.DeleteRecordsRequest(topics, 10_000), version)


@step(
    "log",
    1,
    draws(
        topic=TOPIC_OF,
        partition=PARTITION,
        current=some(-1, 0, 1),
        epoch=some(0, 0, 1, 5),
        version=version_of("offset_for_leader_epoch"),
    ),
)
def end_of_epoch(session: Session, topic: str, partition: int, current: int, epoch: int, version: int) -> Any:
    wanted = offset_for_leader_epoch.OffsetForLeaderPartition(partition, current, epoch)
    topics = [offset_for_leader_epoch.OffsetForLeaderTopic(session.name(topic), [wanted])]
    return session.call(offset_for_leader_epoch.OffsetForLeaderEpochRequest(-1, topics), version)


@step("idempotent", 2, draws(topic=some("t0", "t1"), partition=some(0, 1)))
def producers_of(session: Session, topic: str, partition: int) -> Any:
    topics = [describe_producers.TopicRequest(session.name(topic), [partition])]
    answer = session.call(describe_producers.DescribeProducersRequest(topics), 0)
    for each in answer.topics[0].partitions[0].active_producers:
        if of_broker(each.last_timestamp):
            each.last_timestamp = 0
    return answer

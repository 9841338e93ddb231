"""The load of a soak on one broker: a round of small things, the same every time, and now and then one of the larger ones.

All of it goes through one thread, request by request, so that two runs ask for the same things in the same order. When the broker
goes away in the middle of a round, the round ends with an OSError; what was asked for and not answered is known to be in doubt.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from ottla.wire.messages import (
    create_topics,
    delete_topics,
    fetch,
    find_coordinator,
    init_producer_id,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from ottla.wire.records import Record, build_batch
from scripts.soak.churn import Churn
from scripts.soak.client import LATEST, Client, Refused, error_of, read
from scripts.soak.promises import Committed, Kept, Keys, Log, Topics, Transactions, now_ms
from scripts.soak.transacting import Transacting

SMALL, AGES, SIZES, KEYED, TRANSACTED = "small", "ages", "sizes", "keyed", "transacted"
RETENTION_MS: Final = 120_000
RETENTION_BYTES: Final = 3 << 20
_AGED: Final = {"retention.ms": str(RETENTION_MS), "segment.ms": "10000", "file.delete.delay.ms": "5000"}
TOPICS: Final[dict[str, dict[str, str]]] = {
    SMALL: _AGED,
    AGES: _AGED,
    SIZES: {"retention.bytes": str(RETENTION_BYTES), "segment.bytes": str(1 << 20), "file.delete.delay.ms": "5000"},
    KEYED: {
        "cleanup.policy": "compact",
        "segment.ms": "10000",
        "min.cleanable.dirty.ratio": "0.2",
        "delete.retention.ms": "30000",
        "file.delete.delay.ms": "5000",
    },
    TRANSACTED: _AGED,
}
PADDING: Final = bytes(range(256)) * 64
KEYS: Final = 200
SMALL_A_ROUND: Final = 3
EVERY: Final = 5
"""One round in so many does one of the larger things."""
MADE_TOPICS: Final = 10
ZSTD: Final = 4
_UNKNOWN_TOPIC: Final = 3
_EXISTS: Final = 36
_COMMITTER: Final = "committer"


class Numbers:
    """An idempotent producer's id, epoch and next sequence; a batch without an answer is sent again with the same ones."""

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id, self.producer_epoch, self.next = producer_id, producer_epoch, 0


class Load:
    """The load, and what the broker promised to it."""

    def __init__(self, port: int, ruler: Callable[[], float]) -> None:
        self.port, self._ruler = port, ruler
        self.rounds = 0
        self.waits: list[float] = []
        """Seconds that small Produce requests took since they were last taken."""
        self.rulers: list[float] = []
        """Seconds that the ruler says beside each of them."""
        self.logs = {
            AGES: Log(AGES, retention_ms=RETENTION_MS),
            SIZES: Log(SIZES, retention_bytes=RETENTION_BYTES),
            SMALL: Log(SMALL, retention_ms=RETENTION_MS),
        }
        self.keys = Keys(KEYED)
        self.transacting = Transacting(Transactions(TRANSACTED, RETENTION_MS, parts=2))
        self.topics, self.committed = Topics(), Committed()
        self.churn = Churn(port)
        self._doubt: dict[str, bytes] = {}
        """Topic -> a batch of its idempotent producer that was not answered."""
        self._sequences: dict[str, Numbers] = {}
        self._number = self._made = 0

    def prepare(self) -> None:
        """Creates the topics."""
        self.connect()
        for name, settings in TOPICS.items():
            self._create(name, 1, settings)
        self.client.sure(find_coordinator.FindCoordinatorRequest(_COMMITTER, 0), 2)  # makes the internal topic

    def connect(self) -> None:
        """Opens the connections that stay, and begins a fetch session."""
        self.client = Client(self.port)
        self.churn.connect(self.client)
        self.session = Client(self.port)
        self._session, self._epoch = 0, 0
        self._followed = {name: self.client.offset(name, 0, LATEST) for name in (AGES, SIZES)} if self._number else {}

    def disconnect(self) -> None:
        for each in (self.client, self.session, self.churn):
            each.close()

    # A round

    def round(self) -> None:
        """Raises OSError when the broker goes away, and Refused."""
        self.rounds += 1
        for _ in range(SMALL_A_ROUND):
            self._small()
        self._idempotent(AGES, 4096)
        self._idempotent(SIZES, 16_384)
        self._keyed()
        self._follow()
        self._commit()
        self._fleeting()
        large: list[Callable[[], None]] = [
            lambda: self.transacting.run(self.client, self.rounds // EVERY % 3 > 0),
            self.churn.classic_group,
            self.churn.consumer_group,
            self._made_topic,
            self.churn.come_and_go,
            self.churn.share_group,
            self._new_producers,
        ]
        if self.rounds % EVERY == 0:
            large[self.rounds // EVERY % len(large)]()

    def _value(self, size: int) -> bytes:
        self._number += 1
        return (b"%d " % self._number + PADDING)[:size]

    def _produce(self, topic: str, batch: bytes) -> int:
        """Returns the offset. Raises Refused."""
        data = produce.TopicProduceData(name=topic, partition_data=[produce.PartitionProduceData(0, batch)])
        answer = self.client.sure(produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), 9)
        return int(answer.responses[0].partition_responses[0].base_offset)

    def _small(self) -> None:
        value, at = self._value(100), now_ms()
        batch = build_batch([Record(0, at, None, value)])
        self.rulers.append(self._ruler())
        began = time.perf_counter()
        offset = self._produce(SMALL, batch)
        self.waits.append(time.perf_counter() - began)
        self.logs[SMALL].records[offset] = Kept(value, at)

    def _idempotent(self, topic: str, size: int) -> None:
        if topic not in self._sequences:
            self._sequences[topic] = Numbers(*self._new_id())
        of = self._sequences[topic]
        if topic in self._doubt:
            self._repeat(topic)
        value, at = self._value(size), now_ms()
        batch = build_batch(
            [Record(0, at, None, value)],
            producer_id=of.producer_id,
            producer_epoch=of.producer_epoch,
            base_sequence=of.next,
            codec=ZSTD if topic == AGES and self.rounds % 2 else 0,
        )
        of.next += 1
        self._doubt[topic] = batch
        offset = self._produce(topic, batch)
        del self._doubt[topic]
        self.logs[topic].records[offset] = Kept(value, at)

    def _repeat(self, topic: str) -> None:
        """Sends the batch that had no answer again: the broker takes it if it has not."""
        self._produce(topic, self._doubt[topic])
        del self._doubt[topic]

    def _keyed(self) -> None:
        key = b"key-%d" % (self._number * 7 % KEYS)
        value = None if self.rounds % 10 == 0 else self._value(200)
        self.keys.asked[key].add(value)
        self._produce(KEYED, build_batch([Record(0, now_ms(), key, value)]))
        self.keys.acknowledged(key, value)

    def _follow(self) -> None:
        """Reads on in the fetch session."""
        wanted = [
            fetch.FetchTopic(topic=name, partitions=[fetch.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)])
            for name, offset in self._followed.items()
        ]
        request = fetch.FetchRequest(max_bytes=1 << 24, session_id=self._session, session_epoch=self._epoch, topics=wanted)
        self._followed.clear()
        answer = self.session.call(request, 12)
        if answer.error_code:  # pushed out by the sessions that come and go
            self._session = self._epoch = 0
            self._followed = {name: self.client.offset(name, 0, LATEST) for name in (AGES, SIZES)}
            return
        self._session, self._epoch = answer.session_id, self._epoch + 1
        for topic in answer.responses:
            data = topic.partitions[0]
            if data.error_code == 0 and data.records:
                self._followed[topic.topic] = data.high_watermark
            elif data.error_code:
                self._followed[topic.topic] = self.client.offset(topic.topic, 0, LATEST)

    def _commit(self) -> None:
        self.committed.asked += 1
        part = offset_commit.OffsetCommitRequestPartition(0, self.committed.asked, committed_metadata="")
        request = offset_commit.OffsetCommitRequest(
            _COMMITTER, topics=[offset_commit.OffsetCommitRequestTopic(AGES, partitions=[part])]
        )
        self.client.sure(request, 8)
        self.committed.acknowledged = self.committed.asked

    def _new_id(self) -> tuple[int, int]:
        answer = self.client.sure(init_producer_id.InitProducerIdRequest(None, 60_000), 4)
        return answer.producer_id, answer.producer_epoch

    def _fleeting(self) -> None:
        """Has a new producer write one record."""
        producer_id, producer_epoch = self._new_id()
        value, at = self._value(50), now_ms()
        batch = build_batch([Record(0, at, None, value)], producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0)
        self.logs[SMALL].records[self._produce(SMALL, batch)] = Kept(value, at)

    def _new_producers(self) -> None:
        for topic in list(self._sequences):
            if topic in self._doubt:
                self._repeat(topic)
            del self._sequences[topic]

    # Topics

    def _create(self, name: str, partitions: int, settings: dict[str, str]) -> None:
        configs = [create_topics.CreatableTopicConfig(*pair) for pair in settings.items()]
        topic = create_topics.CreatableTopic(name, partitions, 1, [], configs)
        self.client.sure(create_topics.CreateTopicsRequest([topic], 30_000), 7, _EXISTS)

    def _made_topic(self) -> None:
        """Creates a topic, writes to it, and deletes the oldest of those that were made, and those in doubt."""
        self._made += 1
        name = f"made-{self._made}"
        self.topics.unknown.add(name)
        self._create(name, 2, {})
        self.topics.there.append(name)
        self.topics.unknown.discard(name)
        self._produce(name, build_batch([Record(0, now_ms(), None, b"one")]))
        if len(self.topics.there) > MADE_TOPICS:
            self._delete_topic(self.topics.there[0])
        for doubtful in sorted(self.topics.unknown):
            self._delete_topic(doubtful)

    def _delete_topic(self, name: str) -> None:
        self.topics.unknown.add(name)
        answer = self.client.call(delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(name)], timeout_ms=30_000), 6)
        if error_of(answer) not in (0, _UNKNOWN_TOPIC):  # unknown: it was never made, or deleted just before the broker died
            raise Refused("DeleteTopics", error_of(answer))
        if name in self.topics.there:
            self.topics.there.remove(name)
        self.topics.unknown.discard(name)
        self.topics.gone.add(name)

    # The check

    def check(self) -> int:
        """Reads everything that was promised; returns how many records. Raises AssertionError."""
        count = 0
        for topic, log in self.logs.items():
            start, end, found = read(self.client, topic)
            log.check(start, end, found, now_ms())
            count += len(log.records)
        self.keys.check(read(self.client, KEYED)[2])
        transactions = self.transacting.promises
        transactions.check(read(self.client, TRANSACTED, committed=True)[2], now_ms())
        self.topics.check(self._topic_names())
        self.committed.check(self._committed_offset())
        return count + len(self.keys.last) + len(transactions.ended)

    def _topic_names(self) -> set[str]:
        answer: Any = self.client.call(metadata.MetadataRequest(None, False), 12)
        return {topic.name for topic in answer.topics}

    def _committed_offset(self) -> int:
        wanted = [offset_fetch.OffsetFetchRequestTopics(AGES, partition_indexes=[0])]
        group = offset_fetch.OffsetFetchRequestGroup(_COMMITTER, topics=wanted)
        answer = self.client.sure(offset_fetch.OffsetFetchRequest(groups=[group]), 8)
        return int(answer.groups[0].topics[0].partitions[0].committed_offset)

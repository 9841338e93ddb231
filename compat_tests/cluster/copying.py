"""Topics that are copied in transactions (consume, transform, produce), record for record, and what a reader of committed records
finds in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from compat_tests.cluster.mixed import Mixed
from compat_tests.topics import committed_records
from compat_tests.waiting import NoEndError, in_time

T = TypeVar("T")
PATIENCE_S: Final = 60.0
_STUCK_S: Final = 20.0
"""As long as a transaction may take: a producer that has not sent its offsets by then is taken for stuck."""


class Copier:
    """Copies a topic into another, record for record, in transactions that commit where its group has read to."""

    def __init__(
        self, cluster: Mixed, source: str, target: str, name: str, protocol: str, told: Counter[str] | None = None
    ) -> None:
        """`told` counts the errors that ended a transaction, by name, and how often its producer was stuck."""
        self._name, self._bootstrap = name, cluster.bootstrap
        self.source, self.target, self.group = source, target, f"{source}-{name}"
        self.consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": self.group, "group.protocol": protocol}
            | {"enable.auto.commit": False, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
            # It is the producer that commits, so only a heartbeat tells the consumer that its coordinator is elsewhere. With one
            # in 3 s, each may find that it has moved again, until the session is over.
            | ({"heartbeat.interval.ms": 500} if protocol == "classic" else {})
        )
        self.consumer.subscribe([source])
        self.producer = self._make_producer()
        self.copied = 0
        self._told = Counter[str]() if told is None else told

    def _make_producer(self) -> Producer:
        """Returns one that has the transactional id: what another one has begun with it is aborted."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": self._name,
                "transaction.timeout.ms": 20_000,
                "linger.ms": 0,
            }
            # librdkafka sends offsets to the group's coordinator that it knows, and waits for it if it is dead, until it has not
            # used this knowledge for so long.
            | {"metadata.max.age.ms": 2_000, "topic.metadata.refresh.interval.ms": 1_000}
        )
        producer.init_transactions(PATIENCE_S)
        return producer

    def copy(self, most: int, wait_s: float = 1.0) -> int:
        """Copies up to `most` records in one transaction; returns how many. It takes `wait_s` if there are fewer."""
        records = [record for record in self.consumer.consume(most, wait_s) if record.error() is None]
        if not records:
            return 0
        producer = self.producer  # which a call that hangs goes on with, even when there is another one
        producer.begin_transaction()
        try:
            for record in records:
                partition = record.partition()
                assert partition is not None
                self.producer.produce(self.target, record.value(), record.key(), partition=partition)
            positions = self.consumer.position(self.consumer.assignment())
            member = self.consumer.consumer_group_metadata()
            # librdkafka 2.16 gives up a broker that is not in the metadata for a moment, as one that stops in order, of whichever
            # kind. If it was the group's coordinator, a TxnOffsetCommit waits for a connection to it that nobody makes any more,
            # and no timeout ends that (its issues 5511 and 5456): another producer has to take the transactional id over.
            in_time(lambda: _until_clear(lambda: producer.send_offsets_to_transaction(positions, member, PATIENCE_S)), _STUCK_S)
            _until_clear(lambda: self.producer.commit_transaction(PATIENCE_S))
        except NoEndError:
            self._told["stuck"] += 1
            self.producer = self._make_producer()
            self._rewind()
            return 0
        except KafkaException as error:
            failure = error.args[0]
            assert isinstance(failure, KafkaError)
            assert failure.txn_requires_abort(), failure
            _until_clear(lambda: self.producer.abort_transaction(PATIENCE_S))
            self._rewind()
            self._told[failure.name()] += 1
            return 0
        self.copied += len(records)
        return len(records)

    def _rewind(self) -> None:
        """Goes on reading where the last transaction that was committed has ended."""
        for position in _until_clear(lambda: self.consumer.committed(self.consumer.assignment(), PATIENCE_S)):
            self.consumer.seek(TopicPartition(position.topic, position.partition, max(position.offset, 0)))

    def close(self) -> None:
        self.consumer.close()


def _until_clear(step: Callable[[], T]) -> T:
    """Does what may have to be done again, up to five times. Raises KafkaException."""
    for _ in range(4):
        try:
            return step()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
    return step()


def fill(cluster: Mixed, topic: str, count: int, partitions: int) -> None:
    """Produces the numbers below `count`, to each of the partitions in turn."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % partitions)
    assert producer.flush(60) == 0


def committed_values(cluster: Mixed, topic: str, partitions: int) -> Counter[int]:
    """Returns how often a reader of committed records finds each number."""
    return Counter(int(message.value() or b"") for message in committed_records(cluster.bootstrap, topic, partitions))

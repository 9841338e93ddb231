"""Groups at work: members of a classic or a consumer group, which commit how far they have read, and of a share group, which
acknowledge each record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, ShareConsumer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from compat_tests.cluster.coordinators import Described
from compat_tests.cluster.mixed import Mixed
from compat_tests.cluster.traffic import QUIET
from compat_tests.cluster.work import PARTITIONS, PATIENCE_S, Noted, Position, Work, counted, passes
from compat_tests.waiting import wait_for

AT_ONCE: Final = 5
"""So many records at most are committed at once."""
_LEADER_GONE: Final = frozenset(("UNKNOWN_TOPIC_OR_PART", "INVALID_SHARE_SESSION_EPOCH", "SHARE_SESSION_NOT_FOUND"))
"""The errors that a member may get for an acknowledgement when another broker has come to lead the partition, where nothing is in
flight: the records come again. Apache Kafka and ottla say so alike."""


class _Group(Work):
    """A group whose members each have a thread."""

    def __init__(self, cluster: Mixed) -> None:
        super().__init__(cluster)
        self.group = f"{self.kind}-group"
        self.seen: Counter[Position] = Counter()

    def described(self) -> Described:
        return self.coordinators.described(self.kind, self.group)

    def _unread(self) -> list[str]:
        wanted = {(index, offset) for (_, index), end in self.ends().items() for offset in range(end)}
        return counted("records were never read", sorted(wanted - self.seen.keys()))

    def _take(self, records: Iterable[Message]) -> list[Position]:
        """Returns where the records are that came, and counts the errors among what came."""
        positions = []
        for record in records:
            if error := record.error():
                self.told[error.name()] += 1
                continue
            partition, offset = record.partition(), record.offset()
            assert partition is not None
            assert offset is not None
            positions.append((partition, offset))
        return positions


class Members(_Group):
    """Members that commit after every few records."""

    def __init__(self, cluster: Mixed) -> None:
        super().__init__(cluster)
        self.assignments = 0
        """The number of times that a member was told what it has."""
        self._settled_assignments = 0
        self._acknowledged: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)

    def open(self) -> None:
        for _ in range(self.members):
            consumer = Consumer(
                {"bootstrap.servers": self.cluster.bootstrap, "group.id": self.group, "group.protocol": self.kind}
                | {"auto.offset.reset": "earliest", "enable.auto.commit": False, "reconnect.backoff.max.ms": 200},
                logger=QUIET,
            )
            consumer.subscribe([self.topic], on_assign=self._assigned)
            self._spawn(partial(self._run, consumer))

    def _assigned(self, consumer: Any, partitions: Any) -> None:
        with self._lock:
            self.assignments += 1

    def settle(self) -> None:
        """See Work. Waits until the members know of it, too."""
        super().settle()
        wait_for(lambda: self.assignments >= self.members, "the members know what they have", PATIENCE_S)
        self._settled_assignments = self.assignments

    @property
    def done(self) -> int:
        with self._lock:
            return sum(self._acknowledged.values())

    def _run(self, consumer: Consumer) -> None:
        try:
            while not self._stop.is_set():
                positions = self._take(consumer.consume(AT_ONCE, 0.1))
                with self._lock:
                    self.seen.update(positions)
                if positions:
                    self._commit(consumer, {partition: offset + 1 for partition, offset in positions})
        finally:
            consumer.close()

    def _commit(self, consumer: Consumer, ends: dict[int, int]) -> None:
        offsets = [TopicPartition(self.topic, *end) for end in ends.items()]
        while not self._stop.is_set():
            try:
                for each in consumer.commit(offsets=offsets, asynchronous=False) or ():
                    if each.error is not None:
                        raise KafkaException(each.error)
            except KafkaException as error:
                if not passes(error, self.told):
                    raise
                self._stop.wait(0.05)
            else:
                with self._lock:
                    self._acknowledged |= ends
                return

    def noted(self) -> Noted:
        with self._lock:
            return dict(self._acknowledged)

    def lost(self, noted: Noted) -> list[str]:
        found = self.coordinators.committed(self.group)
        return [
            f"{self.kind}: {end} of partition {index} was committed, and it is {found.get((self.topic, index))}"
            for index, end in noted.items()
            if end > found.get((self.topic, index), 0)
        ]

    def faults(self) -> list[str]:
        found = self.coordinators.committed(self.group)
        wrong = [f"{found} is committed of {self.ends()}"] * (found != self.ends())
        again = sorted(position for position, count in self.seen.items() if count > 1)
        return [f"{self.kind}: {each}" for each in wrong + self._unread() + counted("records were read again", again)]

    def outcome(self) -> dict[str, object]:
        """See Work."""
        committed = self.coordinators.committed(self.group)
        return {
            **super().outcome(),
            "assignments": self.assignments - self._settled_assignments,
            "behind": self.behind(committed),
        }


class ClassicGroup(Members):
    kind = "classic"


class ConsumerGroup(Members):
    kind = "consumer"


class ShareGroup(_Group):
    """Members that acknowledge what they poll. A record that was acknowledged must not come again; one whose acknowledgement
    failed may."""

    kind = "share"

    def __init__(self, cluster: Mixed) -> None:
        super().__init__(cluster)
        self._acknowledged: set[Position] = set()
        self._unsure: set[Position] = set()
        self._doubled: list[Position] = []

    def open(self) -> None:
        earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, self.group, incremental_configs=[earliest])
        for altered in self.cluster.admin.incremental_alter_configs([resource]).values():
            altered.result(30)
        for _ in range(self.members):
            consumer = ShareConsumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": self.group}, logger=QUIET)
            consumer.subscribe([self.topic])
            self._spawn(partial(self._run, consumer))

    @property
    def done(self) -> int:
        with self._lock:
            return len(self._acknowledged | self._unsure)

    def _run(self, consumer: ShareConsumer) -> None:
        try:
            while not self._stop.is_set():
                if polled := set(self._take(consumer.poll(0.2))):
                    self._acknowledge(consumer, polled)
                else:
                    self._stop.wait(0.01)
        finally:
            consumer.close()

    def _acknowledge(self, consumer: ShareConsumer, polled: set[Position]) -> None:
        with self._lock:
            self.seen.update(polled)
            self._doubled += sorted(polled & self._acknowledged)
        failed: set[int] = set()
        for where, error in consumer.commit_sync(30.0).items():
            if error is not None:
                failed.add(where.partition)
                failure = error if isinstance(error, KafkaException) else KafkaException(error)
                if not passes(failure, self.told) and failure.args[0].name() not in _LEADER_GONE:
                    raise failure
        with self._lock:
            self._acknowledged |= {each for each in polled if each[0] not in failed}
            self._unsure |= {each for each in polled if each[0] in failed}

    def faults(self) -> list[str]:
        """See Work. Waits until the group has done with everything, since what was not acknowledged comes again."""
        wait_for(
            lambda: self.coordinators.share_lags(self.group) == dict.fromkeys(self.ends(), 0),
            lambda: f"{self.coordinators.share_lags(self.group)} are left, told {self.told}\n{self.cluster.tails()}",
            PATIENCE_S,
        )
        return [f"{self.kind}: {each}" for each in counted("records came again", self._doubled) + self._unread()]

    def outcome(self) -> dict[str, object]:
        """See Work."""
        lags = self.coordinators.share_lags(self.group)
        return {**super().outcome(), "behind": {index: lag for (_, index), lag in sorted(lags.items())}}

"""Reads records for a page: from somewhere onwards, or the newest ones, of some partitions, with or without a filter.

Each partition gives its share of the records that were asked for, so that a page shows something of all. Shares are rounded up;
what is too much then is left to the next page. Reading onwards, a page ends with the offset that each partition has come to,
where the next page goes on. Reading the newest, it looks at the last offsets of each partition, and at more and more of them
while it finds too few: offsets have gaps, and a filter leaves out most.

A page takes so many seconds, records and bytes, whatever a topic holds (`Budget`); what it did not look at, it says. Of a record
in a list it keeps what is shown, since keys, values and headers may have megabytes each.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.commands.clients.client import Cluster, explain, message_error
from ottla.commands.clients.partition import Partition
from ottla.commands.output import Failure
from ottla.commands.positions import Position, Span, resolve, spans
from ottla.commands.record_text import timestamp_of
from ottla.console.errors import Missing
from ottla.console.records.decoding import Decode, decode_of
from ottla.console.records.filters import Filter, Headers
from ottla.console.rendering.text import beginning
from ottla.console.running.calls import AT_ONCE

if TYPE_CHECKING:
    from confluent_kafka import Consumer, IsolationLevel, Message
    from confluent_kafka.admin import AdminClient

MAX_RECORDS: Final = 100_000
MAX_BYTES: Final = 64 << 20
MAX_S: Final = 5.0
_AT_ONCE: Final = 500
_POLL_S: Final = 0.1
REST_S: Final = 0.1
"""For how long a tail rests when it has taken all that has come."""
_WIDER: Final = 8
"""The factor by which more offsets are looked at when too few records were found."""
_FIRST: Final = 32
"""The number of offsets that are looked at first: their records fit into the budget also if they are as large as a topic usually
allows."""
WAIT_MS: Final = 5
"""The time for which a broker may wait for records while a page is made, which knows how far it reads: when a page looks at more
offsets, what it asked for at the end of those before is still waiting, and the answers come one after the other."""
HEADERS_SHOWN: Final = 3
"""The most headers of a record that a list shows."""
NAME_SHOWN: Final = 60
"""The most characters of a header's name that it shows."""


class Record(NamedTuple):
    """A record. `time_ms` is None if it has none; `headers` is None if the client cannot read their names."""

    partition: int
    offset: int
    time_ms: int | None
    is_append_time: bool
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    more_headers: int = 0
    """The number of headers beside these."""
    problem: str = ""
    """The reason why a record of one of Kafka's own topics could not be decoded; key and value are then as they were."""


class Read(NamedTuple):
    """Records, the newest first or in the order of their time; how many were looked at; by partition where the next page begins
    (or, for the newest, where the earlier ones end). `is_complete` says that the budget was enough for this page, and `has_more`
    that there is another one."""

    records: list[Record]
    looked_at: int
    next: Mapping[int, int]
    is_complete: bool
    has_more: bool


@dataclass
class Budget:
    """The bounds of what a page may take: it is spent when one of the three is."""

    clock: Callable[[], float]
    records: int = MAX_RECORDS
    size_bytes: int = MAX_BYTES
    seconds: float = MAX_S
    looked_at: int = 0
    _all_bytes: int = field(init=False)
    _ends_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._all_bytes = self.size_bytes
        self._ends_at = self.clock() + self.seconds

    def take(self, message: Message) -> None:
        self.looked_at += 1
        self.records -= 1
        self.size_bytes -= len(message.value() or b"") + len(message.key() or b"")
        for name, value in _headers_of(message) or ():
            self.size_bytes -= len(name) + len(value or b"")

    @property
    def records_left(self) -> int:
        """The number of records that there may be yet, if they are as large as those before."""
        mean_bytes = max(1, (self._all_bytes - self.size_bytes) // max(1, self.looked_at))
        return min(self.records, self.size_bytes // mean_bytes)

    @property
    def is_spent(self) -> bool:
        return self.records <= 0 or self.size_bytes <= 0 or self.clock() > self._ends_at


class Reader:
    """Reads a topic with a consumer of its own, which is closed at the end of `with`. A broker that has no records may wait for
    `wait_ms`; the consumer asks for more as long as fewer than `ahead` records of a partition wait to be taken."""

    def __init__(
        self,
        cluster: Cluster,
        admin: AdminClient,
        topic: str,
        *,
        committed: bool,
        clock: Callable[[], float],
        wait_ms: int = WAIT_MS,
        ahead: int = 1000,
    ) -> None:
        from confluent_kafka import IsolationLevel

        self.cluster = cluster
        self.admin = admin
        self.topic = topic
        self.isolation: IsolationLevel = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        self.clock = clock
        self.decode: Decode | None = decode_of(topic)
        self._led: set[int] = set()
        self._consumer: Consumer = cluster.consumer(
            {
                "group.id": "ottla-console",  # never joined and never committed to: librdkafka wants one
                "enable.auto.commit": "false",
                "enable.auto.offset.store": "false",
                "enable.partition.eof": "true",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "fetch.wait.max.ms": str(wait_ms),
                "fetch.message.max.bytes": "1048576",
                "fetch.max.bytes": "8388608",
                "queued.min.messages": str(ahead),
                "fetch.queue.backoff.ms": "5",
                "queued.max.messages.kbytes": str(MAX_BYTES // AT_ONCE >> 10),  # of all pages that read at once: MAX_BYTES
            }
        )

    def __enter__(self) -> Reader:
        """Lets the consumer know the topic's leaders first; it may take a second otherwise until it asks for them. Raises
        Missing, Failure."""
        try:
            found = self.cluster.reach(self._consumer, self.topic).topics.get(self.topic)
            if found is None or not found.partitions:
                raise Missing(f"There is no topic {self.topic}.")
        except BaseException:
            self._consumer.close()
            raise
        self._led = {number for number, one in found.partitions.items() if one.leader >= 0}
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def spans(self, numbers: Sequence[int]) -> dict[int, Span]:
        """Returns the offsets that each partition has, without those that have no leader. Raises KafkaException, Failure."""
        led = [Partition(self.topic, number) for number in numbers if number in self._led]
        found = spans(self.cluster, self.admin, led, self.isolation)
        return {partition.number: span for partition, span in found.items()}

    def resolve(self, place: Position, have: Mapping[int, Span]) -> dict[int, int]:
        """Returns the offset that the place means in each partition."""
        by_partition = {Partition(self.topic, number): span for number, span in have.items()}
        found = resolve(self.cluster, self.admin, place, by_partition, self.isolation)
        return {partition.number: offset for partition, offset in found.items()}

    def onwards(self, starts: Mapping[int, int], have: Mapping[int, Span], count: int, wanted: Filter) -> Read:
        """Returns up to `count` records, from the given offset of each partition on."""
        share = -(-count // max(1, len(starts)))
        budget = Budget(self.clock)
        found: dict[int, list[Record]] = {number: [] for number in starts}
        until = {number: have[number].end for number in starts}
        begun = {number: max(offset, have[number].begin) for number, offset in starts.items()}

        def take(number: int, message: Message) -> bool:
            if self.fits(wanted, message):
                found[number].append(brief_of(message, self.decode))
            return len(found[number]) >= share

        reached = self._scan(begun, until, budget, take)
        records = list(heapq.merge(*found.values(), key=_time_of))
        is_complete = all(len(found[number]) >= share or reached[number] >= until[number] for number in reached)
        for record in reversed(records[count:]):
            reached[record.partition] = record.offset
        has_more = any(reached[number] < until[number] for number in reached)
        return Read(records[:count], budget.looked_at, reached, is_complete, has_more)

    def newest(self, ends: Mapping[int, int], have: Mapping[int, Span], count: int, wanted: Filter) -> Read:
        """Returns up to `count` records, the last before the given offset of each partition."""
        share = -(-count // max(1, len(ends)))
        budget = Budget(self.clock)
        until = {number: min(end, have[number].end) for number, end in ends.items()}
        width = min(share * _WIDER if wanted else share, _FIRST // max(1, len(ends)), budget.records // max(1, len(ends)))
        best: dict[int, deque[Record]] = {number: deque(maxlen=share) for number in until}
        lowest = dict(until)
        is_complete = True
        while is_complete:
            short = [number for number, of in best.items() if len(of) < share and lowest[number] > have[number].begin]
            if not short:
                break
            begun = {number: max(have[number].begin, lowest[number] - max(1, width)) for number in short}
            found: dict[int, deque[Record]] = {number: deque(maxlen=share - len(best[number])) for number in short}

            def take(number: int, message: Message, found: dict[int, deque[Record]] = found) -> bool:
                if self.fits(wanted, message):
                    found[number].append(brief_of(message, self.decode))
                return False

            reached = self._scan(begun, {number: lowest[number] for number in short}, budget, take)
            read = [number for number in short if reached[number] >= lowest[number]]
            is_complete = len(read) == len(short)
            if not read and lowest == until:  # or the page would be empty, and the link to the earlier ones lead to it again
                read = short
            for number in read:
                best[number].extendleft(reversed(found[number]))
                lowest[number] = begun[number]
            width = min(width * _WIDER, budget.records_left // len(short))
        cut = {number: of[0].offset if len(of) == share else lowest[number] for number, of in best.items()}
        records = list(heapq.merge(*(reversed(of) for of in best.values()), key=_time_of, reverse=True))
        for record in reversed(records[count:]):
            cut[record.partition] = record.offset + 1
        has_more = any(offset > have[number].begin for number, offset in cut.items())
        return Read(records[:count], budget.looked_at, cut, is_complete, has_more)

    def fits(self, wanted: Filter, message: Message) -> bool:
        """Returns whether a record is wanted: as it is shown, so that one of Kafka's own topics is looked at decoded."""
        if not wanted:
            return True
        key, value = message.key(), message.value()
        if self.decode is not None:
            key, value, _ = self.decode(key, value)
        return wanted.fits(key, value, lambda: _headers_of(message))

    def one(self, number: int, offset: int, have: Span) -> Record | None:
        """Returns the record at this offset; if there is none, the next one; None if there is none after it, either."""
        found: list[Record] = []

        def take(_: int, message: Message) -> bool:
            found.append(record_of(message))
            return True

        self._scan({number: max(offset, have.begin)}, {number: have.end}, Budget(self.clock), take)
        return found[0] if found else None

    def follow(
        self, starts: Mapping[int, int], is_over: Callable[[], bool], rest: Callable[[float], object]
    ) -> Iterator[list[Message]]:
        """Yields the records from the given offset of each partition on as they come; no records if none came for a moment.
        Raises Failure.

        With `ahead` 1 the consumer asks for no more until it is looked at again. So it rests after some have come, or where many
        clients write little, there would be a request for each few records, which cost the broker several times what their
        writing does. The second look takes what came first in the rest, and makes room for the others.
        """
        from confluent_kafka import TopicPartition

        self._consumer.assign([TopicPartition(self.topic, number, offset) for number, offset in sorted(starts.items())])
        while not is_over():
            first = self._consumer.poll(_POLL_S)
            found = [] if first is None else [first, *self._consumer.consume(_AT_ONCE, 0)]
            yield [message for message in found if not self._is_event(message)]
            if 0 < len(found) <= _AT_ONCE:
                rest(REST_S)
                yield [message for message in self._consumer.consume(_AT_ONCE, 0) if not self._is_event(message)]

    def _scan(
        self,
        begun: Mapping[int, int],
        until: Mapping[int, int],
        budget: Budget,
        take: Callable[[int, Message], bool],
    ) -> dict[int, int]:
        """Reads the partitions from `begun` to `until`, until `take` has enough of one (it returns True) or the budget is spent.
        Returns the offset that each partition has come to. Raises Failure."""
        from confluent_kafka import TopicPartition

        reached = dict(begun)
        open_ = {number for number, offset in begun.items() if offset < until[number]}
        if not open_:
            return reached
        self._consumer.assign([TopicPartition(self.topic, number, begun[number]) for number in sorted(open_)])
        while open_ and not budget.is_spent:
            first = self._consumer.poll(_POLL_S)
            if first is None:
                continue
            for message in (first, *self._consumer.consume(_AT_ONCE, 0)):
                number = message.partition() or 0
                if number not in open_ or budget.is_spent:
                    continue
                if self._is_event(message):
                    reached[number] = until[number]
                    open_.discard(number)
                    continue
                offset = message.offset() or 0
                if offset < reached[number]:
                    continue  # of a scan before this one
                if offset >= until[number]:
                    reached[number] = until[number]
                    open_.discard(number)
                    continue
                budget.take(message)
                has_enough = take(number, message)
                reached[number] = offset + 1
                if has_enough or offset + 1 >= until[number]:
                    open_.discard(number)
        self._consumer.unassign()
        return reached

    def _is_event(self, message: Message) -> bool:
        """Returns whether this is the end of the partition instead of a record. Raises Failure for an error."""
        error = message_error(message)
        if error is None:
            return False
        if error.name() == "_PARTITION_EOF":
            return True
        raise Failure(f"{self.topic} [{message.partition()}]: {explain(error)}")


def record_of(message: Message) -> Record:
    """Returns a record as a page needs it."""
    kind, _ = message.timestamp()
    time_ms = timestamp_of(message)
    return Record(
        message.partition() or 0,
        message.offset() or 0,
        None if time_ms < 0 else time_ms,
        kind == 2,
        message.key(),
        message.value(),
        _headers_of(message),
    )


def brief_of(message: Message, decode: Decode | None = None) -> Record:
    """Returns as much of a record as a list shows, decoded first if that is given."""
    record = record_of(message)
    if decode is not None:
        key, value, problem = decode(record.key, record.value)
        record = record._replace(key=key, value=value, problem=problem)
    headers = record.headers
    return record._replace(
        key=beginning(record.key),
        value=beginning(record.value),
        headers=headers and tuple((name[:NAME_SHOWN], beginning(value)) for name, value in headers[:HEADERS_SHOWN]),
        more_headers=len(headers[HEADERS_SHOWN:]) if headers else 0,
    )


def _headers_of(message: Message) -> Headers | None:
    try:
        found: Any = message.headers()
    except (SystemError, UnicodeDecodeError):  # the first is how the second may arrive from C
        return None
    return tuple(found or ())


def _time_of(record: Record) -> tuple[int, int]:
    return (-1 if record.time_ms is None else record.time_ms), record.offset

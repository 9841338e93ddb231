"""Records without a client: a test appends some, to seed a topic, and reads what is there.

What is appended goes the way of a Produce with acks=all: the handler checks and validates it, notes the time of the append where
the topic says so, wakes the fetches that wait, and answers when all in-sync replicas have it. Quotas, rights and faults are
for clients, and do not count here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.log.errors import LogError
from ottla.log.transactions import collect_aborted
from ottla.server.base.answers import wait_for
from ottla.server.handlers import produce
from ottla.server.inspect.texts import text_of
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.server.testkit.fields import Fields, Refused
from ottla.server.testkit.looks.finding import find_topic
from ottla.server.testkit.looks.names import take_limit
from ottla.server.testkit.looks.partitioner import partition_of
from ottla.server.testkit.looks.texts import bytes_of
from ottla.wire.batch import LOG_APPEND_TIME, read_header
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Header, Record, build_batch, iter_records

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog
    from ottla.server.metadata.image import TopicImage
    from ottla.server.requests.context import BrokerContext
    from ottla.server.testkit.given import Given
    from ottla.server.testkit.kit import Kit
    from ottla.wire.batch import BatchHeader

TIMEOUT_MS: Final = 30_000
PRODUCE_KEY: Final = 0
PRODUCE_VERSION: Final = 12
"""The last version that names topics and not their ids."""
RECORD_OVERHEAD: Final = 64
"""About what a record takes besides its key, its value and its headers."""
LEVELS: Final = ("read_uncommitted", "read_committed")
MARKERS: Final = ("ABORT", "COMMIT")
"""The names of transaction markers, by the type in their keys."""


class _Wanted(NamedTuple):
    """A record that is to be appended to a partition."""

    partition: int
    record: Record


async def produce_records(kit: Kit, given: Given) -> Any:
    """Appends the record of the body, or the records if it is a list; answers with where each is. Records of a list that go to
    the same partition are one batch, unless that were too large for the topic."""
    context = kit.lives.context
    topic = find_topic(context, given.variables["topic"])
    several = given.body if isinstance(given.body, list) else None
    sent = [given.body] if several is None else several
    now_ms = context.clock.now_ms()
    wanted = [_read(Fields({} if each is None else each), topic, now_ms) for each in sent]
    placed: dict[int, dict[str, Any]] = {}
    by_partition: dict[int, list[int]] = {}
    for at, each in enumerate(wanted):
        by_partition.setdefault(each.partition, []).append(at)
    for partition, places in by_partition.items():
        for piece in _pieces(context, topic, wanted, places):
            base, append_ms = await _append(context, topic.name, partition, [wanted[at].record for at in piece])
            for offset, at in enumerate(piece, base):
                timestamp = wanted[at].record.timestamp_ms if append_ms < 0 else append_ms
                placed[at] = {"partition": partition, "offset": offset, "timestamp": timestamp}
    answers = [placed[at] for at in range(len(wanted))]
    return answers if several is not None else answers[0]


def _read(fields: Fields, topic: TopicImage, now_ms: int) -> _Wanted:
    """Reads a record that a test sent. Raises Refused."""
    key, value = bytes_of(fields.take_any("key"), "key"), bytes_of(fields.take_any("value"), "value")
    headers = list(_read_headers(fields.take_any("headers")))
    timestamp = fields.take_number("timestamp", now_ms)
    partition = fields.take_number("partition", -1)
    fields.done()
    count = len(topic.partitions)
    if partition >= count:
        raise Refused(f"partition: {topic.name} has {count} partitions, 0 to {count - 1}, and no {partition}")
    if partition < 0:
        partition = 0 if key is None else partition_of(key, count)
    return _Wanted(partition, Record(0, timestamp, key, value, headers))


def _read_headers(sent: Any) -> Iterator[Header]:
    pairs = list(sent.items()) if isinstance(sent, Mapping) else [] if sent is None else sent
    if not isinstance(pairs, Sequence) or isinstance(pairs, str):
        raise Refused(f"headers must be an object, or a list of names and values, not {sent!r:.50}")
    for pair in pairs:
        if not isinstance(pair, Sequence) or len(pair) != 2 or not isinstance(pair[0], str):
            raise Refused(f"headers: each must be a name and a value, not {pair!r:.50}")
        yield pair[0], bytes_of(pair[1], f"headers.{pair[0]:.50}")


def _pieces(context: BrokerContext, topic: TopicImage, wanted: Sequence[_Wanted], places: list[int]) -> Iterator[list[int]]:
    """Yields the records of a partition batch by batch."""
    replica = context.replicas.get(topic.name, wanted[places[0]].partition)
    most = 0 if replica is None else replica.log.config.max_message_bytes // 2
    piece: list[int] = []
    size = 0
    for at in places:
        record = wanted[at].record
        parts = (record.key, record.value, *(part for name, value in record.headers for part in (name.encode(), value)))
        own = RECORD_OVERHEAD + sum(len(part) for part in parts if part is not None)
        if piece and size + own > most:
            yield piece
            piece, size = [], 0
        piece.append(at)
        size += own
    yield piece


async def _append(context: BrokerContext, topic: str, partition: int, records: Sequence[Record]) -> tuple[int, int]:
    """Appends a batch as a client would; returns its base offset and the time of the append, -1 if the records keep their own.
    Raises Refused with the broker's reason."""
    data = PartitionProduceData(partition, build_batch(records))
    body = ProduceRequest(None, produce.ALL, TIMEOUT_MS, [TopicProduceData(topic, partition_data=[data])])
    request = Request(context, Session("test kit", "127.0.0.1"), PRODUCE_KEY, PRODUCE_VERSION, 0, "ottla-testkit")
    answer = await wait_for(produce.handle(body, request))
    assert answer is not None  # acks is not 0
    outcome = answer.responses[0].partition_responses[0]
    if outcome.error_code:
        reasons = [outcome.error_message, *(each.batch_index_error_message for each in outcome.record_errors)]
        why = "".join(f": {reason}" for reason in reasons if reason)
        raise Refused(f"{topic}-{partition} does not take the records: {ErrorCode(outcome.error_code).name}{why}")
    return outcome.base_offset, outcome.log_append_time_ms


def read_records(kit: Kit, given: Given) -> dict[str, Any]:
    """Returns the records of a topic, or of one `partition`, `from` an offset on, by partition and offset; with the `isolation`
    read_committed, only those that a consumer gets who reads so."""
    context = kit.lives.context
    fields = given.fields
    topic = find_topic(context, given.variables["topic"])
    start, limit = fields.take_number("from", 0), take_limit(fields)
    partition = fields.take_number("partition", -1)
    level = fields.take_choice("isolation", LEVELS, LEVELS[0])
    fields.done()
    if partition >= len(topic.partitions):
        raise Refused(f"partition: {topic.name} has {len(topic.partitions)} partitions, and no {partition}")
    found: list[dict[str, Any]] = []
    for index in sorted(topic.partitions) if partition < 0 else (partition,):
        replica = context.replicas.get(topic.name, index)
        if replica is None:
            raise Refused(f"{topic.name}-{index} is not on this broker")
        try:
            for record in _records(replica.log, start, committed=level == LEVELS[1]):
                if len(found) == limit:
                    return {"records": found, "more": True}
                found.append(record)
        except (LogError, ValueError) as error:
            raise Refused(f"{topic.name}-{index} cannot be read: {error}") from error
    return {"records": found, "more": False}


def _records(log: PartitionLog, start: int, *, committed: bool) -> Iterator[dict[str, Any]]:
    """Yields the records of a partition from an offset on."""
    upto = log.last_stable_offset if committed else log.high_watermark
    start = max(start, log.log_start_offset)
    if start >= upto:
        return
    aborted = collect_aborted(log, start, upto) if committed else []
    for batch in log.iterate_batches(start):
        header = read_header(batch)
        if header.base_offset >= upto:
            return
        if committed and header.is_control:
            continue
        if header.is_transactional and any(
            each.producer_id == header.producer_id and each.first_offset <= header.base_offset < each.last_offset
            for each in aborted
        ):
            continue
        for record in iter_records(batch):
            if record.offset >= start:
                yield _describe(log, header, record)


def _describe(log: PartitionLog, header: BatchHeader, record: Record) -> dict[str, Any]:
    """Returns a record as JSON has it. `control` names a marker, whose key and value are no user's and left out."""
    described: dict[str, Any] = {
        "partition": log.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestamp_type": "LogAppendTime" if header.timestamp_type == LOG_APPEND_TIME else "CreateTime",
        "key": None if header.is_control else text_of(record.key),
        "value": None if header.is_control else text_of(record.value),
        "headers": [[name, text_of(value)] for name, value in record.headers],
        "control": _marker(record.key) if header.is_control else None,
    }
    if header.producer_id >= 0:
        described |= {"producer_id": header.producer_id, "transactional": header.is_transactional}
    return described


def _marker(key: bytes | None) -> str:
    """Returns the name of a control record, by the type in its key."""
    kind = -1 if key is None or len(key) < 4 else int.from_bytes(key[2:4], "big")
    return MARKERS[kind] if 0 <= kind < len(MARKERS) else f"CONTROL_{kind}"

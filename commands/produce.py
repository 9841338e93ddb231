"""`ottla produce TOPIC`: sends lines as records to a topic of any Kafka cluster.

A line of standard input, of the files, or of `--value` is a record. With `--key-delimiter :` the part before the first `:` is its
key (a line without one has no key). With `--json` the line describes the record (record_text.py), and the options supply what it
leaves out. Lines end with a newline; only that is removed from them.

Keys go to the partitions where Java's clients put them (murmur2); -X partitioner=... chooses another way. Memory is bounded
however long the input is: by a queue of 64 MiB, and because no line may be longer than the client could send (message.max.bytes).

Delivered records are counted. A record that fails does not keep the others from being sent; at the end one line says how many
failed and why, and the exit code is 1. A line that is not a record stops the reading; the records before it are sent.
"""

from __future__ import annotations

import math
import os
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, NamedTuple

import typer

from ottla.commands import output
from ottla.commands.admin import checked
from ottla.commands.clients import client
from ottla.commands.output import Failure, counted
from ottla.commands.positions import MAX_INT64, parse_time_ms
from ottla.commands.record_text import BadRecord, NewRecord, record_from_json

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

QUEUE_KIB: Final = 65_536
_DEFAULT_MESSAGE_MAX_BYTES: Final = 1_000_000  # librdkafka's default
_JSON_FACTOR: Final = 8  # a byte may take six characters (\u0000), and there are names around it
_ENDING_FLUSH_S: Final = 2.0  # after Ctrl-C
_CREATION_S: Final = 10.0  # how long a broker that creates topics on demand may answer that there is none
_DOWN_S: Final = 3.0  # how long all brokers may be away before the user hears of it
_POLL_S: Final = 0.1
_PASSING: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE"})  # while a topic is being created
STANDARD_INPUT: Final = Path("-")


class Codec(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    ALL = "all"
    MINUS_ONE = "-1"
    LEADER = "1"
    NONE = "0"


class Template(NamedTuple):
    """The rules by which a line becomes a record, from the options."""

    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    key_delimiter: bytes | None = None
    null_value: bytes | None = None
    as_json: bool = False

    def record(self, line: bytes) -> NewRecord:
        """Returns the record of a line. Raises BadRecord if it does not describe one."""
        if self.as_json:
            found = record_from_json(line)
            return NewRecord(
                self.key if found.key is None else found.key,
                found.value,
                [*self.headers, *found.headers],
                self.partition if found.partition is None else found.partition,
                self.timestamp_ms if found.timestamp_ms is None else found.timestamp_ms,
            )
        key, value = self.key, line
        if self.key_delimiter is not None:
            before, delimiter, after = line.partition(self.key_delimiter)
            if delimiter:
                key, value = before, after
        return NewRecord(key, None if value == self.null_value else value, list(self.headers), self.partition, self.timestamp_ms)


class Sender:
    """A producer that counts: `delivered` records, and `failures` by reason."""

    def __init__(self, cluster: client.Cluster, producer: Producer, topic: str) -> None:
        self.cluster = cluster
        self.producer = producer
        self.topic = topic
        self.delivered = 0
        self.failures: Counter[str] = Counter()

    def send(self, record: NewRecord, interrupt: output.Interrupt) -> None:
        """Queues a record, waiting while the queue is full. What cannot be queued, or not before Ctrl-C, counts as failed."""
        from confluent_kafka import KafkaException

        while not interrupt.came:
            try:
                self.producer.produce(
                    self.topic,
                    value=record.value,
                    key=record.key,
                    headers=record.headers,  # type: ignore[arg-type]  # a header without a value is allowed
                    partition=-1 if record.partition is None else record.partition,
                    timestamp=record.timestamp_ms or 0,  # 0 is now
                    on_delivery=self._on_delivery,
                )
                break
            except BufferError:
                self.producer.poll(_POLL_S)
                self._say_if_down()
            except KafkaException as error:
                self.failures[client.explain(error.args[0])] += 1
                break
        else:
            self.failures["interrupted"] += 1
        self.producer.poll(0)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered += 1
            self.cluster.down_since = None
        else:
            self.failures[client.explain(error)] += 1

    def flush(self, interrupt: output.Interrupt) -> int:
        """Waits until the queue is empty, but only briefly after Ctrl-C. Returns how many records are left."""
        ends_at = math.inf
        while left := self.producer.flush(_POLL_S):
            self._say_if_down()
            if interrupt.came:
                ends_at = min(ends_at, time.monotonic() + _ENDING_FLUSH_S)
            if time.monotonic() > ends_at:
                break
        return left

    def _say_if_down(self) -> None:
        since = self.cluster.down_since
        if since is not None and time.monotonic() - since > _DOWN_S:
            self.cluster.down_since = math.inf  # reported once, until records arrive again
            output.note(f"ottla: {self.cluster.reason('no connection to a broker')}; still trying, Ctrl-C stops")

    def verdict(self) -> None:
        """Raises Failure if anything was not delivered."""
        if failed := self.failures.total():
            reasons = "; ".join(f"{count} × {reason}" if failed > 1 else reason for reason, count in self.failures.most_common())
            raise Failure(f"{failed} of {failed + self.delivered} records were not delivered: {reasons}")


@client.command
def produce(
    cluster: client.Cluster,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to send to.", show_default=False)],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Files to read; - is standard input, the default.")
    ] = None,
    value: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Send this record instead of reading any. May be repeated.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", metavar="TEXT", help="The key of records that have none.")] = None,
    key_delimiter: Annotated[
        str | None, typer.Option("--key-delimiter", "-K", metavar="TEXT", help="The part of a line before it is the key.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record. May be repeated.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Default: chosen by the key.")] = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="2026-11-21T09:00:00Z, or milliseconds since 1970. Default: now.")
    ] = None,
    null_value: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Send null for this value; compaction then deletes the key.")
    ] = None,
    tombstone: Annotated[bool, typer.Option("--tombstone", help="Send one record with --key and no value.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Each line is a JSON object, as `ottla consume --json` prints them.")
    ] = False,
    compression: Annotated[Codec | None, typer.Option("--compression", "-z", help="How to compress batches.")] = None,
    acks: Annotated[Acks | None, typer.Option("--acks", "-a", help="Which replicas must have a record: all in sync, ...")] = None,
    batch: Annotated[int | None, typer.Option(min=1, max=1_000_000, help="The most records in a batch.")] = None,
    batch_bytes: Annotated[int | None, typer.Option(min=1, max=2**31 - 1, help="The most bytes in a batch.")] = None,
    linger_ms: Annotated[float | None, typer.Option(min=0, max=900_000, help="How long a batch waits for more records.")] = None,
) -> None:
    """Send lines of standard input, lines of files, or --value as records."""
    _check_usage(cluster, files, value, has_key=key is not None, tombstone=tombstone)
    checked([topic])
    template = Template(
        key=None if key is None else _bytes(key),
        headers=[_header(text) for text in header or ()],
        partition=partition,
        timestamp_ms=None if timestamp is None else _timestamp_ms(timestamp),
        key_delimiter=_delimiter(key_delimiter),
        null_value=None if null_value is None else _bytes(null_value),
        as_json=as_json,
    )
    sender = Sender(cluster, cluster.producer(_properties(compression, acks, batch, batch_bytes, linger_ms)), topic)
    check_topic(cluster, sender.producer, topic, partition)
    with ExitStack() as stack:
        if tombstone:
            records: Iterator[NewRecord] = iter(
                [NewRecord(template.key, None, list(template.headers), partition, template.timestamp_ms)]
            )
        elif value:
            records = records_of(enumerate(map(_bytes, value), 1), template, "--value")
        else:
            records = read_files(stack, files or [STANDARD_INPUT], template, _max_line_bytes(cluster, as_json))
        send_all(sender, records)


def send_all(sender: Sender, records: Iterator[NewRecord]) -> None:
    """Sends the records, waits until they are delivered, and reports how it went."""
    bad: BadRecord | None = None
    with output.Interrupt() as interrupt:
        try:
            while (record := _next_record(records, interrupt)) is not None:
                sender.send(record, interrupt)
        except BadRecord as error:
            bad = error
        except KeyboardInterrupt:
            assert interrupt.came
        left = sender.flush(interrupt)
    if interrupt.came:
        left += sender.failures.total()
        output.note(f"ottla: interrupted: {counted(sender.delivered, 'record')} delivered, {left:,} not")
        raise KeyboardInterrupt
    if bad is not None:
        raise Failure(f"{bad}; records delivered before it: {sender.delivered}")
    sender.verdict()
    if sys.stderr.isatty():
        output.note(f"{counted(sender.delivered, 'record')} delivered")


def _next_record(records: Iterator[NewRecord], interrupt: output.Interrupt) -> NewRecord | None:
    """Returns the next record; None at the end and after Ctrl-C, which also ends the waiting for a line."""
    interrupt.raises = True
    try:
        return None if interrupt.came else next(records, None)
    finally:
        interrupt.raises = False


# Lines


def records_of(lines: Iterable[tuple[int, bytes]], template: Template, source: str) -> Iterator[NewRecord]:
    """Yields the records of numbered lines. BadRecord names the source and the line that is not a record."""
    for number, line in lines:
        try:
            yield template.record(line)
        except BadRecord as error:
            raise BadRecord(f"{source}, line {number}: {error}") from None


def read_files(stack: ExitStack, files: Sequence[Path], template: Template, max_bytes: int) -> Iterator[NewRecord]:
    """Yields the records of all files, which are opened now, so that a missing one is noticed before anything is sent."""
    streams: list[tuple[str, BinaryIO]] = []
    for file in files:
        stream = sys.stdin.buffer if file == STANDARD_INPUT else stack.enter_context(file.open("rb"))
        streams.append(("standard input" if file == STANDARD_INPUT else str(file), stream))
    sizes = [os.fstat(stream.fileno()) for _, stream in streams]
    regular = all(stat.S_ISREG(size.st_mode) for size in sizes)
    advance = lambda _: None  # noqa: E731
    if regular:  # the end of a pipe is not known, and on a terminal a bar would be in the way
        advance = stack.enter_context(output.progress("sending", sum(size.st_size for size in sizes), in_bytes=True))
    for name, stream in streams:
        yield from records_of(numbered_lines(name, stream, max_bytes, advance), template, name)


def numbered_lines(
    source: str, stream: BinaryIO, max_bytes: int, advance: Callable[[int], object]
) -> Iterator[tuple[int, bytes]]:
    """Yields lines without their newline, counted from 1; the last may lack one. Raises BadRecord for one over `max_bytes`."""
    number = 0
    while line := stream.readline(max_bytes + 1):
        number += 1
        if len(line) > max_bytes and not line.endswith(b"\n"):
            raise BadRecord(f"{source}, line {number} is longer than {max_bytes} bytes; -X message.max.bytes=... allows more")
        advance(len(line))
        yield number, line.removesuffix(b"\n")


def _max_line_bytes(cluster: client.Cluster, as_json: bool) -> int:
    """Returns the length above which no line can become a record that the client accepts."""
    given = cluster.properties.get("message.max.bytes", cluster.file.get("message.max.bytes"))
    size = _DEFAULT_MESSAGE_MAX_BYTES if given is None else int(given)  # a number, since librdkafka has accepted it
    return size * (_JSON_FACTOR if as_json else 1)


# The topic


def check_topic(cluster: client.Cluster, producer: Producer, topic: str, partition: int | None) -> None:
    """Raises Failure if the topic does not exist and is not created on demand, or if it lacks the partition."""
    deadline = time.monotonic() + min(cluster.timeout_s, _CREATION_S)
    while True:
        found = cluster.reach(producer, topic).topics.get(topic)
        error: KafkaError | None = None if found is None else found.error
        if found is not None and error is None:
            break
        if time.monotonic() > deadline or (error is not None and error.name() not in _PASSING):
            raise Failure(f"topic {topic}: {'there is no such topic' if error is None else client.explain(error)}")
        producer.poll(_POLL_S)
    if partition is not None and partition >= len(found.partitions):
        raise Failure(f"topic {topic} has no partition {partition}: it has {len(found.partitions)}, counted from 0")


# Options


def _check_usage(
    cluster: client.Cluster, files: Sequence[Path] | None, value: Sequence[str] | None, *, has_key: bool, tombstone: bool
) -> None:
    """Raises BadParameter if options contradict each other, or ask for what this command does not do."""
    if tombstone and (not has_key or value or files):
        raise typer.BadParameter("needs --key, and no other source of records", param_hint="--tombstone")
    if value and files:
        raise typer.BadParameter("records come from files or from --value, not both", param_hint="--value")
    for given, option in ((cluster.properties, "--property"), (cluster.file, "--command-config")):
        if "transactional.id" in given:
            raise typer.BadParameter("`ottla produce` does not use transactions (transactional.id)", param_hint=option)


def _properties(
    compression: Codec | None, acks: Acks | None, batch: int | None, batch_bytes: int | None, linger_ms: float | None
) -> dict[str, str]:
    """Returns the properties that the options and this command set; others are left to the user's file and to librdkafka."""
    chosen: dict[str, object | None] = {
        "partitioner": "murmur2_random",
        "queue.buffering.max.kbytes": QUEUE_KIB,
        "compression.type": compression,
        "acks": acks,
        "batch.num.messages": batch,
        "batch.size": batch_bytes,
        "linger.ms": linger_ms,
    }
    return {name: str(setting) for name, setting in chosen.items() if setting is not None}


def _bytes(text: str) -> bytes:
    """Returns the bytes of what the user wrote, unchanged."""
    return os.fsencode(text)


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is not name=value", param_hint="--header")
    if not client.is_text(name):
        raise typer.BadParameter(f"the name {name!r} is not UTF-8", param_hint="--header")
    return name, _bytes(value)


def _delimiter(text: str | None) -> bytes | None:
    if text is None:
        return None
    delimiter = _bytes({"\\t": "\t"}.get(text, text))  # a tab is hard to type
    if not delimiter or b"\n" in delimiter:
        raise typer.BadParameter("must be at least one character, without a line end", param_hint="--key-delimiter")
    return delimiter


def _timestamp_ms(text: str) -> int:
    time_ms = parse_time_ms(f"@{text}" if text.isascii() and text.isdecimal() else text)
    if time_ms is None or not 0 < time_ms <= MAX_INT64:
        raise typer.BadParameter(
            f"{text!r} is not a time after 1970-01-01T00:00:00Z; write 2026-11-21T09:00:00Z, or milliseconds since 1970",
            param_hint="--timestamp",
        )
    return time_ms

"""`ottla consume TOPIC...`: prints the records of topics, of any Kafka cluster, to standard output.

Without a group it reads all partitions, or those of `--partition`, beginning at `--from` (by default the beginning), and goes on
until Ctrl-C; `--until`, `--count` and `--exit` (at the end of every partition, like `kcat -e`) stop it before that. positions.py
says how places are written. `--until` is the first record that is not shown; if it is a time in the future, the command waits for
it.

With `--group` the cluster assigns partitions and remembers what was shown. An offset is stored after its record has left this
process, never before, and committed every few seconds and at the end. If the last commit failed, the group will see records
again, and the exit code is 1. `--from` then only counts where the group has no offset.

On a terminal every record is written at once, and bytes that are not UTF-8 are escaped. Elsewhere bytes are written unchanged, in
blocks, whenever no more records are at hand. If the reader goes away, the command ends, even while no records arrive.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ottla.commands import output
from ottla.commands.admin import checked
from ottla.commands.clients import client
from ottla.commands.clients.partition import Partition
from ottla.commands.output import Failure
from ottla.commands.positions import Kind, Position, Span, parse_position, resolve, spans
from ottla.commands.record_text import (
    Encoding,
    Formatter,
    format_formatter,
    json_formatter,
    line_formatter,
    timestamp_of,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, TopicPartition

_IDLE_S: Final = 0.1  # how soon Ctrl-C is noticed
_BATCH: Final = 1000
_WAIT_S: Final = 3.0  # how long a group may assign nothing before the user hears of it, if there was an error
_SILENT_WAIT_S: Final = 10.0  # and if there was none: a group that is rebalancing assigns nothing for a while, either


class Isolation(StrEnum):
    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"


class Limits:
    """The point at which to stop: after `count` records, and for each partition at an offset, at a time, or at its end when that
    is reached."""

    def __init__(self, *, count: int | None = None, at_end: bool = False, until: Position | None = None) -> None:
        self.count = count
        self.at_end = at_end
        self.until = until
        self.bounds: dict[Partition, int] = {}  # the first offset not to show
        self.reached: dict[Partition, int] = {}  # the next offset to come, as far as it is known
        self.open: set[Partition] = set()  # assigned, and not finished

    @property
    def ends_by_partition(self) -> bool:
        return self.at_end or self.until is not None

    def is_done(self, partition: Partition) -> bool:
        """Has everything before the bound been read? Offsets have gaps, so the bound may be reached without a record just before
        it.
        """
        bound = self.bounds.get(partition)
        return bound is not None and self.reached.get(partition, -1) >= bound

    def is_beyond(self, partition: Partition, message: Message) -> bool:
        """Returns whether the record is past the last one to show."""
        bound = self.bounds.get(partition)
        if bound is not None:
            return (message.offset() or 0) >= bound
        until = self.until
        return until is not None and until.kind is Kind.TIME and timestamp_of(message) >= until.number


class Commits:
    """The result of the last offset commit. librdkafka commits, also in close(), and reports only to this callback."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, partitions: Iterable[TopicPartition]) -> None:
        errors = [one for one in (error, *(partition.error for partition in partitions)) if one is not None]
        if error is not None and error.name() == "_NO_OFFSET":
            return  # there was nothing new to commit
        self.error = errors[0] if errors else None

    def check(self) -> None:
        """Raises Failure if the offsets of records that were shown are not committed."""
        if self.error is not None:
            raise Failure(f"the last offsets were not committed, so records will be shown again: {client.explain(self.error)}")


class Reading:
    """One run of the command: takes what the consumer returns, shows it, and knows when to stop."""

    def __init__(self, consumer: Consumer, show: Formatter, limits: Limits, *, is_group: bool) -> None:
        self.consumer = consumer
        self.show = show
        self.limits = limits
        self.is_group = is_group
        self.shown = 0
        self.terminal = sys.stdout.isatty()
        self.assigned = False
        self.pending: dict[Partition, int] = {}  # the next offset of each partition, for records not yet flushed

    @property
    def is_over(self) -> bool:
        if self.limits.count is not None and self.shown >= self.limits.count:
            return True
        return self.limits.ends_by_partition and self.assigned and not self.limits.open

    def take(self, message: Message) -> None:
        """Shows a record, or handles an event. Raises Failure for an error that will not go away."""
        partition = Partition(message.topic() or "", message.partition() or 0)
        error = client.message_error(message)
        if error is not None:
            self._mind(partition, error, message)
            return
        if partition not in self.limits.open:
            return  # fetched before it was paused
        if self.limits.is_beyond(partition, message):
            self.finish(partition)
            return
        text = self.show(message)
        sys.stdout.buffer.write(_printable(text) if self.terminal else text)
        self.shown += 1
        offset = message.offset() or 0
        self.pending[partition] = self.limits.reached[partition] = offset + 1
        if self.terminal:
            self.flush()
        if self.limits.is_done(partition):
            self.finish(partition)

    def step(self) -> bool:
        """Shows the records that have arrived, after waiting for a moment if there are none. Returns False if there were none."""
        message = self.consumer.poll(_IDLE_S)
        if message is None:
            return False
        self.take(message)
        for more in self.consumer.consume(_BATCH, 0):
            if self.is_over:
                break
            self.take(more)
        self.flush()
        return True

    def _mind(self, partition: Partition, error: KafkaError, message: Message) -> None:
        name = error.name()
        if name == "_PARTITION_EOF":
            self.limits.reached[partition] = message.offset() or 0
            if self.limits.at_end or self.limits.is_done(partition):
                self.finish(partition)
        elif name in {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"} and self.is_group:
            raise Failure(f"topic {partition.topic}: there is no such topic")
        elif name == "GROUP_AUTHORIZATION_FAILED" and not self.is_group:
            pass  # librdkafka looks for the coordinator of the group that it was given, and has no use for it
        elif error.fatal() or not error.retriable():
            raise Failure(f"{partition}: {client.explain(error)}" if partition.topic else client.explain(error))

    def finish(self, partition: Partition) -> None:
        from confluent_kafka import TopicPartition

        if partition in self.limits.open:
            self.limits.open.discard(partition)
            self.consumer.pause([TopicPartition(partition.topic, partition.number)])

    def flush(self) -> None:
        """Writes out what was shown; only then does it count as read by the group."""
        from confluent_kafka import TopicPartition

        sys.stdout.buffer.flush()
        if self.is_group and self.pending:
            offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in self.pending.items()]
            self.consumer.store_offsets(offsets=offsets)
        self.pending.clear()

    def assign(self, partitions: Iterable[Partition]) -> None:
        self.assigned = True
        self.limits.open |= set(partitions)

    def revoke(self, partitions: Iterable[Partition]) -> None:
        gone = set(partitions)
        self.limits.open -= gone
        self.pending = {partition: offset for partition, offset in self.pending.items() if partition not in gone}
        if not self.limits.open:
            self.assigned = False


@client.command
def consume(
    cluster: client.Cluster,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics to read.", show_default=False)],
    start: Annotated[
        str | None,
        typer.Option("--from", "-o", metavar="PLACE", help="beginning, end, OFFSET, -N, a time or @MS. Default: beginning."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="PLACE", help="The first record not to show, written like --from.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-c", min=0, help="Stop after this many records.")] = None,
    at_end: Annotated[bool, typer.Option("--exit", "-e", help="Stop at the end of every partition.")] = False,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Read only these. May be repeated.")
    ] = None,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Read as a member of it, and commit what was shown.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines, which `ottla produce --json` reads.")] = False,
    template: Annotated[
        str | None,
        typer.Option("--format", "-f", metavar="FORMAT", help=r"As in kcat: %t %p %o %k %s %K %S %T %h %% \n \t \xNN"),
    ] = None,
    key_delimiter: Annotated[
        str | None, typer.Option("--key-delimiter", "-K", help="Print the key and this before the value.")
    ] = None,
    null_value: Annotated[
        str, typer.Option(metavar="TEXT", help="What to print for a missing value or key.", show_default=False)
    ] = "",
    key_encoding: Annotated[Encoding, typer.Option(help="How keys are written.")] = Encoding.UTF8,
    value_encoding: Annotated[Encoding, typer.Option(help="How values are written.")] = Encoding.UTF8,
    isolation: Annotated[
        Isolation, typer.Option(help="Whether to show only committed records, or those of open and aborted transactions too.")
    ] = Isolation.COMMITTED,
) -> None:
    """Show the records of topics, and wait for more."""
    begin = parse_position(start or "beginning", "--from")
    _check_usage(topics, group, begin, partition, forms=(as_json, template is not None, key_delimiter is not None))
    limits = Limits(count=count, at_end=at_end, until=None if until is None else parse_position(until, "--until"))
    if as_json:
        show = json_formatter(key_encoding, value_encoding)
    elif template is not None:
        show = format_formatter(template, null_value, key_encoding, value_encoding)
    else:
        show = line_formatter(key_delimiter, null_value, key_encoding, value_encoding)
    commits = Commits()
    own = {
        "on_commit": commits,
        "group.id": group or "ottla-consume",  # librdkafka requires one; without --group it is never used
        "enable.auto.commit": str(group is not None).lower(),
        "enable.auto.offset.store": "false",
        "enable.partition.eof": "true",
        "isolation.level": f"read_{isolation}",
        "auto.offset.reset": "latest" if begin.kind is Kind.END else "earliest",
    }
    if limits.ends_by_partition:
        own["fetch.wait.max.ms"] = "50"  # the end of a partition is noticed when a fetch comes back empty
    reader = Reader(cluster, cluster.consumer(own), limits, isolation, commits)
    if count == 0:
        return
    if group is None:
        reader.alone(list(dict.fromkeys(topics)), partition, begin, show)
    else:
        reader.in_group(list(dict.fromkeys(topics)), show)


def _check_usage(
    topics: Sequence[str], group: str | None, begin: Position, partitions: Sequence[int] | None, *, forms: Sequence[bool]
) -> None:
    """Raises BadParameter for names that cannot be, and for options that contradict each other."""
    if sum(forms) > 1:
        raise typer.BadParameter("--json, --format and --key-delimiter: choose one", param_hint="--format")
    checked([*topics, *([] if group is None else [group])])
    if group is None:
        return
    if partitions:
        raise typer.BadParameter("with --group, the group decides which partitions are read", param_hint="--partition")
    if begin.kind not in {Kind.BEGINNING, Kind.END}:
        raise typer.BadParameter("with --group, only beginning or end; `ottla group reset` moves a group", param_hint="--from")


class Reader:
    """The two ways to read: partitions of our own choice, or those that a group assigns to us."""

    def __init__(
        self, cluster: client.Cluster, consumer: Consumer, limits: Limits, isolation: Isolation, commits: Commits
    ) -> None:
        self.cluster = cluster
        self.consumer = consumer
        self.limits = limits
        self.isolation = isolation_level(isolation)
        self.commits = commits
        self.admin = cluster.admin()
        self.time_is_open = False  # --until is a time in the future
        self.waits_since: float | None = None  # for the group's partitions, on the monotonic clock; inf once that was reported

    def alone(self, topics: Sequence[str], numbers: Sequence[int] | None, begin: Position, show: Formatter) -> None:
        from confluent_kafka import TopicPartition

        have = spans(self.cluster, self.admin, self._partitions(topics, numbers), self.isolation)
        starts = resolve(self.cluster, self.admin, begin, have, self.isolation)
        if begin.kind is Kind.OFFSET:
            for partition, offset in starts.items():
                if offset != begin.number:
                    span = have[partition]
                    output.note(f"{partition}: has {span.begin} to {span.end}, not {begin.number}; starting at {offset}")
        reading = Reading(self.consumer, show, self.limits, is_group=False)
        reading.assign(have)
        self.limits.reached |= starts
        self._bound(have)
        self.consumer.assign([TopicPartition(topic, number, offset) for (topic, number), offset in starts.items()])
        self._finish_what_is_done(reading)
        total = self._total(have, starts)
        with ExitStack() as stack:
            advance: Callable[[int], object] = int
            if total is not None and not reading.terminal:
                advance = stack.enter_context(output.progress("reading", total))
            self._run(reading, advance)

    def in_group(self, topics: Sequence[str], show: Formatter) -> None:
        self._partitions(topics, None)
        reading = Reading(self.consumer, show, self.limits, is_group=True)

        def on_assign(_: Consumer, assigned: list[TopicPartition]) -> None:
            partitions = [Partition(one.topic, one.partition) for one in assigned]
            reading.assign(partitions)
            if self.limits.until is not None:
                self._bound(spans(self.cluster, self.admin, partitions, self.isolation))

        def on_revoke(_: Consumer, revoked: list[TopicPartition]) -> None:
            reading.flush()
            reading.revoke(Partition(one.topic, one.partition) for one in revoked)

        def on_lost(_: Consumer, lost: list[TopicPartition]) -> None:
            # Another member owns them already, and will show again what we have shown of them.
            reading.revoke(Partition(one.topic, one.partition) for one in lost)

        self.consumer.subscribe(list(topics), on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
        self._run(reading, int)

    def _run(self, reading: Reading, advance: Callable[[int], object]) -> None:
        """Reads until it is time to stop; a member of a group then commits what was shown, and leaves."""
        interrupt = output.Interrupt()
        try:
            with interrupt:
                while not reading.is_over and not interrupt.came:
                    shown = reading.shown
                    if reading.step():
                        advance(reading.shown - shown)
                    else:
                        self._on_idle(reading, interrupt)
        finally:
            self.consumer.close()
        self.commits.check()
        if interrupt.came:
            raise KeyboardInterrupt

    def _partitions(self, topics: Sequence[str], numbers: Sequence[int] | None) -> list[Partition]:
        """Returns the partitions to read. Raises Failure if one of them does not exist."""
        partitions: list[Partition] = []
        for topic in topics:
            found = self.cluster.reach(self.consumer, topic).topics.get(topic)
            if found is None or found.error is not None:
                raise Failure(
                    f"topic {topic}: {client.explain(found.error) if found and found.error else 'there is no such topic'}"
                )
            for number in numbers or ():
                if number not in found.partitions:
                    raise Failure(f"topic {topic} has no partition {number}: it has {len(found.partitions)}, counted from 0")
            partitions += [Partition(topic, number) for number in dict.fromkeys(numbers or sorted(found.partitions))]
        return partitions

    def _bound(self, have: Mapping[Partition, Span]) -> None:
        """Works out where `--until` is, as far as that can be known now."""
        until = self.limits.until
        if until is None:
            return
        if until.kind is Kind.OFFSET:  # which may not have been written yet
            self.limits.bounds.update(dict.fromkeys(have, until.number))
        elif until.kind is Kind.TIME and until.number > time.time() * 1000:
            self.time_is_open = True
        else:
            self.limits.bounds.update(resolve(self.cluster, self.admin, until, have, self.isolation))

    def _on_idle(self, reading: Reading, interrupt: output.Interrupt) -> None:
        """Is called when nothing arrived for a moment: checks that both sides are still there, and whether `--until` has come."""
        output.check_reader()
        if self.cluster.down_since is not None:
            self.cluster.reach(self.consumer, patient=interrupt)
        self._mind_waiting(reading)
        until = self.limits.until
        if self.time_is_open and until is not None and time.time() * 1000 >= until.number:
            self.time_is_open = False
            self._bound(spans(self.cluster, self.admin, self.limits.open, self.isolation))
            self._finish_what_is_done(reading)

    def _mind_waiting(self, reading: Reading) -> None:
        """Says once if the group assigns no partitions, with the reason if there is one. Raises Failure if it never will."""
        if not reading.is_group or reading.assigned:
            self.waits_since = None
            return
        error = self.cluster.last_error
        if error is not None and error.fatal():
            raise Failure(client.explain(error))
        now = time.monotonic()
        if self.waits_since is None:
            self.waits_since = now
        elif now - self.waits_since > (_SILENT_WAIT_S if error is None else _WAIT_S):
            self.waits_since = math.inf
            # librdkafka does not report that a cluster lacks this protocol: it goes on asking for ever.
            protocol = self.cluster.properties.get("group.protocol", self.cluster.file.get("group.protocol", "classic"))
            otherwise = (
                "it may be rebalancing" if protocol == "classic" else f"the cluster may not know group.protocol={protocol}"
            )
            output.note(f"ottla: the group assigns no partitions: {self.cluster.reason(otherwise)}; still trying, Ctrl-C stops")

    def _finish_what_is_done(self, reading: Reading) -> None:
        for partition in [partition for partition in self.limits.open if self.limits.is_done(partition)]:
            reading.finish(partition)

    def _total(self, have: Mapping[Partition, Span], starts: Mapping[Partition, int]) -> int | None:
        """Returns how many offsets there are to read; None if there is no end."""
        if not self.limits.ends_by_partition:
            return self.limits.count
        ends = {partition: min(self.limits.bounds.get(partition, span.end), span.end) for partition, span in have.items()}
        total = sum(max(0, end - starts[partition]) for partition, end in ends.items())
        return total if self.limits.count is None else min(total, self.limits.count)


def isolation_level(isolation: Isolation) -> IsolationLevel:
    from confluent_kafka import IsolationLevel

    return IsolationLevel.READ_COMMITTED if isolation is Isolation.COMMITTED else IsolationLevel.READ_UNCOMMITTED


def _printable(text: bytes) -> bytes:
    """Returns the text for a terminal, with bytes that are not UTF-8 escaped."""
    return text.decode("utf-8", "backslashreplace").encode()

"""`ottla txn`: the transactions of any Kafka cluster: list, describe, abort, find hanging ones.

librdkafka knows transactions only from the producer's side, so every request here goes over connections of our own (direct.py
says what they can do), to each broker or to the coordinator of an id.

A transaction hangs in a partition if its producer has records there that nothing will ever end: no coordinator has a transaction
of that producer with this partition in it (KIP-664). Readers of committed records wait for it for ever. Its age is measured from
the producer's last record, since a partition does not report the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

import typer

from ottla.commands import admin, output
from ottla.commands.clients import client
from ottla.commands.clients.brokers import Brokers, by_broker, check
from ottla.commands.clients.partition import Partition
from ottla.commands.output import Cell, Failure
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import describe_producers, write_txn_markers
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest

app = typer.Typer(help="Transactions: list, describe, abort, find hanging ones.", no_args_is_help=True)

LIST_COLUMNS: Final = ("Transactional id", "State", "Producer id", "Coordinator")
DESCRIBE_COLUMNS: Final = (
    "Transactional id",
    "State",
    "Producer id",
    "Producer epoch",
    "Timeout ms",
    "Open ms",
    "Coordinator",
    "Partitions",
)
HANGING_COLUMNS: Final = ("Topic", "Partition", "Start offset", "Producer id", "Producer epoch", "Last write ms")
STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
NO_SUCH_ID: Final = "there is no such transactional id"
RETRY_SECONDS: Final = 0.1
LONGEST_S: Final = 900.0
"""No transaction can last longer than this if transaction.max.timeout.ms has Kafka's default."""

Ids = Annotated[list[str], typer.Argument(metavar="ID", help="Ids, or patterns such as 'etl-*'.", show_default=False)]
SomeIds = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids, or patterns such as 'etl-*'.", show_default=False)]


@app.command("list")
@client.command
def list_transactions(
    cluster: client.Cluster,
    ids: SomeIds = None,
    regex: admin.Regex = False,
    state: Annotated[list[str] | None, typer.Option("--state", metavar="STATE", help=f"Only these: {', '.join(STATES)}.")] = None,
    quiet: admin.Quiet = False,
    as_json: output.Json = False,
) -> None:
    """List transactional ids."""
    wanted = {known_state(word) for word in state or ()}
    with TxnBrokers(cluster) as brokers:
        there = brokers.transactions()
    found, missing = admin.select(there, ids or (), regex=regex)
    rows: list[tuple[Cell, ...]] = []
    for name in found:
        broker, one = there[name]
        if not wanted or one.transaction_state in wanted:
            rows.append((name, one.transaction_state, one.producer_id, broker))
    if quiet and not as_json:
        output.write_lines(str(row[0]) for row in rows)
    else:
        output.write_table(LIST_COLUMNS, rows, as_json=as_json)
    fail_for(missing)


@app.command("describe")
@client.command
def describe(cluster: client.Cluster, ids: SomeIds = None, regex: admin.Regex = False, as_json: output.Json = False) -> None:
    """Show state, producer, partitions, and for how long a transaction has been open: of all ids, or of those named."""
    with TxnBrokers(cluster) as brokers:
        there = brokers.transactions()
        found, missing = admin.select(there, ids or (), regex=regex)
        now_ms = int(time.time() * 1000)
        described = [(there[name][0], one) for name in found if (one := brokers.describe(name, there[name][0])) is not None]
    if as_json:
        output.write_json([as_object(broker, one, now_ms) for broker, one in described])
    else:
        output.write_table(DESCRIBE_COLUMNS, [row_of(broker, one, now_ms) for broker, one in described])
    fail_for(missing)


@app.command("abort")
@client.command
def abort(
    cluster: client.Cluster,
    ids: SomeIds = None,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC:PARTITION:OFFSET", help="A hanging one, by its start as find-hanging shows it."),
    ] = None,
    regex: admin.Regex = False,
    yes: admin.Yes = False,
    as_json: output.Json = False,
) -> None:
    """Abort transactions and fence their producers. Asks first."""
    hanging = [position_of(text) for text in at or ()]
    if not ids and not hanging:
        raise typer.BadParameter("name an id, or a place with --at", param_hint="ID")
    with TxnBrokers(cluster) as brokers:
        there = brokers.transactions() if ids else {}
        found, missing = admin.select(there, ids or (), regex=regex) if ids else ([], [])
        outcomes = [admin.failed(name, NO_SUCH_ID) for name in missing]
        places = [f"{where.topic}:{where.number}:{offset}" for where, offset in hanging]
        if found or places:
            admin.confirm(f"Abort {admin.listed([*found, *places], 'transaction')}?", yes=yes)
        outcomes += [outcome(name, partial(brokers.fence, name, there[name][0])) for name in found]
        outcomes += [outcome(place, partial(brokers.write_abort, *where)) for place, where in zip(places, hanging, strict=True)]
    admin.report("transaction", outcomes, as_json=as_json)


@app.command("find-hanging")
@client.command
def find_hanging(
    cluster: client.Cluster,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Names or patterns. Default: all.", show_default=False)
    ] = None,
    regex: admin.Regex = False,
    older_than: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Only those whose producer has written nothing for this long.")
    ] = LONGEST_S,
    as_json: output.Json = False,
) -> None:
    """Show transactions that are open in a partition but unknown to any coordinator: readers wait for them for ever."""
    with TxnBrokers(cluster) as brokers:
        found, missing = admin.select(brokers.metadata.topics, topics or (), regex=regex)
        before_ms = int((time.time() - older_than) * 1000)
        rows = [
            (where.topic, where.number, one.current_txn_start_offset, one.producer_id, one.producer_epoch, one.last_timestamp)
            for where, one in brokers.hanging(found, before_ms)
        ]
    output.write_table(HANGING_COLUMNS, rows, as_json=as_json)
    errors = dict.fromkeys(missing, "there is no such topic")
    admin.note_failures("topic", errors)
    admin.end_if(errors)


# Words


def known_state(word: str) -> str:
    """Returns a state as Kafka spells it. Raises BadParameter for an unknown one."""
    for state in STATES:
        if state.lower() == word.lower():
            return state
    raise typer.BadParameter(f"{word!r} is not a state; known are {', '.join(STATES)}", param_hint="--state")


def position_of(text: str) -> tuple[Partition, int]:
    """Parses TOPIC:PARTITION:OFFSET. Raises BadParameter for anything else."""
    topic, _, rest = text.partition(":")
    number, _, offset = rest.partition(":")
    if not (topic and number.isdecimal() and offset.isdecimal()):
        raise typer.BadParameter(f"{text!r} is not TOPIC:PARTITION:OFFSET", param_hint="--at")
    return Partition(topic, int(number)), int(offset)


def fail_for(missing: Iterable[str]) -> None:
    errors = dict.fromkeys(missing, NO_SUCH_ID)
    admin.note_failures("transactional id", errors)
    admin.end_if(errors)


def outcome(name: str, act: Callable[[], bool]) -> admin.Outcome:
    """Runs `act`, which returns whether there was something to abort, and returns the outcome."""
    try:
        return admin.Outcome(name, "aborted" if act() else "no transaction is open")
    except Failure as error:
        return admin.failed(name, str(error))


def partitions_of(one: Any) -> list[Partition]:
    return sorted(Partition(topic.topic, number) for topic in one.topics for number in topic.partitions)


def open_ms(one: Any, now_ms: int) -> int | None:
    """Returns for how long the transaction has been open; None if there is none."""
    return max(0, now_ms - one.transaction_start_time_ms) if one.transaction_state == "Ongoing" else None


def row_of(broker: int, one: Any, now_ms: int) -> tuple[Cell, ...]:
    places = ",".join(f"{where.topic}:{where.number}" for where in partitions_of(one)) or None
    producer = (one.producer_id, one.producer_epoch, one.transaction_timeout_ms)
    return (one.transactional_id, one.transaction_state, *producer, open_ms(one, now_ms), broker, places)


def as_object(broker: int, one: Any, now_ms: int) -> dict[str, Any]:
    return {
        **{output.key_of(name): cell for name, cell in zip(DESCRIBE_COLUMNS, row_of(broker, one, now_ms), strict=True)},
        "partitions": [{"topic": where.topic, "partition": where.number} for where in partitions_of(one)],
    }


# Requests


class TxnBrokers(Brokers):
    """The cluster's brokers, with requests about transactions."""

    def transactions(self, producer_ids: Sequence[int] = ()) -> dict[str, tuple[int, Any]]:
        """Returns the coordinator and its entry for every transactional id, or for those of these producers."""
        found: dict[str, tuple[int, Any]] = {}
        for broker in sorted(self.metadata.brokers):
            answer = self.at(broker).call(ListTransactionsRequest([], list(producer_ids)))
            check(answer.error_code)
            found |= {one.transactional_id: (broker, one) for one in answer.transaction_states}
        return dict(sorted(found.items()))

    def describe(self, transactional_id: str, broker: int) -> Any | None:
        """Describes a transactional id. Returns None if it has been forgotten since."""
        (one,) = self.at(broker).call(DescribeTransactionsRequest([transactional_id])).transaction_states
        if one.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        check(one.error_code)
        return one

    def describe_all(self, coordinators: Mapping[str, int]) -> dict[str, Any]:
        """Describes transactional ids, given with their coordinators, many at a time. Those that have been forgotten since are
        left out."""
        found: dict[str, Any] = {}
        for broker, names in by_broker((broker, name) for name, broker in coordinators.items()).items():
            for batch in admin.batches(names, admin.NAMES_AT_ONCE):
                for one in self.at(broker).call(DescribeTransactionsRequest(list(batch))).transaction_states:
                    if one.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                        check(one.error_code)
                        found[one.transactional_id] = one
        return found

    def fence(self, transactional_id: str, broker: int) -> bool:
        """Does what a new producer of this id would do first: aborts the transaction of the previous producer and fences that.
        Returns False, with nothing done, if no transaction is open.
        """
        known = self.describe(transactional_id, broker)
        if known is None:
            raise Failure(NO_SUCH_ID)
        if known.transaction_state != "Ongoing":
            return False
        request = InitProducerIdRequest(transactional_id, known.transaction_timeout_ms, -1, -1)
        until = time.monotonic() + self._cluster.timeout_s
        while True:
            code = self.at(broker).call(request).error_code
            if code != ErrorCode.CONCURRENT_TRANSACTIONS or time.monotonic() > until:
                break
            time.sleep(RETRY_SECONDS)  # its markers are on their way, and nothing announces their arrival
        check(code)
        return True

    def producers(self, wanted: Iterable[Partition]) -> Iterator[tuple[Partition, Any]]:
        """Yields each partition's producers that have a transaction open there, as its leader knows them."""
        return (found for found in self.all_producers(wanted) if found[1].current_txn_start_offset >= 0)

    def all_producers(self, wanted: Iterable[Partition]) -> Iterator[tuple[Partition, Any]]:
        """Yields each partition's producers that its leader remembers. Raises Failure if a partition has no leader, too: nobody
        knows its producers then, which is not the same as that it has none."""
        wanted = list(wanted)
        for where in wanted:
            if self.metadata.topics[where.topic].partitions[where.number].leader < 0:
                raise Failure(f"{where} has no leader")
        for leader, topics in self.by_leader(wanted).items():
            asked = [describe_producers.TopicRequest(*topic) for topic in topics.items()]
            for topic in self.at(leader).call(describe_producers.DescribeProducersRequest(asked)).topics:
                for partition in topic.partitions:
                    check(partition.error_code, partition.error_message)
                    where = Partition(topic.name, partition.partition_index)
                    yield from ((where, one) for one in partition.active_producers)

    def hanging(self, topics: Iterable[str], before_ms: int) -> list[tuple[Partition, Any]]:
        """Returns the open transactions that no coordinator knows, if their producers have written nothing since `before_ms`."""
        every = [Partition(topic, number) for topic in topics for number in sorted(self.metadata.topics[topic].partitions)]
        opened = [(where, one) for where, one in self.producers(every) if one.last_timestamp <= before_ms]
        if not opened:
            return []
        known: set[tuple[int, Partition]] = set()
        listed = self.transactions(sorted({one.producer_id for _, one in opened}))
        for described in self.describe_all({name: broker for name, (broker, _) in listed.items()}).values():
            known.update((described.producer_id, where) for where in partitions_of(described))
        return [(where, one) for where, one in opened if (one.producer_id, where) not in known]

    def write_abort(self, where: Partition, offset: int) -> bool:
        """Ends the transaction that starts at this offset, bypassing its coordinator. Always True; raises Failure if there is
        none.
        """
        topic = self.metadata.topics.get(where.topic)
        if topic is None or where.number not in topic.partitions:
            raise Failure("there is no such partition")
        starts = [one for _, one in self.producers([where]) if one.current_txn_start_offset == offset]
        if not starts:
            raise Failure("no open transaction starts there")
        (one,) = starts
        place = write_txn_markers.WritableTxnMarkerTopic(where.topic, [where.number])
        marker = write_txn_markers.WritableTxnMarker(
            one.producer_id, one.producer_epoch, False, [place], max(0, one.coordinator_epoch)
        )
        answer = self.at(topic.partitions[where.number].leader).call(write_txn_markers.WriteTxnMarkersRequest([marker]))
        check(answer.markers[0].topics[0].partitions[0].error_code)
        return True

"""Conditions that a test can wait for: topics and their records, requests, transactions, connections, quiet. Groups have a module
of their own (group_conditions.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ottla.server.inspect.connections import connections
from ottla.server.inspect.topics import summarize_topic
from ottla.server.inspect.transactions import all_transactions, describe_transaction
from ottla.server.metadata.names import TRANSACTION_STATE
from ottla.server.testkit.faults.faults import Fault
from ottla.server.testkit.fields import Fields, Refused, nearest
from ottla.server.testkit.waiting.condition import Condition, Missing
from ottla.server.txn.state import State
from ottla.wire.api import APIS

if TYPE_CHECKING:
    from ottla.server.partitions.replica import Replica
    from ottla.server.requests.context import BrokerContext
    from ottla.server.requests.request import Request
    from ottla.server.testkit.faults.bench import Bench
    from ottla.wire.api import Api

MOST: Final = 2**31 - 1
TRANSACTION_STATES: Final = tuple(state.text for state in State)


class TopicExists(Condition):
    """A topic exists, with at least so many partitions."""

    def __init__(self, topic: str, partitions: int) -> None:
        self._topic = topic
        self._partitions = partitions

    def look(self, bench: Bench, context: BrokerContext) -> dict[str, Any] | Missing:
        """See Condition."""
        topic = context.metadata.topics.get(self._topic)
        if topic is None:
            return no_topic(context, self._topic)
        count = len(topic.partitions)
        if count < self._partitions:
            return Missing(f"{self._topic} has {count} of {self._partitions} partitions")
        unmade = [index for index in topic.partitions if context.replicas.get(self._topic, index) is None]
        if unmade:
            return Missing(f"{self._topic}-{unmade[0]} has no log yet")
        return summarize_topic(context, topic)


class EndOffset(Condition):
    """A partition has records up to an offset, for readers."""

    def __init__(self, topic: str, partition: int, end_offset: int) -> None:
        self._topic = topic
        self._partition = partition
        self._end_offset = end_offset

    def look(self, bench: Bench, context: BrokerContext) -> dict[str, Any] | Missing:
        """See Condition."""
        check_partition(context, self._topic, self._partition)
        replica = context.replicas.get(self._topic, self._partition)
        if replica is None:
            known = self._topic in context.metadata.topics
            return Missing(f"{self._topic}-{self._partition} has no log yet") if known else no_topic(context, self._topic)
        end = replica.log.high_watermark
        if end < self._end_offset:
            return Missing(f"{self._topic}-{self._partition} ends at {end}, not at {self._end_offset}")
        return {"topic": self._topic, "partition": self._partition, "end_offset": end}

    def watched(self, context: BrokerContext) -> Iterable[Replica]:
        """See Condition."""
        replica = context.replicas.get(self._topic, self._partition)
        return () if replica is None else (replica,)


class RequestsCame(Condition):
    """So many requests have come since the wait began that match what a fault would match by."""

    def __init__(self, bench: Bench, on: object, count: int) -> None:
        """Raises Refused if no request can match."""
        self._on = on
        self._count = count
        self._observer = Fault(0, {"on": on, "do": {"observe": True}}, bench, lambda: None)

    def look(self, bench: Bench, context: BrokerContext) -> dict[str, Any] | Missing:
        """See Condition."""
        known = self._observer.describe()
        if known["hits"] < self._count:
            return Missing(f"{known['hits']} of {self._count} requests have come that match {self._on}")
        return {"request": self._on, "count": known["hits"], "last": known["last_hit"]}

    def concerns(self, api: Api) -> bool:
        """See Condition."""
        return self._observer.may_concern(api)

    def note_request(self, body: Any, request: Request) -> None:
        """See Condition."""
        if self._observer.find(body, request) is not None:
            self._observer.count(request)


class TransactionIs(Condition):
    """The transaction of a transactional id is in a state."""

    def __init__(self, transactional_id: str, state: str) -> None:
        """Raises Refused if there is no such state."""
        if state not in TRANSACTION_STATES:
            raise Refused(f"until.state: there is no state {state!r:.50} of transactions{nearest(state, TRANSACTION_STATES)}")
        self._id = transactional_id
        self._state = state

    def look(self, bench: Bench, context: BrokerContext) -> dict[str, Any] | Missing:
        """See Condition."""
        known = all_transactions(context)
        if self._id not in known:
            return Missing(lambda: f"there is no transactional id {self._id}{nearest(self._id, known)}")
        transaction = describe_transaction(context, known[self._id])
        if transaction["state"] == self._state:
            return transaction
        text = f"{self._id} is {transaction['state']}, not {self._state}"
        if transaction["times_out_in_ms"] is not None:
            text += f"; it times out {in_time(bench, transaction['times_out_in_ms'] / 1000)}"
        return Missing(text)

    def watched(self, context: BrokerContext) -> Iterable[Replica]:
        """See Condition."""
        return replicas_of(context, TRANSACTION_STATE)


class ConnectionsAre(Condition):
    """So many clients' connections are open."""

    watches_connections = True

    def __init__(self, count: int) -> None:
        self._count = count

    def look(self, bench: Bench, context: BrokerContext) -> dict[str, Any] | Missing:
        """See Condition."""
        open_now = list(connections(bench.lives.broker))
        if len(open_now) == self._count:
            return {"connections": len(open_now)}
        names = sorted({str(connection.session.client_id) for connection in open_now})
        whose = f", of {', '.join(names[:5])}{' and others' if len(names) > 5 else ''}" if names else ""
        return Missing(f"{len(open_now)} connections are open{whose}, and not {self._count}")

    def concerns(self, api: Api) -> bool:
        """See Condition. A connection over TLS is seen with its first request."""
        return True


class Quiet(Condition):
    """No request has come for so many ms, of real time."""

    def __init__(self, bench: Bench, ms: int) -> None:
        self._seconds = ms / 1000
        self._monotonic = bench.clock.monotonic
        self._since = self._monotonic()
        self._last: Request | None = None

    def look(self, bench: Bench, context: BrokerContext) -> dict[str, Any] | Missing:
        """See Condition."""
        quiet_s = self._monotonic() - self._since
        if quiet_s >= self._seconds:
            return {"quiet_ms": round(quiet_s * 1000)}
        last = self._last
        whose = "" if last is None else f"; the last was {APIS[last.api_key].name} of {last.client_id}"
        return Missing(f"requests still come{whose}")

    def concerns(self, api: Api) -> bool:
        """See Condition."""
        return True

    def note_request(self, body: Any, request: Request) -> None:
        """See Condition."""
        self._since = self._monotonic()
        self._last = request

    def due_in_s(self) -> float:
        """See Condition."""
        return max(0.0, self._since + self._seconds - self._monotonic())


def no_topic(context: BrokerContext, name: str) -> Missing:
    """Returns that a topic is missing."""
    return Missing(lambda: f"there is no topic {name}{nearest(name, context.metadata.topics)}")


def check_partition(context: BrokerContext, topic: str, partition: int) -> None:
    """Raises Refused for a partition that a topic does not have; one that does not exist may come."""
    image = context.metadata.topics.get(topic)
    if image is not None and partition >= len(image.partitions):
        raise Refused(f"this can never be: {topic} has {len(image.partitions)} partitions, and no {partition}")


def replicas_of(context: BrokerContext, topic: str) -> list[Replica]:
    """Returns the partitions of a topic that this broker has."""
    image = context.metadata.topics.get(topic)
    found = () if image is None else [context.replicas.get(topic, index) for index in image.partitions]
    return [replica for replica in found if replica is not None]


def in_time(bench: Bench, seconds: float) -> str:
    """Returns when something is due, by the broker's clock."""
    return f"at +{seconds:.1f} s{', which the frozen clock does not reach' if bench.lives.clock.frozen else ''}"


def read_topic(bench: Bench, fields: Fields) -> Condition:
    """Reads a condition about a topic. Raises Refused."""
    topic = fields.take("topic", str)
    if "end_offset" in fields or "partition" in fields:
        partition = fields.take_number("partition", 0, high=MOST)
        return EndOffset(topic, partition, fields.take_number("end_offset"))
    partitions = fields.take_number("partitions", 1, low=1, high=MOST)
    return TopicExists(topic, partitions)


def read_request(bench: Bench, fields: Fields) -> Condition:
    """Reads a condition about requests. Raises Refused."""
    return RequestsCame(bench, fields.take("request", dict), fields.take_number("count", 1, low=1, high=MOST))


def read_transaction(bench: Bench, fields: Fields) -> Condition:
    """Reads a condition about a transaction. Raises Refused."""
    return TransactionIs(fields.take("transaction", str), fields.take("state", str))


def read_connections(bench: Bench, fields: Fields) -> Condition:
    """Reads a condition about connections. Raises Refused."""
    return ConnectionsAre(fields.take_number("connections", high=MOST))


def read_quiet(bench: Bench, fields: Fields) -> Condition:
    """Reads a condition about requests that do not come. Raises Refused."""
    return Quiet(bench, fields.take_number("quiet_ms", low=1, high=3_600_000))

"""The calls that look into a broker, seed it and wait, as Python methods for `ottla.testing.Broker`: the same as over HTTP
(control.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.server.testkit.looks.names import MOST
from ottla.server.testkit.looks.texts import bytes_of

if TYPE_CHECKING:
    from ottla.server.testkit.python.calling import Calls

ALL: Final = {"limit": MOST}
WAIT_SECONDS: Final = 10.0

Bytes = bytes | str | None
Headers = Mapping[str, Bytes] | Iterable[tuple[str, Bytes]]


class Record(NamedTuple):
    """A record of a topic."""

    partition: int
    offset: int
    timestamp: int
    """In ms since 1970."""
    timestamp_type: str
    """CreateTime, or LogAppendTime."""
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    control: str | None
    """COMMIT or ABORT for the marker of a transaction, which no consumer sees; None for a record of a user."""


class Looking:
    """The calls by which a test sees its broker, and waits for something."""

    _call: Calls

    def state(self) -> dict[str, Any]:
        """Returns which broker this is, and what there is in short: topics, groups, transactions, connections, the clock."""
        return dict(self._call("state", ALL))

    def topics(self) -> list[dict[str, Any]]:
        """Returns all topics in short, by name."""
        return list(self._call("topics", ALL)["topics"])

    def topic(self, name: str) -> dict[str, Any]:
        """Returns all about a topic: its own settings, the offsets of each partition. Raises ValueError if there is none."""
        return dict(self._call("topic", topic=name))

    def delete_topic(self, name: str) -> None:
        """Deletes a topic with its records; it is gone when this returns."""
        self._call("delete_topic", topic=name)

    def groups(self) -> list[dict[str, Any]]:
        """Returns all groups in short, by id."""
        return list(self._call("groups", ALL)["groups"])

    def group(self, group_id: str) -> dict[str, Any]:
        """Returns all about a group of any kind: members with what they have been given, offsets with lag, armed timers. Raises
        ValueError if there is none."""
        return dict(self._call("group", group=group_id))

    def transactions(self) -> list[dict[str, Any]]:
        """Returns all transactional ids, with what is known of each."""
        return list(self._call("transactions", ALL)["transactions"])

    def transaction(self, transactional_id: str) -> dict[str, Any]:
        """Returns all about a transactional id. Raises ValueError if it is not known."""
        return dict(self._call("transaction", transaction=transactional_id))

    def connections(self) -> list[dict[str, Any]]:
        """Returns the connections of clients: whose they are, which request waits, for how long nothing is read."""
        return list(self._call("connections", ALL)["connections"])

    def producers(self, topic: str | None = None) -> list[dict[str, Any]]:
        """Returns what the partitions of one topic, or of all, remember of their producers."""
        return list(self._call("producers", ALL if topic is None else {**ALL, "topic": topic})["producers"])

    def produce(
        self,
        topic: str,
        value: Bytes,
        *,
        key: Bytes = None,
        headers: Headers = (),
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> dict[str, int]:
        """Appends a record without a client, and returns its `partition`, `offset` and `timestamp`. Without a partition it goes
        to that of its key, as with Java's clients, or to the first."""
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        for name, each in (("key", key), ("value", value)):
            if not isinstance(each, bytes | str | None):
                raise ValueError(f"{name} must be str, bytes or None, not {each!r:.50}")  # noqa: TRY004 - as all refusals
        fields = {"key": key, "value": value, "headers": list(pairs), "timestamp": timestamp, "partition": partition}
        return dict(self._call("produce", fields, topic=topic))

    def records(
        self, topic: str, *, partition: int | None = None, start: int = 0, isolation: str = "read_uncommitted"
    ) -> list[Record]:
        """Returns the records of a topic, or of one partition, from an offset on, by partition and offset. With "read_committed",
        only those that a consumer gets who reads so; else also the markers of transactions (`Record.control`)."""
        fields = {"partition": partition, "from": start, "isolation": isolation, **ALL}
        return [_record(each) for each in self._call("records", fields, topic=topic)["records"]]

    def wait(self, *, timeout: float = WAIT_SECONDS, **until: Any) -> dict[str, Any]:
        """Waits until something has come about, and returns what was found: `wait(group="billing", state="Stable", members=2)`.
        docs/testkit.md has what can be waited for.

        Raises TimeoutError, which says what is missing, after so many seconds of real time, and ValueError at once for what can
        never come about.
        """
        return dict(self._call("wait", wait_body(until, timeout)))


def wait_body(until: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    """Returns what is sent for a wait."""
    return {"until": dict(until), "timeout_ms": round(timeout * 1000)}


def _record(sent: Mapping[str, Any]) -> Record:
    headers: Sequence[Any] = sent["headers"]
    return Record(
        sent["partition"],
        sent["offset"],
        sent["timestamp"],
        sent["timestamp_type"],
        bytes_of(sent["key"], "key"),
        bytes_of(sent["value"], "value"),
        [(name, bytes_of(value, "headers")) for name, value in headers],
        sent["control"],
    )

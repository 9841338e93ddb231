"""Members of consumer groups (KIP-848) of three clients in one shape, and a producer that counts: what it takes to see that a
group grows, shrinks and moves to another protocol without losing anything.

A member has `assigned` (partitions by number), `values` (what it read, in its order) and `history` (every assignment that it ever
had). Its records are numbered by the producer, partition by partition: "3:17" is the eighteenth of partition 3.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from compat_tests import programs
from compat_tests.java_client import JavaAt
from compat_tests.programs import GO, Program

PAUSE_S: Final = 0.002


class AnyMember(Protocol):
    @property
    def assigned(self) -> list[int]: ...

    @property
    def values(self) -> list[str]: ...

    @property
    def history(self) -> list[list[int]]: ...

    def leave(self) -> None: ...


class Librdkafka:
    """A thread with a consumer of confluent-kafka. Offsets are committed by the client itself."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str = "consumer", **settings: Any) -> None:
        self.values: list[str] = []
        self.history: list[list[int]] = []
        self._assigned: set[int] = set()
        given = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            "reconnect.backoff.max.ms": 300,
            "topic.metadata.refresh.interval.ms": 1000,
        }
        self._eager = protocol == "classic"
        if self._eager:  # its cooperative assignor keeps data in assignments, which Kafka will not take along
            given |= {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 300}
        self._consumer = Consumer(given | {key.replace("_", "."): value for key, value in settings.items()})
        self._consumer.subscribe([topic], on_assign=self._got, on_revoke=self._gave, on_lost=self._gave)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def assigned(self) -> list[int]:
        return sorted(self._assigned)

    def _got(self, consumer: Consumer, parts: list[Place]) -> None:
        self._assigned |= {part.partition for part in parts}
        self.history.append(self.assigned)
        if self._eager:
            consumer.assign(parts)
        else:
            consumer.incremental_assign(parts)

    def _gave(self, consumer: Consumer, parts: list[Place]) -> None:
        self._assigned -= {part.partition for part in parts}
        self.history.append(self.assigned)
        if self._eager:
            consumer.unassign()
        else:
            consumer.incremental_unassign(parts)

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(100, 0.1):
                if message.error() is None:
                    self.values.append((message.value() or b"").decode())
        self._consumer.close()

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


class OfJava:
    """A member in the JVM that the tests share."""

    def __init__(self, java: JavaAt, name: str, group: str, topic: str, protocol: str = "consumer", **settings: str) -> None:
        self._java, self._name = java, name
        self._last: dict[str, Any] = {}
        given = {"group.id": group, "group.protocol": protocol} | {key.replace("_", "."): v for key, v in settings.items()}
        if protocol == "classic":
            given["partition.assignment.strategy"] = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
        java.call("join", member=name, topics=[topic], settings=given)

    def _state(self) -> dict[str, Any]:
        if not self._last:
            state: dict[str, Any] = self._java.call("member", member=self._name)
            assert state["error"] is None, state["error"]
            return state
        return self._last

    @property
    def assigned(self) -> list[int]:
        found: list[int] = self._state()["assigned"]
        return found

    @property
    def values(self) -> list[str]:
        found: list[str] = self._state()["values"]
        return found

    @property
    def history(self) -> list[list[int]]:
        held: set[int] = set()
        steps = []
        for what, partitions in self._state()["events"]:
            held = held | set(partitions) if what == "assigned" else held - set(partitions)
            steps.append(sorted(held))
        return steps

    def leave(self) -> None:
        self._last = self._java.call("leave", member=self._name)
        assert self._last["error"] is None, self._last["error"]


class OfFranz:
    """A process with a consumer of franz-go, which commits after each poll."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._open = Program(GO, "franz").join(bootstrap, group, topic, balancer="server")
        self.member: programs.Member = self._open.__enter__()

    @property
    def assigned(self) -> list[int]:
        return self.member.assigned

    @property
    def values(self) -> list[str]:
        return [record["value"] for record in list(self.member.records)]

    @property
    def history(self) -> list[list[int]]:
        events = [json.loads(line) for line in list(self.member.transcript)]
        return [event["assigned"] for event in events if "assigned" in event]

    def leave(self) -> None:
        self._open.__exit__(None, None, None)

    def kill(self) -> None:
        """kill -9: it says no farewell."""
        self.member.end()


class Numbers:
    """Produces numbered records to all partitions, until it is stopped; waits while the broker is away."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.sent: list[str] = []
        self._topic, self._partitions = topic, partitions
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "reconnect.backoff.max.ms": 300})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            for partition in range(self._partitions):
                value = f"{partition}:{number}"
                if self._produce(value.encode(), partition):
                    self.sent.append(value)
            number += 1
            self._producer.poll(0)
            self._stop.wait(PAUSE_S)

    def _produce(self, value: bytes, partition: int) -> bool:
        """Waits where the broker is away for so long that the producer's queue is full; False if it is stopped meanwhile."""
        while not self._stop.is_set():
            try:
                self._producer.produce(self._topic, value, partition=partition)
            except BufferError:
                self._producer.poll(0.5)
            else:
                return True
        return False

    def stop(self) -> list[str]:
        """All that was sent, each of them acknowledged."""
        self.end()
        assert self._producer.flush(60) == 0
        return self.sent

    def end(self) -> None:
        self._stop.set()
        self._thread.join(30)


@contextmanager
def leaving(members: list[AnyMember]) -> Iterator[list[AnyMember]]:
    """Whoever is still there at the end of the block leaves."""
    try:
        yield members
    finally:
        for member in members:
            member.leave()


def shared(members: list[AnyMember]) -> list[int]:
    """Returns the partitions that they have between them; a partition that two have is there twice."""
    return sorted(index for member in members for index in member.assigned)

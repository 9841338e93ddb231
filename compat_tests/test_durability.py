"""`flush.messages`: what is acknowledged is on the disk, shown by strace on a running broker, which makes the log's fsync slow.

Both brokers: the answer comes after the fsync, and consumers see the record after it, too. ottla alone: nobody else waits for
that fsync, what comes meanwhile shares the next one, also from one connection; names and small files are made durable as well.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from compat_tests.brokers import CLASSES, Address, Ottla
from compat_tests.disk_faults import SYNCS, Strace
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for
from compat_tests.wire import Connection, Wire, batch
from ottla.wire.messages import delete_topics, fetch, metadata, produce

DELAY_S: Final = 0.5


@pytest.fixture
def place(kind: str, tmp_path: Path) -> Iterator[Place]:
    made = Place(kind, tmp_path)
    yield made
    made.end()


class Place:
    """A broker of its own, whose topics are flushed with every record, and a topic that has one."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.trace = directory / "strace"
        self.broker = CLASSES[kind](directory / kind, {"log.flush.interval.messages": "1"})
        self.broker.start()
        assert self.broker.process is not None
        self.pid = self.broker.process.pid
        self.address = Address(kind, self.broker.port, self.pid, str(self.broker.log_file))
        self.wire = Wire(self.address, "durable")
        self.topic = self.wire.create("t")
        assert self.wire.produce(self.topic, batch(b"first")).responses[0].partition_responses[0].error_code == 0
        self.wire.fetch(self.topic)  # what the broker loads for a first request is loaded
        self.wire.metadata(self.topic)

    def slow_fsync(self, delay_s: float = DELAY_S) -> Strace:
        (log,) = (self.broker.data_dir / f"{self.topic}-0").glob("*.log")
        return Strace(self.pid, log, SYNCS, f"delay_enter={int(delay_s * 1e6)}", self.trace)

    def request(self, value: bytes) -> produce.ProduceRequest:
        return self.wire.produce_request(self.topic, batch(value))

    def end(self) -> None:
        self.wire.close()
        self.broker.stop()
        shutil.rmtree(self.broker.directory)


def offset_of(answer: produce.ProduceResponse) -> int:
    (data,) = answer.responses[0].partition_responses
    assert data.error_code == 0, data
    return int(data.base_offset)


def test_the_answer_comes_after_the_fsync_and_so_does_the_record(place: Place) -> None:
    producer, consumer = place.wire.connect(), place.wire.connect()
    with place.slow_fsync() as strace:
        began = time.monotonic()
        consumer.send(place.wire.fetch_request(place.topic, 1, max_wait_ms=10_000), 12)
        assert offset_of(producer.call(place.request(b"second"), 9)) == 1
        assert time.monotonic() - began >= DELAY_S
        read = consumer.answer(fetch, 12)
        assert time.monotonic() - began >= DELAY_S
        assert read.responses[0].partitions[0].high_watermark == 2
        assert len(strace.calls()) == 1


@pytest.mark.parametrize("kind", ["ottla"], scope="session")
def test_nobody_else_waits(place: Place) -> None:
    """Not the loop, and not another topic: Kafka has a thread a request."""
    other = place.wire.create("other")
    producer, neighbour = place.wire.connect(), place.wire.connect()
    with place.slow_fsync(5.0):  # however late this machine is
        producer.send(place.request(b"second"), 9)
        asked = [metadata.MetadataRequestTopic(name=place.topic)]
        for _ in range(10):
            assert neighbour.call(metadata.MetadataRequest(asked), 12).topics[0].error_code == 0
        assert offset_of(neighbour.call(place.wire.produce_request(other, batch(b"v")), 9)) == 0
        assert producer.receive(timeout_s=0.001) == "no answer"
        assert offset_of(producer.answer(produce, 9)) == 1


@pytest.mark.parametrize("kind", ["ottla"], scope="session")
def test_requests_in_flight_share_fsyncs_over_connections_and_on_one(place: Place) -> None:
    connections = [place.wire.connect() for _ in range(8)]
    with place.slow_fsync() as strace:
        for _ in range(5):
            for connection in connections:
                connection.send(place.request(b"more"), 9)
        offsets = [[offset_of(_next(connection, number)) for number in range(1, 6)] for connection in connections]
        assert sorted(offset for mine in offsets for offset in mine) == list(range(1, 41))
        assert all(mine == sorted(mine) for mine in offsets), "in the order of the requests"
        assert len(strace.calls()) <= 4, "40 batches"


def _next(connection: Connection, correlation_id: int) -> produce.ProduceResponse:
    connection.correlation_id = correlation_id
    answer = connection.answer(produce, 9)
    assert isinstance(answer, produce.ProduceResponse), answer
    return answer


# Names


class Traced(Ottla):
    """All that it does with files goes to `trace`, with the paths of descriptors."""

    CALLS: Final = "openat,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,fsync,fdatasync"

    @property
    def trace(self) -> Path:
        return self.directory / "trace"

    def command(self) -> list[str]:
        return [
            "strace",
            "-D",
            "-f",
            "-y",
            "-qq",
            "-e",
            f"trace={self.CALLS}",
            "-s",
            "4096",
            "-o",
            str(self.trace),
            *super().command(),
        ]


_OPENED: Final = re.compile(r'openat\(.*?"(.*?)", .*O_CREAT')
_CHANGED: Final = re.compile(r"(?:rename|renameat2?|unlink|unlinkat|rmdir|mkdir|mkdirat)\((.*)\) += 0")
_SYNCED: Final = re.compile(r"f(?:data)?sync\(\d+<(.*?)>\) += 0")


def unsynced_names(trace: str, data_dir: Path) -> dict[str, set[str]]:
    """Directory -> names that were made, renamed or removed in it since its last fsync. Of directories that are there."""
    found: dict[str, set[str]] = {}
    known: set[str] = set()
    for line in trace.splitlines():
        synced, opened, changed = _SYNCED.search(line), _OPENED.search(line), _CHANGED.search(line)
        if synced is not None:
            found.pop(synced[1], None)
        paths = (
            [opened[1]]
            if opened is not None and opened[1] not in known
            else re.findall(r'"(.*?)"', changed[1])
            if changed
            else []
        )
        known.update(paths)
        for path in map(Path, paths):
            if path.is_relative_to(data_dir):
                found.setdefault(str(path.parent), set()).add(path.name)
    return {
        directory: names for directory, names in found.items() if Path(directory).is_dir() and Path(directory) != data_dir.parent
    }


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Callable[[], BrokerProcess]]:
    made: list[BrokerProcess] = []

    def make() -> BrokerProcess:
        settings = {"log.flush.interval.messages": "1", "log.segment.delete.delay.ms": "100", "log.segment.bytes": "1048576"}
        made.append(Traced(tmp_path / "traced", settings))
        made[-1].start()
        return made[-1]

    yield make
    for broker in made:
        broker.stop()
        shutil.rmtree(broker.directory)


def test_names_are_as_durable_as_what_they_name(traced: Callable[[], BrokerProcess]) -> None:
    """Create, roll, delete, checkpoint, stop: each name is synced in its directory, and small files before they get theirs."""
    broker = traced()
    assert isinstance(broker, Traced)
    wire = Wire(Address("ottla", broker.port, 0, str(broker.log_file)), "names")
    topic = wire.create("t")
    for _ in range(5):
        assert offset_of(wire.produce(topic, batch(bytes(600_000)))) >= 0
    trace = broker.trace.read_text()
    assert not {d: n for d, n in unsynced_names(trace, broker.data_dir).items() if Path(d).name == f"{topic}-0"}
    wire.call(delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(topic)], timeout_ms=5000), 6)
    wait_for(lambda: not list(broker.data_dir.glob("*-delete")), "the files are gone")
    broker.stop()
    wait_for(lambda: ".kafka_cleanshutdown.tmp" in broker.trace.read_text(), "strace writes a little later")
    wait_for(lambda: unsynced_names(broker.trace.read_text(), broker.data_dir) == {}, "every name is synced", timeout_s=10)
    trace = broker.trace.read_text()
    durable = [match[1] for line in trace.splitlines() if (match := _SYNCED.search(line)) is not None]
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "meta.properties", ".kafka_cleanshutdown"):
        assert f"{broker.data_dir}/{name}.tmp" in durable, f"{name} is synced before it gets its name"

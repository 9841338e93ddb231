"""A whole run: the brokers start, clients work while things break, everything is repaired and every client has to get on, all is
read from the beginning, and the checker of anomalies judges. A run is bounded: in time by its seconds and `STUCK_S`, and clients
pause between what they do.

Beside the anomalies of the history there are those of the run: a broker ended by itself (`ended`), did not start or stop
(`no-start`, `no-stop`), wrote a traceback to its log (`exception`), a client got nothing done after the repair (`stuck`), or
there is something that nobody ever did (`idle`), and so nothing is proved. In a cluster, replicas may never come to be in sync
again (`out-of-sync`) or not be the same bytes in the end (`unequal`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.anomalies.checker import check
from compat_tests.anomalies.history import READ_COMMITTED, READ_UNCOMMITTED, Key, operations
from compat_tests.anomalies.records import Anomaly
from compat_tests.outside.aiokafka_clients import AioKafka
from compat_tests.outside.breaking import Breaking, failed_to_start
from compat_tests.outside.clients import PATIENCE_S, ClientError, Library, decode, place_of
from compat_tests.outside.confluent_clients import QUIET, Confluent
from compat_tests.outside.faults import plan
from compat_tests.outside.kafka_python_clients import KafkaPython
from compat_tests.outside.late import behind
from compat_tests.outside.outcome import Outcome
from compat_tests.outside.stages import Stage
from compat_tests.outside.transactions import Transactions
from compat_tests.outside.workers import Administration, Place, Queue, Reading, Register, SharedRecorder, Worker, ends
from compat_tests.reference.kafka import BrokerFailed

QUEUES: Final = {"q": 2}
APPENDED: Final = {"t": 2}
"""Topics and their partitions: for the queue only, and for transactions as well."""
STUCK_S: Final = 120.0
"""The time for which a client may achieve nothing after the repair. It is long, for the clients wait between attempts."""
_THINGS_AFTER: Final = 3
_LAST_READ_S: Final = 120.0
_KINDS_DONE: Final = ("send", "txn", "poll", "commit", "committed", "init", "topics")


def play(
    stage: Stage,
    seed: int,
    seconds: float,
    kinds: Collection[str],
    say: Callable[[str], None] | None = None,
) -> Outcome:
    """Plays one run on a stage where nothing has run yet, which it ends, and returns what came of it. Raises RuntimeError if a
    client of the run has an error of its own.
    """
    began = time.monotonic()
    breaking = Breaking(stage, say)
    keys = [f"{topic}-{at}" for topic, count in (QUEUES | APPENDED).items() for at in range(count)]
    recorder = SharedRecorder()
    queues = [key for key in keys if place_of(key)[0] in QUEUES]
    place = Place(stage.bootstrap, seed, recorder, keys, queues, stage.replicas)
    workers: list[Worker] = []
    borne_with: list[str] = []
    try:
        stage.start()
        _create_topics(stage.bootstrap, stage.replicas)
        workers = _workers(place)
        for worker in workers:
            worker.thread.start()
        breaking.through(plan(seed, seconds, kinds, len(stage.brokers)), seconds)
        recorder.mark(0, "heal")
        if say:
            say("all is repaired")
        late, excused = _wait_for_all(workers, breaking)
        breaking.found += late
        borne_with += [f"{worker.name} not waited for" for worker in excused]
        place.stop.set()
        for worker in workers:
            worker.thread.join(2 * PATIENCE_S)
            if worker.thread.is_alive():
                borne_with.append(f"{worker.name} does not end")
        if say:
            say("all is read once more")
        _read_all(stage.bootstrap, recorder, keys)
        _read_groups(stage.bootstrap, recorder, place)
        breaking.found += stage.compare(recorder)
        breaking.found += stage.stop()
    except BrokerFailed as error:
        breaking.found.append(failed_to_start(error))
    finally:
        place.stop.set()
        stage.kill()
    for worker in workers:
        if worker.wrong is not None:
            raise RuntimeError(f"{worker.name} has an error of its own") from worker.wrong
    done = operations(recorder.events)
    counts = Counter((operation.f, operation.outcome) for operation in done)
    found = [*breaking.found, *_exceptions(stage), *check(recorder.events, stuck_ns=int(STUCK_S * 1e9))]
    found += [Anomaly("idle", f, "nobody ever succeeded with it") for f in _KINDS_DONE if not counts[f, "ok"]]
    replaced = sum(worker.replaced for worker in workers)
    if given_up := sum(worker.given_up for worker in workers):
        borne_with.append(f"{given_up} calls given up")
    seconds = time.monotonic() - began
    lives, by_itself = breaking.lives, breaking.ended_by_itself
    return Outcome(seed, found, recorder.events, counts, breaking.broken, lives, by_itself, replaced, seconds, tuple(borne_with))


def _workers(place: Place) -> list[Worker]:
    libraries: list[Library] = [Confluent(), KafkaPython(), AioKafka()]
    workers: list[Worker] = [Administration(place)]
    for library in libraries:
        workers += [
            Queue(place, library),
            Reading(place, library, committed=True),
            Reading(place, library, committed=False),
            Register(place, library),
            Transactions(place, library, library.name),
        ]
    first, _, last = libraries
    workers += [Transactions(place, library, "shared") for library in (first, last)]
    return workers


def _create_topics(bootstrap: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    config = {"segment.bytes": "1048576"}
    topics = [NewTopic(name, count, replicas, config=config) for name, count in (QUEUES | APPENDED).items()]
    for future in admin.create_topics(topics).values():
        future.result(PATIENCE_S)


def _wait_for_all(workers: list[Worker], breaking: Breaking) -> tuple[list[Anomaly], list[Worker]]:
    """Waits until every client has done some things more, and reports those that do not; and whom it need not wait for."""
    wanted = {worker: worker.done + _THINGS_AFTER for worker in workers}
    until = time.monotonic() + STUCK_S
    while True:
        late, excused = behind(workers, wanted)
        if not late or time.monotonic() > until:
            what = f"not {_THINGS_AFTER} things in {STUCK_S:.0f} s"
            return [Anomaly("stuck", worker.name, what) for worker in late], excused
        breaking.watch_for(0.2)


# The end: everything is read once more


def _read_all(bootstrap: str, recorder: SharedRecorder, keys: list[Key]) -> None:
    """Reads every key from its beginning to its end, when no transaction is open any more, with both isolations."""
    until = time.monotonic() + _LAST_READ_S
    admin = AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": PATIENCE_S * 1000}, logger=QUIET)
    last: dict[Key, list[int]] = {}
    while time.monotonic() < until:
        try:
            last = ends(admin, keys)
        except (KafkaException, TimeoutError, ClientError):
            continue
        if all(high_watermark == stable for high_watermark, stable in last.values()):
            break
        threading.Event().wait(0.5)  # open transactions are ended by the coordinator in its own time
    for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
        process = recorder.process()
        for key in keys:
            operation = recorder.invoke(process, "poll", isolation=isolation, final=True, keys=[key])
            records, position = _read_whole(bootstrap, key, isolation, until)
            mops = [["poll", {key: records}]]
            high_watermark, stable = last.get(key, (0, -1))
            if position >= high_watermark == stable:
                operation.ok(mops=mops)
            else:
                operation.info(mops=mops, ends=last.get(key))


def _read_whole(bootstrap: str, key: Key, isolation: str, until: float) -> tuple[list[list[int]], int]:
    """Returns [offset, value] of all records of a key, and where they end: -1 if the time was over before."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "the last reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        },
        logger=QUIET,
    )
    records: list[list[int]] = []
    try:
        consumer.assign([TopicPartition(*place_of(key), 0)])
        while time.monotonic() < until:
            for message in consumer.consume(1000, 0.5):
                error, offset = message.error(), message.offset()
                assert offset is not None
                if error is None:
                    records.append([offset, decode(message.value())])
                elif error.code() == KafkaError._PARTITION_EOF:
                    return records, offset
        return records, -1
    finally:
        consumer.close()


def _read_groups(bootstrap: str, recorder: SharedRecorder, place: Place) -> None:
    """Asks for every group's offsets once more."""
    groups = {
        each.fields["group"]: sorted({*each.fields["offsets"]})
        for each in operations(recorder.events)
        if each.f in ("commit", "txn") and "group" in each.fields
    }
    until = time.monotonic() + _LAST_READ_S
    for group in sorted(groups):
        keys = place.queues if group == Register.group else groups[group]
        poller = Confluent().poller(bootstrap, group, committed=True)
        process = recorder.process()
        try:
            while time.monotonic() < until:
                operation = recorder.invoke(process, "committed", group=group)
                try:
                    operation.ok(offsets=dict(poller.committed(keys)))
                    break
                except ClientError:
                    operation.info()
        finally:
            poller.close()


def _exceptions(stage: Stage) -> list[Anomaly]:
    """Returns the tracebacks in the brokers' logs: those of ottla are bugs, whatever clients saw of them."""
    found = []
    for broker in stage.brokers.values():
        if broker.kind != "ottla" or not broker.log_file.exists():
            continue
        lines = broker.log_file.read_text(errors="replace").splitlines()
        at = [number for number, line in enumerate(lines) if line.startswith("Traceback")]
        found += [Anomaly("exception", broker.directory.name, "\n".join(lines[max(each - 1, 0) : each + 40])) for each in at]
    return found

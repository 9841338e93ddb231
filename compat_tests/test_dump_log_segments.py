"""Tests of what each side's tool says of the other's files: Kafka's DumpLogSegments (of the tools 4.3.1) of a directory that
ottla wrote, and `ottla log dump` and `ottla log verify` of directories of both, after a clean stop and after kill -9.

The directory has topics of all codecs, a compacted one, idempotent producers, several segments, a group that commits, the
metadata log and its snapshots. Transactions are written by our log without a broker, as is a `__transaction_state` partition.

DumpLogSegments ends with 0 whatever it finds, and says on standard error what is wrong: so that must be empty, but for one thing
that it says of Kafka's own files, too: the first record of a segment that does not begin at offset 0 follows none.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.brokers import CLASSES, KINDS
from compat_tests.commands import good, made, ottla
from compat_tests.reference import jvm
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for
from ottla.log.config import LogConfig
from ottla.log.disk.directory import LogDirectory
from ottla.log.disk.files import OpenFiles, OsDisk
from ottla.log.markers import build_marker
from ottla.log.open_options import Opening
from ottla.log.opening.recovery import create_log
from ottla.log.partition import PartitionLog
from ottla.log.validate import Origin
from ottla.wire.messages.internal import transaction_log_key, transaction_log_value
from ottla.wire.messages.internal.transaction_log_key import TransactionLogKey
from ottla.wire.messages.internal.transaction_log_value import TransactionLogValue
from ottla.wire.primitives import Parts
from ottla.wire.records import Record, build_batch

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS: Final = {
    "log.segment.bytes": str(1 << 20),
    "log.index.interval.bytes": "512",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "offsets.topic.num.partitions": "1",
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "500",
}
_FIRST_OF_SEGMENT: Final = re.compile(r"^Non-consecutive offsets in .*/0*(\d+)\.log\n  -1 is followed by \1\n", re.MULTILINE)


@dataclass(frozen=True)
class Written:
    """A directory after a clean stop, and the same broker's after more was written and kill -9."""

    kind: str
    clean: Path
    killed: Path


@pytest.fixture(scope="module", params=KINDS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    base = tmp_path_factory.mktemp("dumped")
    found = write(request.param, base)
    yield found
    shutil.rmtree(base)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Returns a directory that ottla wrote, stopped cleanly."""
    base = tmp_path_factory.mktemp("ours")
    yield write("ottla", base).clean
    shutil.rmtree(base)


def write(kind: str, base: Path) -> Written:
    broker = CLASSES[kind](base / kind, SETTINGS)
    broker.start()
    try:
        for codec in CODECS:
            made(broker.bootstrap, 1, f"codec-{codec}")
            produce(broker.bootstrap, codec)
        commit(broker.bootstrap)
        compact(broker)
        broker.stop()
        shutil.copytree(broker.data_dir, base / "clean")
        broker.start()
        for codec in CODECS:
            produce(broker.bootstrap, codec)
    finally:
        broker.kill()
    return Written(kind, base / "clean", broker.data_dir)


def produce(bootstrap: str, codec: str) -> None:
    """About 1.5 MiB of bytes that no codec makes much smaller: two segments."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True, "batch.size": 20_000}
    )
    random = Random(codec)
    for number in range(400):
        wait_for(lambda: producer.poll(0) is not None, "room")
        producer.produce(f"codec-{codec}", random.randbytes(4000), str(number).encode(), timestamp=TODAY_MS + number)
    assert producer.flush(60) == 0


def compact(broker: BrokerProcess) -> None:
    """A topic in which the cleaner has been at work."""
    settings = ["--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0.01"]
    assert ottla("topic", "create", "compacted", *settings, bootstrap=broker.bootstrap).code == 0
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "batch.size": 20_000})
    random = Random(3)
    for number in range(800):
        producer.produce("compacted", random.randbytes(4000), str(number % 37).encode(), timestamp=TODAY_MS + number)
        producer.poll(0)
    assert producer.flush(60) == 0
    wait_for(lambda: is_compacted(broker.data_dir), "it is compacted")


def is_compacted(data_dir: Path) -> bool:
    """Returns whether all is compacted but the active segment, so that no pass is under way: Kafka's broker, stopped in one,
    leaves its files behind."""
    checkpoint = data_dir / "cleaner-offset-checkpoint"
    text = checkpoint.read_text() if checkpoint.exists() else ""
    active = max(int(path.stem) for path in (data_dir / "compacted-0").glob("*.log"))
    return active > 0 and f"compacted 0 {active}" in text.splitlines()


def commit(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["codec-none"])
    wait_for(lambda: consumer.poll(0.1) is not None, "a record")
    consumer.commit(asynchronous=False)
    consumer.commit(offsets=[TopicPartition("codec-gzip", 0, 7)], asynchronous=False)
    consumer.close()


def dump_log_segments(files: list[Path], *options: str) -> str:
    """Returns what Kafka's tool writes; it must have nothing to complain of."""
    command = [*jvm.java("kafka-tools"), "org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    errors = _FIRST_OF_SEGMENT.sub("", done.stderr)
    complaints = [line for line in errors.splitlines() if "log4j" not in line and "SLF4J" not in line]
    assert (done.returncode, complaints) == (0, []), done
    return done.stdout


def of_topics(directory: Path, *suffixes: str) -> list[Path]:
    found = sorted(path for suffix in suffixes for path in directory.glob(f"codec-*/*{suffix}"))
    assert found
    return found


# Kafka's tool on our files


def test_logs_and_everything_beside_them(ours: Path) -> None:
    files = of_topics(ours, ".log", ".index", ".timeindex", ".snapshot")
    out = dump_log_segments(files, "--deep-iteration")
    assert len(re.findall(r"^\| offset: ", out, re.MULTILINE)) == 400 * len(CODECS)
    assert out.count("isvalid: true") >= 5
    assert "isvalid: false" not in out
    assert len(re.findall(r"^offset: \d+ position: \d+$", out, re.MULTILINE)) > 100
    assert len(re.findall(r"^timestamp: \d+ offset: \d+$", out, re.MULTILINE)) > 100
    assert len(re.findall(r"^producerId: \d+ .* lastSequence: 399 ", out, re.MULTILINE)) == len(CODECS)


def test_indexes_pass_its_sanity_check(ours: Path) -> None:
    files = of_topics(ours, ".index", ".timeindex")
    out = dump_log_segments(files, "--index-sanity-check")
    assert out.count("passed sanity check") + out.count("is empty") == len(files)
    assert out.count("passed sanity check") > len(CODECS)


def test_groups(ours: Path) -> None:
    out = dump_log_segments(sorted(ours.glob("__consumer_offsets-*/*.log")), "--offsets-decoder", "--deep-iteration")
    assert '"group":"readers","topic":"codec-gzip","partition":0' in out
    assert '"offset":7' in out


def test_the_metadata_log_and_its_snapshots(ours: Path) -> None:
    directory = ours / "__cluster_metadata-0"
    snapshots = sorted(directory.glob("*-*.checkpoint"))
    assert snapshots
    files = [*sorted(directory.glob("*.log")), *snapshots]
    out = dump_log_segments(files, "--cluster-metadata-decoder", "--deep-iteration")
    assert '"name":"codec-zstd"' in out
    assert "SnapshotHeader" in out
    assert "SnapshotFooter" in out
    assert "Error" not in out


def test_transactions(tmp_path: Path) -> None:
    log = new_log(tmp_path, "orders", {})
    for number in range(6):
        producer: Any = {"producer_id": number % 3, "producer_epoch": 0}
        first = build_batch([Record(0, TODAY_MS + number, b"k", b"v")], base_sequence=number // 3, transactional=True, **producer)
        log.append_as_leader(first, leader_epoch=0)
        end = build_marker(number % 3, 0, commit=number % 2 == 0, coordinator_epoch=4, timestamp_ms=TODAY_MS + number)
        log.append_as_leader(end, leader_epoch=0, origin=Origin.COORDINATOR)
    log.close()
    files = [path for path in sorted((tmp_path / "orders-0").iterdir()) if path.suffix]
    assert {path.suffix for path in files} == {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    out = dump_log_segments(files, "--deep-iteration")
    assert out.count("endTxnMarker: ABORT coordinatorEpoch: 4") == 3
    assert len(re.findall(r"^version: 0 producerId: \d firstOffset: \d+ lastOffset: \d+ lastStableOffset: \d+$", out, re.M)) == 3


def test_the_coordinators_log_of_transactions(tmp_path: Path) -> None:
    log = new_log(tmp_path, "__transaction_state", {"cleanup.policy": "compact"})
    for version in (0, 1):
        key, value = Parts(), Parts()
        transaction_log_key.ENCODE[0](TransactionLogKey("t-1"), key)
        fields: dict[str, Any] = {"producer_id": 9, "transaction_timeout_ms": 1000, "transaction_status": 0}
        transaction_log_value.ENCODE[version](TransactionLogValue(**fields), value)
        record = Record(0, TODAY_MS, b"\0\0" + b"".join(key), version.to_bytes(2, "big") + b"".join(value))
        log.append_as_leader(build_batch([record]), leader_epoch=0, origin=Origin.COORDINATOR)
    log.close()
    out = dump_log_segments(sorted((tmp_path / "__transaction_state-0").glob("*.log")), "--transaction-log-decoder")
    assert out.count('"transactionalId":"t-1"') == 2
    assert out.count('"producerId":9') == 2


def new_log(path: Path, topic: str, overrides: dict[str, str]) -> PartitionLog:
    directory = LogDirectory(OsDisk(), str(path), OpenFiles(8))
    config = LogConfig.from_overrides(overrides)
    return create_log(directory, Opening(topic, 0, None, config, lambda: TODAY_MS, Random(0), clean=True))


# Our commands on both brokers' files


def test_ottla_dumps_what_both_wrote(written: Written) -> None:
    for path in [*sorted(written.clean.glob("codec-*")), *sorted(written.clean.glob("__*")), written.clean]:
        found = good("log", "dump", str(path), "--records", "--json").objects
        if path.name.startswith("codec-"):
            assert sum(item["type"] == "record" for item in found) == 400
    log = good("log", "dump", str(written.clean / "codec-lz4-0"), "--json").objects
    theirs = dump_log_segments(sorted((written.clean / "codec-lz4-0").glob("*.log")))
    assert [item["last_offset"] for item in log if item["type"] == "batch"] == [
        int(found) for found in re.findall(r"^baseOffset: \d+ lastOffset: (\d+)", theirs, re.MULTILINE)
    ]


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_ottla_finds_nothing_wrong_with_what_both_wrote(written: Written, stop: str) -> None:
    directory = written.clean if stop == "clean" else written.killed
    found = good("log", "verify", "--deep", "--json", str(directory)).objects
    assert {item["meaning"] for item in found} <= {"note"}  # deleted segments that wait to be removed, too
    assert any("the last stop was not clean" in item["what"] for item in found) == (stop == "killed")
    good("log", "verify", str(directory / "codec-none-0"))
    good("log", "verify", *map(str, of_topics(directory, ".log")))
    assert {item["meaning"] for item in good("log", "verify", "--json", str(directory / "compacted-0")).objects} <= {"note"}


def elect_the_repaired(bootstrap: str, topic: str) -> None:
    """A repaired directory has no mark of a clean stop, so a Kafka with eligible leader replicas takes its replicas for those of
    a broker that crashed, and lets none lead until an administrator says so.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partition = TopicPartition(topic, 0)
    errors = admin.elect_leaders(ElectionType.UNCLEAN, [partition]).result()
    assert errors[partition] is None, errors


def test_kafka_goes_on_with_what_ottla_repaired(written: Written, tmp_path: Path) -> None:
    """Damage in the middle is taken out; the broker of the other kind gives the rest, at the same offsets."""
    shutil.copytree(written.clean, tmp_path / "data")
    hurt = tmp_path / "data" / "codec-none-0" / f"{0:020d}.log"
    with open(hurt, "r+b") as file:
        file.seek(hurt.stat().st_size // 2)
        file.write(b"\xff" * 10)
    assert ottla("log", "verify", str(tmp_path / "data")).code == 1
    assert ottla("log", "repair", "--yes", str(tmp_path / "data")).code == 1  # it is not ours to say what is lost
    good("log", "repair", "--yes", "--skip", str(tmp_path / "data"))
    broker = CLASSES["kafka" if written.kind == "ottla" else "ottla"](tmp_path, SETTINGS)
    broker.start()
    try:
        if broker.kind == "kafka":
            elect_the_repaired(broker.bootstrap, "codec-none")
        offsets = [
            int(line) for line in good("consume", "codec-none", "--exit", "--format", "%o\n", bootstrap=broker.bootstrap).lines
        ]
        assert set(offsets) < set(range(400))
        assert len(offsets) > 200
        assert (offsets[0], offsets[-1]) == (0, 399)
        good("produce", "codec-none", "--value", "more", bootstrap=broker.bootstrap)
    finally:
        broker.stop()
    good("log", "verify", "--deep", str(tmp_path / "data"))

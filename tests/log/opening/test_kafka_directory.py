"""Partition directories, ours and Kafka's (its own UnifiedLog, asked through tests/kafka_oracle.py).

The same requests make the same bytes, and each takes over the other's directory, after a clean stop, a kill, and a torn tail.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from ottla.log.disk.files import OsDisk
from ottla.log.producers import decode_snapshot
from ottla.log.timestamps import max_timestamp_offset, offset_for_timestamp
from ottla.wire.batch import read_header
from tests.kafka_oracle import KafkaOracle
from tests.log.support import NOW_MS, Rig, batch, settings

pytestmark = pytest.mark.oracle

ORACLE_TOPIC_ID = bytes(15) + b"\x01"


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaOracle]:
    with KafkaOracle() as oracle:
        yield oracle


@dataclass
class Step:
    """One append at a time of its own."""

    at_ms: int
    leader_epoch: int
    data: bytes


@dataclass
class Scenario:
    """Settings in Kafka's words, and appends."""

    texts: dict[str, str]
    steps: list[Step] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        return [f"{name}={text}" for name, text in self.texts.items()]

    def rig(self, path: Path) -> Rig:
        """Our log, in a directory of its own below `path`."""
        changes = {name.removeprefix("internal.").replace(".", "_"): int(text) for name, text in self.texts.items()}
        return Rig(settings(**changes), OsDisk(), directory=str(path), topic_id=ORACLE_TOPIC_ID)


def scenario(seed: int) -> Scenario:
    """Random batches in random order of time, segments that roll for three reasons."""
    rng = Random(seed)
    made = Scenario(
        {
            "internal.segment.bytes": str(rng.choice((3000, 20_000))),
            "segment.ms": str(rng.choice((5_000, 10**12))),
            "segment.index.bytes": str(rng.choice((48, 10_485_760))),
            "index.interval.bytes": str(rng.choice((0, 300, 4096))),
        }
    )
    sequences = {5: 0, 6: 0}
    epoch, at_ms = 0, NOW_MS
    for _ in range(rng.randint(20, 120)):
        at_ms += rng.randint(0, 100)
        epoch += rng.random() < 0.05
        count, producer_id = rng.randint(1, 5), rng.choice((-1, 5, 6))
        producer = None
        if producer_id >= 0:
            producer = (producer_id, 0, sequences[producer_id])
            sequences[producer_id] += count
        data = batch(
            count,
            timestamp_ms=at_ms - rng.choice((0, 0, 3000)),
            step_ms=rng.randint(-5, 5),
            value=rng.randbytes(rng.choice((1, 50, 400))),
            producer=producer,
            codec=rng.randrange(5),
        )
        made.steps.append(Step(at_ms, epoch, data))
    return made


def play_kafka(kafka: KafkaOracle, made: Scenario, steps: list[Step]) -> None:
    for step in steps:
        assert kafka.ask("append", step.at_ms, 12, step.leader_epoch, step.data.hex()).startswith("ok")


def play_ours(rig: Rig, steps: list[Step]) -> None:
    for step in steps:
        rig.now_ms = step.at_ms
        rig.append(step.data, leader_epoch=step.leader_epoch)


def ours_says(rig: Rig) -> str:
    """In the words of the oracle's `state`."""
    log = rig.log
    batches = "".join(f"{read_header(data).last_offset}," for data in log.iterate_batches(log.log_start_offset))
    states = sorted(log.producers, key=lambda state: state.producer_id)
    producers = "".join(f"{state.producer_id}:{state.last_sequence}," for state in states)
    return f"{log.log_start_offset} {log.log_end_offset} {batches} {producers}"


def files_of(path: Path) -> dict[str, object]:
    """Name -> content; of a snapshot the producers in order of their id, because Kafka's order is that of a hash table."""
    found: dict[str, object] = {}
    for file in sorted(path.iterdir()):
        data = file.read_bytes()
        if file.suffix == ".snapshot":
            states = sorted(decode_snapshot(data), key=lambda state: state.producer_id)
            found[file.name] = [(s.producer_id, s.producer_epoch, list(s.batches), s.last_timestamp_ms) for s in states]
        elif file.suffix in (".index", ".timeindex") and not data.strip(b"\0"):
            continue  # Kafka makes an index when it needs it, at its greatest size, and trims it later
        elif file.name != "partition.metadata":  # which the oracle writes with the first append, a broker at once
            found[file.name] = data
    return found


@pytest.mark.parametrize("seed", range(12))
def test_the_same_requests_make_the_same_files(kafka: KafkaOracle, tmp_path: Path, seed: int) -> None:
    made = scenario(seed)
    kafka.ask("log", *made.words)
    rig = made.rig(tmp_path)
    play_kafka(kafka, made, made.steps)
    play_ours(rig, made.steps)
    rng = Random(seed)
    for _ in range(30):
        target = NOW_MS + rng.randint(-4000, 12_000)
        found = offset_for_timestamp(rig.log, target)
        assert kafka.ask("time", target) == (f"{found.timestamp_ms} {found.offset}" if found else "none")
    greatest = max_timestamp_offset(rig.log)
    assert greatest is not None
    assert kafka.ask("time", -3) == f"{greatest.timestamp_ms} {greatest.offset}"
    assert kafka.ask("state") == ours_says(rig)
    assert kafka.ask("roll", 0) == str(rig.log.roll().base_offset)  # now every index with something in it is final
    theirs = Path(kafka.ask("shut"))
    rig.manager.close()
    assert files_of(tmp_path / "t-0") == files_of(theirs)


def tear(path: Path, rng: Random) -> None:
    """Cuts the last segment anywhere, and sometimes leaves garbage behind."""
    last = sorted(path.glob("*.log"))[-1]
    data = last.read_bytes()
    kept = data[: rng.randint(0, len(data))]
    last.write_bytes(kept + rng.choice((b"", bytes(100), rng.randbytes(40))))


STOPS = ["clean", "killed", "torn"]


def ours_on(path: Path, made: Scenario, now_ms: int, *, clean: bool) -> Rig:
    """Our log on a directory that Kafka left."""
    if clean:
        (path / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":1}')
    changes = {name.removeprefix("internal.").replace(".", "_"): int(text) for name, text in made.texts.items()}
    return Rig(settings(**changes), OsDisk(), directory=str(path), topic_id=None, now_ms=now_ms)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("seed", range(6))
def test_we_take_over_kafkas_directory(kafka: KafkaOracle, tmp_path: Path, seed: int, stop: str) -> None:
    made = scenario(100 + seed)
    if stop != "clean":  # rebuilding, Kafka puts one more entry into the active time index, which a tiny one soon shows
        made.texts["segment.index.bytes"] = "10485760"
    half = len(made.steps) // 2
    kafka.ask("log", *made.words)
    play_kafka(kafka, made, made.steps[:half])
    kafka.ask("files")  # flushes
    at = Path(kafka.ask("shut"))
    if stop != "clean":
        for stale in at.glob("*.snapshot"):
            stale.unlink()
    if stop == "torn":
        tear(at, Random(seed))
    shutil.copytree(at, tmp_path / "t-0")
    now_ms = made.steps[half - 1].at_ms
    kafka.ask("reopen", at, 0, 0, str(stop == "clean").lower(), *made.words)
    rig = ours_on(tmp_path, made, now_ms, clean=stop == "clean")
    assert ours_says(rig) == kafka.ask("state")
    if stop != "torn":  # else the producers' next sequences are others
        play_ours(rig, made.steps[half:])
        play_kafka(kafka, made, made.steps[half:])
        assert ours_says(rig) == kafka.ask("state")
    rig.manager.close()
    theirs = Path(kafka.ask("shut"))
    compared = (".log", "checkpoint") if stop != "torn" else (".log",)  # Kafka saves a cut list of epochs when it finds time
    logs = {name: data for name, data in files_of(tmp_path / "t-0").items() if name.endswith(compared)}
    assert logs == {name: data for name, data in files_of(theirs).items() if name.endswith(compared)}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("seed", range(6))
def test_kafka_takes_over_ours(kafka: KafkaOracle, tmp_path: Path, seed: int, stop: str) -> None:
    made = scenario(200 + seed)
    half = len(made.steps) // 2
    rig = made.rig(tmp_path / "ours")
    play_ours(rig, made.steps[:half])
    if seed % 2:
        rig.log.flush()
        rig.manager.checkpoint_pass()
    recovery_point = rig.log.recovery_point if stop != "torn" else 0
    rig.manager.close(clean=stop == "clean")
    if stop == "torn":
        tear(tmp_path / "ours/t-0", Random(seed))
    shutil.copytree(tmp_path / "ours/t-0", tmp_path / "kafka/t-0")
    kafka.ask("append", made.steps[half - 1].at_ms, 12, 0, "00")  # sets its clock; refused
    kafka.ask("reopen", tmp_path / "kafka/t-0", 0, recovery_point, str(stop == "clean").lower(), *made.words)
    if stop == "torn":
        (tmp_path / "ours/recovery-point-offset-checkpoint").write_bytes(b"")
    rig.start()
    assert kafka.ask("state") == ours_says(rig)
    if stop != "torn":
        play_kafka(kafka, made, made.steps[half:])
        play_ours(rig, made.steps[half:])
        assert kafka.ask("state") == ours_says(rig)


@pytest.mark.parametrize("clean", [True, False])
def test_kafka_passes_over_what_a_start_took_out(kafka: KafkaOracle, tmp_path: Path, *, clean: bool) -> None:
    made = scenario(400)
    made.texts["internal.segment.bytes"] = "3000"
    rig = made.rig(tmp_path / "ours")
    play_ours(rig, made.steps)
    rig.manager.close(clean=False)
    first = min((tmp_path / "ours/t-0").glob("*.log"))
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    first.write_bytes(data)
    rig.start()
    rig.manager.close(clean=clean)
    shutil.copytree(tmp_path / "ours/t-0", tmp_path / "kafka/t-0")
    kept = {path.name: path.read_bytes() for path in (tmp_path / "ours/t-0").glob("*.damaged")}
    assert len(kept) > 2
    kafka.ask("append", rig.now_ms, 12, 0, "00")  # sets its clock; refused
    kafka.ask("reopen", tmp_path / "kafka/t-0", 0, 0, str(clean).lower(), *made.words)
    rig.start()
    assert kafka.ask("state") == ours_says(rig)
    kafka.ask("roll", 0)
    theirs = Path(kafka.ask("shut"))
    assert {path.name: path.read_bytes() for path in theirs.glob("*.damaged")} == kept


@pytest.mark.parametrize("seed", range(6))
def test_cuts_at_both_ends(kafka: KafkaOracle, tmp_path: Path, seed: int) -> None:
    made = scenario(300 + seed)
    made.texts["retention.bytes"] = "9000"
    made.texts["retention.ms"] = "6000"
    kafka.ask("log", *made.words)
    rig = made.rig(tmp_path)
    play_kafka(kafka, made, made.steps)
    play_ours(rig, made.steps)
    rng = Random(seed)
    now_ms = rig.now_ms
    bases = [read_header(data).base_offset for data in rig.log.iterate_batches(0)]
    cuts: list[tuple[str, int, Callable[[int], object]]] = [
        ("start", rng.choice(bases), rig.log.delete_records_before),
        ("retain", now_ms - 1000, rig.log.apply_retention),
        ("retain", now_ms, rig.log.apply_retention),
    ]
    for how, value, ours in cuts:
        assert kafka.ask(how, value) == str(ours(value))
        assert kafka.ask("state").split(" ")[0] == ours_says(rig).split(" ")[0]
    start, end = rig.log.log_start_offset, rig.log.log_end_offset
    target = rng.choice([base for base in bases if base >= start] or [end])
    rig.log.truncate_to(target)
    assert kafka.ask("truncate", target) == str(rig.log.log_end_offset)
    assert kafka.ask("state").split(" ")[:2] == ours_says(rig).split(" ")[:2]

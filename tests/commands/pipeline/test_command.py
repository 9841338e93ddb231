"""`ottla pipeline`: the errors that are reported before Spark starts, and what fills a gap."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from typer.testing import CliRunner

from ottla.commands.clients.client import DEFAULT_BOOTSTRAP
from ottla.commands.pipeline import gaps
from ottla.commands.pipeline.gaps import Walk
from ottla.pipeline.audit import Gap
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import PipelineError
from ottla.server.program.app import app
from ottla.wire.messages.fetch import AbortedTransaction, PartitionData
from ottla.wire.records import Record, build_batch

NOBODY = "127.0.0.1:1"


def batch(first: int, count: int = 1, **more: Any) -> bytes:
    return build_batch([Record(0, 1000, b"k", b"v") for _ in range(count)], base_offset=first, **more)


LOG = [
    batch(0, 3),
    batch(3, 2, producer_id=7, transactional=True),  # aborted
    batch(5, 2, producer_id=8, transactional=True),  # committed
    batch(7, producer_id=7, transactional=True, control=True),
    batch(8, producer_id=8, transactional=True, control=True),
    batch(9, 2, producer_id=7, transactional=True),  # committed, after the same producer's abort
    batch(11, producer_id=7, transactional=True, control=True),
    batch(14),
]
ABORT_MARKER = 7
ABORTED = [AbortedTransaction(producer_id=7, first_offset=3)]


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_a_gap_is_what_neither_a_marker_nor_an_aborted_record_fills(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(self: Walk, offset: int) -> PartitionData:
        later = [one for one in LOG if int.from_bytes(one[:8], "big") + int.from_bytes(one[23:27], "big") >= offset]
        return PartitionData(records=b"".join(later[:at_once]), aborted_transactions=ABORTED if offset <= ABORT_MARKER else [])

    monkeypatch.setattr(gaps.Walk, "_fetch", fetch)
    walk = Walk(None, "t", 0)  # type: ignore[arg-type]  # nothing is sent
    assert list(walk.unfilled(3, 4)) == []
    assert list(walk.unfilled(5, 5)) == [(5, 5)]  # a committed record that the job did not get
    assert list(walk.unfilled(7, 8)) == []
    assert list(walk.unfilled(10, 13)) == [(10, 10), (12, 13)]
    assert list(walk.unfilled(15, 20)) == [(15, 20)]


@pytest.mark.parametrize(
    ("words", "env", "found"),
    [
        ([], {}, "header:9"),
        (["--bootstrap", DEFAULT_BOOTSTRAP], {}, DEFAULT_BOOTSTRAP),
        (["-X", f"bootstrap.servers={DEFAULT_BOOTSTRAP}"], {}, DEFAULT_BOOTSTRAP),
        (["--client-config", "properties"], {}, "file:9"),
        ([], {"OTTLA_BOOTSTRAP": DEFAULT_BOOTSTRAP}, DEFAULT_BOOTSTRAP),
    ],
)
def test_the_header_of_a_job_says_where_the_cluster_is_if_the_user_does_not(
    words: list[str], env: dict[str, str], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_broker(cluster: KafkaCluster, _wanted: Any) -> None:
        raise PipelineError(f"asked {cluster.bootstrap}")

    monkeypatch.setattr("ottla.pipeline.run.partitions_of_topics", no_broker)
    monkeypatch.chdir(tmp_path)
    Path("properties").write_text("bootstrap.servers=file:9\n")
    Path("job.sql").write_text('-- /// job\n-- bootstrap = "header:9"\n-- checkpoint = "c"\n-- ///\n')
    unset = {"OTTLA_BOOTSTRAP": None, "KAFKA_BOOTSTRAP_SERVERS": None}
    said = CliRunner().invoke(app, ["pipeline", "run", "job.sql", *words], env={**unset, **env}).output
    assert said.splitlines() == [f"ottla: asked {found}"]


def test_no_gap_asks_nobody() -> None:
    assert list(gaps.explained(None, "t", [])) == []  # type: ignore[arg-type]  # nobody is asked
    assert Gap(0, 1, 2) < Gap(0, 3, 3)


SHORT = [batch(first, producer_id=7, transactional=True, control=first % 2 == 1) for first in range(4000)]
"""Transactions of one record."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Returns the offset and bytes of each fetch from a partition that holds SHORT."""
    found: list[tuple[int, int]] = []

    def fetch(self: Walk, offset: int) -> PartitionData:
        found.append((offset, self.bytes))
        return PartitionData(records=b"".join(SHORT[offset : offset + self.bytes // len(SHORT[0])]))

    monkeypatch.setattr(gaps.Walk, "_fetch", fetch)
    return found


def test_where_gap_follows_upon_gap_the_partition_is_read_once_by_more_and_more(asked: list[tuple[int, int]]) -> None:
    walk = Walk(None, "t", 0)  # type: ignore[arg-type]  # nothing is sent
    left = [pair for marker in range(1, len(SHORT), 2) for pair in walk.unfilled(marker, marker)]
    assert left == []
    assert [size for _, size in asked] == [gaps.LEAST_BYTES << time for time in range(len(asked))]
    assert 2 < len(asked) < 7
    assert all(after[0] - before[0] >= before[1] // len(SHORT[0]) for before, after in pairwise(asked))
    assert len(walk.filled) < len(SHORT)


def test_a_gap_far_away_is_jumped_to(asked: list[tuple[int, int]]) -> None:
    walk = Walk(None, "t", 0)  # type: ignore[arg-type]  # nothing is sent
    assert [list(walk.unfilled(first, first)) for first in (1, 1001, 3001)] == [[], [], []]
    assert asked == [(1, gaps.LEAST_BYTES), (1001, gaps.LEAST_BYTES), (3001, gaps.LEAST_BYTES)]


def test_what_has_been_read_is_not_read_again(asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SHORT", [batch(first) for first in range(100)])
    walk = Walk(None, "t", 0)  # type: ignore[arg-type]  # nothing is sent
    assert [pair for first in range(100) for pair in walk.unfilled(first, first)] == [(first, first) for first in range(100)]
    assert asked == [(0, gaps.LEAST_BYTES)]


def test_gaps_are_read_as_far_as_they_are_asked_for(monkeypatch: pytest.MonkeyPatch, asked: list[tuple[int, int]]) -> None:
    """An audit that has all the differences it lists does not read the rest."""
    taken: list[Gap] = []

    def come() -> Iterator[Gap]:
        for offset in range(0, len(SHORT), 2):  # records that are there
            taken.append(Gap(0, offset, offset))
            yield taken[-1]

    monkeypatch.setattr(gaps, "Brokers", lambda _: MagicMock())
    left = gaps.explained(None, "t", come())  # type: ignore[arg-type]  # the brokers are none
    assert [next(left) for _ in range(3)] == taken
    assert len(taken) == 3
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["archive", "t", "--to", "d"], 1, f"ottla: cannot reach {NOBODY}: connection refused"),
        (["replay", "d", "--to", "t"], 1, f"ottla: cannot reach {NOBODY}: connection refused"),
        (["audit", "t"], 1, f"ottla: cannot reach {NOBODY}: connection refused"),
        (["archive", "t", "--to", "d", "--value", "avro"], 2, "an Avro body does not contain its schema"),
        (["archive", "t", "--to", "d", "--format", "csv"], 2, "csv is not one of parquet, delta, iceberg"),
        (["replay", "d", "--to", "t", "--since", "soon"], 2, "'soon' is not a time"),
        (["audit", "t", "--match", "x"], 2, "x is not one of auto, offset, content"),
        (["archive", "t", "--to", "d", "--spark-conf", "x"], 2, "'x' is not key=value"),
        (["archive", "t"], 2, "Missing option '--to'"),
    ],
)
def test_errors_that_need_no_spark(words: list[str], code: int, line: str) -> None:
    found = CliRunner().invoke(app, ["pipeline", *words, *(["--bootstrap", NOBODY])], env={"COLUMNS": "300", "TERM": "dumb"})
    assert found.exit_code == code, found.output
    assert line.lower() in " ".join(found.output.lower().split())
    assert code == 2 or len(found.output.splitlines()) == 1


def test_nobody_who_does_not_use_it_pays_for_spark() -> None:
    program = (
        "import sys, ottla.server.program.app; print([m for m in ('pyspark', 'pyarrow', 'ottla.pipeline') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"

"""`ottla pipeline`: what is told before Spark starts, and what fills a gap."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ottla.pipeline.audit import Gap
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import PipelineError
from ottla.server.cli_app import app
from ottla.server.commands import pipeline_gaps
from ottla.server.commands.client import DEFAULT_BOOTSTRAP
from ottla.server.commands.pipeline_gaps import Walk
from ottla.wire.batch import build_batch
from ottla.wire.messages.fetch import AbortedTransaction, PartitionData
from ottla.wire.records import Record

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

    monkeypatch.setattr(pipeline_gaps.Walk, "_fetch", fetch)
    walk = Walk(None, "t", 0)  # type: ignore[arg-type]  # nothing is sent
    assert walk.unfilled(3, 4) == []
    assert walk.unfilled(5, 5) == [(5, 5)]  # a committed record that the job did not get
    assert walk.unfilled(7, 8) == []
    assert walk.unfilled(10, 13) == [(10, 10), (12, 13)]
    assert walk.unfilled(15, 20) == [(15, 20)]


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
    assert pipeline_gaps.explained(None, "t", []) == []  # type: ignore[arg-type]
    assert Gap(0, 1, 2) < Gap(0, 3, 3)


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["archive", "t", "--to", "d"], 1, f"ottla: cannot reach {NOBODY}: connection refused"),
        (["replay", "d", "--to", "t"], 1, f"ottla: cannot reach {NOBODY}: connection refused"),
        (["audit", "t"], 1, f"ottla: cannot reach {NOBODY}: connection refused"),
        (["archive", "t", "--to", "d", "--value", "avro"], 2, "an Avro body does not tell its schema"),
        (["archive", "t", "--to", "d", "--format", "csv"], 2, "csv is none of parquet, delta, iceberg"),
        (["replay", "d", "--to", "t", "--since", "soon"], 2, "'soon' is no time"),
        (["audit", "t", "--match", "x"], 2, "x is none of auto, offset, content"),
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
    program = "import sys, ottla.server.cli_app; print([m for m in ('pyspark', 'pyarrow', 'ottla.pipeline') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"

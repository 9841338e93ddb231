"""An archive's run and what its directory says of it, with streams and Hadoop's file system only played; compat tests have Spark.
test_files.py has which files are removed, test_plans.py and test_tables.py what is known before there is Spark.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.pipeline import archive
from ottla.pipeline.archive import Archive, Totals
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import PipelineError
from ottla.pipeline.values import Values
from tests.pipeline.test_files import HadoopFileSystem, files, spark_with

LONG, INT = '{"type": "long"}', '{"type": "int"}'


def plan(directory: Path | str = "dir", **fields: Any) -> Archive:
    return Archive(KafkaCluster({}), "t", str(directory), **fields)


def progress(batch: int, rows: int) -> dict[str, Any]:
    return {"batchId": batch, "numInputRows": rows, "processedRowsPerSecond": 1234.5}


class Query:
    """A query with these reports on batches, of which one more has come each time somebody waited."""

    def __init__(self, *reports: dict[str, Any]) -> None:
        self.reports = reports
        self.waits = 0

    def awaitTermination(self, _seconds: float) -> bool:
        self.waits += 1
        return self.waits >= len(self.reports)

    @property
    def recentProgress(self) -> tuple[dict[str, Any], ...]:
        return self.reports[: self.waits]


# Its run


def test_each_batch_with_records_is_counted_and_reported_once() -> None:
    totals, said = Totals(), list[str]()
    query: Any = SimpleNamespace(recentProgress=[progress(0, 1500)])
    archive.count(query, totals, said.append)
    query.recentProgress += [progress(1, 0), progress(2, 7) | {"processedRowsPerSecond": 0.4}]
    del query.recentProgress[1]["processedRowsPerSecond"]
    archive.count(query, totals, said.append)
    archive.count(query, totals, said.append)
    assert (totals.batches, totals.records, totals.seen) == (2, 1507, 2)
    assert said == ["batch 0: 1,500 records, 1,234/s", "batch 2: 7 records, 0/s"]


def test_a_batch_without_a_rate_is_reported() -> None:
    said = list[str]()
    query: Any = SimpleNamespace(recentProgress=[{"batchId": 3, "numInputRows": 1}])
    archive.count(query, Totals(), said.append)
    assert said == ["batch 3: 1 records, 0/s"]


def run(
    monkeypatch: pytest.MonkeyPatch, directory: Path, query: Query, *, stopped: bool = False, table: str = "parquet"
) -> tuple[Totals, list[str]]:
    """Runs an archive; the removal of files that are left reports three, which were modified before the run began."""
    stop: Any = Event()
    stop.signal = signal.SIGTERM if stopped else None

    @contextmanager
    def told_to_stop(_queries: Callable[[], list[Any]]) -> Iterator[Any]:
        if stopped:
            stop.set()
        yield stop

    monkeypatch.setattr(archive, "told_to_stop", told_to_stop)
    monkeypatch.setattr(archive, "start", lambda *_: query)
    monkeypatch.setattr("ottla.pipeline.tables.check_package", lambda *_: None)
    monkeypatch.setattr(archive, "remove_orphans", lambda _spark, _directory, _files, began_ms: 3 if began_ms > 0 else 0)
    said: list[str] = []
    return archive.run(spark_with(HadoopFileSystem("file")), plan(directory, table=table), said.append), said


def test_a_run_reports_its_batches_to_the_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    query = Query(progress(0, 1), progress(1, 2), progress(2, 3))
    totals, said = run(monkeypatch, tmp_path, query)
    assert (totals.batches, totals.records, len(said), query.waits) == (3, 6, 3, 3)
    assert totals.stopped_by is None


@pytest.mark.parametrize(
    ("has_list", "table", "stopped", "orphans"),
    [
        (True, "parquet", False, 3),
        (False, "parquet", False, 0),
        (True, "delta", False, 0),
        (True, "parquet", True, 0),
    ],
)
def test_only_a_run_that_ends_by_itself_removes_what_its_list_has_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_list: bool, table: str, stopped: bool, orphans: int
) -> None:
    if has_list:
        (tmp_path / "_spark_metadata").mkdir()
    query = Query(progress(0, 1), progress(1, 2))
    totals, _ = run(monkeypatch, tmp_path, query, stopped=stopped, table=table)
    assert (totals.orphans, totals.stopped_by) == (orphans, signal.SIGTERM if stopped else None)
    assert query.waits == (1 if stopped else 2)


# What it is


def settled(directory: Path, **fields: Any) -> Values:
    return archive.settle_values(spark_with(HadoopFileSystem("file")), plan(directory, **fields), files(directory)[0])


def test_the_first_run_writes_down_what_the_archive_is(tmp_path: Path) -> None:
    assert settled(tmp_path) == Values("raw", "")
    kept = json.loads((tmp_path / "_ottla" / "archive.json").read_text())
    assert kept == {"topic": "t", "value": "raw", "format": "parquet", "schema": ""}
    assert settled(tmp_path) == Values("raw", "")
    with pytest.raises(PipelineError, match=r"is an archive with format parquet, not delta; take another directory$"):
        settled(tmp_path, table="delta")
    with pytest.raises(PipelineError, match=r"is an archive with value raw, not avro; take another directory$"):
        settled(tmp_path, kind="avro", schema=LONG)


def test_an_archive_has_one_schema(tmp_path: Path) -> None:
    assert settled(tmp_path, kind="avro", schema=LONG) == Values("avro", LONG)
    assert settled(tmp_path, kind="avro") == Values("avro", LONG)
    with pytest.raises(PipelineError, match=r"is an archive by another schema; take another directory$"):
        settled(tmp_path, kind="avro", schema=INT)


def test_a_schema_that_nobody_gave_is_inferred_from_a_sample_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[Any, ...]] = []

    def read(_cluster: KafkaCluster, _spark: Any, topic: str, committed: bool) -> Any:
        return SimpleNamespace(limit=lambda count: asked.append((topic, committed, count)))

    monkeypatch.setattr(KafkaCluster, "read", read)
    monkeypatch.setattr("ottla.pipeline.values.inferred", lambda *_: SimpleNamespace(json=lambda: "{}"))
    for _ in range(2):
        assert settled(tmp_path, kind="json", committed=False, sample=77) == Values("json", "{}")
    assert asked == [("t", False, 77)]


# Its stream


class Frame:
    """A stream that notes its columns."""

    def __init__(self, options: dict[str, str], committed: bool) -> None:
        self.options = options
        self.committed = committed
        self.columns: list[str] = []

    def withColumn(self, name: str, column: Any) -> Frame:
        self.columns.append(f"{name}={column}")
        return self

    def selectExpr(self, *names: str) -> Frame:
        self.columns += names
        return self


def streamed(monkeypatch: pytest.MonkeyPatch, data: str | None = None, **fields: Any) -> Frame:
    def read_stream(_cluster: KafkaCluster, _spark: Any, _topic: str, committed: bool, **options: str) -> Frame:
        return Frame(options, committed)

    monkeypatch.setattr(KafkaCluster, "read_stream", read_stream)
    monkeypatch.setattr(Values, "column", lambda _: data)
    spark: Any = None
    found: Any = archive.table(spark, plan(**fields), Values())
    assert isinstance(found, Frame)
    return found


def test_a_stream_begins_with_the_first_record_and_takes_what_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    found = streamed(monkeypatch)
    assert (found.options, found.committed) == ({"startingOffsets": "earliest", "failOnDataLoss": "true"}, True)
    found = streamed(monkeypatch, allow_loss=True, batch_records=5, committed=False)
    assert found.options == {"startingOffsets": "earliest", "failOnDataLoss": "false", "maxOffsetsPerTrigger": "5"}
    assert found.committed is False


def test_unpacked_values_are_a_column_beside_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    assert streamed(monkeypatch).columns == [*archive.COLUMNS, archive.DATE]
    assert streamed(monkeypatch, "parsed").columns == ["data=parsed", *archive.COLUMNS, "data", archive.DATE]


class Writer:
    """A writer of streams that notes how it is asked to write."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., Writer]:
        def call(*values: Any, **named: Any) -> Writer:
            self.calls.append((name, *values, *named.items()))
            return self

        return call


@pytest.mark.parametrize(
    ("fields", "trigger", "last"),
    [
        ({}, ("trigger", ("availableNow", True)), ("start",)),
        ({"continuous": True, "interval_s": 2.5}, ("trigger", ("processingTime", "2.5 seconds")), ("start",)),
        ({"table": "iceberg"}, ("trigger", ("availableNow", True)), ("toTable", "dir/t")),
    ],
)
def test_how_a_table_is_written(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], trigger: tuple[Any, ...], last: tuple[str, ...]
) -> None:
    writer = Writer()
    monkeypatch.setattr(archive, "table", lambda *_: SimpleNamespace(writeStream=writer))
    monkeypatch.setattr("ottla.pipeline.tables.iceberg_table", lambda _spark, directory: directory)
    spark: Any = None
    archive.start(spark, plan(**fields), Values())
    assert trigger in writer.calls
    assert ("option", "checkpointLocation", "dir/_checkpoint") in writer.calls
    assert ("partitionBy", "date") in writer.calls
    assert writer.calls[-1] == last


# Reading one


@pytest.mark.parametrize(
    ("kind", "sign", "is_empty"),
    [
        ("parquet", "_spark_metadata", False),
        ("parquet", "_spark_metadata", True),
        ("parquet", None, False),
        ("delta", "_delta_log", False),
        ("delta", "_delta_log", True),
        ("iceberg", "t/metadata", False),
        ("iceberg", "other/metadata", False),
    ],
)
def test_an_archive_is_read_once_it_has_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, sign: str | None, is_empty: bool
) -> None:
    (tmp_path / "_ottla").mkdir()
    (tmp_path / "_ottla" / "archive.json").write_text(json.dumps({"topic": "t", "format": kind}))
    if sign is not None:
        (tmp_path / sign).mkdir(parents=True)
    rows = {each: SimpleNamespace(isEmpty=lambda: is_empty) for each in ("parquet", "delta", "iceberg")}
    spark = spark_with(HadoopFileSystem("file"))
    loading = {each: SimpleNamespace(load=lambda _, found=found: found) for each, found in rows.items()}
    spark.read = SimpleNamespace(parquet=lambda _: rows["parquet"], format=loading.__getitem__)
    spark.table = lambda _: rows["iceberg"]
    monkeypatch.setattr(archive, "listed_files", lambda *_: [] if is_empty else ["file:/x"])
    monkeypatch.setattr("ottla.pipeline.tables.check_package", lambda *_: None)
    monkeypatch.setattr("ottla.pipeline.tables.iceberg_table", lambda _spark, directory: directory)
    if sign is None or sign.startswith("other") or is_empty:
        with pytest.raises(PipelineError, match=f"^{tmp_path} has no records yet$"):
            archive.read(spark, str(tmp_path))
    else:
        found: Any = archive.read(spark, str(tmp_path))
        assert found[0] is rows[kind]
        assert found[1] == {"topic": "t", "format": kind}


def test_a_directory_that_is_no_archive_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"is not an archive of ottla: it has no _ottla/archive\.json$"):
        archive.read(spark_with(HadoopFileSystem("file")), str(tmp_path))

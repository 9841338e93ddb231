"""Names of Iceberg tables, and which package is missing, with as much of a JVM as they ask for; compat tests have a real one."""

from __future__ import annotations

import posixpath
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.pipeline import run_sinks, tables
from ottla.pipeline.errors import PipelineError
from ottla.pipeline.run_job import JobError, Sink


class HadoopPath:
    """Of a local file system whose working directory is /here."""

    def __init__(self, path: str) -> None:
        self.path = path

    def getFileSystem(self, _conf: Any) -> Any:
        return SimpleNamespace(makeQualified=lambda path: HadoopPath(f"file:{posixpath.normpath(f'/here/{path.path}')}"))

    def getParent(self) -> HadoopPath:
        return HadoopPath(self.path.rpartition("/")[0])

    def getName(self) -> str:
        return self.path.rpartition("/")[2]

    def toString(self) -> str:
        return self.path


def fake_spark(*classes: str) -> Any:
    """A session whose JVM has these classes."""

    def for_name(name: str, _initialize: bool, _loader: Any) -> None:
        if name not in classes:
            raise RuntimeError(f"java.lang.ClassNotFoundException: {name}")

    thread = SimpleNamespace(currentThread=lambda: SimpleNamespace(getContextClassLoader=lambda: None))
    lang = SimpleNamespace(Class=SimpleNamespace(forName=for_name), Thread=thread)
    hadoop = SimpleNamespace(fs=SimpleNamespace(Path=HadoopPath))
    jvm = SimpleNamespace(java=SimpleNamespace(lang=lang), org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop)))
    set_: dict[str, str] = {}
    context = SimpleNamespace(_jvm=jvm, _jsc=SimpleNamespace(hadoopConfiguration=lambda: None))
    return SimpleNamespace(sparkContext=context, conf=SimpleNamespace(set=set_.__setitem__, known=set_))


def test_a_directory_is_a_table_of_the_catalog_above_it() -> None:
    spark = fake_spark()
    catalog, _, name = tables.iceberg_table(spark, "tables/a.b").partition(".")
    assert name == "`a.b`"
    of = f"spark.sql.catalog.{catalog}"
    assert spark.conf.known[of] == "org.apache.iceberg.spark.SparkCatalog"
    assert spark.conf.known[f"{of}.warehouse"] == "file:/here/tables"
    assert tables.iceberg_table(spark, "./tables/it`s") == f"{catalog}.`it``s`"
    other = tables.iceberg_table(spark, "others/a.b").partition(".")[0]
    assert other != catalog
    assert spark.conf.known[f"spark.sql.catalog.{other}.warehouse"] == "file:/here/others"
    assert spark.conf.known[f"{of}.warehouse"] == "file:/here/tables"


def test_a_sink_of_iceberg_is_a_path_or_a_table_that_has_a_name() -> None:
    spark = fake_spark()

    def named(place: str) -> str:
        return run_sinks.catalog_name(spark, Sink("out", "iceberg", place))

    assert named("lake.db.rows") == "lake.db.rows"
    assert named("rows").endswith(".`rows`")
    assert named("./a.b") == tables.iceberg_table(spark, "a.b")


def test_the_package_that_is_missing_is_named() -> None:
    spark = fake_spark("io.delta.sql.DeltaSparkSessionExtension")
    for there in ("delta", "parquet", "topic"):
        tables.check_package(spark, there)
    with pytest.raises(PipelineError, match=r"^Spark has no iceberg: give its package by --packages$"):
        tables.check_package(spark, "iceberg")


def test_a_sink_without_its_package_is_told_with_its_line() -> None:
    frame: Any = SimpleNamespace(isStreaming=True, sparkSession=fake_spark())
    start: Any = {"checkpoint": None, "cluster": None, "tasks": 1, "once": True, "line": 7}
    with pytest.raises(JobError, match=r"^query into out: Spark has no delta: give its package by --packages$") as raised:
        run_sinks.start_query(frame, Sink("out", "delta", "/somewhere"), **start)
    assert raised.value.line == 7

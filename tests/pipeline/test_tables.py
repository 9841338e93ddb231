"""Names of Iceberg tables, and which package is missing, with as much of a JVM as they ask for; compat tests have a real one."""

from __future__ import annotations

import json
import posixpath
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError

from ottla.pipeline import archive, tables
from ottla.pipeline.errors import PipelineError
from ottla.pipeline.session import SparkOptions, check_connectors, settings
from ottla.pipeline.sql import sinks
from ottla.pipeline.sql.job import JobError, Sink


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


def thrown(class_name: str) -> Py4JJavaError:
    return Py4JJavaError("", SimpleNamespace(_target_id="o1", getClass=lambda: SimpleNamespace(getName=lambda: class_name)))


def fake_spark(*classes: str) -> Any:
    """A session whose JVM has these classes."""

    def for_name(name: str, _initialize: bool, _loader: Any) -> None:
        if name not in classes:
            raise thrown("java.lang.ClassNotFoundException")

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
        return sinks.catalog_name(spark, Sink("out", "iceberg", place))

    assert named("lake.db.rows") == "lake.db.rows"
    assert named("rows").endswith(".`rows`")
    assert named("./a.b") == tables.iceberg_table(spark, "a.b")


def test_the_package_that_is_missing_is_named() -> None:
    spark = fake_spark("io.delta.sql.DeltaSparkSessionExtension")
    for there in ("delta", "parquet", "topic"):
        tables.check_package(spark, there)
    with pytest.raises(PipelineError, match=r"^Spark has no iceberg: name its package with --packages$"):
        tables.check_package(spark, "iceberg")


def test_other_errors_of_the_jvm_are_not_taken_for_a_missing_package() -> None:
    spark = fake_spark()
    for error in (Py4JNetworkError("the JVM is gone"), thrown("java.lang.NoClassDefFoundError")):

        def raising(*_: Any, error: Exception = error) -> None:
            raise error

        spark.sparkContext._jvm.java.lang.Class.forName = raising
        checks = (partial(tables.check_package, spark, "delta"), partial(check_connectors, spark, ["kafka"], "4.0.0"))
        for check in checks:
            with pytest.raises(type(error)) as raised:
                check()
            assert raised.value is error


def test_a_connector_that_is_missing_is_named() -> None:
    check_connectors(fake_spark("org.apache.spark.sql.kafka010.KafkaSourceProvider"), ["kafka"], "4.0.0")
    with pytest.raises(PipelineError, match=r"^Spark has no avro connector: give --jars, or to spark-submit --packages org\.ap"):
        check_connectors(fake_spark(), ["avro"], "4.0.0")


@pytest.mark.parametrize(
    ("name", "is_delta"),
    [
        ("io.delta:delta-spark_2.13:4.0.0", True),
        ("/jars/delta-spark_2.13-4.0.0.jar", True),
        ("delta-core_2.12-2.4.0.jar", True),
        ("io.delta:delta-storage:4.0.0", False),
        ("/delta-spark/one.jar", False),
        ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0", False),
    ],
)
def test_who_gives_deltas_package_has_a_session_for_its_tables(name: str, is_delta: bool, tmp_path: Path) -> None:
    assert tables.conf_of_packages(["a:b:1", name]) == (tables.DELTA_CONF if is_delta else {})
    jar = tmp_path / name.rpartition("/")[2]
    jar.touch()
    forms: list[Any] = [{"conf": {"spark.jars.packages": name}}, {"conf": {"spark.jars": f"one,{name}"}}]
    forms.append({"packages": (name,)} if name.count(":") == 2 else {"jars": (str(jar),)})
    for given in forms:
        found = settings(SparkOptions(**given), [], "4.0.0", is_local=True, submitted=False)
        assert (tables.DELTA_CONF.items() <= found.items()) == is_delta
    mine = {"spark.sql.extensions": "my.Own", "spark.jars.packages": name}
    assert settings(SparkOptions(conf=mine), [], "4.0.0", is_local=True, submitted=False)["spark.sql.extensions"] == "my.Own"


def test_an_archive_says_what_its_session_needs(tmp_path: Path) -> None:
    state = tmp_path / "_ottla"
    state.mkdir()
    for kind, conf in (("delta", tables.DELTA_CONF), ("parquet", {}), ("iceberg", {})):
        (state / "archive.json").write_text(json.dumps({"format": kind}))
        for address in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
            assert archive.conf_of(address) == conf
    assert archive.conf_of("s3a://bucket/archive") == {}


def test_a_sink_without_its_package_is_an_error_with_its_line() -> None:
    frame: Any = SimpleNamespace(isStreaming=True, sparkSession=fake_spark())
    start: Any = {"checkpoint": None, "cluster": None, "tasks": 1, "once": True, "line": 7}
    with pytest.raises(JobError, match=r"^query into out: Spark has no delta: name its package with --packages$") as raised:
        sinks.start_query(frame, Sink("out", "delta", "/somewhere"), **start)
    assert raised.value.line == 7

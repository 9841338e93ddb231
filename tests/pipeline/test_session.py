"""pipeline/session.py: what a session is made of, and the errors if there can be none. The compat tests start Spark itself."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ottla.pipeline import jars, session
from ottla.pipeline.errors import PipelineError
from ottla.pipeline.session import SparkOptions


def test_a_connector_has_sparks_version_and_a_client_of_its_time() -> None:
    assert jars.coordinates(["kafka"], "4.0.0") == [
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.0",
        "org.apache.commons:commons-pool2:2.12.0",
    ]
    assert "org.apache.kafka:kafka-clients:3.9.1" in jars.coordinates(["kafka"], "4.1.3")
    assert "org.apache.kafka:kafka-clients:3.9.2" in jars.coordinates(["kafka"], "4.9.0")  # not known yet: the last that is
    assert jars.coordinates(["avro"], "4.0.0.dev1") == ["org.apache.spark:spark-avro_2.13:4.0.0"]


def test_without_maven_spark_fetches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path))
    found = session.settings(SparkOptions(packages=("a:b:1",)), ["avro"], "4.0.0", is_local=True, submitted=False)
    assert found["spark.jars.packages"] == "a:b:1,org.apache.spark:spark-avro_2.13:4.0.0"
    assert "spark.jars" not in found


def test_jars_that_are_given_are_all(tmp_path: Path) -> None:
    jar = tmp_path / "one.jar"
    jar.touch()
    options = SparkOptions(jars=(str(jar),), conf={"spark.sql.session.timeZone": "Asia/Tokyo"})
    found = session.settings(options, ["kafka"], "4.0.0", is_local=False, submitted=False)
    assert found["spark.jars"] == str(jar)
    assert found["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert "spark.driver.host" not in found  # of a cluster's driver
    with pytest.raises(PipelineError, match=r"^--jars: there is no file .*two\.jar$"):
        session.settings(SparkOptions(jars=(str(tmp_path / "two.jar"),)), ["kafka"], "4.0.0", is_local=True, submitted=False)


def test_spark_submit_has_its_own_jars_and_log() -> None:
    found = session.settings(SparkOptions(), ["kafka"], "4.0.0", is_local=False, submitted=True)
    assert found == session.DEFAULTS


def test_no_java_or_an_old_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PipelineError, match=r"^Spark needs Java 17 or later: there is no java on the PATH$"):
        session.check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match=r"^Spark needs Java 17 or later: JAVA_HOME is .*, and there is no bin/java$"):
        session.check_java()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    for said, why in (
        ('openjdk version "11.0.2" 2019', "is Java 11$"),
        ('java version "1.8.0_3"', "is Java 8$"),
        ("", "does not run$"),
    ):
        java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
        java.chmod(0o755)
        with pytest.raises(PipelineError, match=why):
            session.check_java()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\" 2023' >&2\n")
    session.check_java()


def test_a_master_that_is_none_or_does_not_answer() -> None:
    session.check_master("local[2]")
    session.check_master("yarn")
    with pytest.raises(PipelineError, match=r"^here:7077 is not a Spark master"):
        session.check_master("here:7077")
    with pytest.raises(PipelineError, match=r"^cannot reach the Spark master spark://127\.0\.0\.1:1: Connection refused$"):
        session.check_master("spark://127.0.0.1:1")


def test_no_pyspark_or_an_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    old: Any = ModuleType("pyspark")
    old.__version__ = "3.5.4"
    monkeypatch.setitem(sys.modules, "pyspark", old)
    with pytest.raises(PipelineError, match=r"^pyspark 3\.5\.4 is installed, and the pipeline needs 4\.0: pip install"):
        session.spark_version()
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(PipelineError, match=r"^pyspark is not installed: pip install"):
        session.spark_version()

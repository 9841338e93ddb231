"""pipeline/session.py: what a session is made of, and the errors if there can be none. The compat tests start Spark itself."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ottla.pipeline import session
from ottla.pipeline.errors import PipelineError
from ottla.pipeline.session import SparkOptions


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
        ('openjdk version "16.0.2" 2021', "is Java 16$"),
        ("", "does not run$"),
    ):
        java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
        java.chmod(0o755)
        with pytest.raises(PipelineError, match=why):
            session.check_java()
    for version in ("17.0.1", "21.0.1"):
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2023' >&2\n")
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
    old.__version__ = "4.0.0.dev1"
    assert session.spark_version() == "4.0.0.dev1"
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(PipelineError, match=r"^pyspark is not installed: pip install"):
        session.spark_version()


class Builder:
    """Builds sessions of Spark that have every class, or none at all; notes what it is asked for."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.told: dict[str, str] = {}

    def appName(self, name: str) -> Builder:
        self.told["name"] = name
        return self

    def master(self, master: str) -> Builder:
        self.told["master"] = master
        return self

    def config(self, key: str, value: str) -> Builder:
        self.told[key] = value
        return self

    def getOrCreate(self) -> Builder:
        if self.error is not None:
            raise self.error
        return self


def built(monkeypatch: pytest.MonkeyPatch, builder: Builder, master: str | None, *, submitted: bool) -> list[str]:
    """Opens a session; returns what was checked before."""
    checked: list[str] = []
    monkeypatch.setenv("PYSPARK_PYTHON", "/their/python")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/their/python")
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    if submitted:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr("pyspark.sql.SparkSession", SimpleNamespace(builder=builder))
    monkeypatch.setattr(session, "check_java", lambda: checked.append("java"))
    monkeypatch.setattr(session, "check_master", checked.append)
    monkeypatch.setattr("ottla.pipeline.tables.has_class", lambda *_: True)
    found: Any = session.session(SparkOptions(master), connectors=(), name="mine")
    assert found is builder
    return checked


@pytest.mark.parametrize(
    ("master", "submitted", "used", "checked", "is_local"),
    [
        (None, False, "local[*]", ["java", "local[*]"], True),
        ("local[2]", False, "local[2]", ["java", "local[2]"], True),
        ("yarn", False, "yarn", ["java", "yarn"], False),
        (None, True, None, [], False),
        ("local[3]", True, "local[3]", [], True),
    ],
)
def test_a_session_is_local_or_where_it_was_submitted(
    monkeypatch: pytest.MonkeyPatch, master: str | None, submitted: bool, used: str | None, checked: list[str], is_local: bool
) -> None:
    builder = Builder()
    assert built(monkeypatch, builder, master, submitted=submitted) == checked
    assert (builder.told["name"], builder.told.get("master")) == ("mine", used)
    assert ("spark.driver.host" in builder.told) == is_local
    assert os.environ["PYSPARK_PYTHON"] == (sys.executable if is_local else "/their/python")


def test_a_session_that_does_not_start_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PipelineError, match=r"^Spark does not start: no room$"):
        built(monkeypatch, Builder(ValueError("no room")), None, submitted=False)


@pytest.mark.parametrize(("force", "python"), [(True, sys.executable), (False, "/their/python")])
def test_on_a_cluster_workers_are_the_interpreter_that_the_user_chose(
    monkeypatch: pytest.MonkeyPatch, force: bool, python: str
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/their/python")
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    session.use_this_python(force=force)
    assert (os.environ["PYSPARK_PYTHON"], os.environ.pop("PYSPARK_DRIVER_PYTHON")) == (python, sys.executable)


def test_spark_hides_what_of_kafkas_options_is_secret() -> None:
    hidden = re.compile(session.DEFAULTS["spark.redaction.regex"])
    secret = (
        "sasl.jaas.config",
        "ssl.keystore.key",
        "ssl.key.password",
        "ssl.keystore.password",
        "sasl.oauthbearer.client.secret",
    )
    assert all(hidden.search(f"kafka.{name}") for name in secret)
    assert hidden.search("-----BEGIN PRIVATE KEY-----")
    shown = ("bootstrap.servers", "security.protocol", "sasl.mechanism", "ssl.truststore.certificates", "ssl.keystore.type")
    assert not any(hidden.search(f"kafka.{name}") for name in shown)

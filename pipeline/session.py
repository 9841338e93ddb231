"""The one way to a Spark session, for every command of `ottla pipeline` and for a program of one's own:

    from ottla.pipeline.session import SparkOptions, session
    spark = session(SparkOptions())                              # local[*], with the kafka connector
    spark = session(SparkOptions(master="spark://host:7077"), connectors=("kafka", "avro"))

The session is local by default, or on the cluster that `master` names, or, within `spark-submit`, on the one that this was given.
jars.py finds the jars of connectors, unless `jars` or `packages` name them. On a local master Python workers are this interpreter
with this ottla; on a cluster PYSPARK_PYTHON is used if it is set, otherwise the same path must exist there.

What is missing raises a PipelineError in one line, before Spark prints pages: no pyspark or one that is too old, no Java or one
that is too old, a jar that does not exist, a master that does not answer.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.pipeline import jars, tables
from ottla.pipeline.errors import PipelineError, in_one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_SPARK: Final = (4, 0)
OLDEST_JAVA: Final = 17
HINT: Final = "pip install '.[spark]' in ottla's checkout"
CONNECT_S: Final = 5.0

_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_STANDALONE: Final = re.compile(r"^spark://([^,:]+):(\d+)")
_PROBE: Final = {"kafka": "org.apache.spark.sql.kafka010.KafkaSourceProvider", "avro": "org.apache.spark.sql.avro.AvroFileFormat"}

_HIDDEN: Final = "(?i)secret|password|token|access[.]?key|jaas|keystore[.]key|private[ .]key"
"""The pattern of what Spark shows only as redacted, in plans, logs and its pages: its own default, and what Kafka's options add
to that."""

DEFAULTS: Final = {
    "spark.redaction.regex": _HIDDEN,
    "spark.sql.session.timeZone": "UTC",  # dates of partitions are the same wherever the job runs
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
}
_LOG4J: Final = Path(__file__).resolve().parent / "log4j2.properties"
_LOCAL: Final = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "8"}


@dataclass(frozen=True)
class SparkOptions:
    """Says how to reach Spark. If `master` is None, it is local[*], or the one that spark-submit was given."""

    master: str | None = None
    jars: Sequence[str] = ()
    """The files of the connectors; if they are given, no others are looked for."""
    packages: Sequence[str] = ()
    """Maven coordinates of further packages; Spark fetches them with their dependencies."""
    conf: Mapping[str, str] = field(default_factory=dict)


def session(options: SparkOptions, *, connectors: Sequence[str] = ("kafka",), name: str = "ottla") -> SparkSession:
    """Returns a session that can load these connectors; the caller stops it. Raises PipelineError in one line if there can be
    none."""
    version = spark_version()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    master = options.master or (None if submitted else "local[*]")
    if not submitted:
        check_java()
        check_master(str(master))
    is_local = master is not None and master.startswith("local")
    use_this_python(force=is_local)
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in settings(options, connectors, version, is_local=is_local, submitted=submitted).items():
        builder = builder.config(key, value)
    try:
        spark: SparkSession = builder.getOrCreate()
    except Exception as error:
        raise PipelineError(f"Spark does not start: {in_one_line(error)}") from error
    check_connectors(spark, connectors, version)
    return spark


def spark_version() -> str:
    """Returns the version of the installed pyspark. Raises PipelineError if there is none, or if it is too old."""
    try:
        import pyspark
    except ImportError:
        raise PipelineError(f"pyspark is not installed: {HINT}") from None
    found = str(pyspark.__version__)
    if tuple(int(part) for part in re.findall(r"\d+", found)[:2]) < OLDEST_SPARK:
        raise PipelineError(f"pyspark {found} is installed, and the pipeline needs {'.'.join(map(str, OLDEST_SPARK))}: {HINT}")
    return found


def check_java() -> None:
    """Raises PipelineError if Spark would not find a Java that can run it."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    where = f"JAVA_HOME is {home}, and there is no bin/java" if home else "there is no java on the PATH"
    if java is None or not os.access(java, os.X_OK):
        raise PipelineError(f"Spark needs Java {OLDEST_JAVA} or later: {where}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = _JAVA_VERSION.search(said.stderr + said.stdout)
    if match is None:
        raise PipelineError(f"Spark needs Java {OLDEST_JAVA} or later, and {java} does not run")
    if int(match[1]) < OLDEST_JAVA:
        raise PipelineError(f"Spark needs Java {OLDEST_JAVA} or later, and {java} is Java {match[1]}")


def check_master(master: str) -> None:
    """Raises PipelineError if a standalone master does not answer; Spark itself would try for a minute and then stop its
    context."""
    match = _STANDALONE.match(master)
    if match is None:
        if not re.match(r"^(local($|\[)|spark://|yarn$|k8s://)", master):
            raise PipelineError(f"{master} is not a Spark master: local[*], spark://HOST:PORT, yarn or k8s://HOST:PORT")
        return
    try:
        socket.create_connection((match[1], int(match[2])), timeout=CONNECT_S).close()
    except OSError as error:
        raise PipelineError(f"cannot reach the Spark master {master}: {error.strerror or error}") from None


def use_this_python(*, force: bool) -> None:
    """Tells Spark to use this interpreter for its Python workers, unless, on a cluster, the user has chosen another."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        if force or name not in os.environ:
            os.environ[name] = sys.executable


def settings(
    options: SparkOptions, connectors: Sequence[str], version: str, *, is_local: bool, submitted: bool
) -> dict[str, str]:
    """Returns the configuration of the session. The user's own settings override all others."""
    found = dict(DEFAULTS)
    if not submitted:
        found["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}"
    if is_local:
        found |= _LOCAL
    files = list(options.jars)
    packages = list(options.packages)
    for file in files:
        if "://" not in file and not Path(file).is_file():
            raise PipelineError(f"--jars: there is no file {file}")
    if not files and not submitted and connectors:
        wanted = jars.coordinates(connectors, version)
        fetched = jars.by_maven(wanted)
        if fetched is None:
            packages += wanted
        else:
            files = [str(path) for path in fetched]
    if files:
        found["spark.jars"] = ",".join(files)
    if packages:
        found["spark.jars.packages"] = ",".join(packages)
    told = [options.conf.get(name, "") for name in ("spark.jars", "spark.jars.packages")]
    given = ",".join([*files, *packages, *told]).split(",")
    return found | tables.conf_of_packages(given) | dict(options.conf)


def check_connectors(spark: SparkSession, connectors: Sequence[str], version: str) -> None:
    """Raises PipelineError if the JVM cannot load a connector, because it was given other jars, or spark-submit none."""
    for name in connectors:
        if not tables.has_class(spark, _PROBE[name]):
            wanted = ",".join(jars.coordinates([name], version))
            raise PipelineError(f"Spark has no {name} connector: give --jars, or to spark-submit --packages {wanted}")

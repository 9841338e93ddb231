"""Delta and Iceberg tables: what a session needs for them, and the name in Iceberg of a table that is a directory.

A Delta table is simply a directory, but its session must have been started with DELTA_CONF. An Iceberg table has a name in a
catalog: the directory DIR/NAME is the table NAME of a Hadoop catalog in DIR, and the name of that catalog is derived from DIR, so
that one session can have tables in many places. A session accepts new catalogs at any time. Such a table can also be read without
a catalog: `spark.read.format("iceberg").load("DIR/NAME")`.

The packages must be those for Spark's version, `io.delta:delta-spark_2.13:4.0.0` and
`org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0` for Spark 4.0. The user names them: few users need both, and they are
larger than Spark's own connectors.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_CONF: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_DELTA_JAR: Final = re.compile(r"(?:^|[/:])delta-(?:spark|core)_")
"""Matches Delta's package in the address of a file or in Maven coordinates."""
_ICEBERG_CATALOG: Final = "org.apache.iceberg.spark.SparkCatalog"
_PROBE: Final = {"delta": DELTA_CONF["spark.sql.extensions"], "iceberg": _ICEBERG_CATALOG}


def conf_for(kind: str) -> dict[str, str]:
    """Returns the configuration that a session must be started with for tables of this format, besides their package."""
    return dict(DELTA_CONF) if kind == "delta" else {}


def conf_of_packages(names: Iterable[str]) -> dict[str, str]:
    """Returns the same for the packages and jars of a session: one that has Delta's may meet Delta tables anywhere."""
    return conf_for("delta") if any(_DELTA_JAR.search(name) for name in names) else {}


def check_package(spark: SparkSession, kind: str) -> None:
    """Raises PipelineError if the table's format needs a package that the session does not have; Spark itself would only name a
    class."""
    if kind in _PROBE and not has_class(spark, _PROBE[kind]):
        raise PipelineError(f"Spark has no {kind}: name its package with --packages")


def has_class(spark: SparkSession, name: str) -> bool:
    """Returns whether the session's JVM can load a class. Raises Py4J's errors if anything else fails, such as the JVM itself."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(name, False, loader)
    except Py4JJavaError as error:
        if str(error.java_exception.getClass().getName()) != "java.lang.ClassNotFoundException":
            raise
        return False
    return True


def iceberg_table(spark: SparkSession, directory: str) -> str:
    """Returns the name in SQL of the table that is this directory, which need not exist yet."""
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(directory)
    path = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).makeQualified(
        path
    )  # Iceberg writes it into its files
    warehouse, name = str(path.getParent().toString()), str(path.getName()).replace("`", "``")
    catalog = f"ottla_{hashlib.sha256(warehouse.encode()).hexdigest()[:12]}"
    spark.conf.set(f"spark.sql.catalog.{catalog}", _ICEBERG_CATALOG)
    spark.conf.set(f"spark.sql.catalog.{catalog}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{catalog}.warehouse", warehouse)
    spark.conf.set(f"spark.sql.catalog.{catalog}.cache-enabled", "false")  # otherwise it misses for 30 s what others write
    return f"{catalog}.`{name}`"

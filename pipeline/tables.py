"""Tables of Delta and of Iceberg: what a session needs for them, and what Iceberg calls a table that is a directory.

A Delta table is a directory wherever it is, but its session must have been started with DELTA_CONF. An Iceberg table has a name
in a catalog; a directory DIR/NAME is the table NAME of a Hadoop catalog in DIR, and every such catalog has a name of its own that
follows from DIR, so that one session can have tables in many places. A session takes these at any time. Who has such a table can
read it without a catalog: `spark.read.format("iceberg").load("DIR/NAME")`.

The packages must be those for Spark's version, `io.delta:delta-spark_2.13:4.0.0` and
`org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0` for Spark 4.0. The user gives them: few need both, and they are
larger than Spark's own connectors.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_CONF: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_ICEBERG_CATALOG: Final = "org.apache.iceberg.spark.SparkCatalog"
_PROBE: Final = {"delta": DELTA_CONF["spark.sql.extensions"], "iceberg": _ICEBERG_CATALOG}


def check_package(spark: SparkSession, kind: str) -> None:
    """PipelineError if the table's format needs a package that the session has not; Spark itself names a class."""
    if kind not in _PROBE:
        return
    jvm: Any = spark.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(_PROBE[kind], False, loader)
    except Exception as error:  # Py4J's, of which there are several
        raise PipelineError(f"Spark has no {kind}: give its package by --packages") from error


def iceberg_table(spark: SparkSession, directory: str) -> str:
    """The name in SQL of the table that is this directory, which need not be there yet."""
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
    spark.conf.set(f"spark.sql.catalog.{catalog}.cache-enabled", "false")  # else it misses for 30 s what others write
    return f"{catalog}.`{name}`"

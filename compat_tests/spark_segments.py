"""A job for spark-submit: reads a topic's segments and says how many records there are, and what their values add up to.

spark-submit --master URL spark_segments.py DIRECTORY
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ottla.pipeline.source import OttlaDataSource


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.dataSource.register(OttlaDataSource)
    number = F.col("value").cast("string").cast("bigint")
    row = spark.read.format("ottla").load(sys.argv[1]).agg(F.count("*").alias("records"), F.sum(number).alias("sum")).first()
    assert row is not None
    print(json.dumps(row.asDict()))
    spark.stop()


if __name__ == "__main__":
    main()

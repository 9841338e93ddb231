"""A driver of its own for test_pipeline_tables.py, since the session that the other tests share was started without Delta.

    python -m compat_tests.spark_tables PLAN.json RESULT.json

    plan     {bootstrap, jars, conf, topic, formats: {format: {archive, target, sink}}, job, checkpoint}
    result   {format: {empty: line, told: [lines], again: records, rows: [[partition, offset, ms, key, value, headers, date]],
             findings: [...], ahead: [records, findings], written: records, sink: [[partition, offset]]}}   bytes in hexadecimal

Of each format: archives a topic without records, then the one with some; does it again, reads the table, audits the topic against
it, also by a snapshot older than the archive, replays it. Then a job runs twice into sinks of both, which are read.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from compat_tests.audits import as_it_was, audited, now
from ottla.pipeline import archive, replay, tables
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import PipelineError
from ottla.pipeline.run import RunOptions, run_job
from ottla.pipeline.session import SparkOptions, session

BATCH = 500
BEFORE = 30


def of_archive(spark: SparkSession, plan: dict[str, Any], table: str) -> dict[str, Any]:
    """Returns what archive, audit and replay did."""
    kafka, topic, place = KafkaCluster({"bootstrap.servers": plan["bootstrap"]}), plan["topic"], plan["formats"][table]
    empty = archive.Archive(kafka, place["target"], f"{place['archive']}-empty", table=table)
    archive.run(spark, empty, print)
    said = ""
    try:
        archive.read(spark, empty.directory)
    except PipelineError as error:
        said = str(error)
    told: list[str] = []
    wanted = archive.Archive(kafka, topic, place["archive"], table=table, batch_records=BATCH)
    archive.run(spark, wanted, told.append)
    again = archive.run(spark, wanted, told.append).records
    bootstrap = plan["bootstrap"]
    old = as_it_was(bootstrap, topic, BEFORE)
    report, ahead = (audited(spark, bootstrap, topic, place["archive"], look=look) for look in (None, old))
    partitions = len(now(bootstrap, place["target"])())
    written = replay.run(spark, replay.Replay(kafka, place["archive"], place["target"]), partitions).written
    rows = rows_of(spark, place["archive"])
    findings = {"findings": report.findings, "ahead": [ahead.records, ahead.findings]}
    return {"empty": said, "told": told, "again": again, "rows": rows, "written": written, **findings}


def rows_of(spark: SparkSession, directory: str) -> list[Any]:
    frame, _ = archive.read(spark, directory)
    headers = F.transform("headers", lambda header: F.array(header["key"], F.lower(F.hex(header["value"]))))
    chosen = frame.select(
        "partition", "offset", F.unix_millis("timestamp"), F.lower(F.hex("key")), F.lower(F.hex("value")), headers,
        F.col("date").cast("string"),
    )  # fmt: skip
    return [list(row) for row in chosen.orderBy("partition", "offset").collect()]


def sink_of(spark: SparkSession, table: str, path: str) -> list[Any]:
    """As a user reads it, who knows nothing of ottla."""
    return [list(row) for row in spark.read.format(table).load(path).select("part", "number").orderBy("part", "number").collect()]


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    options = SparkOptions("local[2]", plan["jars"], conf=tables.DELTA_CONF | plan["conf"])
    spark = session(options)
    result = {table: of_archive(spark, plan, table) for table in plan["formats"]}
    wanted = RunOptions({"bootstrap.servers": plan["bootstrap"]}, plan["checkpoint"], once=True, progress_s=0)
    for _ in range(2):
        run_job(Path(plan["job"]), wanted, lambda _connectors, _conf: nullcontext(spark), print)
    for table, place in plan["formats"].items():
        result[table]["sink"] = sink_of(spark, table, place["sink"])
    Path(sys.argv[2]).write_text(json.dumps(result))
    spark.stop()


if __name__ == "__main__":
    main()

"""The rows of the comparison: kload's scenarios with their options, and the figures that are taken from them with their targets.

A target is what issues 4, 5 and 6 promise: a ratio to Apache Kafka measured in the same run, or an absolute bound. The one for
acknowledgement after fsync is ten times what one fsync after the other allows on the machine that the issue was written on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Place(Enum):
    """The place where the brokers keep their directories: the storage decides what large batches cost."""

    DISK = "on disk"
    TMPFS = "on tmpfs"


@dataclass(frozen=True)
class Load:
    """A scenario of kload. `rounds` False: it is run once, since it changes the broker for good."""

    name: str
    place: Place
    arguments: str
    rounds: bool = True


@dataclass(frozen=True)
class Row:
    """A line of the table: `figure` of `load`. One of the targets: a ratio to Kafka's (at most, or at least where higher is
    better), or an absolute number, `absolute` at most or `no_less`."""

    title: str
    load: str
    figure: str
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    absolute: float | None = None
    no_less: float | None = None

    @property
    def has_no_target(self) -> bool:
        return {self.at_most, self.at_least, self.absolute, self.no_less} == {None}


LOADS = (
    Load("small", Place.DISK, "produce --conns 8 --depth 5 --partitions 4 --seconds 5"),
    Load("middle", Place.DISK, "produce --conns 4 --depth 5 --partitions 4 --records 16 --record-bytes 1000 --seconds 5"),
    Load("middle-tmpfs", Place.TMPFS, "produce --conns 4 --depth 5 --partitions 4 --records 16 --record-bytes 1000 --seconds 5"),
    Load("durable", Place.DISK, "produce --config flush.messages=1 --conns 32 --depth 1 --seconds 5"),
    Load("durable-5", Place.DISK, "produce --config flush.messages=1 --conns 32 --depth 5 --seconds 5"),
    Load("large-tmpfs", Place.TMPFS, "produce --conns 2 --depth 2 --records 1000 --record-bytes 1000 --seconds 2"),
    Load("fetch", Place.DISK, "fetch --mib 256 --passes 16 --records 1000 --record-bytes 1000"),
    Load("e2e", Place.DISK, "e2e --rate 500 --seconds 10"),
    Load("e2e-stuck", Place.DISK, "e2e --rate 500 --seconds 10 --stuck 5000"),
    Load("group", Place.DISK, "group --members 50 --seconds 60"),
    Load("group-storm", Place.DISK, "group-storm --groups 100 --members 10 --seconds 60"),
    Load("commits", Place.DISK, "commits --conns 8 --depth 5 --partitions 4 --seconds 5"),
    Load("transactions", Place.DISK, "transactions --conns 8 --partitions 4 --records 100 --seconds 5"),
    Load("idle", Place.DISK, "idle --conns 1000 --seconds 1", rounds=False),
    Load("metadata", Place.DISK, "metadata --topics 1000 --partitions 10 --seconds 5", rounds=False),
)

ROWS = (
    Row(
        "produce, 1 record of 100 B, 8 connections × 5 in flight: CPU",
        "small",
        "broker_cpu_us_per_request",
        "us/request",
        at_most=0.5,
    ),
    Row("the same: requests", "small", "requests_per_s", "/s", at_least=1.4),
    Row("the same: p99", "small", "p99_ms", "ms"),
    Row("produce 16 × 1 kB, 4 connections, on disk: CPU", "middle", "broker_cpu_s_per_gib", "s/GiB", at_most=0.7),
    Row("the same, on tmpfs: CPU", "middle-tmpfs", "broker_cpu_s_per_gib", "s/GiB", at_most=0.7),
    Row("produce 1,000 × 1 kB, on tmpfs: CPU", "large-tmpfs", "broker_cpu_s_per_gib", "s/GiB", at_most=0.5),
    Row("produce after fsync (flush.messages=1), 32 connections × 1 in flight", "durable", "requests_per_s", "/s", no_less=3800),
    Row("the same: p99", "durable", "p99_ms", "ms"),
    Row("the same, × 5 in flight", "durable-5", "requests_per_s", "/s", no_less=3800),
    Row("the same: p99", "durable-5", "p99_ms", "ms"),
    Row("fetch 1 MB batches: CPU", "fetch", "broker_cpu_s_per_gib", "s/GiB", at_most=0.7),
    Row("end to end at 500/s: p50", "e2e", "e2e_p50_ms", "ms", at_most=0.5),
    Row("the same: p99", "e2e", "e2e_p99_ms", "ms", at_most=0.5),
    Row("the same beside 5,000 connections stuck in half a frame: p50", "e2e-stuck", "e2e_p50_ms", "ms", at_most=0.5),
    Row("the same: p99", "e2e-stuck", "e2e_p99_ms", "ms", at_most=0.5),
    Row("start to first ApiVersions answer, empty directory", "start", "ready_s", "s", absolute=0.3),
    Row("resident memory, idle", "start", "idle_rss_mib", "MiB", absolute=50),
    Row("resident memory, after the loads", "end", "rss_mib", "MiB", absolute=120),
    Row("metadata of 1,000 topics × 10 partitions: CPU", "metadata", "broker_cpu_us_per_request", "us/request", at_most=0.8),
    Row("classic group of 50 members: time to stable", "group", "stable_s", "s", at_most=1.0),
    Row("100 classic groups of 10 members at once: time to stable", "group-storm", "stable_s", "s", at_most=1.0),
    Row("the same: CPU", "group-storm", "broker_cpu_s", "s"),
    Row("commits of 4 partitions, 8 groups × 5 in flight", "commits", "commits_per_s", "/s", at_least=1.2),
    Row("the same: p99", "commits", "p99_ms", "ms"),
    Row("the same: CPU", "commits", "broker_cpu_us_per_request", "us/request"),
    Row("transactions of 100 records, 8 producers", "transactions", "transactions_per_s", "/s", at_least=1.0),
    Row("the same: p99", "transactions", "p99_ms", "ms"),
    Row("the same: CPU", "transactions", "broker_cpu_us_per_transaction", "us"),
    Row("1,000 idle connections: memory", "idle", "broker_rss_grew_mib", "MiB", absolute=10),
)

OPENING_ROWS = (
    Row("start with 1,000 partitions of 2 GiB in all, after a clean stop", "opening-clean", "s", "s", at_most=0.5),
    Row("the same: opening the logs, by the broker's log", "opening-clean", "open_s", "s", at_most=0.5),
    Row("the same, after kill -9, page cache warm", "opening-kill9", "s", "s", at_most=0.5),
    Row("the same: opening the logs, by the broker's log", "opening-kill9", "open_s", "s", at_most=0.5),
)
"""Of scripts/bench/opening.py, which measures them apart from the loads."""

COMPACTION_ROWS = (
    Row("compaction of 1 GiB, 10 % distinct keys, 1 kB values", "compaction", "mib_per_s", "MiB/s", at_least=1.2),
    Row("the same: CPU", "compaction", "cpu_s_per_gib", "s/GiB", at_most=0.8),
    Row("end to end at 500/s, p99: no compaction", "compaction-e2e", "e2e_p99_ms", "ms"),
    Row("the same: while compacting", "compaction-e2e", "e2e_compacting_p99_ms", "ms"),
)
"""Of scripts/bench/compaction.py, likewise."""

SPARK_ROWS = (
    Row("Spark's kafka connector, 1 GiB of 1 kB records, zstd", "spark-1kB", "mb_per_s", "MB/s", at_least=1.0),
    Row("the same, records of 100 B", "spark-100B", "mb_per_s", "MB/s"),
    Row('format("ottla") against the connector through Kafka, 1 kB', "spark-direct-1kB", "mb_per_s", "MB/s", at_least=1.2),
    Row("the same, records of 100 B", "spark-direct-100B", "mb_per_s", "MB/s", at_least=2.5),
    Row("the same, 1 kB, offset and timestamp alone", "spark-columns", "mb_per_s", "MB/s", at_least=5.0),
    Row("streaming join at 5,000 records/s: lag p50", "spark-join", "p50_ms", "ms"),
    Row("the same: p99", "spark-join", "p99_ms", "ms"),
)
"""Of scripts/bench/spark.py, likewise."""

ALL_ROWS = ROWS + OPENING_ROWS + COMPACTION_ROWS + SPARK_ROWS

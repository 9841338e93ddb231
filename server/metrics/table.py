"""Lists every metric: its name, kind, labels, meaning, and the function that makes its rows.

Names are those under which the JMX exporter's usual rules show Kafka's own metrics
(`kafka_server_brokertopicmetrics_bytesin_total`), and for consumer groups those of kafka-exporter. Names of metrics that Kafka
does not have begin with `ottla_`. Kinds are Prometheus'; the name of a counter ends in `_total`, and a counter starts at 0 with
the process.

`rows` yields (values of the labels, number), or Times instead of the number if the kind is summary or histogram. A reader may
stop in the middle and let the broker run. So rows are made from copies of whatever may change meanwhile, never while iterating
over it, and what has gone by then is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ottla import __version__
from ottla.server.group.classic.group import ClassicGroup, State
from ottla.server.group.offsets import is_stale
from ottla.server.metrics.cleaner_rows import CLEANER_ROWS
from ottla.server.metrics.client_rows import CLIENT_ROWS
from ottla.server.metrics.cluster_rows import CLUSTER_ROWS
from ottla.server.metrics.controller_rows import CONTROLLER_ROWS
from ottla.server.metrics.coordinator_rows import COORDINATOR_ROWS
from ottla.server.metrics.group_rows import GROUP_ROWS
from ottla.server.metrics.latency import Times, sum_times
from ottla.server.metrics.login_rows import LOGIN_ROWS
from ottla.server.metrics.memory_rows import MEMORY_ROWS
from ottla.server.metrics.quota_rows import QUOTA_ROWS
from ottla.server.metrics.replication_rows import REPLICATION_ROWS
from ottla.server.metrics.rows import single
from ottla.server.metrics.sources import Sources
from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog

Kind = Literal["counter", "gauge", "summary", "histogram"]
Row = tuple[tuple[str, ...], float]
TimesRow = tuple[tuple[str, ...], Times]

RUNNING: Final = 3
"""The numbers that Kafka has for the state of a broker: this one, and SHUTTING_DOWN."""
SHUTTING_DOWN: Final = 7


class Metric(NamedTuple):
    """Describes one metric; see the module's docstring. `doc` is its help text and its description in docs/metrics.md."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    doc: str
    rows: Callable[[Sources], Iterable[Row] | Iterable[TimesRow]]


# Topics


def traffic(*fields: str) -> Callable[[Sources], Iterator[Row]]:
    """Makes rows of the sum of these counters of Traffic: first the whole broker under topic "", then each topic with traffic."""

    def value(counters: Any) -> int:
        return sum(getattr(counters, field) for field in fields)

    def rows(sources: Sources) -> Iterator[Row]:
        replicas = sources.context.replicas
        topics = list(replicas.traffic.items())
        yield ("",), value(replicas.past_traffic) + sum(value(each) for _, each in topics)
        for topic, each in topics:
            if each.appends or each.refused or each.fetches:
                yield (topic,), value(each)

    return rows


def log_rows(value: Callable[[Any], int]) -> Callable[[Sources], Iterator[Row]]:
    """Makes rows of a number for each partition's log, the metadata log included."""

    def rows(sources: Sources) -> Iterator[Row]:
        for log in list(sources.logs.logs.values()):
            yield (log.topic, str(log.partition)), value(log)

    return rows


# Requests


def request_counts(sources: Sources) -> Iterator[Row]:
    for number, counts in sorted(sources.requests.counts.items()):
        yield (APIS[number >> 16].name, str(number & 0xFFFF)), counts.requests


def request_errors(sources: Sources) -> Iterator[Row]:
    sums: dict[tuple[int, int], int] = {}
    for number, counts in sources.requests.counts.items():
        for code, count in counts.errors.items():
            found = (number >> 16, code)
            sums[found] = sums.get(found, 0) + count
    for (key, code), count in sorted(sums.items()):
        yield (APIS[key].name, ErrorCode(code).name), count


def request_times(sources: Sources) -> Iterator[TimesRow]:
    by_number = sources.requests.counts
    for key in sorted({number >> 16 for number in by_number}):
        yield (APIS[key].name,), sum_times([counts for number, counts in by_number.items() if number >> 16 == key])


# Groups


def members(sources: Sources) -> Iterator[Row]:
    for shard in sources.group_shards():
        for group in list(shard.groups.values()):
            yield (group.group_id,), group.member_count


def group_count_in(*states: State) -> Callable[[Sources], Iterator[Row]]:
    return single(
        lambda sources: sum(
            not states or (isinstance(group, ClassicGroup) and group.state in states)
            for shard in sources.group_shards()
            for group in shard.groups.values()
        )
    )


def offset_count(sources: Sources) -> int:
    return sum(
        len(partitions)
        for shard in sources.group_shards()
        for group_id in shard.groups
        for partitions in shard.offsets.of_group(group_id).values()
    )


def committed_offsets(sources: Sources) -> Iterator[tuple[str, str, int, int, int | None]]:
    """Yields (group, topic, partition, offset, lag) of committed offsets; the lag is None if the partition is not here."""
    replicas = sources.context.replicas
    for shard in sources.group_shards():
        for group_id in list(shard.groups):
            for topic, partitions in list(shard.offsets.of_group(group_id).items()):
                for index, found in sorted(partitions.items()):
                    replica = replicas.get(topic, index)
                    if replica is not None and is_stale(found.value.topic_id, replica.topic_id):
                        continue  # it is of an earlier topic of this name
                    offset = found.value.offset
                    yield group_id, topic, index, offset, None if replica is None else max(0, replica.log.high_watermark - offset)


def current_offsets(sources: Sources) -> Iterator[Row]:
    for group_id, topic, index, offset, _ in committed_offsets(sources):
        yield (group_id, topic, str(index)), offset


def lags(sources: Sources) -> Iterator[Row]:
    for group_id, topic, index, _, lag in committed_offsets(sources):
        if lag is not None:
            yield (group_id, topic, str(index)), lag


def lag_sums(sources: Sources) -> Iterator[Row]:
    current, total = ("", ""), 0
    for group_id, topic, _, _, lag in committed_offsets(sources):
        if (group_id, topic) != current:
            if any(current):
                yield current, total
            current, total = (group_id, topic), 0
        total += lag or 0
    if any(current):
        yield current, total


# The broker and the cluster


def offline_replicas(sources: Sources) -> int:
    """Counts the replicas that the metadata places here, except those whose log is in a directory that works."""
    context = sources.context
    node_id = context.config.node_id
    placed = sum(node_id in each.replicas for topic in context.metadata.topics.values() for each in topic.partitions.values())
    return placed - sum(replica.log.directory.failed is None for replica in context.replicas)


def directories_offline(sources: Sources) -> Iterator[Row]:
    for directory in sources.logs.directories:
        yield (directory.path,), float(directory.failed is not None)


def flush_times(sources: Sources) -> Iterator[TimesRow]:
    directories = sources.logs.directories
    yield (), Times(sum(each.flushes for each in directories), sum(each.flushed_ms for each in directories) * 1_000_000)


def listener_rows(value: Callable[[Any], int]) -> Callable[[Sources], Iterator[Row]]:
    def rows(sources: Sources) -> Iterator[Row]:
        for listener in sources.listeners:
            yield (listener.name,), value(listener)

    return rows


def logs_led_here(sources: Sources) -> Iterator[PartitionLog]:
    return (replica.log for replica in sources.context.replicas if replica.is_leader)


def late_transactions(sources: Sources) -> int:
    context = sources.context
    now_ms, longest_ms = context.clock.now_ms(), context.config.values["transaction.max.timeout.ms"]
    return sum(log.producers.has_late_transaction(now_ms, longest_ms) for log in logs_led_here(sources))


_TOPIC: Final = ("topic",)
_PARTITION: Final = ("topic", "partition")
_GROUP_PARTITION: Final = ("consumergroup", "topic", "partition")
_TRAFFIC: Final = "kafka_server_brokertopicmetrics_"
_REQUESTS: Final = "kafka_network_requestmetrics_"
_GROUPS: Final = "kafka_coordinator_group_groupmetadatamanager_"
_SOCKETS: Final = "kafka_server_socketservermetrics_"

METRICS: Final[tuple[Metric, ...]] = (
    Metric(
        f"{_TRAFFIC}messagesin_total",
        "counter",
        _TOPIC,
        'Records appended; topic "" is the whole broker.',
        traffic("messages_in"),
    ),
    Metric(f"{_TRAFFIC}bytesin_total", "counter", _TOPIC, "Bytes of record batches appended.", traffic("bytes_in")),
    Metric(
        f"{_TRAFFIC}bytesout_total", "counter", _TOPIC, "Bytes of record batches in answers to fetches.", traffic("bytes_out")
    ),
    Metric(
        f"{_TRAFFIC}totalproducerequests_total",
        "counter",
        _TOPIC,
        "Batches to append, including those that were refused.",
        traffic("appends", "refused"),
    ),
    Metric(
        f"{_TRAFFIC}failedproducerequests_total", "counter", _TOPIC, "Batches that a partition's log refused.", traffic("refused")
    ),
    Metric(
        f"{_TRAFFIC}totalfetchrequests_total",
        "counter",
        _TOPIC,
        "Reads of a partition by fetches; a long poll makes several.",
        traffic("fetches"),
    ),
    Metric(
        f"{_TRAFFIC}failedfetchrequests_total",
        "counter",
        _TOPIC,
        "Reads of a partition by fetches that ended in an error.",
        traffic("failed_fetches"),
    ),
    Metric(f"{_REQUESTS}requests_total", "counter", ("request", "version"), "Requests by API and version.", request_counts),
    Metric(
        f"{_REQUESTS}errors_total",
        "counter",
        ("request", "error"),
        "Error codes in answers, every occurrence of each; NONE is not counted.",
        request_errors,
    ),
    Metric(
        f"{_REQUESTS}totaltimems",
        "summary",
        ("request",),
        "Time from a request to its answer in ms, waiting included; quantiles of the last 5 to 10 minutes.",
        request_times,
    ),
    Metric(
        "ottla_request_duration_seconds",
        "histogram",
        ("request",),
        "Time from a request to its answer in seconds, waiting included, in buckets that double: for quantiles over any time and "
        "over several brokers.",
        request_times,
    ),
    Metric("kafka_log_log_size", "gauge", _PARTITION, "Bytes in the partition's segments.", log_rows(lambda log: log.size_bytes)),
    Metric(
        "kafka_log_log_logstartoffset",
        "gauge",
        _PARTITION,
        "First offset that can be read.",
        log_rows(lambda log: log.log_start_offset),
    ),
    Metric(
        "kafka_log_log_logendoffset", "gauge", _PARTITION, "Offset of the next record.", log_rows(lambda log: log.log_end_offset)
    ),
    Metric(
        "kafka_log_log_numlogsegments", "gauge", _PARTITION, "Segments of the partition.", log_rows(lambda log: len(log.segments))
    ),
    Metric(
        "kafka_log_logflushstats_logflushrateandtimems",
        "summary",
        (),
        "Flushes (fsync) of partitions and the time they took in ms.",
        flush_times,
    ),
    Metric(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "gauge",
        (),
        "Log directories that failed.",
        single(lambda sources: sum(each.failed is not None for each in sources.logs.directories)),
    ),
    Metric(
        "kafka_log_logmanager_logdirectoryoffline",
        "gauge",
        ("logDirectory",),
        "1 for a log directory that failed.",
        directories_offline,
    ),
    Metric(
        "kafka_server_replicamanager_partitioncount",
        "gauge",
        (),
        "Partitions that this broker holds.",
        single(lambda sources: len(sources.context.replicas)),
    ),
    Metric(
        "kafka_server_replicamanager_leadercount",
        "gauge",
        (),
        "Partitions that this broker leads.",
        single(lambda sources: sum(replica.is_leader for replica in sources.context.replicas)),
    ),
    Metric(
        "kafka_server_replicamanager_produceridcount",
        "gauge",
        (),
        "Producers that the partitions led here remember, each partition for itself.",
        single(lambda sources: sum(len(log.producers) for log in logs_led_here(sources))),
    ),
    Metric(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "gauge",
        (),
        "Partitions led here with a transaction that should have ended more than five minutes ago and will not end by itself.",
        single(late_transactions),
    ),
    Metric(
        "kafka_server_replicamanager_offlinereplicacount",
        "gauge",
        (),
        "Partitions whose log here cannot be used.",
        single(offline_replicas),
    ),
    *(Metric(*row) for row in REPLICATION_ROWS),
    Metric(
        "kafka_server_kafkaserver_brokerstate",
        "gauge",
        (),
        "3: running, 7: shutting down.",
        single(lambda sources: RUNNING if sources.serving else SHUTTING_DOWN),
    ),
    Metric(
        "ottla_test_mode",
        "gauge",
        (),
        "1 if the broker has a test port (ottla.test.port), where a test breaks it on purpose, else 0.",
        single(lambda sources: sources.context.config.values["ottla.test.port"] is not None),
    ),
    Metric(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "gauge",
        (),
        "Fetch sessions.",
        single(lambda sources: len(sources.context.fetch_sessions)),
    ),
    Metric(
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
        "counter",
        (),
        "Fetch sessions that were evicted to make room for others.",
        single(lambda sources: sources.context.fetch_sessions.evictions),
    ),
    Metric(
        f"{_SOCKETS}connection_count",
        "gauge",
        ("listener",),
        "Open connections.",
        listener_rows(lambda listener: len(listener.connections)),
    ),
    Metric(
        f"{_SOCKETS}connection_creation_total",
        "counter",
        ("listener",),
        "Connections accepted.",
        listener_rows(lambda listener: listener.accepted),
    ),
    Metric(
        f"{_SOCKETS}connection_close_total",
        "counter",
        ("listener",),
        "Connections that ended.",
        listener_rows(lambda listener: listener.accepted - len(listener.connections)),
    ),
    Metric(
        "ottla_listener_refused_connections_total",
        "counter",
        ("listener",),
        "Connections refused by max.connections and max.connections.per.ip.",
        listener_rows(lambda listener: listener.refused),
    ),
    *(Metric(*row) for row in CONTROLLER_ROWS),
    Metric(f"{_GROUPS}numgroups", "gauge", (), "Groups that this broker coordinates.", group_count_in()),
    Metric(f"{_GROUPS}numgroupsempty", "gauge", (), "Groups without members.", group_count_in(State.EMPTY)),
    Metric(
        f"{_GROUPS}numgroupspreparingrebalance",
        "gauge",
        (),
        "Groups whose members are joining.",
        group_count_in(State.PREPARING_REBALANCE),
    ),
    Metric(
        f"{_GROUPS}numgroupscompletingrebalance",
        "gauge",
        (),
        "Groups that wait for their leader's assignment.",
        group_count_in(State.COMPLETING_REBALANCE),
    ),
    Metric(f"{_GROUPS}numgroupsstable", "gauge", (), "Stable groups.", group_count_in(State.STABLE)),
    Metric(f"{_GROUPS}numoffsets", "gauge", (), "Committed offsets.", single(offset_count)),
    Metric("kafka_consumergroup_members", "gauge", ("consumergroup",), "Members of the group.", members),
    Metric("kafka_consumergroup_current_offset", "gauge", _GROUP_PARTITION, "Committed offset.", current_offsets),
    Metric("kafka_consumergroup_lag", "gauge", _GROUP_PARTITION, "Records that the group has not committed yet.", lags),
    Metric(
        "kafka_consumergroup_lag_sum",
        "gauge",
        ("consumergroup", "topic"),
        "Records of the whole topic that the group has not committed yet.",
        lag_sums,
    ),
    *(
        Metric(*row)
        for row in (
            *CLUSTER_ROWS,
            *GROUP_ROWS,
            *COORDINATOR_ROWS,
            *CLEANER_ROWS,
            *CLIENT_ROWS,
            *QUOTA_ROWS,
            *LOGIN_ROWS,
            *MEMORY_ROWS,
        )
    ),
    Metric(
        "ottla_info", "gauge", ("version",), "Always 1; the label is the version of ottla.", lambda sources: [((__version__,), 1)]
    ),
)

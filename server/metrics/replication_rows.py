"""Makes the rows of the metrics about partitions that several brokers have, for server/metrics/table.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Literal

from ottla.server.metrics.rows import Row, Rows
from ottla.server.metrics.sources import Sources
from ottla.server.partitions.roles import Leader

if TYPE_CHECKING:
    from ottla.server.metadata.image import PartitionImage
    from ottla.server.partitions.high_watermark import HighWatermark
    from ottla.server.replication.fetchers import Fetchers


def _led(sources: Sources) -> Iterator[PartitionImage]:
    """Yields the partitions that this broker leads by the metadata."""
    node_id = sources.context.config.node_id
    for topic in sources.context.metadata.topics.values():
        for each in topic.partitions.values():
            if each.leader == node_id:
                yield each


def _under_replicated(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
    yield (), sum(len(each.isr) < len(each.replicas) - len(each.adding_replicas) for each in _led(sources))


def _reassigning(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
    yield (), sum(bool(each.adding_replicas or each.removing_replicas) for each in _led(sources))


def _led_where(holds: Callable[[HighWatermark], bool]) -> Rows:
    """Makes a row of the number of partitions led here that have followers and for which this holds."""

    def rows(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
        led = [replica.role.high_watermark for replica in sources.context.replicas if isinstance(replica.role, Leader)]
        yield (), sum(each is not None and holds(each) for each in led)

    return rows


def _changes(name: Literal["expands", "shrinks", "failed_updates"]) -> Rows:
    """Makes a row of one counter of changes of in-sync replicas (server/replication/leading.py)."""

    def rows(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
        leading = sources.context.leading
        yield (), 0 if leading is None else getattr(leading, name)

    return rows


def _fetching(value: Callable[[Fetchers], float]) -> Rows:
    """Makes a row of a figure of what is fetched from other brokers, 0 where nothing is."""

    def rows(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
        fetchers = sources.context.fetchers
        yield (), 0 if fetchers is None else value(fetchers)

    return rows


REPLICATION_ROWS: Final[tuple[Row, ...]] = (
    (
        "kafka_server_replicamanager_underreplicatedpartitions",
        "gauge",
        (),
        "Partitions led here with replicas that are not in sync; replicas that are being added do not count.",
        _under_replicated,
    ),
    (
        "kafka_server_replicamanager_underminisrpartitioncount",
        "gauge",
        (),
        "Partitions led here with fewer replicas in sync than min.insync.replicas; acks=all is refused there.",
        _led_where(lambda led: len(led.in_sync) < led.min_in_sync),
    ),
    (
        "kafka_server_replicamanager_atminisrpartitioncount",
        "gauge",
        (),
        "Partitions with followers, led here, of which exactly min.insync.replicas are in sync.",
        _led_where(lambda led: len(led.in_sync) == led.min_in_sync),
    ),
    (
        "kafka_server_replicamanager_reassigningpartitions",
        "gauge",
        (),
        "Partitions led here that are being moved to other brokers.",
        _reassigning,
    ),
    (
        "kafka_server_replicamanager_isrexpands_total",
        "counter",
        (),
        "How often a follower of a partition led here has joined the in-sync replicas.",
        _changes("expands"),
    ),
    (
        "kafka_server_replicamanager_isrshrinks_total",
        "counter",
        (),
        "How often followers of a partition led here were taken out of the in-sync replicas because they lagged.",
        _changes("shrinks"),
    ),
    (
        "kafka_server_replicamanager_failedisrupdates_total",
        "counter",
        (),
        "Changes of in-sync replicas that the controllers have refused.",
        _changes("failed_updates"),
    ),
    (
        "kafka_server_replicafetchermanager_maxlag",
        "gauge",
        (),
        "How many records the partition that is furthest behind is behind its leader's high watermark, of those followed here.",
        _fetching(lambda fetchers: fetchers.max_lag()),
    ),
    (
        "kafka_server_replicafetchermanager_failedpartitionscount",
        "gauge",
        (),
        "Partitions that are followed here and not fetched any more, because of a failure or until their next leader is known.",
        _fetching(lambda fetchers: fetchers.stopped()),
    ),
    (
        "kafka_server_brokertopicmetrics_replicationbytesin_total",
        "counter",
        (),
        "Bytes of record batches fetched from other brokers.",
        _fetching(lambda fetchers: fetchers.bytes_in),
    ),
)

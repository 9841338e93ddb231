"""Makes the rows of what Apache Kafka's controllers count, for server/metrics/table.py: brokers, topics and partitions of the
cluster, as this broker's metadata have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.server.metrics.rows import Row, Rows, single
from ottla.server.metrics.sources import Sources

if TYPE_CHECKING:
    from ottla.server.metadata.image import PartitionImage


def _partitions_where(holds: Callable[[PartitionImage], bool]) -> Rows:
    """Makes a row of the number of the cluster's partitions for which this holds."""
    return single(
        lambda sources: sum(
            holds(partition) for topic in sources.context.metadata.topics.values() for partition in topic.partitions.values()
        )
    )


def _is_controller(sources: Sources) -> int:
    """Returns 1 if this broker is its own controller, once it is registered."""
    config = sources.context.config
    return int(not config.follows_controllers and config.node_id in sources.context.metadata.brokers)


def _brokers(*, fenced: bool) -> Rows:
    return single(lambda sources: sum(broker.fenced == fenced for broker in sources.context.metadata.brokers.values()))


_CONTROLLER: Final = "kafka_controller_kafkacontroller_"

CONTROLLER_ROWS: Final[tuple[Row, ...]] = (
    (
        f"{_CONTROLLER}activecontrollercount",
        "gauge",
        (),
        "1: this broker is its own controller. In a cluster it is 0: the controllers there count themselves.",
        single(_is_controller),
    ),
    (f"{_CONTROLLER}activebrokercount", "gauge", (), "Brokers that are registered and not fenced.", _brokers(fenced=False)),
    (f"{_CONTROLLER}fencedbrokercount", "gauge", (), "Brokers that are fenced.", _brokers(fenced=True)),
    (
        f"{_CONTROLLER}globaltopiccount",
        "gauge",
        (),
        "Topics of the cluster.",
        single(lambda sources: len(sources.context.metadata.topics)),
    ),
    (
        f"{_CONTROLLER}globalpartitioncount",
        "gauge",
        (),
        "Partitions of the cluster.",
        _partitions_where(lambda partition: True),
    ),
    (
        f"{_CONTROLLER}offlinepartitionscount",
        "gauge",
        (),
        "Partitions without a leader.",
        _partitions_where(lambda partition: partition.leader < 0),
    ),
    (
        f"{_CONTROLLER}preferredreplicaimbalancecount",
        "gauge",
        (),
        "Partitions that are not led by their first replica.",
        _partitions_where(lambda partition: partition.leader != partition.replicas[0]),
    ),
)

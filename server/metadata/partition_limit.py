"""The bound on how many partitions this broker holds, `ottla.max.partitions`.

Every partition costs memory, files, and time at each start, stop and pass, so without a bound any client could bring the broker
down with CreateTopics. What would exceed it is refused with 44 POLICY_VIOLATION, which clients take for a decision of the
operator and do not retry. Kafka has no such bound. Internal topics count but are never refused, because clients need them.

The default of 20,000 is what was tried: without records these take 90 MiB, 4 s of a start and half a second of a stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.server.metadata.names import INTERNAL_TOPICS
from ottla.server.metadata.operation import InParts, Permits, Refused
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.metadata.controller_settings import ControllerSettings
    from ottla.server.metadata.image import MetadataImage
    from ottla.wire.primitives import WireStruct

_Topic = TypeVar("_Topic")
_Result = TypeVar("_Result")

MAX_PARTITIONS: Final = "ottla.max.partitions"


class PartitionLimit:
    """The number of partitions that this broker may still get, while one part of an operation is planned."""

    def __init__(self, image: MetadataImage, settings: ControllerSettings) -> None:
        self._node_id = settings.node_id
        self._limit: int = settings.broker_values[MAX_PARTITIONS]
        topics = image.topics.values()
        self._held = sum(self._node_id in partition.replicas for topic in topics for partition in topic.partitions.values())

    def take(self, topic: str, replicas: Iterable[Sequence[int]]) -> None:
        """Counts new partitions of a topic, with the replicas of each. Raises Refused with 44 POLICY_VIOLATION if there would be
        too many."""
        held = self._held + sum(self._node_id in each for each in replicas)
        if held > self._limit and held > self._held and topic not in INTERNAL_TOPICS:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"Broker {self._node_id} would hold {held} partitions; its setting {MAX_PARTITIONS} allows {self._limit}.",
            )
        self._held = held


class NewPartitionsInParts(InParts[_Topic, _Result]):
    """An operation on many topics that makes partitions, within the limit. With `validate_only` it has no records."""

    _limit: PartitionLimit
    """The limit on what the topics of the present part may still take."""

    def __init__(
        self,
        topics: Iterable[_Topic],
        image: MetadataImage,
        settings: ControllerSettings,
        permits: Permits,
        *,
        validate_only: bool,
    ) -> None:
        super().__init__(topics, permits)
        self._image = image
        self._settings = settings
        self._validate_only = validate_only

    def plan(self) -> list[WireStruct]:
        self._limit = PartitionLimit(self._image, self._settings)
        records = super().plan()
        return [] if self._validate_only else records

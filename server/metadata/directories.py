"""Which log directory a replica lies in, as its broker says (KIP-858): the rule, as a function of the image."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.server.metadata.image import MetadataImage
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord

_SINCE: int = 17
"""metadata.version 3.7-IV2: older ones have no place for it."""


def assign(image: MetadataImage, broker_id: int, assignments: Sequence[tuple[bytes, int, bytes]]) -> list[PartitionChangeRecord]:
    """What changes with these (topic id, partition, directory id); nothing for what is gone, not the broker's, or so already."""
    if image.metadata_version < _SINCE:
        return []
    records = []
    for topic_id, index, directory_id in assignments:
        topic = image.topics_by_id.get(topic_id)
        partition = topic.partitions.get(index) if topic is not None else None
        if partition is None or partition.directory_of(broker_id) in (None, directory_id):
            continue
        directories = partition.directories_with(broker_id, directory_id)
        records.append(PartitionChangeRecord(index, topic_id, directories=directories))
    return records

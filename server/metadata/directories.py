"""Recording in which log directory a replica lies, as its broker announces it (KIP-858): the rule, as a function of the image."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.server.metadata.image import MetadataImage
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord

SINCE: int = 17
"""metadata.version 3.7-IV2, the first whose records have a field for it."""


def assign(image: MetadataImage, broker_id: int, assignments: Sequence[tuple[bytes, int, bytes]]) -> list[PartitionChangeRecord]:
    """Returns the changes that follow from these (topic id, partition, directory id); none for a partition that is gone, not on
    this broker, or recorded like that already."""
    if image.metadata_version < SINCE:
        return []
    records = []
    for topic_id, index, directory_id in assignments:
        partition = image.partition_by_id(topic_id, index)
        if partition is None or partition.directory_of(broker_id) in (None, directory_id):
            continue
        directories = partition.directories_with(broker_id, directory_id)
        records.append(PartitionChangeRecord(index, topic_id, directories=directories))
    return records

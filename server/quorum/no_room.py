"""A broker whose log directories are all full lets others lead.

A full directory is not offline with ottla: what is in it is served, and it takes records again when there is room. For partitions
that have other in-sync replicas this is not enough, because their leader would refuse records for as long as it has no room.
Kafka's broker ends in this case, and the others lead. This one asks the controllers to fence it, and to be let back when there
is room again: then it catches up as a follower.

It stands back only if that helps anybody: if it leads a partition that somebody else in sync could lead. The last of several
brokers on one full disk goes on, so that topics can be deleted through it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.log.disk.directory import LogDirectory
    from ottla.server.metadata.image import MetadataImage


def should_stand_back(image: MetadataImage, node_id: int, directories: Collection[LogDirectory], *, stands_back: bool) -> bool:
    """Returns whether others should lead what this broker leads. `stands_back` is what this returned before: it holds until a
    directory has room."""
    online = [directory for directory in directories if directory.failed is None]
    if not online or not all(directory.full for directory in online):
        return False
    return stands_back or leads_what_others_could(image, node_id)


def leads_what_others_could(image: MetadataImage, node_id: int) -> bool:
    """Returns whether a broker leads a partition that has another in-sync replica."""
    return any(
        partition.leader == node_id and len(partition.isr) > 1
        for topic in image.topics.values()
        for partition in topic.partitions.values()
    )

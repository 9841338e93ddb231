"""Chooses which replica of each partition is read, where directories of several brokers of a cluster are given.

A cluster has each partition in several directories, and each is read once: from the replica that has most below the high
watermark. What lies above it may be cut off again when another replica leads, so nobody reads that. Brokers write their high
watermarks down every few seconds (`replica.high.watermark.checkpoint.interval.ms`) and when they stop; of two that differ, the
higher one is newer, for a high watermark never goes back. A log that lost its end with the power of its machine ends below its
own high watermark; so the replica that promises most is opened, and the next one only if that might have more.

meta.properties says whose a directory is. With the directories of one broker, or where it is not known whose they are, a
partition must be there once, and everything in its log is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.log.disk import checkpoint
from ottla.log.disk.checkpoint import MetaProperties
from ottla.log.disk.errors import InconsistentMetadata
from ottla.pipeline.data_source.disk import ReadOnlyDisk
from ottla.pipeline.data_source.segments import Place, SourceError, find, log_directories

if TYPE_CHECKING:
    from ottla.pipeline.data_source.seen import SeenPartitions

_DISK: Final = ReadOnlyDisk()


class Replicas(NamedTuple):
    """A partition and the places where it is, ordered by path."""

    topic: str
    partition: int
    places: tuple[Place, ...]


def find_replicas(path: str, wants_topic: Callable[[str], bool] | None = None) -> list[Replicas]:
    """Returns the partitions at `path`, as `find` takes it, in the order of their names.

    Raises SourceError if there are none, if the directories belong to several clusters, or if a partition is there twice and it
    cannot be told which of the two counts.
    """
    places = find(path, wants_topic)
    owners = _owners(sorted(log_directories(path)))
    if len({meta.node_id for meta in owners.values()}) > 1:
        places = [replace(place, up_to_high_watermark=True) for place in places]
    groups: dict[tuple[str, int], list[Place]] = {}
    for place in places:
        groups.setdefault((place.topic, place.partition), []).append(place)
    for found in groups.values():
        if len(found) > 1:
            _check_same_partition(found, owners)
    return [Replicas(*name, tuple(found)) for name, found in sorted(groups.items())]


def choose(replicas: Replicas, seen: SeenPartitions) -> Place:
    """Returns the replica that has most below the high watermark; of several that have the same, the one that begins first.
    Raises SourceError if one cannot be read."""
    if len(replicas.places) == 1:
        return replicas.places[0]

    def line(place: Place, name: str) -> int:
        lines = seen.checkpoint(f"{os.path.dirname(place.path)}/{name}")
        return lines.get((place.topic, place.partition), 0)

    promised = {place: line(place, checkpoint.HIGH_WATERMARKS) for place in replicas.places}
    best, most = replicas.places[0], -1
    for place in sorted(promised, key=lambda each: (-promised[each], line(each, checkpoint.LOG_START_OFFSETS))):
        if most >= promised[place]:
            break
        end = seen.with_log(place, lambda log: log.high_watermark)
        if end > most:
            best, most = place, end
    return best


def _owners(directories: Sequence[str]) -> dict[str, MetaProperties]:
    """Returns whose the log directories are, as far as it is known; of a single one it does not matter. Raises SourceError if
    they belong to several clusters."""
    found: dict[str, MetaProperties] = {}
    for directory in directories if len(directories) > 1 else ():
        try:
            meta = checkpoint.read_meta_properties(_DISK, f"{directory}/{checkpoint.META_PROPERTIES}")
        except (InconsistentMetadata, OSError) as error:
            raise SourceError(f"whose {directory} is cannot be read: {error}") from None
        if meta is not None:
            found[directory] = meta
    for (one, its), (other, others) in pairwise(found.items()):
        if its.cluster_id != others.cluster_id:
            raise SourceError(
                f"{one} belongs to cluster {its.cluster_id}, and {other} to cluster {others.cluster_id}: read one at a time"
            )
    return found


def _check_same_partition(places: Sequence[Place], owners: Mapping[str, MetaProperties]) -> None:
    """Raises SourceError unless these are replicas of one partition, each of another broker."""
    by_node: dict[int, Place] = {}
    by_id: dict[bytes, Place] = {}
    for place in places:
        owner = owners.get(os.path.dirname(place.path))
        if owner is None or by_node.setdefault(owner.node_id, place) is not place:
            same = places[0] if owner is None else by_node[owner.node_id]
            one, other = sorted((place.path, (same if same is not place else places[1]).path))
            raise SourceError(
                f"{place.topic}-{place.partition} is there twice: in {one} and in {other}, and {checkpoint.META_PROPERTIES} in "
                "their log directories does not say that these are of two brokers"
            )
        try:
            topic_id = checkpoint.read_partition_metadata(_DISK, f"{place.path}/{checkpoint.PARTITION_METADATA}")
        except (InconsistentMetadata, OSError) as error:
            raise SourceError(f"{place.topic}-{place.partition} cannot be read: {error}") from None
        if topic_id is not None:
            by_id.setdefault(topic_id, place)
    if len(by_id) > 1:
        one, other = (place.path for place in list(by_id.values())[:2])
        raise SourceError(
            f"{one} and {other} are of two topics with the same name: it was deleted and made again while a broker was away; "
            "leave out the directory of the old one"
        )

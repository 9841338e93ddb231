"""Reads from a metadata log on disk which topics a cluster has: names, ids, settings, and the directory that each partition lies
in.

It reads the newest snapshot (`.checkpoint`) that is not damaged and the records after it, in `__cluster_metadata-0`, from sound
batches only. So little of the metadata is needed that the broker's own image is not built, which would also stop at a record that
it cannot apply.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ottla.commands.log.dump.schemas import metadata_message
from ottla.commands.log.files import METADATA_SNAPSHOT, open_to_read
from ottla.commands.log.segment_walk import MAX_READ_BYTES, Batch, SegmentWalk, first_damage
from ottla.log.disk.checkpoint import TopicPartition, uuid_text
from ottla.wire.frame import MALFORMED
from ottla.wire.records import Record, iter_records

METADATA_DIRECTORY: Final = "__cluster_metadata-0"
_TOPIC: Final = 2  # the resource type of topics in a ConfigRecord


class KnownTopics:
    """Topic ids by name (`ids`), the directory id (22 characters) of each partition's replica on one node (`placed`), and the
    settings that topics override, by topic and name (`settings`)."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.ids: dict[str, bytes] = {}
        self.placed: dict[TopicPartition, str] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self._names: dict[bytes, str] = {}
        self._replicas: dict[TopicPartition, list[int]] = {}

    def apply(self, message: Any) -> None:
        """Applies a record of the metadata log; most kinds do not matter here."""
        match type(message).__name__:
            case "TopicRecord":
                self.ids[message.name] = message.topic_id
                self._names[message.topic_id] = message.name
            case "RemoveTopicRecord":
                self._remove(message.topic_id)
            case "PartitionRecord" | "PartitionChangeRecord":
                self._place(message)
            case "ConfigRecord" if message.resource_type == _TOPIC:
                self._set(self.settings.setdefault(message.resource_name, {}), message)

    def _set(self, settings: dict[str, str], message: Any) -> None:
        if message.value is None:
            settings.pop(message.name, None)
        else:
            settings[message.name] = message.value

    def _remove(self, topic_id: bytes) -> None:
        name = self._names.pop(topic_id, None)
        if name is None:
            return
        self.ids.pop(name, None)
        self.settings.pop(name, None)
        for partition in [partition for partition in self._replicas if partition[0] == name]:
            del self._replicas[partition]
            self.placed.pop(partition, None)

    def _place(self, message: Any) -> None:
        name = self._names.get(message.topic_id)
        if name is None:
            return
        partition = name, message.partition_id
        if message.replicas is not None:
            self._replicas[partition] = message.replicas
            self.placed.pop(partition, None)
        replicas = self._replicas.get(partition, [])
        if message.directories and self.node_id in replicas and len(message.directories) == len(replicas):
            self.placed[partition] = uuid_text(bytes(message.directories[replicas.index(self.node_id)]))


def read_topics(directory: Path, node_id: int) -> KnownTopics | None:
    """Returns the topics in the metadata log in `directory`; None if there is no such log. Raises OSError."""
    if not directory.is_dir():
        return None
    topics = KnownTopics(node_id)
    snapshots = sorted(path for path in directory.iterdir() if METADATA_SNAPSHOT.fullmatch(path.name))
    begin = 0
    if snapshots:
        newest = next((path for path in reversed(snapshots) if first_damage(path) is None), snapshots[-1])
        begin = int(newest.name[:20])
        for message in _messages(newest, 0):
            topics.apply(message)
    for path in sorted(directory.glob("*.log")):
        for message in _messages(path, begin):
            topics.apply(message)
    return topics


def _messages(path: Path, begin: int) -> Iterator[Any]:
    """Yields the messages of the records from offset `begin` on. A snapshot is read whole: its own offsets mean nothing."""
    walk = SegmentWalk(open_to_read(path))
    for batch in walk:
        if not isinstance(batch, Batch) or not batch.is_sound or batch.header.is_control or batch.header.size > MAX_READ_BYTES:
            continue
        if batch.header.last_offset < begin:
            continue
        for record in _readable(walk.window.view(batch.position, batch.header.size)):
            if record.offset >= begin and (message := metadata_message(record)) is not None:
                yield message


def _readable(batch: memoryview) -> Iterator[Record]:
    """Yields the records of a batch up to the first that cannot be read."""
    with contextlib.suppress(*MALFORMED):
        yield from iter_records(batch, MAX_READ_BYTES, MAX_READ_BYTES)

"""One bit of one small file beside the metadata log is wrong: the node starts with the same topics, or not at all."""

from __future__ import annotations

import pytest

from ottla.log.errors import StorageError
from ottla.wire.metadata_records import MetadataError
from tests.log.opening.test_flipped_bits import contents
from tests.server.metadata.support import Node
from tests.server.metadata.test_snapshot_keeper import keeper, run, topics


def start(files: dict[str, bytes]) -> dict[str, bytes] | str:
    """Returns the ids of the topics that a start with these files finds, or why there is none."""
    node = Node()
    for path, data in files.items():
        node.disk.makedirs(path.rpartition("/")[0])
        node.disk.write_bytes(path, data)
    try:
        node.start()
    except (MetadataError, StorageError) as error:
        return str(error)
    return {topic.name: topic.topic_id for topic in node.image.topics.values()}


@pytest.mark.parametrize("name", ["quorum-state", "-0000000001.checkpoint", "leader-epoch-checkpoint", "meta.properties"])
def test_no_bit_changes_the_topics(name: str) -> None:
    node = Node()
    node.start()
    topics(node, "in-the-snapshot")
    assert run(keeper(node, metadata_log_max_record_bytes_between_snapshots=1))
    topics(node, "in-the-log")
    node.stop()
    files = contents(node.disk)
    right = start(files)
    assert isinstance(right, dict)
    assert sorted(right) == ["in-the-log", "in-the-snapshot"]
    (path,) = (each for each in files if each.endswith(name))
    data = files[path]
    flipped = [data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :] for at in range(len(data))]
    for damaged in (b"", data[: len(data) // 2], *flipped):
        found = start(files | {path: damaged})
        assert isinstance(found, str) or found == right

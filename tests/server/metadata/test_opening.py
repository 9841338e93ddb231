"""Opening a cluster of one: where its log lies, and what is written to it first."""

from __future__ import annotations

from ottla.server.metadata.feature_levels import FORMATTED_FEATURES, SUPPORTED_FEATURES
from ottla.wire.metadata_records import METADATA_VERSION
from tests.server.metadata.support import Node


def test_the_metadata_log_lies_where_the_setting_says() -> None:
    node = Node(log_dirs="/data,/more", metadata_log_dir="/meta")
    node.start()
    assert node.disk.exists("/meta/__cluster_metadata-0/00000000000000000000.log")
    assert len(node.image.brokers[1].log_dirs) == 2, "partitions lie in two"
    node.stop()
    node.start()
    assert not node.disk.exists("/data/__cluster_metadata-0")


def test_a_new_cluster_is_formatted_with_levels_that_it_supports() -> None:
    node = Node()
    node.start()
    assert node.image.features == {"metadata.version": METADATA_VERSION} | FORMATTED_FEATURES
    levels = dict.fromkeys(SUPPORTED_FEATURES, 0) | node.image.finalized
    assert levels.keys() == SUPPORTED_FEATURES.keys()
    for name, (lowest, highest) in SUPPORTED_FEATURES.items():
        assert lowest <= levels[name] <= highest

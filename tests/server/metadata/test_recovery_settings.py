"""server/metadata/recovery_settings.py: a topic's settings are known from the disk alone, whatever is in the metadata log."""

from __future__ import annotations

import pytest

from ottla.server.metadata.recovery_settings import read_topic_settings
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tests.server.metadata.support import METADATA, Node, in_turns
from tests.server.metadata.test_snapshot_keeper import keeper, run


def create(node: Node, name: str, **configs: str) -> None:
    asked = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    in_turns(node.controller.create_topics(CreateTopicsRequest([CreatableTopic(name, 1, 1, configs=asked)]), None))


def flush_messages(node: Node, topic: str) -> int:
    return read_topic_settings(node.disk, node.config, topic).flush_messages


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_settings_are_read_from_snapshot_and_log(*, with_snapshot: bool) -> None:
    node = Node(log_flush_interval_messages="77")
    node.start()
    create(node, "early", flush_messages="1")
    if with_snapshot:
        assert run(keeper(node, metadata_log_max_record_bytes_between_snapshots=1))
    create(node, "late", flush_messages="2")
    create(node, "plain")
    node.kill()
    assert [flush_messages(node, name) for name in ("early", "late", "plain", "unknown")] == [1, 2, 77, 77]


def test_what_is_damaged_ends_the_reading(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.start()
    create(node, "early", flush_messages="1")
    (name,) = (name for name in node.disk.list(METADATA) if name.endswith(".log"))
    size = node.disk.size(f"{METADATA}/{name}")
    create(node, "late", flush_messages="2")
    node.kill()
    data = bytearray(node.disk.read_bytes(f"{METADATA}/{name}"))
    data[size + 70] ^= 1
    node.disk.write_bytes(f"{METADATA}/{name}", bytes(data))
    assert flush_messages(node, "early") == 1
    assert flush_messages(node, "late") > 2
    assert not caplog.records
    data[size + 16] = 9
    node.disk.write_bytes(f"{METADATA}/{name}", bytes(data))
    assert flush_messages(node, "early") == 1
    assert "the settings of early may be out of date" in caplog.text


def test_without_metadata_the_broker_s_settings_count() -> None:
    assert flush_messages(Node(log_flush_interval_messages="5"), "t") == 5

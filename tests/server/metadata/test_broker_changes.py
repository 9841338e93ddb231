"""Tests of what may change of a broker while it runs: by itself, for whom, together, and by how much at a time."""

from __future__ import annotations

import asyncio

import pytest

from ottla.server.metadata.image import BROKER
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.internal.config_record import ConfigRecord
from tests.fakes import CALLER
from tests.server.metadata.support import DIRECTORY, Node

SET, DELETE = 0, 1


@pytest.fixture
def node() -> Node:
    made = Node()
    made.start()
    return made


def write(node: Node, name: str, **settings: str | None) -> str | None:
    """None where it is done, the message where it is refused. Underscores stand for dots."""
    changes = [
        AlterableConfig(key.replace("_", "."), SET if text is not None else DELETE, text) for key, text in settings.items()
    ]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, name, changes)])
    (answer,) = asyncio.run(node.controller.incremental_alter_configs(request, CALLER)).responses
    assert answer.error_code == (0 if answer.error_message is None else ErrorCode.INVALID_REQUEST)
    return answer.error_message


def refused(node: Node, name: str, **settings: str) -> bool:
    """Returns whether it is refused, with a message that names the one setting; and nothing is written then."""
    before = dict(node.image.config_of(BROKER, name))
    message = write(node, name, **settings)
    if message is None:
        return False
    assert node.image.config_of(BROKER, name) == before
    assert any(key.replace("_", ".") in message for key in settings), message
    return True


@pytest.mark.parametrize(
    "key", ["node.id", "log.dirs", "listeners", "listener.security.protocol.map", "ssl.keystore.location", "ssl.truststore.type"]
)
@pytest.mark.parametrize("name", ["1", ""])
def test_settings_that_do_not_change(node: Node, key: str, name: str) -> None:
    assert refused(node, name, **{key: "1"})


@pytest.mark.parametrize(
    "key", ["sasl.enabled.mechanisms", "ssl.cipher.suites", "listener.name.plaintext.ssl.keystore.location", "listener.name.x.y"]
)
def test_settings_of_one_broker(node: Node, key: str) -> None:
    assert refused(node, "", **{key: "a"})
    assert not refused(node, "1", **{key: "a"})


@pytest.mark.parametrize("key", ["max.connections", "max.connection.creation.rate"])
def test_limits_that_would_let_nobody_in(node: Node, key: str) -> None:
    for name in ("1", ""):
        assert refused(node, name, **{key: "0"})
        assert refused(node, name, **{f"listener.name.plaintext.{key}": "0"})
        assert not refused(node, name, **{f"listener.name.nobody.{key}": "0"})
        assert not refused(node, name, **{key: "1", f"listener.name.plaintext.{key}": "1"})


@pytest.mark.parametrize(
    ("key", "text", "ours"),
    [
        ("listener.name.plaintext.max.connections", "abc", True),
        ("listener.name.nobody.max.connections", "abc", True),
        ("listener.name.plaintext.queued.max.requests", "abc", True),
        ("listener.name.nobody.queued.max.requests", "abc", False),
        ("listener.name.plaintext.no.such", "abc", False),
        ("no.such", "abc", False),
    ],
)
def test_texts_of_listeners_settings(node: Node, key: str, text: str, ours: bool) -> None:
    assert refused(node, "1", **{key: text}) == ours


def test_classes_cannot_be_loaded(node: Node) -> None:
    default = "org.apache.kafka.common.metrics.JmxReporter"
    for text, wrong in (("", False), (default, False), ("com.example.Reporter", True), (f"{default},com.example.R", True)):
        assert refused(node, "1", metric_reporters=text) == wrong
    assert refused(node, "1", principal_builder_class="com.example.Builder")


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"num_io_threads": "4"}, False),
        ({"num_io_threads": "16"}, False),
        ({"num_io_threads": "3"}, True),
        ({"num_io_threads": "17"}, True),
        ({"num_io_threads": "9", "background_threads": "21"}, True),
        ({"listener_name_plaintext_num_network_threads": "6"}, False),
        ({"listener_name_plaintext_num_network_threads": "7"}, True),
        ({"listener_name_nobody_num_network_threads": "7"}, False),
    ],
)
def test_pools_are_halved_or_doubled_at_most(node: Node, settings: dict[str, str], wrong: bool) -> None:
    assert refused(node, "1", **settings) == wrong
    assert refused(node, "", **settings) == wrong


def test_pools_grow_in_steps(node: Node) -> None:
    """Each from what it is now, for this broker or for all; and back to the default is a step, too."""
    assert not refused(node, "", num_io_threads="16")
    assert not refused(node, "1", num_io_threads="32", listener_name_plaintext_num_network_threads="6")
    assert refused(node, "1", num_io_threads="65")
    assert not refused(node, "", num_io_threads="9")  # the broker's own 32 counts, whatever all have
    assert not refused(node, "1", listener_name_plaintext_num_network_threads="12")
    message = write(node, "1", num_io_threads=None)
    assert message == "num.io.threads: 9 is too far from the present 32; at most halve or double it"


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"log_local_retention_ms": "604800000"}, False),
        ({"log_local_retention_ms": "604800001"}, True),
        ({"log_local_retention_ms": "-1"}, True),
        ({"log_local_retention_ms": "-1", "log_retention_ms": "-1"}, False),
        ({"log_local_retention_ms": "100", "log_remote_copy_lag_ms": "101"}, True),
        ({"log_local_retention_ms": "100", "log_remote_copy_lag_ms": "100"}, False),
        ({"log_local_retention_ms": "100", "log_remote_copy_lag_ms": "-1"}, False),
        ({"log_local_retention_bytes": "100"}, False),
        ({"log_local_retention_bytes": "101", "log_retention_bytes": "100"}, True),
        ({"log_remote_copy_lag_bytes": "101", "log_retention_bytes": "100"}, True),
        ({"log_local_retention_bytes": "1", "log_retention_bytes": "0"}, True),
        ({"log_remote_copy_lag_bytes": "100", "log_retention_bytes": "100"}, False),
        ({"log_local_retention_bytes": "0", "log_retention_bytes": "100"}, False),
        ({"log_local_retention_bytes": "0", "log_remote_copy_lag_bytes": "0"}, False),
        ({"log_local_retention_bytes": "0", "log_remote_copy_lag_bytes": "1"}, True),
        ({"log_local_retention_bytes": "-1", "log_remote_copy_lag_bytes": "1"}, False),
    ],
)
def test_what_stays_here_stays_no_longer_than_at_all(node: Node, settings: dict[str, str], wrong: bool) -> None:
    assert refused(node, "1", **settings) == wrong


@pytest.mark.parametrize(
    ("key", "text", "wrong"),
    [
        ("log.cleanup.policy", "delete,compact", False),
        ("log.cleanup.policy", "delete, delete", True),
        ("listener.name.plaintext.sasl.enabled.mechanisms", "PLAIN,PLAIN", True),
        ("config.providers", "a,a", False),
    ],
)
def test_elements_of_lists_come_once(node: Node, key: str, text: str, wrong: bool) -> None:
    assert refused(node, "1", **{key: text}) == wrong


@pytest.mark.parametrize(("text", "wrong"), [("", False), ("*", False), (DIRECTORY, False), ("/elsewhere", True)])
def test_cordoned_directories_are_the_broker_s(node: Node, text: str, wrong: bool) -> None:
    assert refused(node, "1", cordoned_log_dirs=text) == wrong


def test_what_could_not_be_written_today_is_in_nobody_s_way(node: Node) -> None:
    """It came with a data directory; it stays, and does not count."""
    for key, text in (("log.retention.ms", "abc"), ("node.id", "7"), ("max.connections", "0")):
        node.image.apply(ConfigRecord(BROKER, "1", key, text))
    assert write(node, "1", log_flush_interval_messages="5") is None
    assert node.image.config_of(BROKER, "1") == {
        "log.retention.ms": "abc",
        "node.id": "7",
        "max.connections": "0",
        "log.flush.interval.messages": "5",
    }
    assert refused(node, "1", **{"max.connections": "0"})
    assert write(node, "1", log_retention_ms=None) is None


@pytest.mark.parametrize("name", ["2", "01", "+1", " 1", "x", "-1"])
def test_other_brokers(node: Node, name: str) -> None:
    message = write(node, name, background_threads="11")
    assert message is not None
    assert message.startswith("This is broker 1;")

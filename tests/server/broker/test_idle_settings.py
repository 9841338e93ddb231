"""Settings in the metadata that have no effect are logged: all of them at the start, and later each when it is first set."""

from __future__ import annotations

import logging

import pytest

from ottla.server.broker.broker import Broker
from ottla.server.broker.idle_settings import SUBSCRIPTIONS, IdleSettings
from ottla.server.metadata.image import BROKER, CLIENT_METRICS, GROUP, TOPIC, MetadataImage
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.internal.config_record import ConfigRecord
from tests.fakes import CALLER
from tests.server.broker.whole_broker import config, disk, run

IDLE = "these settings are accepted but have no effect in ottla: "


class Watched:
    """The settings of an image, and the lines that are logged about them."""

    def __init__(self, caplog: pytest.LogCaptureFixture, *, asks_clients: bool = False) -> None:
        caplog.set_level(logging.INFO, "ottla.server.broker")
        self._caplog = caplog
        self.image = MetadataImage("cluster")
        self.idle = IdleSettings(self.image, asks_clients=asks_clients)

    def set(self, kind: int, name: str, **settings: str) -> list[str]:
        """Sets `settings`, whose names have `_` for `.`, and returns what that logs."""
        self.image.apply_all([ConfigRecord(kind, name, key.replace("_", "."), text) for key, text in settings.items()])
        self.idle.log_new(kind, name)
        return self.lines()

    def lines(self) -> list[str]:
        lines = [record.getMessage() for record in self._caplog.records]
        self._caplog.clear()
        return lines


def test_a_setting_is_named_the_first_time_that_it_is_set(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog)
    assert watched.set(TOPIC, "orders", local_retention_bytes="2", retention_ms="5", local_retention_ms="7") == [
        f"{IDLE}local.retention.bytes, local.retention.ms (first set for topic orders)"
    ]
    assert watched.set(TOPIC, "orders", local_retention_bytes="3") == []
    assert watched.set(TOPIC, "bills", local_retention_bytes="2", remote_log_copy_disable="true") == [
        f"{IDLE}remote.log.copy.disable (first set for topic bills)"
    ]


def test_a_default_asks_for_nothing(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog)
    assert watched.set(TOPIC, "orders", min_insync_replicas="1", unclean_leader_election_enable="false") == []
    assert watched.set(BROKER, "", min_insync_replicas="1") == []
    assert watched.set(GROUP, "g", consumer_assignor_offload_enable="true") == []


def test_what_ottla_itself_sets_for_internal_topics_is_nobodys_wish(caplog: pytest.LogCaptureFixture) -> None:
    assert Watched(caplog).set(TOPIC, "__transaction_state", min_insync_replicas="2") == []


def test_a_brokers_own_settings_and_those_of_a_listener(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog)
    assert watched.set(BROKER, "1", num_io_threads="9", log_retention_ms="5", my_plugin_setting="x") == [
        f"{IDLE}num.io.threads (first set for broker 1)"
    ]
    assert watched.set(BROKER, "", num_network_threads="6") == [f"{IDLE}num.network.threads (first set for broker defaults)"]
    assert watched.set(BROKER, "1", listener_name_plaintext_num_network_threads="5") == [
        f"{IDLE}listener.name.*.num.network.threads (first set for broker 1)"
    ]
    assert watched.set(BROKER, "1", listener_name_other_num_network_threads="5") == []
    assert watched.set(BROKER, "1", listener_name_plaintext_max_connections="5") == [], "this one is in force"
    assert watched.set(BROKER, "1", listener_name_plaintext_ssl_keystore_type="PEM") == [], "it would be, on a listener with TLS"
    assert watched.set(BROKER, "1", listener_name_plaintext_max_connection_creation_rate="5") == [], "this one is in force"


@pytest.mark.parametrize("asks_clients", [False, True])
def test_subscriptions_while_nobody_asks_clients_for_metrics(caplog: pytest.LogCaptureFixture, asks_clients: bool) -> None:
    watched = Watched(caplog, asks_clients=asks_clients)
    wanted = [] if asks_clients else [f"{IDLE}{SUBSCRIPTIONS} (first set for client-metrics subscription all)"]
    assert watched.set(CLIENT_METRICS, "all", interval_ms="1000") == wanted
    assert watched.set(CLIENT_METRICS, "more", interval_ms="1000") == []


def test_a_group(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog)
    assert watched.set(GROUP, "g", consumer_assignor_offload_enable="false", consumer_session_timeout_ms="46000") == [
        f"{IDLE}consumer.assignor.offload.enable (first set for group g)"
    ]


def test_one_line_at_the_start_counts_all_that_are_there(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog)
    watched.idle.log_present()
    assert watched.lines() == []
    watched.image.apply_all(
        [
            *(ConfigRecord(TOPIC, f"t{number}", "local.retention.ms", "2") for number in range(1200)),
            ConfigRecord(TOPIC, "t0", "retention.ms", "5"),
            ConfigRecord(BROKER, "1", "num.io.threads", "9"),
            ConfigRecord(TOPIC, "__transaction_state", "unclean.leader.election.enable", "true"),
        ]
    )
    watched.idle.log_present()
    assert watched.lines() == [
        "the metadata has settings that have no effect in ottla: local.retention.ms (1,200 times), num.io.threads"
    ]
    assert watched.set(TOPIC, "new", local_retention_ms="2") == [], "it has been named"


def test_a_broker_names_what_clients_set_and_what_its_directory_has(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.server.broker")
    data = disk()

    async def scenario() -> None:
        broker = Broker(config(), disk=data)
        await broker.start()
        assert broker.context is not None
        topic = CreatableTopic("t", 1, 1, configs=[CreatableTopicConfig("local.retention.ms", "2")])
        (answer,) = (await broker.context.controller.create_topics(CreateTopicsRequest([topic]), CALLER)).topics
        assert answer.error_code == 0
        await broker.stop()
        assert f"{IDLE}local.retention.ms (first set for topic t)" in caplog.messages
        again = Broker(config(), disk=data)
        await again.start()
        await again.stop()

    run(scenario)
    assert caplog.messages.count("the metadata has settings that have no effect in ottla: local.retention.ms") == 1

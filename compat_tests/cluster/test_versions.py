"""Controllers of Apache Kafka 4.0 to 4.4: a broker joins, applies every kind of record that clients can cause, and starts again.

The commit's form has the oldest; OTTLA_FULL=1 has all. `pytest -rP` shows how long each join took, from knowing
who leads the quorum to being registered.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from compat_tests.cluster.nodes import KafkaController, OttlaBroker
from compat_tests.forms import FULL
from compat_tests.reference import jvm
from compat_tests.waiting import wait_for
from ottla.commands.cluster import jars

VERSIONS = ("4.0.2", "4.1.2", "4.2.2", "4.3.1", "4.4.0") if FULL else ("4.0.2",)


class ControllerOf(KafkaController):
    """A controller of some version of Kafka."""

    def __init__(self, directory: Path, version: str) -> None:
        self.version = version
        super().__init__(directory)

    def _java(self) -> list[str]:
        return ["java", "-Xmx512m", *jvm.SMALL, "-cp", f"{jars.fetched(self.version)}/*"]


def seconds(log: str, text: str) -> float:
    """Returns when a line with this text was logged."""
    (line,) = re.findall(rf"(?m)^(\S+ \S+) \w+ \S+: .*{text}", log)[-1:]
    return datetime.strptime(line, "%Y-%m-%d %H:%M:%S,%f").timestamp()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_joins(version: str, tmp_path: Path) -> None:
    controller = ControllerOf(tmp_path / "controller", version)
    broker = OttlaBroker(tmp_path / "broker", 1, controller.bootstrap)
    controller.start()
    try:
        broker.start()
        log = broker.log_file.read_text()
        began, registered = seconds(log, "leads the quorum in epoch"), seconds(log, "registered with the controllers")
        print(f"Apache Kafka {version}: registered {round((registered - began) * 1000)} ms after its leader was known")
        change_everything(broker)
        broker.stop()
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert len(admin.list_topics("kept", 30).topics["kept"].partitions) == 3
        assert setting(admin, "kept", "retention.ms") == "7777777"
        assert "gone" not in admin.list_topics(timeout=30).topics
    finally:
        broker.stop()
        controller.stop()


def setting(admin: AdminClient, topic: str, name: str) -> str | None:
    (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    value: str | None = described.result(30)[name].value
    return value


def change_everything(broker: OttlaBroker) -> None:
    """Has the controllers write records of the kinds that clients can cause, and waits until the broker knows them."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic("kept", 1, 1), NewTopic("gone", 1, 1)]).values():
        made.result(60)
    admin.create_partitions([NewPartitions("kept", 3)])["kept"].result(60)
    admin.delete_topics(["gone"])["gone"].result(60)
    entry = ConfigEntry("retention.ms", "7777777", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "kept", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)
    user = UserScramCredentialUpsertion("alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"secret")
    admin.alter_user_scram_credentials([user])["alice"].result(60)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("kept", b"v")
    producer.commit_transaction(60)
    wait_for(lambda: setting(admin, "kept", "retention.ms") == "7777777", "the setting")
    described = admin.describe_user_scram_credentials(["alice"])
    assert isinstance(described, dict)
    assert described["alice"].result(30).user == "alice"

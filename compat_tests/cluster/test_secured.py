"""A cluster in which everybody logs in over TLS: a controller and a broker of Apache Kafka 4.4.0 and a broker of ottla, one
server.properties for both brokers. Brokers show a certificate to the controller and log in there by PLAIN, to each other by
SCRAM-SHA-512, with credentials that kafka-storage wrote down; StandardAuthorizer lets only them act as brokers.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from compat_tests.certificates import PASSWORD
from compat_tests.cluster.nodes import KafkaBroker, KafkaController, OttlaBroker
from compat_tests.cluster.producing import produce
from compat_tests.reference.kafka import HOST, BrokerProcess
from compat_tests.security.tls_files import BROKER, FOREIGN, ROOT, Files
from compat_tests.waiting import wait_for
from ottla.server.settings.properties import LOG_LEVEL

KAFKA, OTTLA = 1, 2
_PACKAGE = "org.apache.kafka.common.security"
USERS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
RECORDS = 500


def plain(username: str, users: dict[str, str]) -> str:
    known = "".join(f' user_{name}="{password}"' for name, password in users.items())
    return f'{_PACKAGE}.plain.PlainLoginModule required username="{username}" password="{users[username]}"{known};'


def settings_of(files: Files) -> dict[str, str]:
    """Returns the settings that all nodes have in common."""
    pem = files.directory / "node.pem"
    pem.write_text(BROKER.pem())
    return {
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL,BROKERS:SASL_SSL",
        "inter.broker.listener.name": "BROKERS",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.ssl.client.auth": "required",
        "listener.name.controller.plain.sasl.jaas.config": plain("broker", {"broker": "at-controllers"}),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pem),
        "ssl.truststore.type": "JKS",
        "ssl.truststore.location": files.trust_jks(ROOT),
        "ssl.truststore.password": PASSWORD,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:admin",
        "connections.max.reauth.ms": "4000",
    }


OF_BROKERS = {
    "listener.name.brokers.plain.sasl.jaas.config": plain("admin", USERS),
    "listener.name.brokers.scram-sha-512.sasl.jaas.config": (
        f'{_PACKAGE}.scram.ScramLoginModule required username="broker" password="among-brokers";'
    ),
}


def listens(node: BrokerProcess) -> bool:
    try:
        socket.create_connection((HOST, node.port), 1).close()
    except OSError:
        return False
    return True


class Controller(KafkaController):
    format_options = ("--standalone", "--add-scram", "SCRAM-SHA-512=[name=broker,password=among-brokers]")

    def answers(self) -> bool:
        return listens(self)


class Kafka(KafkaBroker):
    def answers(self) -> bool:
        return listens(self)


class Secured(OttlaBroker):
    def environment(self) -> dict[str, str]:
        return super().environment() | {LOG_LEVEL: "DEBUG"}

    def answers(self) -> bool:
        return listens(self)


def login(node: BrokerProcess, user: str, files: Files) -> dict[str, Any]:
    return {
        "bootstrap.servers": node.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
        "ssl.ca.location": files.authority(ROOT),
    }


class Nodes:
    def __init__(self, directory: Path) -> None:
        self.files = Files(directory / "files")
        common = settings_of(self.files)
        self.controller = Controller(directory / "controller", common)
        self.kafka = self.place(Kafka(directory / "kafka", KAFKA, self.controller.bootstrap, common | OF_BROKERS))
        self.ottla = self.place(Secured(directory / "ottla", OTTLA, self.controller.bootstrap, common | OF_BROKERS))

    @staticmethod
    def place(node: Any) -> Any:
        node.settings["listeners"] = f"BROKERS://{HOST}:{node.port}"
        return node

    def admin(self, user: str = "admin", node: BrokerProcess | None = None) -> AdminClient:
        return AdminClient(login(node or self.ottla, user, self.files))

    def create(self, topic: str, replicas: list[int], user: str = "admin") -> None:
        admin = self.admin(user)
        admin.create_topics([NewTopic(topic, 1, replica_assignment=[replicas])])[topic].result(30)

    def produce(self, topic: str) -> None:
        produce(self.ottla.bootstrap, topic, RECORDS, **login(self.ottla, "admin", self.files))

    def same_bytes(self, topic: str) -> None:
        def bytes_of(node: BrokerProcess) -> list[bytes]:
            return [path.read_bytes() for path in sorted((node.data_dir / f"{topic}-0").glob("*.log"))]

        wait_for(
            lambda: any(bytes_of(self.ottla)) and bytes_of(self.ottla) == bytes_of(self.kafka),
            lambda: f"{topic} has the same bytes on both brokers\n{self.ottla.log_tail()}\n{self.kafka.log_tail()}",
        )


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path_factory.mktemp("secured"))
    try:
        for node in (nodes.controller, nodes.kafka, nodes.ottla):
            node.start()
        wait_for(lambda: set(nodes.admin().list_topics(timeout=5).brokers) == {KAFKA, OTTLA}, nodes.ottla.log_tail)
        yield nodes
    finally:
        for node in (nodes.ottla, nodes.kafka, nodes.controller):
            node.stop()


@pytest.mark.parametrize("leader", [KAFKA, OTTLA])
def test_replicas_are_the_same_whoever_leads(nodes: Nodes, leader: int) -> None:
    topic = f"led-by-{leader}"
    nodes.create(topic, [leader, KAFKA + OTTLA - leader])
    nodes.produce(topic)
    nodes.same_bytes(topic)


def test_the_controllers_see_the_client_and_not_the_broker_that_forwards(nodes: Nodes) -> None:
    rule = ("User:alice", "*", AclOperation.CREATE, AclPermissionType.ALLOW)
    binding = AclBinding(ResourceType.TOPIC, "alice-", ResourcePatternType.PREFIXED, *rule)
    admin = nodes.admin()
    admin.create_acls([binding])[binding].result(30)
    wait_for(lambda: creates(nodes, "alice-1", "alice", nodes.ottla), "alice may create topics")
    assert creates(nodes, "alice-2", "alice", nodes.kafka)
    for node in (nodes.ottla, nodes.kafka):
        assert not creates(nodes, "bob-1", "bob", node)
        assert not creates(nodes, "bob-1", "alice", node)
    assert {"alice-1", "alice-2"} <= set(nodes.admin().list_topics(timeout=10).topics)


def creates(nodes: Nodes, topic: str, user: str, node: BrokerProcess) -> bool:
    """Creates a topic as a user; returns whether that is authorised."""
    admin = nodes.admin(user, node)
    try:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return False
        raise
    return True


def test_logins_are_renewed_and_nothing_stops_for_it(nodes: Nodes) -> None:
    """Logins last four seconds; replication and the heartbeat go on for longer than that."""
    nodes.create("long", [OTTLA, KAFKA])
    nodes.create("lasting", [KAFKA, OTTLA])
    started = nodes.ottla.log_file.stat().st_size

    def said() -> str:
        return bytes(nodes.ottla.log_file.read_bytes()[started:]).decode()

    def renewed() -> bool:
        for topic in ("long", "lasting"):
            nodes.produce(topic)
        return said().count("renewed a login") >= 4

    wait_for(renewed, lambda: f"logins are renewed\n{nodes.ottla.log_tail()}")
    for topic in ("long", "lasting"):
        nodes.same_bytes(topic)
    assert "closed the connection" not in said()


WRONG_PASSWORD = {"listener.name.controller.plain.sasl.jaas.config": plain("broker", {"broker": "wrong"})}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (WRONG_PASSWORD, "refuses the login of broker by PLAIN"),
        ({"ssl.truststore.location": "FOREIGN"}, "CERTIFICATE_VERIFY_FAILED"),
    ],
    ids=["password", "authority"],
)
def test_a_broker_that_is_not_let_in_says_why(nodes: Nodes, tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    given = {key: nodes.files.trust_jks(FOREIGN) if value == "FOREIGN" else value for key, value in changes.items()}
    broker = nodes.place(
        Secured(tmp_path / "third", 3, nodes.controller.bootstrap, settings_of(nodes.files) | OF_BROKERS | given)
    )
    broker.answers = lambda: reason in broker.log_tail()
    try:
        broker.start()
        assert reason in broker.log_tail()
        assert not (broker.data_dir / "meta.properties").exists(), "nothing is formatted before a controller agreed"
    finally:
        broker.stop()
        shutil.rmtree(tmp_path / "third", ignore_errors=True)

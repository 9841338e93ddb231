"""Four clients over TLS, against ottla and against Apache Kafka: every kind of keystore, certificates of clients, and each wrong
way with the client's class of error. One server.properties starts both brokers.
"""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from compat_tests.certificates import issue
from compat_tests.java_client import Java, running
from compat_tests.reference import jvm
from compat_tests.reference.kafka import HOST, BrokerFailed
from compat_tests.security.tls_brokers import STORES, SecuredBroker
from compat_tests.security.tls_clients import CLIENTS, OK, PATIENCE_MS, Trust
from compat_tests.security.tls_files import ALICE, BROKER, FOREIGN, LATE, ROOT, STRANGER, Files
from compat_tests.topics import make_topics
from compat_tests.waiting import wait_for
from ottla.wire.header import encode_request_header
from ottla.wire.messages import api_versions

SET = AlterConfigOpType.SET
Unique = Callable[[str], str]
BRIEF_MS = 2_000
"""The time for which a client tries that has to fail, unless it is told why."""
WRONG_WAYS: dict[str, tuple[str, Callable[[Files], Trust]]] = {
    "an authority that the client does not know": ("PEM", lambda files: Trust(files, FOREIGN)),
    "no certificate where one is required": ("MUTUAL", lambda files: Trust(files, ROOT)),
    "a certificate of another authority": ("MUTUAL", lambda files: Trust(files, ROOT, STRANGER)),
    "a certificate that has expired": ("MUTUAL", lambda files: Trust(files, ROOT, LATE)),
    "plain text": ("PEM", lambda files: Trust(files, ROOT, protocol="PLAINTEXT")),
}
CLASSES: dict[str, list[set[str]]] = {
    "confluent": [*[{"_SSL", "_TRANSPORT"}] * 4, {"_ALL_BROKERS_DOWN"}],
    "kafka-python": [{"KafkaTimeoutError"}] * 5,
    "aiokafka": [{"KafkaConnectionError"}] * 5,
    "java": [*[{"SslAuthenticationException"}] * 4, {"TimeoutException"}],
}
"""The classes of error that each client gives for each of the wrong ways, in their order. librdkafka has two events for a
handshake that failed, and which of them comes first is a matter of time, with both brokers."""


@pytest.fixture(scope="module")
def secured(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(kind, tmp_path_factory.mktemp(f"tls-{kind}"))
    broker.process.start()
    yield broker
    broker.process.stop()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with running(tmp_path_factory.mktemp("java")) as java:
        yield java


@pytest.mark.parametrize("client", CLIENTS)
def test_every_kind_of_keystore(secured: SecuredBroker, client: str, program: Java, unique: Unique) -> None:
    topics = {store: unique(f"tls-{store.lower()}") for store in STORES}
    make_topics(secured.process.bootstrap, 1, *topics.values())
    trust = Trust(secured.files, ROOT)
    for store, topic in topics.items():
        assert CLIENTS[client](secured.bootstrap(store), topic, trust, program) == OK, store


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_with_certificates(secured: SecuredBroker, client: str, program: Java, unique: Unique) -> None:
    topic = unique("tls-mutual")
    make_topics(secured.process.bootstrap, 1, topic)
    trust = Trust(secured.files, ROOT, ALICE)
    assert CLIENTS[client](secured.bootstrap("MUTUAL"), topic, trust, program) == OK


@pytest.mark.parametrize("client", CLIENTS)
def test_wrong_ways(secured: SecuredBroker, client: str, program: Java) -> None:
    produce = CLIENTS[client]
    for (what, (listener, trusted)), classes in zip(WRONG_WAYS.items(), CLASSES[client], strict=True):
        trust: Trust = trusted(secured.files)
        patience_ms = PATIENCE_MS if classes == {"SslAuthenticationException"} else BRIEF_MS
        assert produce(secured.bootstrap(listener), "nothing", trust, program, patience_ms) in classes, what


def test_plain_text_is_closed_without_an_answer(secured: SecuredBroker) -> None:
    frame = encode_request_header(api_versions.API_KEY, 0, 1, "compat")
    with socket.create_connection((HOST, secured.ports["PEM"]), 30) as connection:
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        try:
            answer = connection.recv(100)
        except ConnectionResetError:
            return
    assert not answer or answer[0] == 0x15  # Kafka may close it with an alert of TLS


def test_versions_of_tls(secured: SecuredBroker) -> None:
    """Checks what a client of one version gets by default, and that the versions before are not spoken."""
    spoken = []
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = Trust(secured.files, ROOT).context()
        context.minimum_version = context.maximum_version = version
        connection = socket.create_connection((HOST, secured.ports["JKS"]), 30)
        with context.wrap_socket(connection, server_hostname="localhost") as encrypted:
            spoken.append(encrypted.version())
    assert spoken == ["TLSv1.2", "TLSv1.3"]


def test_apaches_tools_with_a_certificate(secured: SecuredBroker, tmp_path: Path, unique: Unique) -> None:
    topic = unique("tls-tools")
    properties = tmp_path / "client.properties"
    store, trusted = secured.files.jks(ALICE), secured.files.trust_jks()
    properties.write_text(
        f"security.protocol=SSL\nssl.keystore.location={store}\nssl.keystore.password=store-secret\n"
        f"ssl.truststore.location={trusted}\nssl.truststore.password=store-secret\n"
    )
    command = [*jvm.java("kafka-tools"), "org.apache.kafka.tools.TopicCommand", "--command-config", str(properties)]
    where = ["--bootstrap-server", secured.bootstrap("MUTUAL")]
    made = subprocess.run(
        [*command, *where, "--create", "--topic", topic], capture_output=True, text=True, check=False, timeout=120
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert f"Created topic {topic}" in made.stdout


def shown(secured: SecuredBroker, listener: str) -> int:
    """The number of the certificate that a listener shows now."""
    connection = socket.create_connection((HOST, secured.ports[listener]), 30)
    with Trust(secured.files, ROOT).context().wrap_socket(connection, server_hostname="localhost") as encrypted:
        certificate = encrypted.getpeercert()
    assert certificate
    return int(str(certificate["serialNumber"]), 16)


def test_a_certificate_is_renewed_while_clients_work(kind: str, secured: SecuredBroker, unique: Unique) -> None:
    """The file is replaced, and its setting written again. A change of the name is refused; Kafka 4.4.0 was seen to
    take it, right after the renewal, and is not asked here."""
    topic = unique("tls-renewed")
    make_topics(secured.process.bootstrap, 1, topic)
    admin = AdminClient({"bootstrap.servers": secured.process.bootstrap})
    location = str(secured.files.directory / "broker.pem")
    again = ConfigResource(
        ResourceType.BROKER,
        "1",
        incremental_configs=[ConfigEntry("listener.name.pem.ssl.keystore.location", location, incremental_operation=SET)],
    )
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": secured.bootstrap("PEM"), **Trust(secured.files, ROOT).librdkafka()})

    def produce(count: int) -> None:
        for number in range(count):
            producer.produce(topic, str(number), on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(30) == 0

    produce(100)
    assert shown(secured, "PEM") == BROKER.certificate.serial_number
    renewed, other = issue("broker", ROOT), issue("other", ROOT)
    try:
        secured.files.replace("broker.pem", renewed.pem())
        admin.incremental_alter_configs([again])[again].result(30)
        wait_for(lambda: shown(secured, "PEM") == renewed.certificate.serial_number, "the renewed certificate is shown")
        produce(100)
        if kind == "ottla":
            secured.files.replace("broker.pem", other.pem())
            with pytest.raises(KafkaException) as refused:
                admin.incremental_alter_configs([again])[again].result(30)
            assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
            assert shown(secured, "PEM") == renewed.certificate.serial_number
        produce(100)
    finally:
        secured.files.replace("broker.pem", BROKER.pem())
    assert not failed


def test_a_signal_has_the_files_read_again(tmp_path: Path) -> None:
    """Kafka ends with SIGHUP."""
    broker = SecuredBroker("ottla", tmp_path)
    broker.process.start()
    try:
        assert broker.process.process is not None
        renewed = issue("broker", ROOT)
        broker.files.replace("broker.pem", renewed.pem())
        broker.process.process.send_signal(signal.SIGHUP)
        wait_for(lambda: shown(broker, "PEM") == renewed.certificate.serial_number, "the renewed certificate is shown")
        assert broker.process.stop() == 0
    finally:
        broker.process.stop()


def test_a_store_that_cannot_be_opened_keeps_both_from_starting(kind: str, tmp_path: Path) -> None:
    """ottla says why in one line; Kafka in a stack of exceptions."""
    broker = SecuredBroker(kind, tmp_path, listener_name_jks_ssl_keystore_password="another")
    with pytest.raises(BrokerFailed):
        broker.process.start()
    assert broker.process.process is None
    if kind == "ottla":
        (line,) = [line for line in broker.process.log_tail(5).splitlines() if line.startswith("ottla: ")]
        path = broker.files.jks(BROKER)
        assert line.startswith(f"ottla: listener.name.jks.ssl.keystore.password: it does not open {path}; give the password of")

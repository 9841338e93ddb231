"""commands/clients/direct.py: what our own connection requests, how it logs in, and its failures in words."""

from __future__ import annotations

import socket
import ssl
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives.serialization import Encoding

import ottla.testing
from compat_tests.certificates import authority, issue
from ottla.commands.clients import direct
from ottla.commands.clients.client import Cluster
from ottla.commands.clients.partition import Partition
from ottla.commands.output import Failure
from ottla.wire.header import decode_request_header, encode_response_header
from ottla.wire.messages import api_versions, sasl_authenticate, sasl_handshake

HOST = "127.0.0.1"
CLUSTER = Cluster({}, timeout_s=10)


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.testing.Broker]:
    with ottla.testing.Broker() as running:
        yield running


def test_bytes_of_logs(broker: ottla.testing.Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("t", 2)])["t"].result(10)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("t", b"x" * 1000, partition=1)
    assert producer.flush(10) == 0
    with direct.connect(CLUSTER, HOST, broker.port) as connection:
        sizes = direct.log_sizes(connection, {"t": [0, 1, 7], "none": [0]})
    assert sizes.keys() == {Partition("t", 0), Partition("t", 1)}
    assert sizes[Partition("t", 0)] == 0
    assert 1000 < sizes[Partition("t", 1)] < 1200


def test_places_in_logs(broker: ottla.testing.Broker) -> None:
    cluster = Cluster({"bootstrap.servers": broker.bootstrap})
    admin = cluster.admin()
    admin.create_topics([NewTopic("places", 2)])["places"].result(10)
    begun = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "open"})
    begun.init_transactions(10)
    begun.begin_transaction()
    for time_ms in (5_000, 9_000, 7_000):
        begun.produce("places", b"x", partition=1, timestamp=time_ms)
        assert begun.flush(10) == 0
    with direct.connect(cluster, "127.0.0.1", broker.port) as connection:

        def offset_and_time(place: int, **how: int) -> tuple[int, int]:
            found = direct.offsets(connection, {"places": [1, 1, 7], "none": [0]}, place, **how)
            assert list(found) == [Partition("places", 1)], "what is not there is left out, what is named twice asked for once"
            return found[Partition("places", 1)]

        assert offset_and_time(direct.EARLIEST)[0] == 0
        assert offset_and_time(direct.LATEST)[0] == 3
        assert offset_and_time(direct.LATEST, isolation_level=direct.READ_COMMITTED)[0] == 0
        assert offset_and_time(direct.NEWEST) == (1, 9_000)
        assert offset_and_time(8_000) == (1, 9_000)
        assert offset_and_time(9_001) == (-1, -1)
        asked = {"places": [0, 1, 1, 7], "none": [0]}
        assert direct.ends(connection, asked) == {"places": {0: 0, 1: 3}, "none": {}}
        assert direct.ends(connection, asked, direct.READ_COMMITTED) == {"places": {0: 0, 1: 0}, "none": {}}
        assert direct.log_ends(connection, {"places": [0, 1]}) == {Partition("places", 0): 0, Partition("places", 1): 3}
    begun.abort_transaction(10)


def test_settings_for_all_brokers(broker: ottla.testing.Broker) -> None:
    with direct.connect(CLUSTER, HOST, broker.port) as connection:
        direct.alter_configs(connection, direct.BROKER, "", [("log.retention.ms", 0, "5000")], dry_run=True)
        (written_down,) = direct.configs(connection, direct.BROKER, "")
        assert written_down.name == "min.insync.replicas"
        direct.alter_configs(connection, direct.BROKER, "", [("log.retention.ms", 0, "5000")], dry_run=False)
        found = [(each.name, each.value) for each in direct.configs(connection, direct.BROKER, "") if each != written_down]
        assert found == [("log.retention.ms", "5000")]
        direct.alter_configs(connection, direct.BROKER, "", [("log.retention.ms", 1, None)], dry_run=False)
        with pytest.raises(Failure, match="the setting is not allowed"):
            direct.alter_configs(connection, direct.BROKER_LOGGER, "1", [("root", 0, "LOUD")], dry_run=False)


# A broker of which every answer is chosen

Answer = Callable[[Any, int, Any], bytes | None]


@contextmanager
def broker_that(answer: Answer) -> Iterator[int]:
    """Listens for one connection and yields the port. `answer(api key, version, body)` returns the answer, or None to hang up."""
    listener = socket.create_server((HOST, 0))

    def serve() -> None:
        stream, _ = listener.accept()
        with stream, stream.makefile("rb") as reader:
            while head := reader.read(4):
                frame = reader.read(int.from_bytes(head, "big"))
                header, at = decode_request_header(frame, 0)
                body = answer(header.api_key, header.api_version, frame[at:])
                if body is None:
                    return
                whole = encode_response_header(header.api_key, header.api_version, header.correlation_id) + body
                stream.sendall(struct.pack(">i", len(whole)) + whole)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join(10)
        listener.close()


def encoded(module: Any, version: int, response: Any) -> bytes:
    parts: list[Any] = []
    module.ENCODE_RESPONSE[version](response, parts)
    return b"".join(bytes(part) for part in parts)


def versions(**apis: int) -> bytes:
    keys = {"sasl_authenticate": 36, "describe_log_dirs": 35}
    response = api_versions.ApiVersionsResponse(
        api_keys=[api_versions.ApiVersion(keys[name], 0, high) for name, high in apis.items()]
    )
    return encoded(api_versions, 0, response)


def sasl(properties: dict[str, str]) -> Cluster:
    return Cluster({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **properties}, timeout_s=10)


def test_logging_in() -> None:
    seen: list[bytes] = []

    def answer(key: int, version: int, body: Any) -> bytes:
        if key == api_versions.API_KEY:
            return versions(sasl_authenticate=2)
        if key == sasl_handshake.API_KEY:
            return encoded(sasl_handshake, version, sasl_handshake.SaslHandshakeResponse(0, ["PLAIN"]))
        request, _ = sasl_authenticate.DECODE_REQUEST[version](body, 0)
        seen.append(bytes(request.auth_bytes))
        return encoded(sasl_authenticate, version, sasl_authenticate.SaslAuthenticateResponse())

    with (
        broker_that(answer) as port,
        direct.connect(sasl({"sasl.username": "me", "sasl.password": "sécret"}), HOST, port) as connection,
    ):
        assert connection.versions == {36: (0, 2)}
    assert seen == ["\0me\0sécret".encode()]


def test_a_login_with_a_token() -> None:
    seen: list[bytes] = []

    def answer(key: int, version: int, body: Any) -> bytes:
        if key == api_versions.API_KEY:
            return versions(sasl_authenticate=2)
        if key == sasl_handshake.API_KEY:
            return encoded(sasl_handshake, version, sasl_handshake.SaslHandshakeResponse(0, ["OAUTHBEARER"]))
        request, _ = sasl_authenticate.DECODE_REQUEST[version](body, 0)
        seen.append(bytes(request.auth_bytes))
        return encoded(sasl_authenticate, version, sasl_authenticate.SaslAuthenticateResponse())

    login = {
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=me",
    }
    with broker_that(answer) as port, direct.connect(sasl(login), HOST, port):
        assert len(seen) == 1
    assert seen[0].startswith(b"n,,\1auth=Bearer ")


def test_a_login_that_is_refused() -> None:
    def answer(key: int, version: int, _: Any) -> bytes:
        if key == api_versions.API_KEY:
            return versions(sasl_authenticate=2)
        if key == sasl_handshake.API_KEY:
            return encoded(sasl_handshake, version, sasl_handshake.SaslHandshakeResponse(0, ["PLAIN"]))
        return encoded(sasl_authenticate, version, sasl_authenticate.SaslAuthenticateResponse(58, "who are you"))

    with broker_that(answer) as port, pytest.raises(Failure, match="the broker refused the login: who are you"):
        with direct.connect(sasl({"sasl.username": "me"}), HOST, port):
            pass


def test_a_login_of_another_kind_is_not_tried() -> None:
    with pytest.raises(Failure, match="log in with PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER but not with GSSAPI"):
        with direct.connect(sasl({"sasl.mechanism": "GSSAPI"}), HOST, 1):
            pass


def test_a_broker_that_does_not_support_the_request() -> None:
    with broker_that(lambda *_: versions(describe_log_dirs=0)) as port, direct.connect(CLUSTER, HOST, port) as connection:
        with pytest.raises(Failure, match="does not support DescribeLogDirs"):
            direct.log_sizes(connection, {"t": [0]})


def test_a_broker_that_closes_the_connection() -> None:
    with broker_that(lambda *_: None) as port, pytest.raises(Failure, match=f"{HOST}:{port}: the broker closed the connection"):
        with direct.connect(CLUSTER, HOST, port):
            pass


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\0\x7f\xff\xff\xff"])
def test_an_answer_that_cannot_be_read(body: bytes) -> None:
    with broker_that(lambda *_: body) as port, pytest.raises(Failure, match="cannot be decoded"):
        with direct.connect(CLUSTER, HOST, port):
            pass


def test_something_that_is_no_broker() -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            stream, _ = listener.accept()
            with stream:
                stream.recv(1000)
                stream.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(Failure, match="not a Kafka broker"):
            with direct.connect(CLUSTER, HOST, port):
                pass
        thread.join(10)


def test_nobody_there() -> None:
    with socket.socket() as taken:  # bound and not listening: nobody else gets the port meanwhile
        taken.bind((HOST, 0))
        port = taken.getsockname()[1]
        with pytest.raises(Failure, match=f"^{HOST}:{port}: Connection refused"):
            with direct.connect(CLUSTER, HOST, port):
                pass


def test_no_answer_in_time() -> None:
    with socket.create_server((HOST, 0)) as listener:  # which takes the connection, and never reads
        port = listener.getsockname()[1]
        with pytest.raises(Failure, match=f"{HOST}:{port}: no answer in time"):
            with direct.connect(Cluster({}, timeout_s=0.05), HOST, port):
                pass


def test_tls_as_the_properties_say() -> None:
    assert direct._protocol({}) == (False, None)
    assert direct._protocol({"security.protocol": "ssl"}) == (True, None)
    assert direct._protocol({"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN"}) == (True, "PLAIN")
    strict = direct._context({})
    assert (strict.check_hostname, strict.verify_mode) == (True, ssl.CERT_REQUIRED)
    nameless = direct._context({"ssl.endpoint.identification.algorithm": "none"})
    assert (nameless.check_hostname, nameless.verify_mode) == (False, ssl.CERT_REQUIRED)
    trusting = direct._context({"enable.ssl.certificate.verification": "false"})
    assert (trusting.check_hostname, trusting.verify_mode) == (False, ssl.CERT_NONE)


@pytest.mark.parametrize("name", ["ssl.keystore.location", "ssl.crl.location", "ssl.sigalgs.list"])
def test_tls_properties_that_only_librdkafka_knows(name: str) -> None:
    with pytest.raises(Failure, match=f"ottla's own, which does not support {name}"):
        direct._context({"ssl.ca.location": "probe", name: "x"})


def test_certificates_as_pem() -> None:
    """As properties.py makes them of Java's stores."""
    root = authority()
    own = issue("client", issue("middle", root, is_authority=True))
    context = direct._context(
        {
            "ssl.ca.pem": root.chain_pem(),
            "ssl.certificate.pem": own.chain_pem(),
            "ssl.key.pem": own.key_pem(),
            "ssl.cipher.suites": "ECDHE-ECDSA-AES256-GCM-SHA384",
        }
    )
    assert context.get_ca_certs(binary_form=True) == [root.certificate.public_bytes(Encoding.DER)]
    names = [each["name"] for each in context.get_ciphers()]
    assert "ECDHE-ECDSA-AES256-GCM-SHA384" in names
    assert "ECDHE-RSA-AES256-GCM-SHA384" not in names
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with socket.create_server((HOST, 0)) as listener, tempfile.NamedTemporaryFile("w", suffix=".pem") as store:
        store.write(issue("broker", root).pem())
        store.flush()
        server.load_cert_chain(store.name)
        server.load_verify_locations(cadata=root.chain_pem())
        server.verify_mode = ssl.CERT_REQUIRED
        shown: list[bytes | None] = []

        def serve() -> None:
            with server.wrap_socket(listener.accept()[0], server_side=True) as stream:
                shown.append(stream.getpeercert(binary_form=True))

        thread = threading.Thread(target=serve)
        thread.start()
        with context.wrap_socket(socket.create_connection(listener.getsockname()), server_hostname=HOST) as stream:
            stream.recv(1)
        thread.join(10)
    assert shown == [own.certificate.public_bytes(Encoding.DER)]


def test_an_encrypted_key(tmp_path: Path) -> None:
    """Without a password it fails, where OpenSSL would ask for one on the terminal."""
    both = tmp_path / "key-and-certificate.pem"
    new_key = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-subj", "/CN=test", "-passout", "pass:secret"]
    subprocess.run([*new_key, "-keyout", str(both), "-out", str(tmp_path / "certificate")], check=True, capture_output=True)
    both.write_text(both.read_text() + (tmp_path / "certificate").read_text())
    files = {"ssl.certificate.location": str(both), "ssl.key.location": str(both)}
    with pytest.raises(Failure, match=r"put its password into ssl\.key\.password"):
        direct._context(files)
    with pytest.raises(ssl.SSLError):
        direct._context({**files, "ssl.key.password": "wrong"})
    direct._context({**files, "ssl.key.password": "secret"})


def test_tls_with_a_broker_that_has_none(broker: ottla.testing.Broker) -> None:
    with pytest.raises(Failure, match="TLS failed"):
        with direct.connect(Cluster({"security.protocol": "ssl"}, timeout_s=10), HOST, broker.port):
            pass

"""Options to properties, librdkafka's errors to words. What needs a cluster is in compat_tests/test_commands_io.py."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import typer
from confluent_kafka import KafkaError
from typer.testing import CliRunner

import ottla.testing
from compat_tests.certificates import authority
from ottla.commands import output
from ottla.commands.clients import client
from ottla.commands.clients.client import Cluster, cluster_of, explain


def test_what_is_nearer_to_the_user_counts(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    assert cluster_of(None, (), None).bootstrap == "127.0.0.1:9092"
    file.write_text("bootstrap.servers=file:1\nacks=1\n")
    assert cluster_of(None, (), file).bootstrap == "file:1"
    assert cluster_of("option:1", (), file).bootstrap == "option:1"
    assert cluster_of("option:1", ["bootstrap.servers=property:1"], file).bootstrap == "property:1"
    assert cluster_of(None, ["sasl.password=a=b "], None).properties == {"sasl.password": "a=b "}


@pytest.mark.parametrize("pair", ["", "acks", "=1"])
def test_properties_that_are_none(pair: str) -> None:
    with pytest.raises(typer.BadParameter, match="not key=value"):
        cluster_of(None, [pair], None)


def test_properties_that_librdkafka_refuses() -> None:
    for pair, words in (("no.such=1", 'No such configuration property: "no.such"'), ("acks=many", "Invalid value")):
        with pytest.raises(typer.BadParameter, match=words):
            cluster_of(None, [pair], None).producer({})


def test_a_file_for_apache_kafkas_tools(tmp_path: Path) -> None:
    """Checks that the command line counts more than the file: its protocol, and its certificates."""
    file, trust = tmp_path / "client.properties", tmp_path / "trust.pem"
    trust.write_text(authority().chain_pem())
    file.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={trust}\n")
    assert cluster_of(None, (), file).file["ssl.ca.pem"] == authority().chain_pem()
    assert "ssl.ca.pem" not in cluster_of(None, ["security.protocol=PLAINTEXT"], file).file
    assert "ssl.ca.pem" not in cluster_of(None, ["ssl.ca.location=other.pem"], file).file
    file.write_text(f"ssl.truststore.type=PEM\nssl.truststore.location={trust}\n")
    assert "ssl.ca.pem" in cluster_of(None, ["security.protocol=SSL"], file).file
    file.write_text("security.protocol=SSL\nssl.truststore.location=/nowhere\n")
    with pytest.raises(typer.BadParameter, match=r"ssl\.truststore\.location: /nowhere: No such file"):
        cluster_of(None, (), file)


def test_a_property_of_the_file_that_librdkafka_refuses(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("no.such=1\n")
    for given, hint in ((), "--command-config"), (["no.such=2"], "--property"):
        with pytest.raises(typer.BadParameter, match=r"No such configuration property: \"no\.such\"") as error:
            cluster_of(None, given, file).admin()
        assert error.value.param_hint == hint


def test_a_missing_file_of_properties(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="none: No such file"):
        cluster_of(None, (), tmp_path / "none")


@pytest.mark.parametrize(
    ("code", "text", "words"),
    [
        (
            KafkaError._TRANSPORT,
            "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)",
            "127.0.0.1:1: connection refused",
        ),
        (
            KafkaError._RESOLVE,
            "nowhere:9092/bootstrap: Failed to resolve 'nowhere:9092': Name or service not known (after 1ms in state CONNECT)",
            "nowhere:9092: failed to resolve 'nowhere:9092': Name or service not known",
        ),
        (
            KafkaError._AUTHENTICATION,
            "sasl_ssl://b:9094/7: SASL authentication error: no (after 5ms in state AUTH_REQ)",
            "b:9094: SASL authentication error: no",
        ),
        (KafkaError.MSG_SIZE_TOO_LARGE, "Broker: Message size too large", "larger than the topic allows (max.message.bytes)"),
        (KafkaError.NON_EMPTY_GROUP, "", "the group has members; stop them first"),
        (KafkaError.INVALID_CONFIG, "Bad value for x", "the setting is not allowed: Bad value for x"),
        (KafkaError.NOT_CONTROLLER, "Broker: Not controller for cluster", "Broker: Not controller for cluster (NOT_CONTROLLER)"),
    ],
)
def test_errors_in_words(code: int, text: str, words: str) -> None:
    assert explain(KafkaError(code, text)) == words


def test_every_word_is_of_an_error_that_librdkafka_has() -> None:
    known = {KafkaError(getattr(KafkaError, name)).name() for name in dir(KafkaError) if name.lstrip("_").isupper()}
    assert client.WORDS.keys() - known == set()


def app() -> typer.Typer:
    made = typer.Typer()

    @made.command()
    @client.command
    def main(cluster: Cluster, word: str = "x") -> None:
        cluster.reach(cluster.admin())
        print(word)

    return made


def test_nobody_listens_and_it_does_not_wait() -> None:
    with socket.socket() as taken:  # bound and not listening: nobody else gets the port meanwhile
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        ran = CliRunner().invoke(app(), ["--bootstrap", f"127.0.0.1:{port}", "--timeout", "600"])
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr == f"ottla: cannot reach 127.0.0.1:{port}: connection refused\n"


def test_somebody_listens_and_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        ran = CliRunner().invoke(
            app(), [], env={"OTTLA_BOOTSTRAP": address, "KAFKA_BOOTSTRAP_SERVERS": "other:1"}, catch_exceptions=False
        )
        assert ran.exit_code == 1
        ran = CliRunner().invoke(app(), ["--timeout", "0.2"], env={"KAFKA_BOOTSTRAP_SERVERS": address})
    assert ran.stderr == f"ottla: cannot reach {address}: no answer within 0.2 s\n"


def test_a_cluster_that_is_slow_is_reached() -> None:
    """librdkafka forgets an answer that comes after its call has ended."""
    with ottla.testing.Broker() as broker, broker.fault(api="Metadata", delay_ms=250, times=-1):
        cluster = cluster_of(broker.bootstrap, (), None, timeout_s=30)
        assert list(cluster.reach(cluster.admin()).brokers) == [1]


def test_ctrl_c_while_it_waits_patiently() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, output.Interrupt() as interrupt:
        cluster = cluster_of(f"127.0.0.1:{server.getsockname()[1]}", (), None, timeout_s=600)
        interrupt.came = True
        with pytest.raises(KeyboardInterrupt):
            cluster.reach(cluster.consumer({"group.id": "g"}), patient=interrupt)


def test_wrong_usage() -> None:
    for arguments in (["--nothing"], ["-X", "acks"], ["--timeout", "0"], ["-X", "acks=many"], ["-b", " "]):
        ran = CliRunner().invoke(app(), arguments)
        assert (ran.exit_code, ran.stdout) == (2, ""), arguments


def test_a_client_config_that_cannot_be_read_is_wrong_usage(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    with pytest.raises(typer.BadParameter, match=r"No such file or directory; name a \.properties file that can be read"):
        cluster_of(None, (), path)
    path.write_text("a=1\nb=\\u12x")
    with pytest.raises(typer.BadParameter, match=r"client\.properties, line 2: .* is not a character"):
        cluster_of(None, (), path)

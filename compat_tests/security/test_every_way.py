"""Clients of every language into a secured broker, against ottla and against Apache Kafka: each protocol and mechanism works, and
each wrong way is refused with that client's own class of error.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import pytest

from compat_tests.commands import good, ottla
from compat_tests.java_client import Java, JavaError, running
from compat_tests.programs import GO, NODE, RUST, Program
from compat_tests.reference import jvm
from compat_tests.security.tls_files import ALICE
from compat_tests.security.ways import MECHANISMS, RIGHT, TOPIC, WRONG, EveryWay, Way, every_way

PROGRAMS: Final = {
    "franz-go": Program(GO, "franz"),
    "sarama": Program(GO, "sarama"),
    "kafkajs": Program(NODE, "kafkajs"),
    "platformatic": Program(NODE, "platformatic"),
    "rdkafka": Program(RUST, "rdkafka"),
}
REFUSED: Final[dict[str, list[str]]] = {
    "franz-go": [
        *["SASL_AUTHENTICATION_FAILED"] * 3,
        "x509.UnknownAuthorityError",
        "tls.alert",
        "*net.OpError|*errors.errorString",
    ],
    "sarama": [
        *["ErrSASLAuthenticationFailed"] * 3,
        "x509.UnknownAuthorityError",
        "tls.alert",
        "*net.OpError|sarama.sentinelError",
    ],
    "kafkajs": [
        *["KafkaJSSASLAuthenticationError"] * 3,
        *["KafkaJSConnectionError"] * 2,
        "KafkaJSConnectionError|KafkaJSConnectionClosedError",
    ],
    "platformatic": [*["PLT_KFK_AUTHENTICATION"] * 3, *["PLT_KFK_NETWORK"] * 3],
    "rdkafka": [*["Authentication"] * 3, "SSL", "SSL|BrokerTransportFailure", "AllBrokersDown"],
}
"""The class of error that each client gives for each of the wrong ways but the last, in their order. Of what is no TLS Kafka
closes the connection, and ottla resets it."""
UNAUTHORISED: Final = {
    "franz-go": "TOPIC_AUTHORIZATION_FAILED",
    "sarama": "KError 29",
    "kafkajs": "TOPIC_AUTHORIZATION_FAILED",
    "platformatic": "TOPIC_AUTHORIZATION_FAILED",
    "rdkafka": "TopicAuthorizationFailed",
}


REFUSED_BY_JAVA: Final = [*["SaslAuthenticationException"] * 3, *["SslAuthenticationException"] * 2, "TimeoutException"]
REFUSED_WORDS: Final = {
    "a wrong password of SCRAM": "SASL authentication error",
    "an authority that the client does not know": "certificate verify failed",
}
"""The words of ottla's commands about wrong ways."""
BRIEF: Final = {"request.timeout.ms": "2000", "default.api.timeout.ms": "2000"}
"""For a client that nobody answers. The others are told why they fail, sooner or later."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with running(tmp_path_factory.mktemp("java")) as java:
        yield java


@pytest.fixture(scope="module")
def secured(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EveryWay]:
    with every_way(kind, tmp_path_factory.mktemp(f"ways-{kind}")) as broker:
        yield broker


@pytest.mark.parametrize("client", PROGRAMS)
def test_clients_of_other_languages(secured: EveryWay, client: str) -> None:
    ways = [secured.as_json(way) for way in (*RIGHT, *WRONG.values())]
    lines: list[dict[str, Any]] = PROGRAMS[client].run("ways", "", ways=ways)
    values = [line["record"]["value"] for line in lines if "record" in line]
    ends = [line for line in lines if "record" not in line]
    assert {str(way): end.get("message", "works") for way, end in zip(RIGHT, ends, strict=False) if "error" in end} == {}
    assert values == ["secured"] * len(RIGHT)
    expected = [*REFUSED[client], UNAUTHORISED[client]]
    for what, refused, classes in zip(WRONG, ends[len(RIGHT) :], expected, strict=True):
        assert set(classes.split("|")) & set(refused["error"]), f"{what}: {refused}"


def test_java(secured: EveryWay, program: Java) -> None:
    for way in RIGHT:
        settings = secured.java(way)
        program.call("connect", bootstrap=secured.bootstrap(way), settings=settings)
        records = [{"partition": 0, "value": "secured"}]
        (placed,) = program.call("produce", bootstrap=secured.bootstrap(way), topic=TOPIC, records=records, settings=settings)
        assert placed.keys() == {"partition", "offset", "timestamp_ms"}, way
    *wrong, unauthorised = WRONG.values()
    for way, name in zip(wrong, REFUSED_BY_JAVA, strict=True):
        with pytest.raises(JavaError) as error:
            program.call(
                "connect",
                bootstrap=secured.bootstrap(way),
                settings=secured.java(way) | (BRIEF if name == "TimeoutException" else {}),
            )
        assert error.value.name == name, way
    asked = {"topic": TOPIC, "records": [{"value": "x"}], "settings": secured.java(unauthorised)}
    assert program.call("produce", bootstrap=secured.bootstrap(unauthorised), **asked) == [
        {"error": "TopicAuthorizationException"}
    ]


def test_apaches_tools(secured: EveryWay) -> None:
    def listed(way: Way) -> subprocess.CompletedProcess[str]:
        command = [*jvm.java("kafka-tools"), "org.apache.kafka.tools.TopicCommand", "--describe", "--topic", TOPIC]
        where = ["--bootstrap-server", secured.bootstrap(way), "--command-config", secured.client_properties(way)]
        return subprocess.run([*command, *where], capture_output=True, text=True, check=False, timeout=120)

    done = listed(Way("SECURE", "SCRAM-SHA-512"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Topic: {TOPIC}" in done.stdout
    refused = listed(WRONG["a wrong password of SCRAM"])
    assert refused.returncode != 0
    assert "SaslAuthenticationException" in refused.stdout + refused.stderr


@pytest.mark.kafka_in_full
def test_the_commands_of_ottla(secured: EveryWay) -> None:
    """With the very files of Apache's tools; sizes are asked for on a connection that is not librdkafka's."""
    good("produce", TOPIC, "--value", "x", bootstrap=secured.process.bootstrap)
    for way in (Way("MUTUAL", own=ALICE), *(Way("SECURE", each) for each in MECHANISMS if each != "SCRAM-SHA-256")):
        given = ("-b", secured.bootstrap(way), "--command-config", secured.client_properties(way))
        described = json.loads(good("topic", "describe", TOPIC, "--json", *given).text)
        assert [each["topic"] for each in described] == [TOPIC], way
        assert described[0]["size_bytes"] > 0, way
    for what, words in REFUSED_WORDS.items():
        way = WRONG[what]
        wrong = ("-b", secured.bootstrap(way), "--command-config", secured.client_properties(way), "--timeout", "3")
        ran = ottla("topic", "describe", TOPIC, *wrong)
        assert ran.code == 1, what
        assert len(ran.errors.splitlines()) == 1, ran.errors
        assert re.search(words, ran.errors), f"{what}: {ran.errors}"
        assert way.password not in ran.errors or way.password == "x"

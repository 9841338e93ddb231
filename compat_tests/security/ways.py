"""Every way into a secured broker: one broker with four listeners, and what each client of another language makes of them.

A `Way` is a listener, a mechanism, and a user; the programs of compat_tests/go, node and rust get a list of them as JSON
(`ways` in programs.py), so that one process tries all. `java` and `librdkafka` say the same in the words of these clients.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from compat_tests.brokers import CLASSES
from compat_tests.certificates import PASSWORD, Holder
from compat_tests.logging_in import MODULE, login_settings
from compat_tests.reference.kafka import HOST, BrokerProcess, free_port
from compat_tests.security.tls_files import ALICE, BROKER, FOREIGN, ROOT, STRANGER, Files
from compat_tests.topics import make_topics
from compat_tests.waiting import wait_for
from ottla.security.jaas import login_module

LISTENERS: Final = {"SSL": "SSL", "MUTUAL": "SSL", "LOGIN": "SASL_PLAINTEXT", "SECURE": "SASL_SSL"}
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SECRETS: Final = {"alice": "alice-secret", "bob": "bob-secret"}
"""Alice is a super user, as are those without a name and the certificate of alice; bob may do nothing."""
TOPIC: Final = "secured"


def token(name: str) -> str:
    """A token that nobody has signed."""
    claims = {"sub": name, "iat": time.time(), "exp": time.time() + 3600}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


class Way(NamedTuple):
    """A way in which a client connects. `user` and `password` count on listeners with SASL, `own` is its certificate."""

    listener: str
    mechanism: str = ""
    user: str = "alice"
    password: str = SECRETS["alice"]
    authority: Holder = ROOT
    own: Holder | None = None
    protocol: str = ""
    """The protocol that the client speaks, if it is not the listener's protocol."""

    @property
    def spoken(self) -> str:
        return self.protocol or LISTENERS[self.listener]

    def __str__(self) -> str:
        return f"{self.listener} {self.mechanism}".strip()


RIGHT: Final = (
    Way("SSL"),
    Way("MUTUAL", own=ALICE),
    *(Way(listener, mechanism) for listener in ("LOGIN", "SECURE") for mechanism in MECHANISMS),
)
WRONG: Final = {
    "a wrong password": Way("SECURE", "PLAIN", password="x"),
    "a wrong password of SCRAM": Way("SECURE", "SCRAM-SHA-256", password="x"),
    "an unknown user": Way("LOGIN", "SCRAM-SHA-512", user="eve"),
    "an authority that the client does not know": Way("SECURE", "PLAIN", authority=FOREIGN),
    "a certificate of another authority": Way("MUTUAL", own=STRANGER),
    "plain text on a listener for TLS": Way("SSL", protocol="PLAINTEXT"),
    "no right": Way("SECURE", "PLAIN", user="bob", password=SECRETS["bob"]),
}


class EveryWay:
    """A broker with a listener for each protocol, and with access rules. One server.properties is for ottla and Apache Kafka."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.files = Files(directory / "files")
        self.ports = {name: free_port() for name in LISTENERS}
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **LISTENERS}
        settings = {
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.location": self.files.jks(BROKER),
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.location": self.files.trust_jks(),
            "ssl.truststore.password": PASSWORD,
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice;User:CN=alice,O=Ottla",
            "connection.failed.authentication.delay.ms": "10",
            "group.initial.rebalance.delay.ms": "0",
            "ottla.login.failures.per.minute": "0",  # these tests fail often, on purpose
        }
        for listener in ("login", "secure"):
            users = login_settings(listener)
            own = f"listener.name.{listener}."
            settings |= users | {f"{own}oauthbearer.sasl.jaas.config": f"{MODULE}.oauthbearer.OAuthBearerLoginModule required;"}
        self.process: BrokerProcess = CLASSES[kind](directory / kind, settings)
        places = [f"{name}://{HOST}:{port}" for name, port in self.ports.items()]
        for name in ("listeners", "advertised.listeners"):
            self.process.settings[name] = ",".join([self.process.settings[name], *places])

    def start(self) -> None:
        """Starts the broker, and makes the users and the topic. Raises BrokerFailed."""
        self.process.start()
        admin = AdminClient({"bootstrap.servers": self.process.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            user = UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4096), SECRETS["alice"].encode())
            admin.alter_user_scram_credentials([user])["alice"].result(30)
        make_topics(self.process.bootstrap, 1, TOPIC)
        with closing(Consumer({"bootstrap.servers": self.process.bootstrap, "group.id": "first"})) as consumer:
            wait_for(lambda: has_coordinator(consumer), "there is a group coordinator")  # some clients ask only once

    def bootstrap(self, way: Way) -> str:
        return f"{HOST}:{self.ports[way.listener]}"

    def as_json(self, way: Way) -> dict[str, Any]:
        """Returns the way in the form that the programs of other languages take."""
        logs_in = way.spoken.startswith("SASL_")
        return {
            "bootstrap": self.bootstrap(way),
            "topic": TOPIC,
            "protocol": way.spoken,
            "authority": way.authority.chain_pem(),
            "certificate": way.own.chain_pem() if way.own else "",
            "key": way.own.key_pem() if way.own else "",
            "mechanism": way.mechanism,
            "username": way.user,
            "password": way.password,
            "token": token(way.user) if logs_in and way.mechanism == "OAUTHBEARER" else "",
            "librdkafka": self.librdkafka(way),
        }

    def librdkafka(self, way: Way) -> dict[str, str]:
        found = {"security.protocol": way.spoken}
        if way.spoken.endswith("SSL"):
            found["ssl.ca.pem"] = way.authority.chain_pem()
        if way.own is not None:
            found |= {"ssl.certificate.pem": way.own.chain_pem(), "ssl.key.pem": way.own.key_pem()}
        if way.spoken.startswith("SASL_"):
            found["sasl.mechanism"] = way.mechanism
            if way.mechanism == "OAUTHBEARER":
                found |= {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={way.user}"}
            else:
                found |= {"sasl.username": way.user, "sasl.password": way.password}
        return found

    def java(self, way: Way) -> dict[str, str]:
        """The properties of the Java client, with JKS stores."""
        found = {"security.protocol": way.spoken}
        if way.spoken.endswith("SSL"):
            found |= {"ssl.truststore.location": self.files.trust_jks(way.authority), "ssl.truststore.password": PASSWORD}
        if way.own is not None:
            found |= {"ssl.keystore.location": self.files.jks(way.own), "ssl.keystore.password": PASSWORD}
        if way.spoken.startswith("SASL_"):
            options = {"username": way.user, "password": way.password}
            if way.mechanism == "OAUTHBEARER":
                options = {"unsecuredLoginStringClaim_sub": way.user}
            found |= {"sasl.mechanism": way.mechanism, "sasl.jaas.config": login_module(way.mechanism, options.items())}
        return found

    def client_properties(self, way: Way) -> str:
        """The path of a client.properties for Apache's tools, and for the commands of ottla."""
        path = self.files.directory / f"client-{abs(hash(way))}.properties"
        lines = (f"{name}={_escaped(value)}\n" for name, value in self.java(way).items())
        path.write_text("".join(lines))
        return str(path)


def has_coordinator(consumer: Consumer) -> bool:
    try:
        consumer.committed([TopicPartition(TOPIC, 0)], 10)
    except KafkaException:
        return False
    return True


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


@contextmanager
def every_way(kind: str, directory: Path) -> Iterator[EveryWay]:
    """Starts a broker with every way in, and stops it."""
    broker = EveryWay(kind, directory)
    try:
        broker.start()
        yield broker
    finally:
        broker.process.stop()

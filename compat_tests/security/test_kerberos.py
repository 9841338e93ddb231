"""Logins by GSSAPI at ottla and at Apache Kafka, with a KDC beside them: three clients, message by message, and the wrong ways.

librdkafka in confluent-kafka's wheels has no GSSAPI.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import gssapi
import pytest

from compat_tests.brokers import Address
from compat_tests.java_client import Java, JavaError, running
from compat_tests.reference.kafka import BrokerFailed
from compat_tests.security.kerberos import MODULE, REALM, SERVICE, KerberosBroker, Realm
from compat_tests.security.python_clients import by_aiokafka, by_kafka_python
from compat_tests.topics import make_topics
from compat_tests.wire import CLOSED, Connection
from ottla.wire.messages import create_topics, metadata, sasl_authenticate, sasl_handshake

Unique = Callable[[str], str]
REFUSED: Final = ("refused", 58, True)


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    found = Realm(tmp_path_factory.mktemp("realm"))
    yield found
    found.stop()


@pytest.fixture(scope="module")
def door(kind: str, realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosBroker]:
    broker = KerberosBroker(kind, tmp_path_factory.mktemp(f"kerberos-{kind}"), realm)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def tickets(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has this process be a user of Kerberos."""
    monkeypatch.setenv("KRB5_CONFIG", str(realm.config))

    def be(name: str) -> None:
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{realm.tickets(name)}")

    return be


class Login:
    """A login token by token."""

    def __init__(self, door: KerberosBroker, service: str = f"{SERVICE}@localhost") -> None:
        assert door.broker.process is not None
        address = Address(door.kind, door.login_port, door.broker.process.pid, str(door.broker.log_file))
        self.connection = Connection(address)
        name = gssapi.Name(service, gssapi.NameType.hostbased_service).canonicalize(gssapi.MechType.kerberos)
        self.context = gssapi.SecurityContext(name=name, usage="initiate")
        self.connection.send(sasl_handshake.SaslHandshakeRequest("GSSAPI"), 1)
        answer = self.connection.answer(sasl_handshake, 1)
        assert (answer.error_code, answer.mechanisms) == (0, ["GSSAPI"])

    def send(self, token: bytes) -> Any:
        """The broker's token, or how it refuses."""
        self.connection.send(sasl_authenticate.SaslAuthenticateRequest(token), 2)
        answer = self.connection.answer(sasl_authenticate, 2)
        if answer.error_code:
            return ("refused", answer.error_code, bool(answer.error_message))
        return answer.auth_bytes

    def offer(self) -> bytes:
        """The layers that the broker offers, once both know each other."""
        answer = self.send(self.context.step())
        if not self.context.complete:
            assert self.context.step(answer) is None
            answer = self.send(b"")
        return bytes(self.context.unwrap(answer).message)

    def choose(self, message: bytes) -> Any:
        return self.send(self.context.wrap(message, False).message)


def test_token_by_token(door: KerberosBroker, tickets: Callable[[str], None]) -> None:
    tickets("alice")
    login = Login(door)
    with closing(login.connection.socket):
        assert login.offer()[0] == 1
        assert login.choose(b"\x01\0\0\0") == b""
        login.connection.send(metadata.MetadataRequest([]), 9)
        assert not isinstance(login.connection.answer(metadata, 9), str)


@pytest.mark.parametrize("message", [b"\x01\0\0\0mallory", b"\x01\xff\xff\xff"])
def test_whom_it_wants_to_be_does_not_count(door: KerberosBroker, tickets: Callable[[str], None], message: bytes) -> None:
    tickets("alice")
    login = Login(door)
    with closing(login.connection.socket):
        login.offer()
        assert login.choose(message) == b""


WRONG: Final[dict[str, Callable[[Login], Any]]] = {
    "no ticket": lambda login: login.send(b"ticket"),
    "nothing": lambda login: login.send(b""),
    "half a ticket": lambda login: login.send(login.context.step()[:-50]),
    "a ticket that was changed": lambda login: login.send(login.context.step()[:-1] + b"\0"),
    "a layer that there is not": lambda login: (login.offer(), login.choose(b"\x02\0\0\0"))[1],
    "no layer": lambda login: (login.offer(), login.choose(b"\0\0\0\0"))[1],
    "a choice that is not wrapped": lambda login: (login.offer(), login.send(b"\x01\0\0\0"))[1],
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused(door: KerberosBroker, tickets: Callable[[str], None], case: str) -> None:
    tickets("alice")
    login = Login(door)
    with closing(login.connection.socket):
        assert WRONG[case](login) == REFUSED
        assert login.connection.receive() == CLOSED


def test_a_ticket_for_another_service(door: KerberosBroker, tickets: Callable[[str], None]) -> None:
    tickets("alice")
    login = Login(door, f"{SERVICE}@elsewhere")
    with closing(login.connection.socket):
        assert login.send(login.context.step()) == REFUSED


@pytest.mark.parametrize(("user", "may"), [("alice", True), ("mallory", False), ("alice/admin", False)])
def test_who_one_is(door: KerberosBroker, tickets: Callable[[str], None], unique: Unique, user: str, may: bool) -> None:
    """By access rules: only alice is a super user."""
    tickets(user)
    login = Login(door)
    with closing(login.connection.socket):
        login.offer()
        assert login.choose(b"\x01\0\0\0") == b""
        topic = create_topics.CreatableTopic(unique("kerberos"), 1, 1)
        login.connection.send(create_topics.CreateTopicsRequest([topic]), 5)
        answer = login.connection.answer(create_topics, 5)
        assert (answer.topics[0].error_code == 0) is may


# Clients


def login_of(door: KerberosBroker) -> dict[str, Any]:
    return {
        "bootstrap_servers": door.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": SERVICE,
        "sasl_kerberos_domain_name": "localhost",
    }


def kafka_python(door: KerberosBroker, topic: str) -> str:
    return by_kafka_python(topic, **login_of(door), max_block_ms=10_000, bootstrap_timeout_ms=10_000)


def aiokafka(door: KerberosBroker, topic: str) -> str:
    return by_aiokafka(topic, **login_of(door))


@pytest.mark.parametrize("client", [kafka_python, aiokafka], ids=lambda client: client.__name__)
def test_clients(door: KerberosBroker, tickets: Callable[[str], None], unique: Unique, client: Callable[..., str]) -> None:
    tickets("alice")
    topic = unique("kerberos")
    make_topics(door.broker.bootstrap, 1, topic)
    assert client(door, topic) == "works"


@pytest.fixture(scope="module")
def program(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with running(tmp_path_factory.mktemp("java"), options=(f"-Djava.security.krb5.conf={realm.config}",)) as java:
        yield java


def test_java(door: KerberosBroker, realm: Realm, program: Java, unique: Unique) -> None:
    topic = unique("kerberos")
    make_topics(door.broker.bootstrap, 1, topic)
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "sasl.jaas.config": realm.jaas("alice"),
    }
    program.call("connect", bootstrap=door.bootstrap, settings=settings)
    records = [{"partition": 0, "value": "x"}]
    program.call("produce", bootstrap=door.bootstrap, topic=topic, records=records, settings=settings)
    brief = {"request.timeout.ms": "3000", "default.api.timeout.ms": "3000", "sasl.kerberos.service.name": "other"}
    with pytest.raises(JavaError) as refusal:  # the KDC knows no such service, and the client asks it again and again
        program.call("connect", bootstrap=door.bootstrap, settings=settings | brief)
    assert refusal.value.name == "TimeoutException"


def test_a_start_without_the_keytab(kind: str, realm: Realm, tmp_path: Path) -> None:
    jaas = f'{MODULE} required useKeyTab=true storeKey=true keyTab="{tmp_path}/none" principal="{SERVICE}/localhost@{REALM}";'
    broker = KerberosBroker(kind, tmp_path, realm, **{"listener.name.login.gssapi.sasl.jaas.config": jaas})
    with pytest.raises(BrokerFailed):
        broker.start()
    if kind == "ottla":
        last = broker.broker.log_file.read_text().strip().splitlines()[-1]
        assert f"listener.name.login.gssapi.sasl.jaas.config: {tmp_path}/none does not serve as the keytab of" in last

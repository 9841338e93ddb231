"""Secured brokers, ottla and Apache Kafka, by one server.properties: plain text, TLS, and TLS with a login.

The certificate's key is of P-256. A user of SCRAM-SHA-512 is made at the first start, through the plain listener, and may do
everything, as may those without a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from compat_tests.certificates import PASSWORD, authority, issue
from compat_tests.reference.kafka import HOST, BrokerProcess, free_port
from compat_tests.security.tls_files import Files
from scripts.bench.compare import BROKERS, SETTINGS
from scripts.bench.kload import Process

LISTENERS: Final = {"TLS": "SSL", "SECURE": "SASL_SSL"}
MECHANISM: Final = "SCRAM-SHA-512"
USER: Final = "alice"
SECRET: Final = "alice-secret"
_MODULES: Final = "org.apache.kafka.common.security"


class Secured:
    """A broker of one kind; `ports` are those of LISTENERS, its own port is the one in plain text."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.directory = directory / kind
        self.directory.mkdir(parents=True)
        self.root = authority()
        store = self.directory / "store.pem"
        store.write_text(issue("broker", self.root).pem())
        self.ports = {name: free_port() for name in LISTENERS}
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **LISTENERS}
        settings = SETTINGS | {
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "sasl.enabled.mechanisms": MECHANISM,
            "listener.name.secure.scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        }
        self.broker: BrokerProcess = BROKERS[kind](self.directory, settings)
        places = [f"{name}://{HOST}:{port}" for name, port in self.ports.items()]
        for name in ("listeners", "advertised.listeners"):
            self.broker.settings[name] = ",".join([self.broker.settings[name], *places])

    @property
    def pid(self) -> int:
        assert self.broker.process is not None
        return self.broker.process.pid

    def cpu_seconds(self) -> float:
        """Returns the CPU time that the broker has used so far, in steps of 10 ms."""
        return Process(self.pid).before

    def start(self) -> None:
        """Starts the broker and makes the user. Raises BrokerFailed."""
        self.broker.start()
        user = UserScramCredentialUpsertion(USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), SECRET.encode())
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        admin.alter_user_scram_credentials([user])[USER].result(30)

    def spark_options(self) -> dict[str, str]:
        """Returns the options of Spark's connector that log in by TLS."""
        jaas = f'{_MODULES}.scram.ScramLoginModule required username="{USER}" password="{SECRET}";'
        trust = Files(self.directory / "files").trust_jks(self.root)
        own = {
            "bootstrap.servers": f"{HOST}:{self.ports['SECURE']}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": jaas,
            "ssl.truststore.location": trust,
            "ssl.truststore.password": PASSWORD,
        }
        return {f"kafka.{name}": value for name, value in own.items()}


@contextmanager
def secured(kinds: list[str], directory: Path) -> Iterator[list[Secured]]:
    """Starts a broker of each kind for the block. Raises BrokerFailed."""
    with ExitStack() as stack:
        brokers = []
        for kind in kinds:
            broker = Secured(kind, directory)
            stack.callback(broker.broker.stop)
            broker.start()
            brokers.append(broker)
        yield brokers

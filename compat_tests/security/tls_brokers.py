"""Brokers with a listener for each kind of keystore, by one server.properties for ottla and Apache Kafka."""

from __future__ import annotations

from pathlib import Path

from compat_tests.brokers import CLASSES
from compat_tests.certificates import PASSWORD
from compat_tests.reference.kafka import HOST, BrokerProcess, free_port
from compat_tests.security.tls_files import BROKER, Files, inline

STORES = ("PEM", "JKS", "PKCS12", "INLINE")
"""The kinds of keystores, after which the listeners are named."""
LISTENERS = (*STORES, "MUTUAL")


class SecuredBroker:
    """A broker with a listener in plain text, one for TLS with each kind of keystore, and MUTUAL, which needs certificates."""

    def __init__(self, kind: str, directory: Path, **settings: str) -> None:
        self.files = Files(directory / "files")
        self.ports = {name: free_port() for name in LISTENERS}
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        self.process: BrokerProcess = CLASSES[kind](directory / kind, self._settings() | dotted)
        places = [f"{name}://{HOST}:{port}" for name, port in self.ports.items()]
        for name in ("listeners", "advertised.listeners"):
            self.process.settings[name] = ",".join([self.process.settings[name], *places])

    def _settings(self) -> dict[str, str]:
        files = self.files
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"} | dict.fromkeys(LISTENERS, "SSL")
        pem = files.directory / "broker.pem"
        pem.write_text(BROKER.pem())
        trust = {"type": "JKS", "location": files.trust_jks(), "password": PASSWORD}
        of = {
            "pem": {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(pem)},
            "mutual": {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(pem),
                "ssl.client.auth": "required",
                "ssl.principal.mapping.rules": "RULE:^CN=(.*?),O=.*$/$1/L,DEFAULT",
            },
            "jks": {"ssl.keystore.type": "JKS", "ssl.keystore.location": files.jks(BROKER), "ssl.keystore.password": PASSWORD},
            "pkcs12": {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": files.pkcs12(BROKER),
                "ssl.keystore.password": PASSWORD,
            },
            "inline": {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": inline(BROKER.key_pem()),
                "ssl.keystore.certificate.chain": inline(BROKER.chain_pem()),
            },
        }
        return {
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "auto.create.topics.enable": "false",
            **{f"ssl.truststore.{key}": value for key, value in trust.items()},
            **{f"listener.name.{name}.{key}": value for name, own in of.items() for key, value in own.items()},
        }

    def bootstrap(self, listener: str) -> str:
        """The address of one of the listeners."""
        return f"{HOST}:{self.ports[listener]}"

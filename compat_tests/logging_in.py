"""A broker of either kind with passwords: users of PLAIN in its file, users of SCRAM in its metadata, delegation tokens.

Its first listener is open to everybody, so that the test can make the users of SCRAM there. LOGIN and REAUTH want a login; at the
latter it ends after REAUTH_MS.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from compat_tests.brokers import CLASSES, Address
from compat_tests.reference.kafka import HOST, free_port

MODULE: Final = "org.apache.kafka.common.security"
REAUTH_MS: Final = 3000
SCRAM_USERS: Final = (
    ("carol", ScramMechanism.SCRAM_SHA_256, "carol-secret"),
    ("carol", ScramMechanism.SCRAM_SHA_512, "carol-512"),
    ("dave", ScramMechanism.SCRAM_SHA_512, "dave-secret"),
    ("e=v,e", ScramMechanism.SCRAM_SHA_256, "odd"),
)


def login_settings(listener: str) -> dict[str, str]:
    """The login modules of a listener."""
    own = f"listener.name.{listener.lower()}."
    users = 'user_alice="alice-secret" user_bob="bob-secret"'
    return {
        f"{own}plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required {users};",
        f"{own}scram-sha-256.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
        f"{own}scram-sha-512.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
    }


class PasswordBroker:
    """See the module's docstring. `login_port` and `reauth_port` are where clients log in."""

    def __init__(self, kind: str, directory: Path, **settings: str) -> None:
        self.kind = kind
        self.port, self.login_port, self.reauth_port, controller = (free_port() for _ in range(4))
        clients = f"PLAINTEXT://{HOST}:{self.port},LOGIN://{HOST}:{self.login_port},REAUTH://{HOST}:{self.reauth_port}"
        self.broker = CLASSES[kind](
            directory / kind,
            {
                "listeners": f"{clients},CONTROLLER://{HOST}:{controller}",
                "advertised.listeners": clients,
                "controller.quorum.bootstrap.servers": f"{HOST}:{controller}",
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,REAUTH:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
                ),
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                **login_settings("login"),
                **login_settings("reauth"),
                "listener.name.reauth.connections.max.reauth.ms": str(REAUTH_MS),
                "delegation.token.secret.key": "token-secret",
                "connection.failed.authentication.delay.ms": "10",
                "ottla.login.failures.per.minute": "0",  # these tests fail often, on purpose
                **settings,
            },
            self.port,
        )

    @property
    def log_file(self) -> Path:
        return self.broker.log_file

    def address(self, port: int) -> Address:
        """The broker at one of its ports."""
        assert self.broker.process is not None
        return Address(self.kind, port, self.broker.process.pid, str(self.log_file))

    def start(self) -> None:
        """Starts the broker and makes the users. Raises BrokerFailed."""
        self.broker.start()
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for name, mechanism, password in SCRAM_USERS:
            user = UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), password.encode())
            admin.alter_user_scram_credentials([user])[name].result(30)

    def stop(self) -> None:
        self.broker.stop()

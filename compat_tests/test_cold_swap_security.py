"""A secured directory goes from Apache Kafka to ottla and back: users, access rules, quotas and delegation tokens are the same.

That is what Apache's tools print, and who can log in. Each broker adds some of its own before it hands over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.directory_swap import Directory
from compat_tests.java_client import Java, running
from compat_tests.logging_in import MODULE
from compat_tests.reference.kafka import HOST, BrokerProcess, free_port
from compat_tests.waiting import wait_for
from ottla.security.jaas import login_module

SCRAM: Final = "SCRAM-SHA-512"
PASSWORD: Final = "a-secret-of-{}"
CONFIGS: Final = "kafka.admin.ConfigCommand"
ACLS: Final = "org.apache.kafka.tools.AclCommand"
TOKENS: Final = "org.apache.kafka.tools.DelegationTokenCommand"
TOPICS: Final = "org.apache.kafka.tools.TopicCommand"


class Secured(Directory):
    """A directory whose brokers have access rules, and a listener on which users of SCRAM log in."""

    def __init__(self, path: Path) -> None:
        self.login_port = free_port()
        super().__init__(
            path,
            {
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                "sasl.enabled.mechanisms": SCRAM,
                f"listener.name.login.{SCRAM.lower()}.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "delegation.token.secret.key": "a secret of the cluster",
            },
        )

    def broker(self, kind: str) -> BrokerProcess:
        broker = super().broker(kind)
        for name in ("listeners", "advertised.listeners"):
            broker.settings[name] += f",LOGIN://{HOST}:{self.login_port}"
        return broker


class Tools:
    """Apache's tools at one broker: on the listener that is open, and as somebody on the other."""

    def __init__(self, java: Java, bootstrap: str, login: str, directory: Path) -> None:
        self.java, self.bootstrap, self.login, self.directory = java, bootstrap, login, directory

    def run(self, tool: str, *arguments: str) -> str:
        return self._run(tool, "--bootstrap-server", self.bootstrap, *arguments)

    def run_as(self, name: str, password: str, tool: str, *arguments: str, by_token: bool = False) -> str:
        options = {"username": name, "password": password} | ({"tokenauth": "true"} if by_token else {})
        properties = self.directory / "client.properties"
        properties.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={SCRAM}\nsasl.jaas.config={login_module(SCRAM, options.items())}\n"
        )
        return self._run(tool, "--bootstrap-server", self.login, "--command-config", str(properties), *arguments)

    def _run(self, tool: str, *arguments: str) -> str:
        done: dict[str, Any] = self.java.call("tool", **{"class": tool}, arguments=list(arguments), stdin="")
        assert done["exit"] == 0, f"{tool} {arguments}: {done['output']}"
        return str(done["stdout"])

    def make(self, name: str, topic: str) -> tuple[str, str]:
        """A user with a password, rules, quotas and a token; the token's id and HMAC."""
        password = PASSWORD.format(name)
        for mechanism, iterations in (("SCRAM-SHA-256", 4096), (SCRAM, 8192)):  # in one request Kafka takes them for one twice
            scram = f"{mechanism}=[iterations={iterations},password={password}]"
            self.run(CONFIGS, "--alter", "--entity-type", "users", "--entity-name", name, "--add-config", scram)
        quotas = "producer_byte_rate=1048576,request_percentage=25.5"
        self.run(CONFIGS, "--alter", "--entity-type", "users", "--entity-name", name, "--add-config", quotas)
        client = ("--entity-type", "clients", "--entity-name", f"client-of-{name}")
        self.run(CONFIGS, "--alter", *client, "--add-config", "consumer_byte_rate=2000")
        self.run(ACLS, "--add", "--allow-principal", f"User:{name}", "--operation", "All", "--topic", topic)
        rule = ("--deny-principal", f"User:{name}", "--deny-host", "10.0.0.7", "--operation", "Read")
        self.run(ACLS, "--add", *rule, "--group", f"{name}-", "--resource-pattern-type", "prefixed")
        self.run(TOPICS, "--create", "--topic", topic, "--partitions", "1")
        made = self.run_as(
            name, password, TOKENS, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:renewer"
        )
        words = next(line for line in made.splitlines() if f"User:{name}" in line).split()
        wait_for(lambda: words[0] in self.tokens(name), "the broker knows the token")  # Kafka's answers before that
        return words[0], words[1]

    def tokens(self, owner: str) -> str:
        """Somebody's tokens, as they see them themselves."""
        mine = ("--describe", "--owner-principal", f"User:{owner}")
        return self.run_as(owner, PASSWORD.format(owner), TOKENS, *mine)

    def shown(self, users: Iterable[str]) -> dict[str, list[str]]:
        """Returns the lines that the tools print, whose order means nothing; nor does that of several settings in one."""
        printed = {
            "users": self.run(CONFIGS, "--describe", "--entity-type", "users"),
            "clients": self.run(CONFIGS, "--describe", "--entity-type", "clients"),
            "rules": self.run(ACLS, "--list"),
            "tokens": "".join(map(self.tokens, users)),
        }
        return {what: sorted(map(in_order, text.splitlines())) for what, text in printed.items()}


def in_order(line: str) -> str:
    """The same line with what it lists behind ` are ` sorted: the order of a user's mechanisms is that of a map."""
    whose, are, listed = line.partition(" are ")
    return whose + are + ", ".join(sorted(listed.split(", ")))


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with running(tmp_path_factory.mktemp("tools"), "Tools", "kafka-tools") as program:
        yield program


def test_a_secured_directory_there_and_back(java: Java, tmp_path: Path) -> None:
    directory = Secured(tmp_path / "secured")
    left: dict[str, list[str]] = {}
    tokens: dict[str, tuple[str, str]] = {}
    for kind, adds in (("kafka", "alice"), ("ottla", "bob"), ("kafka", "")):
        with directory.served_by(kind) as served:
            tools = Tools(java, served.bootstrap, f"{HOST}:{directory.login_port}", tmp_path)
            if left:
                assert tools.shown(tokens) == left, kind
            for name, (identity, hmac) in tokens.items():
                topics = ("--list", "--exclude-internal")
                assert tools.run_as(name, PASSWORD.format(name), TOPICS, *topics) == f"topic-of-{name}\n"
                assert tools.run_as(identity, hmac, TOPICS, *topics, by_token=True) == f"topic-of-{name}\n"
            if adds:
                tokens[adds] = tools.make(adds, f"topic-of-{adds}")
                left = tools.shown(tokens)
                assert all(any(adds in line for line in lines) for lines in left.values()), left

"""`ottla acl` and `ottla user` as a user runs them, and Apache's AclCommand, against both brokers with an authorizer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.brokers import CLASSES
from compat_tests.commands import good, ottla
from compat_tests.reference import jvm
from compat_tests.waiting import wait_for

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
TOOL = "org.apache.kafka.tools.AclCommand"


@pytest.fixture(scope="module")
def authorized(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap address of a broker with an authorizer."""
    broker = CLASSES[kind](directory(tmp_path_factory) / kind, SETTINGS)
    broker.start()
    yield broker.bootstrap
    broker.stop()


def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("acl")


def told(bootstrap: str, *words: str, stdin: bytes = b"") -> str:
    done = ottla(*words, bootstrap=bootstrap, stdin=stdin)
    assert done.code == 0, done
    return done.errors


def test_rules(authorized: str) -> None:
    on_topic = ("--topic", "orders")
    added = told(authorized, "acl", "add", "--allow", "User:alice", "-o", "read", "-o", "describe", *on_topic)
    assert added == "allow User:alice read on topic orders: added\nallow User:alice describe on topic orders: added\n"
    denied = told(authorized, "acl", "add", "--deny", "User:*", "-o", "write", "--topic", "ord", "--prefix", "--host", "10.0.0.1")
    assert denied == "deny User:* write on topic ord... from 10.0.0.1: added\n"
    told(authorized, "acl", "add", "--allow", "User:bob", "-o", "all", "--cluster")

    def shown(*options: str) -> list[list[str]]:
        return [line.split("\t") for line in good("acl", "list", *options, bootstrap=authorized).lines]

    wait_for(lambda: len(shown()) == 4, "the broker describes what its controller added")
    assert shown(*on_topic) == [
        ["deny", "User:*", "10.0.0.1", "write", "topic", "ord", "prefix"],
        ["allow", "User:alice", "*", "read", "topic", "orders", "literal"],
        ["allow", "User:alice", "*", "describe", "topic", "orders", "literal"],
    ]
    assert shown("--principal", "User:bob") == [["allow", "User:bob", "*", "all", "cluster", "kafka-cluster", "literal"]]

    def why(*words: str) -> str:
        return good("acl", "why", *words, bootstrap=authorized).text.rstrip("\n")

    assert why("User:alice", "read", *on_topic) == (
        "User:alice may read topic orders from 127.0.0.1, by the rule: allow User:alice read on topic orders"
    )
    assert why("User:carol", "write", *on_topic, "--host", "10.0.0.1") == (
        "User:carol may not write topic orders from 10.0.0.1, by the rule: deny User:* write on topic ord... from 10.0.0.1"
    )
    assert why("User:carol", "write", *on_topic).endswith("no rule for topic orders allows it")
    assert "there is no rule for group g; with allow.everyone" in why("User:carol", "read", "--group", "g")
    (answer,) = good("acl", "why", "User:alice", "read", *on_topic, "--json", bootstrap=authorized).objects
    assert (answer["allowed"], answer["rule"]["operation"]) == (True, "read")

    removed = told(authorized, "acl", "remove", *on_topic, "-o", "describe", "--yes")
    assert removed == "allow User:alice describe on topic orders: removed\n"
    told(authorized, "acl", "remove", *on_topic, "-y")
    told(authorized, "acl", "remove", "--topic", "ord", "--prefix", "-y")
    told(authorized, "acl", "remove", "--cluster", "-y")
    wait_for(lambda: good("acl", "list", bootstrap=authorized).text == "", "the rules are gone")
    gone = ottla("acl", "remove", *on_topic, "-y", bootstrap=authorized)
    assert (gone.code, gone.errors) == (1, "ottla: topic orders: there is no such rule\n")


def test_users(authorized: str) -> None:
    told(authorized, "user", "add", "alice", stdin=b"secret\n")
    told(authorized, "user", "add", "bob", "--mechanism", "SCRAM-SHA-512", "--iterations", "4096", stdin=b"secret\n")

    def shown(*names: str) -> list[list[str]]:
        return [line.split("\t") for line in good("user", "list", *names, bootstrap=authorized).lines]

    alice = [["alice", "SCRAM-SHA-256", "8192"], ["alice", "SCRAM-SHA-512", "8192"]]
    wait_for(lambda: shown() == [*alice, ["bob", "SCRAM-SHA-512", "4096"]], "the broker describes the users")
    assert shown("alice", "nobody") == alice
    assert told(authorized, "user", "remove", "bob", "-y") == "user bob (SCRAM-SHA-512): removed\n"
    told(authorized, "user", "remove", "alice", "-y")
    wait_for(lambda: good("user", "list", bootstrap=authorized).text == "", "the users are gone")
    gone = ottla("user", "remove", "bob", "-y", bootstrap=authorized)
    assert (gone.code, gone.errors) == (1, "ottla: user bob: there is no such user\n")


def test_apaches_tool(authorized: str) -> None:
    def tool(*words: str) -> str:
        command = [*jvm.java("kafka-tools", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"), TOOL]
        done = subprocess.run([*command, "--bootstrap-server", authorized, *words], capture_output=True, check=True, timeout=120)
        return done.stdout.decode()

    rule = ("--allow-principal", "User:tool", "--producer", "--topic", "made-by-tool")
    assert "(principal=User:tool, host=*, operation=WRITE, permissionType=ALLOW)" in tool("--add", *rule)
    assert "(principal=User:tool, host=*, operation=CREATE, permissionType=ALLOW)" in tool("--list", "--topic", "made-by-tool")
    assert "permissionType=ALLOW" not in tool("--remove", "--force", *rule)

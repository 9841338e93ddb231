"""`ottla config` as a user runs it, against ottla and Apache Kafka; and the way to a cluster that wants passwords.

Brokers phrase the rest of an error in their own words; ours, in front of it, are what is compared here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from compat_tests.brokers import CLASSES
from compat_tests.commands import errors, good, made, ottla
from compat_tests.reference.kafka import HOST, free_port
from compat_tests.waiting import wait_for

Unique = Callable[[str], str]


def setting(bootstrap: str, *target: str, key: str) -> str:
    return good("config", "get", *target, key, bootstrap=bootstrap).text.removesuffix("\n")


def test_settings_of_a_topic(bootstrap: str) -> None:
    target = ("--topic", made(bootstrap, 1))
    changing = ("config", "set", *target, "retention.ms=1000", "cleanup.policy+=compact")
    name = f"topic {target[1]}"
    assert ottla(*changing, "--dry-run", bootstrap=bootstrap).errors == f"{name}: would be set\n"
    assert good("config", "describe", *target, bootstrap=bootstrap).lines == []
    assert ottla(*changing, bootstrap=bootstrap).errors == f"{name}: set\n"
    wait_for(lambda: setting(bootstrap, *target, key="retention.ms") == "1000", "the setting is known")
    assert setting(bootstrap, *target, key="cleanup.policy") == "delete,compact"
    ((found,),) = good("config", "describe", *target, "--json", bootstrap=bootstrap).objects
    flags = {"source": "topic", "is_read_only": False, "is_sensitive": False}
    assert found == {
        "kind": "topic",
        "name": target[1],
        "settings": [
            {"setting": "cleanup.policy", "value": "delete,compact", **flags},
            {"setting": "retention.ms", "value": "1000", **flags},
        ],
    }
    everything = good("config", "describe", *target, "--all", bootstrap=bootstrap).lines
    assert len(everything) > 30
    assert f"topic\t{target[1]}\tsegment.ms\t604800000\tdefault\tfalse" in everything
    listed = [line.split("\t") for line in good("config", "list", bootstrap=bootstrap).lines]
    assert ["topic", target[1], "retention.ms", "1000", "topic"] in listed
    assert ottla("config", "unset", *target, "retention.ms", "cleanup.policy", bootstrap=bootstrap).code == 0
    wait_for(lambda: good("config", "describe", *target, bootstrap=bootstrap).lines == [], "nothing is set")


def test_settings_of_brokers(fresh_broker: Callable[..., Any]) -> None:
    """The settings of one broker and of all. The test has a broker of its own, since others would be affected."""
    broker = fresh_broker(queued_max_requests="321")
    bootstrap = f"127.0.0.1:{broker.port}"
    one, every = ("--broker", "1"), ("--broker-defaults",)
    assert ottla("config", "set", *every, "log.retention.ms=7000000", bootstrap=bootstrap).errors == "broker defaults: set\n"
    assert ottla("config", "set", *one, "log.segment.bytes=2097152", bootstrap=bootstrap).errors == "broker 1: set\n"
    wait_for(lambda: setting(bootstrap, *one, key="log.segment.bytes") == "2097152", "the setting is known")
    assert setting(bootstrap, *one, key="log.retention.ms") == "7000000"
    line = "broker-defaults\t-\tlog.retention.ms\t7000000\tbroker-defaults\tfalse"
    assert line in good("config", "describe", *every, bootstrap=bootstrap).lines  # Kafka sets one of its own, for its elections
    own = good("config", "describe", *one, bootstrap=bootstrap).lines
    for each in (
        "broker\t1\tqueued.max.requests\t321\tfile\ttrue",
        "broker\t1\tlog.retention.ms\t7000000\tbroker-defaults\tfalse",
        "broker\t1\tlog.segment.bytes\t2097152\tbroker\tfalse",
    ):
        assert each in own
    assert errors("config", "get", *every, "log.dirs", bootstrap=bootstrap) == ["ottla: broker defaults: log.dirs: it is not set"]
    (refused,) = errors("config", "set", *one, "node.id=2", bootstrap=bootstrap)
    assert refused.startswith("ottla: broker 1: ")
    assert ottla("config", "unset", *every, "log.retention.ms", bootstrap=bootstrap).errors == "broker defaults: unset\n"
    wait_for(lambda: line not in good("config", "describe", *every, bootstrap=bootstrap).lines, "it is not set")
    loggers = good("config", "describe", "--broker-logger", "1", "--json", bootstrap=bootstrap).objects[0][0]["settings"]
    assert "root" in {logger["setting"] for logger in loggers}
    (refused,) = errors("config", "set", "--broker-logger", "1", "root=LOUD", bootstrap=bootstrap)
    assert refused.startswith("ottla: broker logger 1: the setting is not allowed")
    name = next(logger["setting"] for logger in loggers if logger["setting"] != "root")
    assert ottla("config", "set", "--broker-logger", "1", f"{name}=ERROR", bootstrap=bootstrap).code == 0
    assert setting(bootstrap, "--broker-logger", "1", key=name) == "ERROR"


def test_settings_of_a_group(bootstrap: str, unique: Unique) -> None:
    target = ("--group", unique("settings"))
    assert ottla("config", "set", *target, "consumer.session.timeout.ms=50000", bootstrap=bootstrap).code == 0
    wait_for(lambda: setting(bootstrap, *target, key="consumer.session.timeout.ms") == "50000", "the setting is known")
    assert good("config", "describe", *target, bootstrap=bootstrap).lines == [
        f"group\t{target[1]}\tconsumer.session.timeout.ms\t50000\tgroup\tfalse"
    ]


def test_settings_that_cannot_be(bootstrap: str) -> None:
    topic = made(bootstrap, 1)
    for arguments, words in (
        (["get", "--topic", "none", "retention.ms"], "topic none: there is no such topic or partition"),
        (["get", "--topic", topic, "no.such"], f"topic {topic}: no.such: there is no such setting"),
        (["unset", "--topic", topic, "no.such"], f"topic {topic}: there is no such setting: no.such"),
        (["set", "--topic", topic, "retention.ms=long"], f"topic {topic}: the setting is not allowed"),
        (["set", "--topic", topic, "no.such=1"], f"topic {topic}: the setting is not allowed"),
        (["set", "--broker", "77", "log.retention.ms=1"], "broker 77: there is no such broker; the cluster has 1"),
        (["describe", "--broker-logger", "77"], "broker logger 77: there is no such broker; the cluster has 1"),
    ):
        (line,) = errors("config", *arguments, bootstrap=bootstrap)
        assert line.startswith(f"ottla: {words}"), line
    for arguments in (
        ["set", "a=1"],
        ["set", "--topic", topic, "a"],
        ["get", "--topic", topic],
        ["set", "--topic", topic, "a=1", "a=2"],
    ):
        errors("config", *arguments, bootstrap=bootstrap, code=2)


def test_one_error_does_not_keep_the_others(bootstrap: str) -> None:
    topic = made(bootstrap, 1)
    ran = ottla("config", "set", "--topic", topic, "--topic", "none", "segment.ms=5000", "--json", bootstrap=bootstrap)
    assert ran.code == 1
    (told,) = ran.objects
    assert told[0] == {"kind": "topic", "name": topic, "result": "set", "error": None}
    assert (told[1]["name"], told[1]["result"]) == ("none", "failed")
    assert ran.errors == f"ottla: topic none: {told[1]['error']}\n"
    wait_for(lambda: setting(bootstrap, "--topic", topic, key="segment.ms") == "5000", "the setting is known")


def test_a_cluster_with_passwords(kind: str, tmp_path: Path) -> None:
    """librdkafka's login and our own connection's, by each mechanism."""
    port, login_port, controller = free_port(), free_port(), free_port()
    module = "org.apache.kafka.common.security"
    broker = CLASSES[kind](
        tmp_path / kind,
        {
            "listeners": f"PLAINTEXT://{HOST}:{port},LOGIN://{HOST}:{login_port},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port},LOGIN://{HOST}:{login_port}",
            "controller.quorum.bootstrap.servers": f"{HOST}:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.login.plain.sasl.jaas.config": f'{module}.plain.PlainLoginModule required user_me="secret";',
            "listener.name.login.scram-sha-256.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
            "listener.name.login.scram-sha-512.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
        },
        port,
    )
    try:
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            account = UserScramCredentialUpsertion("me", ScramCredentialInfo(mechanism, 4096), b"secret")
            admin.alter_user_scram_credentials([account])["me"].result(30)
        asking = ("config", "set", "--broker-defaults", "log.retention.ms=7000000", "-X", "security.protocol=sasl_plaintext")
        for name in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            login = ("-X", f"sasl.mechanism={name}", "-X", "sasl.username=me", "-X")
            ran = ottla(*asking, *login, "sasl.password=secret", bootstrap=f"{HOST}:{login_port}")
            assert (ran.code, ran.errors) == (0, "broker defaults: set\n")
    finally:
        broker.stop()

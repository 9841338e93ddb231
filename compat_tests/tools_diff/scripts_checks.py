"""Tools that check a cluster themselves: what a client can do with it, and whether replicas are equal."""

from __future__ import annotations

from compat_tests.tools_diff.script import Run, Script, made

_EXPECTED = {
    "offsets-for-times-supported": "true",
    "cluster-id-supported": "true",
    "expect-record-too-large-exception": "false",
    "num-cluster-nodes": "1",
    "create-topics-supported": "true",
    "describe-acls-supported": "true",
    "describe-configs-supported": "true",
    "idempotent-producer-supported": "true",
}
"""The results of this client with a Kafka of its own version."""


def _compatibility(topic: str, **changed: str) -> str:
    """Returns the call that checks a client against what is expected, with some expectations changed."""
    expected = _EXPECTED | {name.replace("_", "-"): value for name, value in changed.items()}
    options = " ".join(f"--{name} {value}" for name, value in expected.items())
    return f"client-compatibility-test --bootstrap-server {{bootstrap}} --topic {topic} {options}"


CLIENT = Script(
    "client-compatibility-test",
    (
        *made("able-1"),
        Run(_compatibility("able-1")),
        Run("topics --list --topic newtopic", until="newtopic"),
        Run("topics --delete --topic newtopic,able-1"),
        *made("able-2"),
        Run(_compatibility("able-2", offsets_for_times_supported="false"), code=1),
        Run("client-compatibility-test --topic able-2", code=1),
        Run("topics --delete --topic able-2"),
    ),
)

REPLICAS = Script(
    "replica-verification",
    (
        *made("alike-1", 2, "a:1", "b:2", "c:3"),
        Run(
            "replica-verification --broker-list {bootstrap} --topics-include alike-1 --report-interval-ms 300",
            code=143,
            alone=True,
            ends_at="max lag is 0 for partition",
        ),
        Run("replica-verification --broker-list {bootstrap} --topics-include no-such-topic", code=1),
        Run("replica-verification --broker-list {bootstrap} --topics-include (", code=1),
        Run("replica-verification --topics-include alike-1 --broker-list", code=1),
        Run("topics --delete --topic alike-1"),
    ),
)

ALL = (CLIENT, REPLICAS)

"""`ottla quota` as a user runs it, against ottla and Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat_tests.brokers import Address, SharedBrokers
from compat_tests.commands import good, ottla
from compat_tests.waiting import wait_for


@pytest.fixture(scope="session")
def broker(kind: str, shared_brokers: SharedBrokers) -> Address:
    """A broker of its own, since other tests would find the quotas."""
    return shared_brokers.get(kind, "-quotas")


def test_quotas_are_set_shown_and_unset(bootstrap: str, unique: Callable[[str], str]) -> None:
    user, app = unique("user"), unique("app")
    both = ("--user", user, "--client-id", app)

    def told(*words: str) -> str:
        done = ottla("quota", *words, bootstrap=bootstrap)
        assert done.code == 0, done
        return done.errors

    name = f"user {user}, client id {app}"
    assert told("set", "producer_byte_rate=1e12", "request_percentage=99.5", *both) == f"{name}: set\n"
    assert (
        told("set", "consumer_byte_rate=1e12", "--user", user, "--client-defaults") == f"user {user}, client id <default>: set\n"
    )

    def shown(*options: str) -> list[list[str]]:
        lines = good("quota", "list", *options, bootstrap=bootstrap).lines
        return [line.split("\t") for line in lines if user in line]

    ours = [
        [user, "<default>", "-", "consumer_byte_rate", "1000000000000"],
        [user, app, "-", "producer_byte_rate", "1000000000000"],
        [user, app, "-", "request_percentage", "99.5"],
    ]
    wait_for(lambda: shown() == ours, "the broker describes what its controller set")
    assert shown(*both) == ours[1:]
    assert shown("--user", user) == []
    assert told("unset", "request_percentage", *both, "--dry-run") == f"{name}: would be unset\n"
    missing = ottla("quota", "unset", "request_percentage", "consumer_byte_rate", *both, "--json", bootstrap=bootstrap)
    ((one,),) = missing.objects
    assert (missing.code, one["entity"], one["result"]) == (1, {"user": user, "client-id": app}, "failed")
    assert one["error"] == "it has no quota consumer_byte_rate"
    refused = ottla("quota", "set", "producer_byte_rate=-1", *both, bootstrap=bootstrap)
    assert (refused.code, refused.errors.startswith(f"ottla: {name}: ")) == (1, True)
    assert told("unset", "producer_byte_rate", "request_percentage", *both) == f"{name}: unset\n"
    told("unset", "consumer_byte_rate", "--user", user, "--client-defaults")
    wait_for(lambda: shown() == [], "the broker describes that they are gone")


def test_whose_has_to_be_said() -> None:
    assert ottla("quota", "set", "producer_byte_rate=1").code == 2
    assert ottla("quota", "set", "producer_byte_rate=much", "--user", "u").code == 2
    assert ottla("quota", "list", "--ip", "::1", "--user", "u").code == 2

"""Attacks of the stall bench on a broker with an authorizer, by a client that may do everything: access rules, and as many quotas
and credentials as one request may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from compat_tests.wire import Connection
from ottla.wire.messages import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
)
from scripts.bench.stall_attacks import LOT, SETTLE_S, THOUSAND, Attack, pipelined

AUTHORIZED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
TOPIC: Final = 2
ANY: Final = 1
LITERAL: Final = 3
READ: Final = 3
ALLOW: Final = 3
MOST_CHANGES: Final = 9_990
"""About as many records as one request may cause, with ottla and with Kafka."""


def rule(number: int, name: str = "ruled") -> create_acls.AclCreation:
    """Returns one of the rules about a principal and a topic, each for another host."""
    return create_acls.AclCreation(TOPIC, name, LITERAL, "User:u", f"host-{number}", READ, ALLOW)


def creation(count: int, name: str = "ruled") -> create_acls.CreateAclsRequest:
    return create_acls.CreateAclsRequest([rule(number, name) for number in range(count)])


def ruled(count: int) -> Callable[[Connection], object]:
    """Returns what adds so many rules."""

    def make(connection: Connection) -> None:
        for start in range(0, count, LOT):
            rules = [rule(number) for number in range(start, min(start + LOT, count))]
            answer = connection.call(create_acls.CreateAclsRequest(rules), 3, SETTLE_S)
            assert not any(each.error_code for each in answer.results), answer

    return make


def deletion(hosts: list[str | None]) -> delete_acls.DeleteAclsRequest:
    return delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(ANY, None, ANY, None, host, ANY, ANY) for host in hosts])


def quotas(count: int) -> alter_client_quotas.AlterClientQuotasRequest:
    return alter_client_quotas.AlterClientQuotasRequest(
        [
            alter_client_quotas.RequestEntryData(
                [alter_client_quotas.RequestEntityData("user", f"user-{number}")],
                [alter_client_quotas.OpData("producer_byte_rate", 1e9)],
            )
            for number in range(count)
        ]
    )


def users(count: int) -> alter_user_scram_credentials.AlterUserScramCredentialsRequest:
    return alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        [],
        [
            alter_user_scram_credentials.ScramCredentialUpsertion(f"user-{number}", 1, 4096, b"s" * 16, b"p" * 32)
            for number in range(count)
        ],
    )


def rule_attacks() -> list[Attack]:
    """Returns the attacks; those that change rules use theirs up."""
    described = describe_acls.DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)
    attacks: list[tuple[str, Callable[[], Any], int, int]] = [
        ("DeleteAcls of the same filter 300 times, of 1,000 rules", lambda: deletion([None] * 300), 3, THOUSAND),
        (
            "DeleteAcls of 1,990 filters that match nothing, of 1,000 rules",
            lambda: deletion([f"no-{number}" for number in range(1_990)]),
            3,
            THOUSAND,
        ),
        ("DescribeAcls of 9,990 rules", lambda: described, 3, MOST_CHANGES),
        ("CreateAcls of 9,990 rules, beside 9,990", lambda: creation(MOST_CHANGES, "other"), 3, MOST_CHANGES),
        ("DeleteAcls of 9,990 rules of one principal and topic", lambda: deletion([None]), 3, MOST_CHANGES),
        ("AlterClientQuotas of 9,990 users", lambda: quotas(MOST_CHANGES), 1, 0),
        ("AlterUserScramCredentials of 9,990 users", lambda: users(MOST_CHANGES), 0, 0),
    ]
    return [
        Attack(name, pipelined(request, version), ruled(count), settings=AUTHORIZED, held=f"{count:,} rules", uses_up=True)
        for name, request, version, count in attacks
    ]

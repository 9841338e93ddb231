"""Access rules without an authorizer, SCRAM credentials and quotas of which there are none
(docs/kafka-behaviour.md, rows ACL, SC and Q), logins and delegation tokens where nobody logs in.
Credentials that there are: test_cluster_changes.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.wire import Wire
from compat_tests.wire_diff.same import check
from ottla.wire.messages import (
    create_acls,
    create_delegation_token,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_delegation_token,
    describe_user_scram_credentials,
    expire_delegation_token,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
)

RULES = {
    "a rule": (2, 3, 3, 3),
    "any of each": (1, 1, 1, 1),
    "matches": (2, 2, 1, 1),
    "codes nobody knows": (99, 77, -1, 127),
    "unknown resource type": (0, 3, 3, 3),
    "unknown pattern type": (2, 0, 3, 3),
    "unknown operation": (2, 3, 0, 3),
    "unknown permission": (2, 3, 3, 0),
}
"""Resource type, pattern type, operation, permission."""
NAMES: list[tuple[str | None, str | None, str | None]] = [("t", "User:u", "*"), ("", "", ""), (None, None, None)]
"""Resource, principal, host."""


@pytest.mark.parametrize("version", range(1, 4))
@pytest.mark.parametrize("case", RULES)
def test_describe_acls(wires: dict[str, Wire], case: str, version: int) -> None:
    kind, pattern, operation, permission = RULES[case]

    def scenario(wire: Wire) -> Any:
        return [
            wire.call(describe_acls.DescribeAclsRequest(kind, name, pattern, principal, host, operation, permission), version)
            for name, principal, host in NAMES
        ]

    check(wires, "ACL1", scenario)


@pytest.mark.parametrize("version", range(1, 4))
@pytest.mark.parametrize("case", RULES)
def test_create_acls(wires: dict[str, Wire], case: str, version: int) -> None:
    kind, pattern, operation, permission = RULES[case]
    good = create_acls.AclCreation(2, "t", 3, "User:u", "*", 3, 3)
    rules = [
        create_acls.AclCreation(kind, name, pattern, who, "*", operation, permission) for name, who in (("t", "u"), ("", ""))
    ]

    def scenario(wire: Wire) -> Any:
        return [wire.call(create_acls.CreateAclsRequest(each), version) for each in ([], rules, [good, *rules], [good, good])]

    check(wires, "ACL2", scenario)


@pytest.mark.parametrize("version", range(1, 4))
@pytest.mark.parametrize("case", RULES)
def test_delete_acls(wires: dict[str, Wire], case: str, version: int) -> None:
    kind, pattern, operation, permission = RULES[case]
    good = delete_acls.DeleteAclsFilter(1, None, 3, None, None, 1, 1)
    filters = [
        delete_acls.DeleteAclsFilter(kind, name, pattern, principal, host, operation, permission)
        for name, principal, host in NAMES
    ]

    def scenario(wire: Wire) -> Any:
        return [wire.call(delete_acls.DeleteAclsRequest(each), version) for each in ([], filters, [good, *filters], [good] * 2)]

    check(wires, "ACL3", scenario)


USERS: dict[str, list[str] | None] = {
    "null": None,
    "none": [],
    "one": ["a"],
    "twice": ["a", "a"],
    "some": ["a", "b", "a", ""],
}


@pytest.mark.parametrize("case", USERS)
def test_scram_credentials(wires: dict[str, Wire], case: str) -> None:
    names = USERS[case]

    def scenario(wire: Wire) -> Any:
        users = None if names is None else [describe_user_scram_credentials.UserName(name) for name in names]
        return wire.call(describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users), 0)

    check(wires, "credentials where there are none", scenario)


@pytest.mark.parametrize("version", [0, 1])
def test_sasl_handshake(wires: dict[str, Wire], version: int) -> None:
    """The connection goes on after each."""

    def scenario(wire: Wire) -> Any:
        connection = wire.connect()
        request = sasl_handshake.SaslHandshakeRequest
        return [connection.call(request(mechanism), version) for mechanism in ("PLAIN", "SCRAM-SHA-256", "", "?")]

    check(wires, "SASL1", scenario)


@pytest.mark.parametrize("version", range(3))
def test_sasl_authenticate(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        connection = wire.connect()
        request = sasl_authenticate.SaslAuthenticateRequest
        return [connection.call(request(data), version) for data in (b"", b"\0user\0password")]

    check(wires, "SASLPT2", scenario)


@pytest.mark.parametrize("version", range(1, 4))
def test_create_delegation_token(wires: dict[str, Wire], version: int) -> None:
    renewer, request = create_delegation_token.CreatableRenewers, create_delegation_token.CreateDelegationTokenRequest
    owners: list[tuple[str | None, str | None]] = [("", ""), ("User", "u"), ("", "u"), ("Group", "u"), ("User", "")]
    if version >= 3:
        owners += [(None, None), ("User", None), (None, "")]

    def scenario(wire: Wire) -> Any:
        return [
            wire.call(request(*owner, [renewer(kind, "r")], lifetime_ms), version)
            for owner in owners
            for kind in ("User", "Group", "")
            for lifetime_ms in (-1, 0, 1000)
        ]

    check(wires, "DTK1", scenario)


def test_create_delegation_token_for_an_owner_of_no_type(wires: dict[str, Wire]) -> None:
    def scenario(wire: Wire) -> Any:
        return wire.call(create_delegation_token.CreateDelegationTokenRequest(None, "u"), 3).error_code

    check(wires, "DTnull", scenario)


@pytest.mark.parametrize("version", [1, 2])
def test_renew_and_expire_delegation_token(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        return [
            wire.call(request(hmac, period_ms), version)
            for request in (
                renew_delegation_token.RenewDelegationTokenRequest,
                expire_delegation_token.ExpireDelegationTokenRequest,
            )
            for hmac in (b"", b"h" * 64)
            for period_ms in (-1, 0, 1000)
        ]

    check(wires, "DTK2", scenario)


@pytest.mark.parametrize("version", range(1, 4))
def test_describe_delegation_tokens(wires: dict[str, Wire], version: int) -> None:
    owner = describe_delegation_token.DescribeDelegationTokenOwner("User", "u")

    def scenario(wire: Wire) -> Any:
        request = describe_delegation_token.DescribeDelegationTokenRequest
        return [wire.call(request(owners), version) for owners in (None, [], [owner], [owner, owner])]

    check(wires, "DTK3", scenario)


EXACT, DEFAULT, ANY = 0, 1, 2
Part = tuple[str, int, str | None]
FILTERS: dict[str, list[Part]] = {
    "nothing": [],
    "a user": [("user", EXACT, "u")],
    "an empty name": [("user", EXACT, "")],
    "the default user": [("user", DEFAULT, None)],
    "user and client": [("client-id", EXACT, "c"), ("user", ANY, None)],
    "an ip that is none": [("ip", EXACT, "no such host")],
    "exact without a name": [("user", EXACT, None)],
    "default with a name": [("user", DEFAULT, "u")],
    "any with a name": [("client-id", ANY, "")],
    "no such match type": [("user", 3, None)],
    "a negative match type": [("user", -1, "u")],
    "no entity type": [("", EXACT, "u")],
    "no such entity type": [("zzz", EXACT, "u")],
    "wrong case": [("User", ANY, None)],
    "a type twice": [("user", EXACT, "u"), ("user", ANY, None)],
    "a wrong type twice": [("zzz", ANY, None), ("zzz", ANY, None)],
    "ip and user": [("ip", ANY, None), ("user", ANY, None)],
    "ip and client": [("client-id", ANY, None), ("ip", EXACT, "127.0.0.1")],
    "first fault counts": [("user", EXACT, None), ("zzz", ANY, None)],
    "first fault counts, reversed": [("zzz", ANY, None), ("user", EXACT, None)],
    "a fault behind ip and user": [("ip", ANY, None), ("user", ANY, None), ("zzz", ANY, None)],
}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("case", FILTERS)
def test_client_quotas(wires: dict[str, Wire], case: str, version: int) -> None:
    def scenario(wire: Wire) -> Any:
        return [
            wire.call(
                describe_client_quotas.DescribeClientQuotasRequest(
                    [describe_client_quotas.ComponentData(*part) for part in FILTERS[case]], strict
                ),
                version,
            )
            for strict in (False, True)
        ]

    check(wires, "Q1", scenario)

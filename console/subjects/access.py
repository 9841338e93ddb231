"""Rules about who may do what and how much of it: access rules, users with passwords, quotas. Secrets stay hidden."""

from __future__ import annotations

import secrets
from typing import Final, NamedTuple

from ottla.commands import acl, quota, user
from ottla.commands.clients.brokers import check
from ottla.commands.output import Failure
from ottla.commands.program import AccessRule
from ottla.console.cluster.source import Source
from ottla.console.subjects.any_broker import any_broker
from ottla.wire.messages.alter_client_quotas import OpData
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

QUOTAS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
"""The quotas that Kafka has; the first four are of users and client ids, the last one of addresses."""
MECHANISMS: Final = {number: name for name, number in user.MECHANISMS.items()}


# Access rules


def rules(source: Source) -> list[AccessRule]:
    """Returns all access rules. Raises direct.Refused, SECURITY_DISABLED without an authorizer, and Failure."""
    with any_broker(source) as broker:
        return sorted(acl.described(broker, None, None))


def add_rule(source: Source, rule: AccessRule) -> None:
    """Adds an access rule; nothing changes if it is there already. Raises Failure."""
    with any_broker(source) as broker:
        answer = broker.call(CreateAclsRequest([AclCreation(*rule)]))
    for one in answer.results:
        check(one.error_code, one.error_message)


def remove_rule(source: Source, rule: AccessRule) -> None:
    """Removes one access rule. Raises Failure, also if it is not there."""
    with any_broker(source) as broker:
        answer = broker.call(DeleteAclsRequest([DeleteAclsFilter(*rule)]))
    gone = 0
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
        for one in result.matching_acls:
            check(one.error_code, one.error_message)
            gone += 1
    if not gone:
        raise Failure("there is no such rule")


# Users


class User(NamedTuple):
    name: str
    mechanism: str
    iterations: int


def users(source: Source) -> list[User]:
    """Returns the users with SCRAM passwords, one for each mechanism. Raises Failure."""
    with any_broker(source) as broker:
        return [
            User(name, MECHANISMS.get(number, str(number)), iterations)
            for name, number, iterations in user.described(broker, None)
        ]


def set_password(source: Source, name: str, mechanism: str, iterations: int, password: str) -> None:
    """Adds a user, or changes a password; it stays in this process, the cluster gets keys made of it. Raises Failure."""
    wish = user.credential(name, user.MECHANISMS[mechanism], iterations, password, secrets.token_bytes(user.SALT_BYTES))
    _alter_users(source, AlterUserScramCredentialsRequest([], [wish]))


def remove_user(source: Source, name: str, mechanism: str) -> None:
    """Removes a user's password of one mechanism. Raises Failure."""
    _alter_users(source, AlterUserScramCredentialsRequest([ScramCredentialDeletion(name, user.MECHANISMS[mechanism])], []))


def _alter_users(source: Source, request: AlterUserScramCredentialsRequest) -> None:
    with any_broker(source) as broker:
        (result,) = broker.call(request).results
    check(result.error_code, result.error_message)


# Quotas


class Quota(NamedTuple):
    """One quota of an entity, which maps kinds of names to names (None is the default)."""

    entity: dict[str, str | None]
    key: str
    value: float


def quotas(source: Source) -> list[Quota]:
    """Returns all quotas. Raises Failure."""
    with any_broker(source) as broker:
        found = quota.described(broker, {})
    return [Quota(entity, key, value) for entity, values in found for key, value in values.items()]


def set_quota(source: Source, entity: quota.Entity, key: str, value: float | None) -> None:
    """Sets a quota of an entity, or removes it if the value is None. Raises Failure."""
    with any_broker(source) as broker:
        if value is None and all(key not in values for _, values in quota.described(broker, entity)):
            raise Failure(f"{quota.in_words(entity)} has no quota {key}")  # the cluster would accept this silently
        op = OpData(key, remove=True) if value is None else OpData(key, value)
        error = quota.alter(broker, entity, [op], dry_run=False)
    if error is not None:
        raise Failure(error)

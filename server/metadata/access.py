"""Access rules (ACLs) in the metadata: creating and deleting them, as functions of the image, and finding them by filters.

A rule allows or denies a principal, from a host, an operation on resources: on one of exactly this name, on all (`*`), or on
those whose names begin with a prefix. The image keeps the records by their ids; server/security/authorizer.py decides by them.

Which operations make sense for a type of resource, whether a host is one and a name legal is not checked, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple, cast

from ottla.server.base.hosts import parse_network
from ottla.server.base.randomness import random_uuid
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.image_records import METADATA_VERSION_FEATURE
from ottla.server.metadata.operation import MAX_RECORDS, Outcome, Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord
from ottla.wire.messages.internal.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ottla.wire.primitives import WireStruct

ANY: Final = 1
"""The value of a filter's number that matches everything."""
MATCH: Final = 2
"""The pattern type of a filter for all rules that count for a name: exact, `*` and prefixes."""
LITERAL: Final = 3
PREFIXED: Final = 4
WILDCARD: Final = "*"
CLUSTER: Final = 4
CLUSTER_NAME: Final = "kafka-cluster"
NETWORKS_SINCE: Final = 32
"""The level of metadata.version (4.4-IV1) from which a rule may name a network in place of a host."""

RESOURCES: Final = range(2, 8)
PATTERNS: Final = (LITERAL, PREFIXED)
OPERATIONS: Final = range(2, 15)
PERMISSIONS: Final = (2, 3)
"""The numbers that a rule may have, as in Kafka's ResourceType, PatternType, AclOperation and AclPermissionType."""

MAX_COMPARISONS: Final = 2_000_000
"""So many times one request may compare a filter with a rule, which takes about a second."""


class Filter(NamedTuple):
    """Says which rules a request is about. None, or ANY, matches everything."""

    resource_type: int
    name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def matches(self, rule: AccessControlEntryRecord) -> bool:
        return (
            self.resource_type in (ANY, rule.resource_type)
            and self.pattern_type in (ANY, MATCH, rule.pattern_type)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (ANY, rule.operation)
            and self.permission_type in (ANY, rule.permission_type)
            and self._matches_name(rule)
        )

    def _matches_name(self, rule: AccessControlEntryRecord) -> bool:
        if self.name is None or self.name == rule.resource_name:
            return True
        if self.pattern_type != MATCH:
            return False
        if rule.pattern_type == LITERAL:
            return rule.resource_name == WILDCARD
        return self.name.startswith(rule.resource_name)


def rules(image: MetadataImage) -> Iterator[AccessControlEntryRecord]:
    """Yields all access rules."""
    return (cast("AccessControlEntryRecord", record) for key, record in image.kept.items() if key[0] == "acl")


def create(image: MetadataImage, random: Random, request: CreateAclsRequest) -> Outcome[CreateAclsResponse]:
    """Carries out CreateAcls. A rule that exists, or that the request has twice, succeeds without another record.

    A rule with a number that only filters have spoils the request as a whole, as in Kafka, which cannot even represent it.
    """
    if any(_is_filter(each) for each in request.creations):
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        return Outcome([], CreateAclsResponse(results=[AclCreationResult(code, None) for _ in request.creations]))
    known = {_identity(rule) for rule in rules(image)}
    records: list[WireStruct] = []
    results = []
    for each in request.creations:
        try:
            _check(each, networks=image.finalized.get(METADATA_VERSION_FEATURE, 0) >= NETWORKS_SINCE)
        except Refused as refused:
            results.append(AclCreationResult(refused.code, refused.message))
            continue
        results.append(AclCreationResult())
        identity = _identity(each)
        if identity not in known:
            known.add(identity)
            records.append(AccessControlEntryRecord(random_uuid(random), *identity))
    if len(records) > MAX_RECORDS:
        code, text = ErrorCode.POLICY_VIOLATION, f"One request may add at most {MAX_RECORDS} access rules."
        return Outcome([], CreateAclsResponse(results=[AclCreationResult(code, text) for _ in request.creations]))
    return Outcome(records, CreateAclsResponse(results=results))


def _identity(rule: AclCreation | AccessControlEntryRecord) -> tuple[int, str, int, str, str, int, int]:
    """Returns what makes a rule the same as another, in the order of the record's fields."""
    pattern = rule.resource_pattern_type if isinstance(rule, AclCreation) else rule.pattern_type
    return rule.resource_type, rule.resource_name, pattern, rule.principal, rule.host, rule.operation, rule.permission_type


def _is_filter(rule: AclCreation) -> bool:
    return ANY in (rule.resource_type, rule.operation, rule.permission_type) or rule.resource_pattern_type in (ANY, MATCH)


def _check_numbers(resource_type: int, pattern_type: int, operation: int, permission_type: int) -> None:
    """Raises Refused with 42 INVALID_REQUEST for a number that means nothing."""
    known = (
        resource_type in (ANY, *RESOURCES)
        and pattern_type in (ANY, MATCH, *PATTERNS)
        and operation in (ANY, *OPERATIONS)
        and permission_type in (ANY, *PERMISSIONS)
    )
    if not known:
        raise _invalid("There is no such resource type, pattern type, operation or permission.")


def _check(rule: AclCreation, *, networks: bool) -> None:
    """Raises Refused with 42 INVALID_REQUEST if no rule can be like this, and with 35 UNSUPPORTED_VERSION for a network if the
    cluster does not know `networks`."""
    _check_numbers(rule.resource_type, rule.resource_pattern_type, rule.operation, rule.permission_type)
    if rule.resource_type == CLUSTER and rule.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only resource of type CLUSTER is {CLUSTER_NAME}.")
    if not rule.resource_name:
        raise _invalid("A rule needs the name of a resource.")
    if not rule.host:
        raise _invalid("A rule needs a host; * stands for all.")
    if "/" in rule.host:
        if not networks:
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"'{rule.host}' is a network, and rules for networks need metadata.version {NETWORKS_SINCE} (4.4-IV1) or later.",
            )
        if parse_network(rule.host) is None:
            raise _invalid(f"'{rule.host}' is not a network; write one such as 10.0.0.0/8 or 2001:db8::/32.")
    if ":" not in rule.principal:
        raise _invalid(f"'{rule.principal}' is not a principal; write a type and a name, for instance User:alice.")


def _invalid(text: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, text)


def delete(image: MetadataImage, request: DeleteAclsRequest) -> Outcome[DeleteAclsResponse]:
    """Carries out DeleteAcls. A rule that several filters match is in the results of all of them."""
    all_rules = list(rules(image))
    filters = [filter_of(each) for each in request.filters]
    if len(set(filters)) * len(all_rules) > MAX_COMPARISONS:
        code, text = ErrorCode.POLICY_VIOLATION, "So many filters at a time take too long; send fewer."
        return Outcome([], DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(code, text) for _ in filters]))
    found: dict[Filter, list[AccessControlEntryRecord]] = {}
    records: dict[bytes, WireStruct] = {}
    results = []
    for wanted in filters:
        try:
            _check_numbers(wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission_type)
        except Refused as refused:
            results.append(DeleteAclsFilterResult(refused.code, refused.message))
            continue
        if wanted not in found:
            found[wanted] = [rule for rule in all_rules if wanted.matches(rule)]
        matching = found[wanted]
        records.update({rule.id: RemoveAccessControlEntryRecord(rule.id) for rule in matching})
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=[_matching(rule) for rule in matching]))
    if len(records) > MAX_RECORDS:
        code, text = ErrorCode.POLICY_VIOLATION, f"One request may remove at most {MAX_RECORDS} access rules."
        return Outcome([], DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(code, text) for _ in filters]))
    return Outcome(list(records.values()), DeleteAclsResponse(filter_results=results))


def filter_of(each: DeleteAclsFilter) -> Filter:
    """Returns the filter that an element of DeleteAcls has."""
    return Filter(
        each.resource_type_filter,
        each.resource_name_filter,
        each.pattern_type_filter,
        each.principal_filter,
        each.host_filter,
        each.operation,
        each.permission_type,
    )


def _matching(rule: AccessControlEntryRecord) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=rule.resource_type,
        resource_name=rule.resource_name,
        pattern_type=rule.pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission_type,
    )

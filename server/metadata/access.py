"""Access rules (ACLs) in the metadata: creating and deleting them, as functions of the image, and finding them by filters.

A rule allows or denies a principal, from a host, an operation on resources: on one of exactly this name, on all (`*`), or on
those whose names begin with a prefix. The image keeps the records by their ids; server/security/authorizer.py decides by them.

Which operations make sense for a type of resource, whether a host is one and a name legal is not checked, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from random import Random
from typing import Any, Final, NamedTuple, cast

from ottla.server.base.hosts import parse_network
from ottla.server.base.randomness import random_uuid
from ottla.server.base.turns import in_runs
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.image_records import METADATA_VERSION_FEATURE
from ottla.server.metadata.operation import MAX_RECORDS, Outcome, Planning, Refused
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

DISABLED: Final = "There are no access rules, because this broker has no authorizer."
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
RULES_A_STEP: Final = 100
"""So many rules are made, or compared with a filter, before others may come first: about 0.3 ms."""
_BYTES_OF_NUMBERS: Final = 20
"""The most bytes that an answer needs for a rule in addition to its texts; some rules need a few less."""


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


def check_authorizer(values: Mapping[str, Any]) -> None:
    """Raises Refused with 54 SECURITY_DISABLED if a broker with these settings has no authorizer, whatever the request says."""
    if not values["authorizer.class.name"]:
        raise Refused(ErrorCode.SECURITY_DISABLED, DISABLED)


def rules(image: MetadataImage) -> Iterator[AccessControlEntryRecord]:
    """Yields all access rules."""
    return (cast("AccessControlEntryRecord", record) for key, record in image.kept.items() if key[0] == "acl")


def create(image: MetadataImage, random: Random, request: CreateAclsRequest) -> Planning[CreateAclsResponse]:
    """Plans CreateAcls. A rule that exists, or that the request has twice, succeeds without another record.

    Raises Refused, for the request as a whole, with 42 INVALID_REQUEST if a rule has a number that only filters have, which
    Kafka cannot even represent, and with 44 POLICY_VIOLATION for too many rules.
    """
    known = set()
    for run in in_runs(list(rules(image)), RULES_A_STEP):
        known.update([_identity(rule) for rule in run])
        yield None
    networks = image.finalized.get(METADATA_VERSION_FEATURE, 0) >= NETWORKS_SINCE
    records: list[WireStruct] = []
    results = []
    for number, each in enumerate(request.creations, 1):
        if number % RULES_A_STEP == 0:
            yield None
        if _is_filter(each):
            text = f"Rule {number} of the request has ANY or MATCH where only filters may have it, so no rule is added."
            raise _invalid(text)
        try:
            _check(each, networks=networks)
        except Refused as refused:
            results.append(AclCreationResult(refused.code, refused.message))
            continue
        results.append(AclCreationResult())
        identity = _identity(each)
        if identity not in known:
            known.add(identity)
            records.append(AccessControlEntryRecord(random_uuid(random), *identity))
    if len(records) > MAX_RECORDS:
        raise Refused(ErrorCode.POLICY_VIOLATION, f"One request may add at most {MAX_RECORDS} access rules.")
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


def delete(image: MetadataImage, most_bytes: int, request: DeleteAclsRequest) -> Planning[DeleteAclsResponse]:
    """Plans DeleteAcls. A rule that several filters match is in the results of all of them; equal filters share one result.

    Raises Refused, for the request as a whole, with 44 POLICY_VIOLATION if it compares too much, removes too many rules, or has
    an answer of more than `most_bytes`, and nothing is removed then.
    """
    deletion = _Deletion(list(rules(image)))
    times: list[int] = []
    """The number of times that the request has each of the filters that differ."""
    positions: dict[Filter, int] = {}
    named: list[int] = []
    """The positions of the request's filters among those that differ."""
    for run in in_runs(request.filters, RULES_A_STEP):
        for each in run:
            position = positions.setdefault(filter_of(each), len(positions))
            if position == len(times):
                times.append(0)
            times[position] += 1
            named.append(position)
        yield None
    if len(positions) * len(deletion.rules) > MAX_COMPARISONS:
        raise Refused(ErrorCode.POLICY_VIOLATION, "So many filters at a time take too long; send fewer.")
    results = []
    for wanted, count in zip(positions, times, strict=True):
        results.append((yield from deletion.find(wanted, count)))
        yield None
        if len(deletion.records) > MAX_RECORDS:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"One request may remove at most {MAX_RECORDS} access rules.")
        if deletion.answer_bytes > most_bytes:
            text = f"The answer would have more than {most_bytes} bytes; send fewer filters, or some that match less."
            raise Refused(ErrorCode.POLICY_VIOLATION, text)
    return Outcome(list(deletion.records.values()), DeleteAclsResponse(filter_results=[results[position] for position in named]))


class _Deletion:
    """Finds the rules that a request removes, and adds up how long its answer becomes."""

    def __init__(self, all_rules: list[AccessControlEntryRecord]) -> None:
        self.rules = all_rules
        self.records: dict[bytes, WireStruct] = {}
        self.answer_bytes = 0
        self._found: dict[bytes, tuple[DeleteAclsMatchingAcl, int]] = {}
        """The element of the answer that describes a rule, and its bytes there, by the rule's id."""

    def find(self, wanted: Filter, times: int) -> Generator[None, None, DeleteAclsFilterResult]:
        """Makes steps that return the result of a filter that the answer has so many times."""
        try:
            _check_numbers(wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission_type)
        except Refused as refused:
            return DeleteAclsFilterResult(refused.code, refused.message)
        matching: list[DeleteAclsMatchingAcl] = []
        for run in in_runs(self.rules, RULES_A_STEP):
            for rule in run:
                if wanted.matches(rule):
                    acl, size = self._matched(rule)
                    matching.append(acl)
                    self.answer_bytes += times * size
            yield None
        return DeleteAclsFilterResult(error_message=None, matching_acls=matching)

    def _matched(self, rule: AccessControlEntryRecord) -> tuple[DeleteAclsMatchingAcl, int]:
        found = self._found.get(rule.id)
        if found is None:
            size = _BYTES_OF_NUMBERS + sum(len(text.encode()) for text in (rule.resource_name, rule.principal, rule.host))
            found = self._found[rule.id] = _matching(rule), size
            self.records[rule.id] = RemoveAccessControlEntryRecord(rule.id)
        return found


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

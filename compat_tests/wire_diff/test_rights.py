"""Tests of who may do what: each API that needs rights, asked without them, with all but one, and with all (rights_cases.py)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pytest

from compat_tests.brokers import Address, one_of_each
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.conftest import warm
from compat_tests.wire_diff.rights import DOOMED, Case, G, T, U, X, combinations, host_of, rules_for
from compat_tests.wire_diff.rights_cases import all_cases
from compat_tests.wire_diff.same import compare, normalise
from ottla.server.security.rights import Resource
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "transaction.partition.verification.enable": "false",
}


def without_ids(answer: Any) -> None:
    for topic in answer.topics:
        topic.topic_id = bytes(16)  # drawn anew by each validation


def by_name(answer: Any) -> None:
    answer.topics.sort(key=lambda topic: topic.name)  # the refused ones have the order of a hash set


def in_any_order(answer: Any) -> None:
    answer.topics.sort(key=lambda topic: topic.name)  # Kafka has refused and unknown ones as asked, ottla the refused ones first


def without_directories(answer: Any) -> None:
    for result in answer.results:
        result.log_dir, result.usable_bytes = "", 0


def without_texts(answer: Any) -> None:
    for response in answer.responses:
        response.error_message = None  # Kafka has some where it decides in the controller, and none in the broker


CHANGED = {
    "incremental_alter_configs": without_texts,
    "create_topics": without_ids,
    "describe_topic_partitions": by_name,
    "describe_log_dirs": without_directories,
    "offset_delete": in_any_order,
}
ADMIN = "127.0.0.2"
BROKER = "127.0.0.1"
"""From where a broker asks its controller."""
CASES = {case.name: case for case in all_cases()}
COUNTS = [len(list(combinations(case.rights))) for case in CASES.values()]
FIRST = dict(zip(CASES, accumulate(COUNTS, initial=0), strict=False))
"""The number of each case's first combination."""


def everything(host: str) -> list[AclCreation]:
    kinds = {each: "kafka-cluster" if each is Resource.CLUSTER else "*" for each in Resource}
    return [AclCreation(kind, name, 3, "User:ANONYMOUS", host, 2, 3) for kind, name in kinds.items()]


def prepare(address: Address) -> dict[str, bytes]:
    """Makes the world of the cases, then the rules; returns the ids of the topics."""
    wire = Wire(address, "rights", ADMIN)
    names = (T, U, DOOMED, f"{DOOMED}-2")
    wire.call(CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 30_000), 7)
    for name in names:
        wire.wait_for_topic(name)
    topics = [OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, 1)]) for name in (T, U)]
    for group in (G, "rights-gone", "rights-gone-2"):
        wait_for(lambda: not code(wire.call(OffsetCommitRequest(group, -1, "", None, -1, topics), 9)), "the offsets")  # noqa: B023
    wait_for(lambda: wire.call(InitProducerIdRequest(X, 60_000), 4).error_code == 0, "the transactional id")
    rules = everything(ADMIN) + everything(BROKER)
    number = 0
    for case in CASES.values():
        for _, rights, _ in combinations(case.rights):
            rules += rules_for(rights, host_of(number))
            number += 1
    answer = wire.call(CreateAclsRequest(rules), 3)
    assert not any(each.error_code for each in answer.results), answer
    wait_for(lambda: count(wire) == len(rules), "the rules are in force")
    ids = dict(wire.topic_ids)
    wire.close()
    return ids


def code(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code)


def count(wire: Wire) -> int:
    answer = wire.call(DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3)
    return sum(len(resource.acls) for resource in answer.resources)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Address, dict[str, bytes]]]]:
    with one_of_each(tmp_path_factory.mktemp("rights"), SETTINGS) as addresses:
        yield [(address, prepare(address)) for address in warm(addresses)]


def answers(address: Address, ids: dict[str, bytes], case: Case, number: int) -> dict[str, Any]:
    """Returns what one broker answers to the clients of a case, by what they lack."""
    found = {}
    for at, (lack, _, _) in enumerate(combinations(case.rights)):
        wire = Wire(address, "rights", host_of(number + at))
        for name, topic_id in ids.items():
            wire.label(topic_id, f"id of {name}")
        answer = wire.call(case.request(ids.__getitem__), case.version)
        if case.api in CHANGED:
            CHANGED[case.api](answer)
        found[lack] = normalise(answer, wire.labels)
        wire.close()
    return found


def rule(
    name: str = "acl-t",
    pattern: int = 3,
    kind: int = 2,
    who: str = "User:x",
    host: str = "*",
    op: int = 3,
    permission: int = 3,
) -> AclCreation:
    return AclCreation(kind, name, pattern, who, host, op, permission)


def test_rules_with_what_only_filters_may_have(brokers: list[tuple[Address, dict[str, bytes]]]) -> None:
    """One of them spoils the request as a whole."""
    codes = {}
    for address, _ in brokers:
        wire = Wire(address, "rights", ADMIN)
        wrong = [rule(pattern=2), rule(pattern=1), rule(op=1), rule(kind=1), rule(permission=1)]
        answers = [wire.call(CreateAclsRequest([rule("acl-none"), each]), 3) for each in wrong]
        codes[address.kind] = [[result.error_code for result in answer.results] for answer in answers]
        wanted = DescribeAclsRequest(2, "acl-none", 3, None, None, 1, 1)
        assert wire.call(wanted, 3).resources == []
        wire.close()
    compare("Z21any", codes["kafka"], codes["ottla"])


def test_access_rules(brokers: list[tuple[Address, dict[str, bytes]]]) -> None:
    """Checks which rules there can be, and which of them filters find."""

    def scenario(wire: Wire) -> list[Any]:
        impossible = [rule(pattern=99)]
        wrong = [rule(""), rule(who="x"), rule(host=""), rule(kind=4), rule("acl/t"), rule(op=12), rule(host="no host")]
        wrong += [rule(host=host) for host in ("10.0.0.0/8", "2001:db8::/32", "10.0.0.0/33", "::/129", "no/host", "/8")]
        right = [rule(), rule(), rule("acl-", 4), rule("acl-u"), rule(op=8, permission=2)]
        answers = [wire.call(CreateAclsRequest([each, rule()]), 3) for each in impossible]
        answers += [wire.call(CreateAclsRequest([*wrong, *right]), 3), wire.call(CreateAclsRequest([rule()]), 3)]
        for version, name, pattern, who in (
            (3, "acl-t", 2, "User:x"),
            (3, "acl-t", 1, None),
            (1, "acl-t", 3, None),
            (2, "acl-", 4, None),
        ):
            wanted = DescribeAclsRequest(2, name, pattern, who, None, 1, 1)
            wait_for(lambda: wire.call(wanted, version).resources, "the rules")  # noqa: B023
            answers.append(wire.call(wanted, version))
        in_order = (2, "no such", 3), (2, "acl-u", 3), (2, "acl-t", 1), (2, "acl-t", 3)
        for filters in (in_order, ((1, "acl-x", 2),), ((2, None, 4),), ((9, None, 1),)):
            wanted_gone = [DeleteAclsFilter(kind, name, pattern, "User:x", None, 1, 1) for kind, name, pattern in filters]
            answers.append(wire.call(DeleteAclsRequest(wanted_gone), 3))
        answers.append(wire.call(DescribeAclsRequest(0, None, 1, None, None, 1, 1), 3))
        for answer in answers[3:7]:
            for resource in answer.resources:
                resource.acls = [each for each in resource.acls if each.principal == "User:x"]
            answer.resources = [resource for resource in answer.resources if resource.acls]
        return answers

    answers = {}
    for address, _ in brokers:
        wire = Wire(address, "rights", ADMIN)
        answers[address.kind] = normalise(scenario(wire), wire.labels)
        wire.close()
    compare("Z21", answers["kafka"], answers["ottla"])


def test_denials(brokers: list[tuple[Address, dict[str, bytes]]]) -> None:
    """A right to WRITE lets produce and describe, but not fetch; a denial takes away only what it names."""
    host = "127.2.0.1"
    answers = {}
    for address, ids in brokers:
        admin, wire = Wire(address, "rights", ADMIN), Wire(address, "rights", host)
        for name, topic_id in ids.items():
            wire.label(topic_id, f"id of {name}")
        found = []
        before = count(admin)
        for number, (operation, permission) in enumerate(((4, 3), (4, 2), (8, 2)), 1):
            admin.call(CreateAclsRequest([AclCreation(2, T, 3, "User:ANONYMOUS", host, operation, permission)]), 3)
            wait_for(lambda: count(admin) == before + number, "the rule is in force")  # noqa: B023
            found += [wire.produce(T, b""), wire.metadata(T), wire.fetch(T)]
        answers[address.kind] = normalise(found, wire.labels)
        admin.call(DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, host, 1, 1)]), 3)
        wait_for(lambda: count(admin) == before, "the rules are gone")  # noqa: B023
        admin.close()
        wire.close()
    compare("Z20", answers["kafka"], answers["ottla"])


@pytest.mark.parametrize("name", CASES)
def test_rights(brokers: list[tuple[Address, dict[str, bytes]]], name: str) -> None:
    case = CASES[name]
    by_kind = {address.kind: answers(address, ids, case, FIRST[name]) for address, ids in brokers}
    compare(f"rights to ask {name}", by_kind["kafka"], by_kind["ottla"])

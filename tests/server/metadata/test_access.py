"""Access rules: what can be one, what filters match, and that both APIs make records."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.server.metadata import access
from ottla.server.metadata.access import Filter
from ottla.server.metadata.image import AccessRuleChanged, Event, MetadataImage
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord

RANDOM = Random(1)
TOPIC, CLUSTER, LITERAL, PREFIXED, READ, WRITE, DENY, ALLOW, ANY, MATCH = 2, 4, 3, 4, 3, 4, 2, 3, 1, 2


def rule(name: str = "t", pattern: int = LITERAL, **fields: Any) -> AclCreation:
    given: dict[str, Any] = {
        "resource_type": TOPIC,
        "principal": "User:a",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    } | fields
    return AclCreation(resource_name=name, resource_pattern_type=pattern, **given)


def create(image: MetadataImage, *rules: AclCreation) -> list[int]:
    outcome = access.create(image, RANDOM, CreateAclsRequest(list(rules)))
    image.apply_all(outcome.records)
    assert all(bool(each.error_message) == (each.error_code > 0) for each in outcome.answer.results)
    return [each.error_code for each in outcome.answer.results]


def names(image: MetadataImage) -> list[str]:
    return [each.resource_name for each in access.rules(image)]


def test_rules_are_made_once() -> None:
    image = MetadataImage("c")
    assert create(image, rule(), rule(), rule("u")) == [0, 0, 0]
    assert create(image, rule(operation=WRITE), rule()) == [0, 0]
    assert sorted(names(image)) == ["t", "t", "u"]
    assert len({each.id for each in access.rules(image)}) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        rule(""),
        rule(host=""),
        rule(principal="alice"),
        rule("t", resource_type=CLUSTER),
        rule(operation=15),
        rule(pattern=99),
    ],
)
def test_a_rule_that_cannot_be_is_refused_by_itself(wrong: AclCreation) -> None:
    image = MetadataImage("c")
    assert create(image, rule(), wrong) == [0, ErrorCode.INVALID_REQUEST]
    assert names(image) == ["t"]


@pytest.mark.parametrize("wrong", [rule(pattern=MATCH), rule(operation=ANY), rule(resource_type=ANY), rule(permission_type=ANY)])
def test_a_number_that_no_rule_has_spoils_the_request(wrong: AclCreation) -> None:
    image = MetadataImage("c")
    assert create(image, rule(), wrong) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert names(image) == []


def test_what_makes_no_sense_is_taken() -> None:
    image = MetadataImage("c")
    odd = [rule("kafka-cluster", resource_type=CLUSTER), rule("no/topic"), rule(host="no host"), rule(operation=14)]
    assert create(image, *odd) == [0] * 4


@pytest.mark.parametrize(("host", "code"), [("10.0.0.0/8", 0), ("::/0", 0), ("10.0.0.0/33", 42), ("no/host", 42), ("/", 42)])
def test_networks_in_place_of_hosts(host: str, code: int) -> None:
    image = MetadataImage("c")
    image.finalized["metadata.version"] = access.NETWORKS_SINCE
    assert create(image, rule(host=host), rule()) == [code, 0]
    image.finalized["metadata.version"] = access.NETWORKS_SINCE - 1
    assert create(image, rule(host=host), rule()) == [ErrorCode.UNSUPPORTED_VERSION, 0]


def found(image: MetadataImage, **fields: Any) -> list[str]:
    wanted = Filter(ANY, None, ANY, None, None, ANY, ANY)._replace(**fields)
    return sorted(
        f"{each.resource_name}{'*' if each.pattern_type == PREFIXED else ''}"
        for each in access.rules(image)
        if wanted.matches(each)
    )


def test_filters() -> None:
    image = MetadataImage("c")
    others = rule("g", resource_type=3, principal="User:b", host="h", operation=WRITE, permission_type=DENY)
    create(image, rule("t1"), rule("t", PREFIXED), rule("*"), rule("u", PREFIXED), others)
    assert found(image) == ["*", "g", "t*", "t1", "u*"]
    assert found(image, name="t1", pattern_type=MATCH) == ["*", "t*", "t1"]
    assert found(image, name="t1", pattern_type=ANY) == ["t1"]
    assert found(image, name="t", pattern_type=ANY) == ["t*"]
    assert found(image, name="t", pattern_type=LITERAL) == []
    assert found(image, name="*", pattern_type=MATCH) == ["*"]
    assert found(image, pattern_type=PREFIXED) == ["t*", "u*"]
    for fields in ({"resource_type": 3}, {"principal": "User:b"}, {"host": "h"}, {"operation": WRITE}, {"permission_type": DENY}):
        assert found(image, **fields) == ["g"]


def delete(image: MetadataImage, *names: str | None) -> list[list[str]]:
    filters = [DeleteAclsFilter(ANY, name, ANY, None, None, ANY, ANY) for name in names]
    outcome = access.delete(image, DeleteAclsRequest(filters))
    image.apply_all(outcome.records)
    return [[each.resource_name for each in result.matching_acls] for result in outcome.answer.filter_results]


def test_filters_delete_what_they_match() -> None:
    image = MetadataImage("c")
    create(image, rule("t"), rule("u"), rule("v"))
    assert delete(image, "t", "none") == [["t"], []]
    assert delete(image, "u", "u", None) == [["u"], ["u"], ["u", "v"]]
    assert names(image) == []


def test_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    image = MetadataImage("c")
    monkeypatch.setattr(access, "MAX_RECORDS", 2)
    assert create(image, rule("a"), rule("b"), rule("c")) == [ErrorCode.POLICY_VIOLATION] * 3
    create(image, rule("a"), rule("b"))
    create(image, rule("c"))
    outcome = access.delete(image, DeleteAclsRequest([DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)]))
    assert (outcome.records, [each.error_code for each in outcome.answer.filter_results]) == ([], [ErrorCode.POLICY_VIOLATION])
    monkeypatch.setattr(access, "MAX_COMPARISONS", 5)
    filters = [DeleteAclsFilter(ANY, name, ANY, None, None, ANY, ANY) for name in ("a", "b")]
    outcome = access.delete(image, DeleteAclsRequest(filters))
    assert [each.error_code for each in outcome.answer.filter_results] == [ErrorCode.POLICY_VIOLATION] * 2
    outcome = access.delete(image, DeleteAclsRequest(filters[:1] * 2))
    assert [each.error_code for each in outcome.answer.filter_results] == [0, 0]


def test_changes_of_rules_are_events() -> None:
    image, events = MetadataImage("c"), list[Event]()
    image.subscribe(events.append)
    create(image, rule())
    (made,) = access.rules(image)
    assert events == [AccessRuleChanged(None, made)]
    again = AccessControlEntryRecord(made.id, TOPIC, "u", LITERAL, "User:a", "*", READ, ALLOW)
    image.apply(again)
    assert events[1:] == [AccessRuleChanged(made, again)]
    delete(image, None)
    delete(image, None)
    assert events[2:] == [AccessRuleChanged(again, None)]


def test_a_filter_with_a_number_that_means_nothing_is_refused_by_itself() -> None:
    image = MetadataImage("c")
    create(image, rule())
    filters = [DeleteAclsFilter(9, None, ANY, None, None, ANY, ANY), DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)]
    outcome = access.delete(image, DeleteAclsRequest(filters))
    assert [each.error_code for each in outcome.answer.filter_results] == [ErrorCode.INVALID_REQUEST, 0]
    assert len(outcome.records) == 1

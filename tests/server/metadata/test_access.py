"""Access rules: what can be one, what filters match, and that both APIs make records."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ottla.server.metadata import access
from ottla.server.metadata.access import Filter
from ottla.server.metadata.image import AccessRulesChanged, Event, MetadataImage
from ottla.server.metadata.operation import Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import ENCODE_RESPONSE, DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord
from tests.server.metadata.support import planned

RANDOM = Random(1)
MOST_BYTES = 1 << 20
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
    outcome = planned(access.create(image, RANDOM, CreateAclsRequest(list(rules))))
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
    with pytest.raises(Refused, match="Rule 2 of the request has ANY or MATCH") as refused:
        create(image, rule(), wrong)
    assert refused.value.code == ErrorCode.INVALID_REQUEST
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


def delete(image: MetadataImage, *names: str | None, most_bytes: int = MOST_BYTES) -> list[list[str]]:
    filters = [DeleteAclsFilter(ANY, name, ANY, None, None, ANY, ANY) for name in names]
    outcome = planned(access.delete(image, most_bytes, DeleteAclsRequest(filters)))
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
    assert refused(lambda: create(image, rule("a"), rule("b"), rule("c"))) == "One request may add at most 2 access rules."
    create(image, rule("a"), rule("b"))
    create(image, rule("c"))
    assert refused(lambda: delete(image, None)) == "One request may remove at most 2 access rules."
    monkeypatch.setattr(access, "MAX_COMPARISONS", 5)
    assert refused(lambda: delete(image, "a", "b")) == "So many filters at a time take too long; send fewer."
    assert delete(image, "a", "a") == [["a"], ["a"]], "equal filters are compared once"


def refused(operation: Callable[[], object]) -> str | None:
    with pytest.raises(Refused) as refusal:
        operation()
    assert refusal.value.code == ErrorCode.POLICY_VIOLATION
    return refusal.value.message


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_long_answer_is_refused_before_anything_is_removed(version: int) -> None:
    """Its length is known beforehand, to a few bytes for each rule."""
    image = MetadataImage("c")
    create(image, *(rule(f"ä-{number}") for number in range(10)))
    filters = [DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)] * 20
    outcome = planned(access.delete(image, MOST_BYTES, DeleteAclsRequest(filters)))
    parts: list[Any] = []
    ENCODE_RESPONSE[version](outcome.answer, parts)
    size = len(b"".join(parts))
    assert refused(lambda: delete(image, *[None] * 20, most_bytes=size - 200)) == (
        f"The answer would have more than {size - 200} bytes; send fewer filters, or some that match less."
    )
    assert len(names(image)) == 10
    assert len(delete(image, *[None] * 20, most_bytes=2 * size)) == 20


def test_equal_filters_share_one_result_and_its_rules() -> None:
    image = MetadataImage("c")
    create(image, rule("t"), rule("u"))
    filters = [DeleteAclsFilter(ANY, name, ANY, None, None, ANY, ANY) for name in (None, "t", None)]
    first, second, third = planned(access.delete(image, MOST_BYTES, DeleteAclsRequest(filters))).answer.filter_results
    assert first is third
    assert second.matching_acls[0] is first.matching_acls[0]


@pytest.mark.parametrize("number", [1, 3000])
def test_others_come_in_between(number: int) -> None:
    """However the work is made up: of many rules that there are, many that are new, or many filters."""
    image = MetadataImage("c")
    made = [rule(f"t-{each}") for each in range(number)]
    image.apply_all(planned(access.create(image, RANDOM, CreateAclsRequest(made))).records)
    filters = [DeleteAclsFilter(ANY, f"t-{each}", ANY, None, None, ANY, ANY) for each in range(number)]
    plannings: list[Any] = [
        access.create(image, RANDOM, CreateAclsRequest([])),
        access.create(image, RANDOM, CreateAclsRequest(made)),
        access.delete(MetadataImage("c"), MOST_BYTES, DeleteAclsRequest(filters)),
    ]
    for planning in plannings:
        assert len(list(planning)) >= number // access.RULES_A_STEP
    one = access.delete(image, MOST_BYTES, DeleteAclsRequest(filters[:1]))
    assert len(list(one)) >= number // access.RULES_A_STEP


def test_changes_of_rules_are_events() -> None:
    image, events = MetadataImage("c"), list[Event]()
    image.subscribe(events.append)
    create(image, rule())
    (made,) = access.rules(image)
    assert events == [AccessRulesChanged([(None, made)])]
    again = AccessControlEntryRecord(made.id, TOPIC, "u", LITERAL, "User:a", "*", READ, ALLOW)
    image.apply(again)
    assert events[1:] == [AccessRulesChanged([(made, again)])]
    delete(image, None)
    delete(image, None)
    assert events[2:] == [AccessRulesChanged([(again, None)])]


def test_a_filter_with_a_number_that_means_nothing_is_refused_by_itself() -> None:
    image = MetadataImage("c")
    create(image, rule())
    filters = [DeleteAclsFilter(9, None, ANY, None, None, ANY, ANY), DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)]
    outcome = planned(access.delete(image, MOST_BYTES, DeleteAclsRequest(filters)))
    assert [each.error_code for each in outcome.answer.filter_results] == [ErrorCode.INVALID_REQUEST, 0]
    assert len(outcome.records) == 1

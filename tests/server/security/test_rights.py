"""The names and numbers of rights, beside librdkafka's list of them, and the bit fields that are made of the numbers."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from ottla.server.security.operations import CLUSTER_OPERATIONS, GROUP_OPERATIONS, TOPIC_OPERATIONS
from ottla.server.security.rights import Either, Inside, Need, Operation, Resource, Whole

PATTERNS = {"UNKNOWN", "ANY", "ALL"}
"""The words that only a rule or a search can have, and no request needs."""

READ_GROUP, READ_TOPIC = Need(Operation.READ, Resource.GROUP), Need(Operation.READ, Resource.TOPIC)


def numbers(names: type[Operation] | type[Resource]) -> dict[str, int]:
    return {each.name: each.value for each in names}


def test_operations_are_kafkas() -> None:
    known = {each.name: each.value for each in AclOperation if each.name not in PATTERNS}
    assert numbers(Operation) == known | {"CREATE_TOKENS": 13, "DESCRIBE_TOKENS": 14}


def test_resources_are_kafkas() -> None:
    """The cluster is what librdkafka calls a broker."""
    known = {each.name.replace("BROKER", "CLUSTER"): each.value for each in ResourceType if each.name not in PATTERNS}
    assert numbers(Resource) == known | {"DELEGATION_TOKEN": 6, "USER": 7}


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (TOPIC_OPERATIONS, "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"),
        (CLUSTER_OPERATIONS, "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE"),
        (GROUP_OPERATIONS, "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"),
    ],
)
def test_an_answers_bit_is_an_operations_number(bits: int, names: str) -> None:
    assert {operation.name for operation in Operation if bits >> operation & 1} == set(names.split())
    assert bits < 1 << len(Operation) + min(Operation), "there is no bit without an operation"


def test_needs_stand_in_the_order_in_which_they_are_asked_about() -> None:
    assert Inside(READ_TOPIC, READ_GROUP).needs == (READ_TOPIC, READ_GROUP)
    assert Inside(Either(READ_GROUP, READ_TOPIC)).needs == (Either(first=READ_GROUP, second=READ_TOPIC),)


def test_rights_are_compared_by_what_they_say() -> None:
    assert (READ_TOPIC.operation, READ_TOPIC.resource) == (Operation.READ, Resource.TOPIC)
    assert Need(*READ_TOPIC) == READ_TOPIC != READ_GROUP
    assert Whole(READ_GROUP) == Whole(need=READ_GROUP) != Whole(READ_TOPIC)

"""`ottla acl`: which resource and rules its options name, and how rules are shown. compat_tests/test_commands_acl.py has the
cluster.
"""

from __future__ import annotations

import pytest
import typer

from ottla.commands import acl
from ottla.commands.acl import ALLOW, DENY, LITERAL, PREFIXED, Resource, ResourceOptions, RuleOptions
from ottla.commands.program import AccessRule
from ottla.server.program.app import _decide


def named(*, prefix: bool = False, is_cluster: bool = False, **names: str) -> Resource | None:
    return acl.resource_of(ResourceOptions(is_cluster=is_cluster, **names), prefix=prefix)


def test_resources() -> None:
    assert named() is None
    assert named(topic="t") == Resource("topic", "t", LITERAL)
    assert named(group="g", prefix=True) == Resource("group", "g", PREFIXED)
    assert named(is_cluster=True) == Resource("cluster", "kafka-cluster", LITERAL)
    assert named(transactional_id="x") == Resource("transactional-id", "x", LITERAL)
    assert [str(each) for each in (named(topic="t", prefix=True), named(is_cluster=True))] == ["topic t...", "the cluster"]


def test_resources_that_are_none() -> None:
    with pytest.raises(typer.BadParameter, match="not topic and group"):
        named(topic="t", group="g")
    for wrong in ({"is_cluster": True}, {}):
        with pytest.raises(typer.BadParameter, match="beginning of a name"):
            named(prefix=True, **wrong)  # type: ignore[arg-type]  # is_cluster is no name
    with pytest.raises(typer.BadParameter, match="a name is empty"):
        named(topic="")
    with pytest.raises(typer.BadParameter, match="name a resource"):
        acl.required(None)


def test_rules() -> None:
    resource = Resource("topic", "t", PREFIXED)
    both = RuleOptions(allow=["User:a"], deny=["User:*"], operation=["read", "CLUSTER_ACTION"], host="h")
    assert acl.rules_of(resource, both) == [
        AccessRule(2, "t", PREFIXED, "User:a", "h", 3, ALLOW),
        AccessRule(2, "t", PREFIXED, "User:a", "h", 9, ALLOW),
        AccessRule(2, "t", PREFIXED, "User:*", "h", 3, DENY),
        AccessRule(2, "t", PREFIXED, "User:*", "h", 9, DENY),
    ]
    (anywhere,) = acl.rules_of(resource, RuleOptions(allow=["User:a"], operation=["all"]))
    assert anywhere.host == "*"
    assert acl.rules_of(resource, RuleOptions(allow=["User:a"])) == []
    with pytest.raises(typer.BadParameter, match="write User:alice"):
        acl.rules_of(resource, RuleOptions(allow=["alice"], operation=["read"]))
    with pytest.raises(typer.BadParameter, match="'fly' is not one of all, read"):
        acl.operation_of("fly")


def test_how_rules_are_shown() -> None:
    rule = AccessRule(4, "kafka-cluster", LITERAL, "User:a", "10.0.0.1", 12, DENY)
    assert acl.row(rule) == ("deny", "User:a", "10.0.0.1", "idempotent-write", "cluster", "kafka-cluster", "literal")
    assert acl.in_words(rule) == "deny User:a idempotent-write on the cluster from 10.0.0.1"
    assert acl.as_object(rule)["rule"] == "deny"
    assert acl.row(AccessRule(99, "n", 98, "User:a", "*", 97, ALLOW))[3:] == ("97", "99", "n", "98")


def test_decisions_are_the_brokers() -> None:
    rules = [AccessRule(2, "t", LITERAL, "User:a", "*", 3, ALLOW), AccessRule(2, "t", PREFIXED, "User:*", "h", 3, DENY)]
    assert _decide(rules, "User:a", "other", 3, 2, "t") == (True, rules[0], True)
    assert _decide(rules, "User:a", "h", 3, 2, "t") == (False, rules[1], True)
    assert _decide(rules, "User:b", "other", 3, 2, "t1") == (False, None, True)
    assert _decide(rules, "User:b", "other", 3, 3, "t") == (False, None, False)

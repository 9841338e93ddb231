"""The authorizer against a model that looks at every rule, and what it keeps and forgets."""

from __future__ import annotations

from random import Random

import pytest

from ottla.server.security import authorizer as module
from ottla.server.security.authorizer import LONGEST_KEPT, Authorizer, Rights, describe_rule
from ottla.server.security.operations import TOPIC_OPERATIONS
from ottla.server.security.rights import Operation, Resource
from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord as Rule
from tests.server.security.worlds import (
    ALL,
    ALLOW,
    DENY,
    LITERAL,
    MEANT,
    PREFIXED,
    Question,
    World,
    draw_question,
    draw_rule,
    draw_world,
)

TOPIC = Resource.TOPIC
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


def model(world: World, asked: Question) -> bool:
    """The rule of the authorizer's docstring, as it is written there."""
    if asked.principal in world.super_users:
        return True
    of_resource = [
        rule
        for rule in world.rules
        if rule.resource_type == asked.resource
        and (
            rule.resource_name in (asked.name, "*") if rule.pattern_type == LITERAL else asked.name.startswith(rule.resource_name)
        )
    ]
    about = [rule for rule in of_resource if rule.principal in (asked.principal, "User:*") and asked.host in MEANT[rule.host]]
    if any(rule.permission_type == DENY and rule.operation in (asked.operation, ALL) for rule in about):
        return False
    enough = {asked.operation, ALL}
    if asked.operation is DESCRIBE:
        enough |= {READ, WRITE, Operation.DELETE, Operation.ALTER}
    if asked.operation is Operation.DESCRIBE_CONFIGS:
        enough |= {Operation.ALTER_CONFIGS}
    if any(rule.permission_type == ALLOW and rule.operation in enough for rule in about):
        return True
    return not of_resource and world.everyone


@pytest.mark.parametrize("seed", range(4))
def test_decisions_are_those_of_the_model(seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        world = draw_world(random)
        authorizer = world.authorizer()
        for _ in range(30):
            asked = draw_question(random)
            assert authorizer.rights(*asked[:2]).may(*asked[2:]) == model(world, asked), (world, asked)


def test_decisions_follow_changes_of_rules() -> None:
    random = Random(5)
    world = World(True, (), [])
    authorizer = world.authorizer()
    for _ in range(400):
        if world.rules and random.random() < 0.45:
            authorizer.change([(world.rules.pop(random.randrange(len(world.rules))), None)])
        elif world.rules and random.random() < 0.1:
            old, new = world.rules.pop(), draw_rule(random)
            new.id = old.id
            authorizer.change([(old, new)])
            world.rules.append(new)
        else:
            world.rules.append(draw_rule(random))
            authorizer.change([(None, world.rules[-1])])
        for _ in range(5):
            asked = draw_question(random)
            assert authorizer.rights(*asked[:2]).may(*asked[2:]) == model(world, asked)
    for rule in world.rules:
        authorizer.change([(rule, None)])
    assert not authorizer._by_name
    assert not authorizer._by_prefix
    assert not any(authorizer._lengths.values())
    assert not authorizer._of_length


def test_the_removal_of_a_rule_looks_at_no_other() -> None:
    """However many there are for its principal and resource: to remove 5,000 took half a second."""
    looked_at: list[bytes] = []

    class Seen(Rule):
        __slots__ = ()

        @property
        def id(self) -> bytes:
            looked_at.append(self.resource_name.encode())
            return self.host.encode()

        @id.setter
        def id(self, value: bytes) -> None:
            pass

    rules = [Seen(b"", TOPIC, "t", LITERAL, "User:a", f"10.0.0.{number}", READ, ALLOW) for number in range(100)]
    authorizer = Authorizer(rules=rules)
    looked_at.clear()
    authorizer.change([(each, None) for each in rules[1:]])
    assert len(looked_at) == 99
    assert authorizer.considered("User:a", TOPIC, "t") == rules[:1]


def test_a_name_is_looked_up_once_for_each_length_of_prefixes() -> None:
    """However many prefixes have rules: with 10,000 of them, names that a stranger makes up took 90 us each."""
    rules = [rule(READ, f"{number:04}", pattern=PREFIXED) for number in range(100)]
    authorizer = Authorizer(rules=[*rules, rule(READ, "00", pattern=PREFIXED)])
    assert authorizer._lengths == {TOPIC: [2, 4]}
    authorizer.change([(rules.pop(), None)])
    assert authorizer._lengths == {TOPIC: [2, 4]}
    for each in rules:
        authorizer.change([(each, None)])
    assert authorizer._lengths == {TOPIC: [2]}


def rule(operation: int, name: str = "t", permission: int = ALLOW, pattern: int = LITERAL, principal: str = "User:a") -> Rule:
    return Rule(
        name.encode() + bytes([operation, permission, pattern]), TOPIC, name, pattern, principal, "*", operation, permission
    )


def rights(*rules: Rule, everyone: bool = False) -> Rights:
    return Authorizer(("User:admin",), allow_without_rules=everyone, rules=rules).rights("User:a", "10.0.0.1")


def test_a_denial_takes_only_its_operation() -> None:
    found = rights(rule(READ), rule(READ, permission=DENY))
    assert not found.may(READ, TOPIC, "t")
    assert found.may(DESCRIBE, TOPIC, "t")


@pytest.mark.parametrize(
    ("rules", "may"),
    [
        ([], False),
        ([rule(WRITE)], True),
        ([rule(ALL)], True),
        ([rule(READ)], False),
        ([rule(WRITE, principal="User:b")], False),
        ([rule(WRITE), rule(WRITE, permission=DENY)], False),
        ([rule(WRITE), rule(WRITE, "t1", DENY)], True),
        ([rule(WRITE, "t1"), rule(WRITE, "t", DENY, PREFIXED)], False),
        ([rule(WRITE, "t1", pattern=PREFIXED), rule(WRITE, "t1", DENY)], True),
        ([rule(WRITE, "t", pattern=PREFIXED), rule(WRITE, "t", DENY, PREFIXED)], False),
        ([rule(WRITE, "*"), rule(WRITE, "*", DENY)], False),
        ([rule(WRITE, "*"), rule(WRITE, "t", DENY, PREFIXED)], True),
        ([rule(WRITE), rule(READ, "*", DENY)], True),
    ],
)
def test_a_right_on_any_resource(rules: list[Rule], may: bool) -> None:
    found = rights(*rules)
    assert found.may_any(WRITE, TOPIC) is may
    assert found.may_any(WRITE, TOPIC) is may, "kept"
    assert not found.may_any(WRITE, Resource.GROUP)


def test_who_may_do_all_has_a_right_on_any() -> None:
    assert rights(everyone=True).may_any(WRITE, TOPIC)
    assert Authorizer(("User:admin",)).rights("User:admin", "h").may_any(WRITE, TOPIC)


def test_reasons_name_the_rule() -> None:
    denied = rule(READ, permission=DENY)
    found = rights(rule(READ), denied, rule(WRITE, "u"))
    assert found.decide(READ, TOPIC, "t").rule is denied
    assert found.decide(READ, TOPIC, "t").reason == f"MatchingAcl(acl={describe_rule(denied)})"
    assert "resourceType=TOPIC, resourceName=t, patternType=LITERAL, principal=User:a, host=*" in describe_rule(denied)
    assert "operation=READ, permissionType=DENY" in describe_rule(denied)
    assert found.decide(WRITE, TOPIC, "u").rule is not None
    assert found.decide(READ, TOPIC, "v")[1:] == (None, "DefaultDeny")
    assert rights(everyone=True).decide(READ, TOPIC, "v") == (True, None, "DefaultAllow")
    assert Authorizer(("User:x",)).decide("User:x", "h", READ, TOPIC, "t") == (True, None, "SuperUser")


def test_bits() -> None:
    assert rights(rule(READ)).bits(TOPIC_OPERATIONS, TOPIC, "t") == 1 << READ | 1 << DESCRIBE
    assert rights(rule(Operation.CLUSTER_ACTION)).bits(TOPIC_OPERATIONS, TOPIC, "t") == 0
    everything = Authorizer(("User:admin",)).rights("User:admin", "h")
    assert everything.bits(TOPIC_OPERATIONS, TOPIC, "t") == TOPIC_OPERATIONS


def test_long_names_are_not_kept() -> None:
    authorizer = Authorizer(rules=[rule(READ, pattern=PREFIXED)])
    found = authorizer.rights("User:a", "h")
    for length, kept in ((LONGEST_KEPT, 1), (LONGEST_KEPT + 1, 1)):
        assert found.may(READ, TOPIC, "t" * length)
        assert sum(map(len, found._may.values())) == kept
    assert found.may(READ, TOPIC, "t\N{GRINNING FACE}")
    assert sum(map(len, found._may.values())) == 1, "a name that no topic has"


def test_networks_and_addresses_in_java_s_form() -> None:
    for host, text in (("10.1.2.3", "10.0.0.0/8"), ("::1", "0:0:0:0:0:0:0:1"), ("2001:db8::1", "2001:db8::/32")):
        for may in (Rights.may, lambda found, *asked: found.may_any(*asked[:2])):
            denial, allowance = rule(WRITE, permission=DENY), rule(WRITE, "*")
            denial.host = text
            denied = Authorizer(rules=[denial, allowance]).rights("User:a", host)
            allowance.host = text
            allowed = Authorizer(rules=[allowance])
            assert may(allowed.rights("User:a", host), WRITE, TOPIC, "t")
            assert not may(allowed.rights("User:a", "11.0.0.1"), WRITE, TOPIC, "t")
            assert not denied.may(WRITE, TOPIC, "t")
    assert Authorizer().rights("User:a", "::1").host == "0:0:0:0:0:0:0:1"


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    authorizer = Authorizer(rules=[rule(READ)])
    for at in range(30):
        found = authorizer.rights("User:a", str(at % 3))
        assert not found.may(READ, TOPIC, f"x{at}")
        assert found.may(READ, TOPIC, "t")
        assert authorizer.kept <= 10
        assert sum(len(known) for each in authorizer.kept_rights.values() for known in each._may.values()) <= 10


def test_what_is_full_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a request, whose rights answer on; those of the next one keep what is asked again."""
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    authorizer = Authorizer(rules=[rule(READ)])
    full = authorizer.rights("User:a", "h")
    for at in range(30):
        assert not full.may(READ, TOPIC, f"x{at}")
        assert full.may(READ, TOPIC, "t")
        assert sum(map(len, full._may.values())) <= 9
    later = authorizer.rights("User:a", "h")
    assert later is not full
    assert later.may(READ, TOPIC, "t")
    assert later._may == {TOPIC << 8 | READ: {"t": True}}
    assert authorizer.kept == 2

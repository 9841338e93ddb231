"""Drawn worlds of access rules and questions about them, with few names, so that much of it coincides."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from ottla.server.security.authorizer import Authorizer
from ottla.server.security.rights import Operation, Resource
from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord as Rule

PRINCIPALS = ("User:a", "User:b", "User:admin", "Group:a")
HOSTS = ("10.0.0.1", "10.0.0.2")
NAMES = ("t", "to", "topic", "topic-1", "other", "*", "h", "hardcode")
RESOURCES = (Resource.TOPIC, Resource.GROUP)
OPERATIONS = (*Operation, *(Operation.READ, Operation.WRITE, Operation.DESCRIBE) * 3)
ALL, DENY, ALLOW, LITERAL, PREFIXED = 2, 2, 3, 3, 4


class Question(NamedTuple):
    principal: str
    host: str
    operation: Operation
    resource: Resource
    name: str


class World(NamedTuple):
    everyone: bool
    super_users: tuple[str, ...]
    rules: list[Rule]

    def authorizer(self) -> Authorizer:
        return Authorizer(self.super_users, allow_without_rules=self.everyone, rules=self.rules)


def draw_rule(random: Random) -> Rule:
    return Rule(
        random.randbytes(16),
        random.choice(RESOURCES),
        random.choice(NAMES),
        random.choice((LITERAL, LITERAL, PREFIXED)),
        random.choice((*PRINCIPALS, "User:*", "User:*", "Group:*")),
        random.choice((*HOSTS, "*", "*", "*")),
        random.choice((*OPERATIONS, ALL, ALL)),
        random.choice((ALLOW, ALLOW, DENY)),
    )


def draw_world(random: Random) -> World:
    rules = {(*vars_of(rule)[1:],): rule for rule in (draw_rule(random) for _ in range(random.choice((0, 1, 2, 4, 8, 20))))}
    super_users = random.choice(((), ("User:admin",), ("User:admin", "Group:a")))
    return World(random.random() < 0.3, super_users, list(rules.values()))


def vars_of(rule: Rule) -> tuple[object, ...]:
    return tuple(getattr(rule, name) for name in Rule.__slots__)


def draw_question(random: Random) -> Question:
    return Question(
        random.choice(PRINCIPALS),
        random.choice(HOSTS),
        random.choice(OPERATIONS),
        random.choice(RESOURCES),
        random.choice(NAMES),
    )

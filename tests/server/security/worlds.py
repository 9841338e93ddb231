"""Drawn worlds of access rules and questions about them, with few names, so that much of it coincides."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from ottla.server.security.authorizer import Authorizer
from ottla.server.security.rights import Operation, Resource
from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord as Rule

PRINCIPALS = ("User:a", "User:b", "User:admin", "Group:a")
FIRST, SECOND, SIXTH, OWN = HOSTS = ("10.0.0.1", "10.0.0.2", "2001:db8::5", "::1")
MEANT: dict[str, tuple[str, ...]] = {
    "*": HOSTS,
    FIRST: (FIRST,),
    SECOND: (SECOND,),
    SIXTH: (),  # Java does not shorten addresses
    OWN: (),
    "2001:db8:0:0:0:0:0:5": (SIXTH,),
    "0:0:0:0:0:0:0:1": (OWN,),
    "10.0.0.0/8": (FIRST, SECOND),
    "10.0.0.1/32": (FIRST,),
    "10.0.0.3/31": (SECOND,),
    "10.0.0.2/30": (FIRST, SECOND),
    "010.0.0.1/32": (FIRST,),
    "0.0.0.0/0": (FIRST, SECOND),
    "::/0": (SIXTH, OWN),
    "2001:db8::/32": (SIXTH,),
    "2001:db8::5/128": (SIXTH,),
    "2001:db8::4/127": (SIXTH,),
    "2001:db8:0:0:0:0:0:5/+64": (SIXTH,),
    "::1/-0": (SIXTH, OWN),
    **dict.fromkeys(("10.0.0.1/33", "10.0.0.256/8", "10.0.0/8", "10.0.0.1/", "/8", "2001:db8::/129", "::1/64/64", "::g/0"), ()),
    "::ffff:10.0.0.0/104": (),
}
"""The hosts that a rule may have, and which of HOSTS each means."""
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
        random.choice((*HOSTS, *["*"] * 6, *random.choices(list(MEANT), k=3))),
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

"""The authorizer against Kafka's StandardAuthorizer, in drawn worlds of rules: the same decision in every case.

`OTTLA_DECISIONS=100000` says how many questions are asked, 20,000 by default.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from urllib.parse import quote_plus

import pytest

from ottla.server.security.rights import Operation, Resource
from tests.java_oracle import asked
from tests.server.security.worlds import draw_question, draw_world

SOURCE = Path(__file__).parent / "AuthorizerOracle.java"
QUESTIONS = 100
WORLDS = int(os.environ.get("OTTLA_DECISIONS", "20000")) // QUESTIONS
EVERY = 5
"""One question in so many is about any resource of a type."""


@pytest.mark.oracle
def test_decisions_are_kafka_s() -> None:
    random = Random(18)
    lines: list[tuple[object, ...]] = []
    ours, questions = "", []
    for _ in range(WORLDS):
        world = draw_world(random)
        authorizer = world.authorizer()
        lines.append(("world", str(world.everyone).lower(), ";".join(world.super_users)))
        for rule in world.rules:
            place = rule.resource_type, rule.resource_name, rule.pattern_type
            lines.append(("rule", *place, rule.principal, rule.host, rule.operation, rule.permission_type))
        for at in range(QUESTIONS):
            each = draw_question(random)
            rights = authorizer.rights(each.principal, each.host)
            if at % EVERY:
                lines.append(("ask", each.principal, each.host, each.operation.value, each.resource.value, each.name))
                ours += str(int(rights.may(each.operation, each.resource, each.name)))
            else:
                operation, resource = random.choice((Operation.WRITE, Operation.READ)), Resource.TOPIC
                lines.append(("any", each.principal, each.host, operation.value, resource.value))
                ours += str(int(rights.may_any(operation, resource)))
            questions.append((world, lines[-1]))
    text = "".join("\t".join(quote_plus(str(int_or_text(word))) for word in line) + "\n" for line in lines)
    theirs = asked(SOURCE, text).strip()
    assert len(theirs) == len(ours) == WORLDS * QUESTIONS
    assert 0.1 < ours.count("1") / len(ours) < 0.9
    different = [question for question, mine, their in zip(questions, ours, theirs, strict=True) if mine != their]
    assert different == []


def int_or_text(word: object) -> object:
    """The number of an enumeration's member, which prints as its name."""
    return int(word) if isinstance(word, int) else word

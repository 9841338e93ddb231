"""Tests of who was denied what, and the authorizer's own decision with the rules that it looked at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.inspect.denials import MOST_KEPT, NOTED_SECONDS, decision, denials
from ottla.server.inspect.subject import BadQuestion
from ottla.server.security.authorizer import Authorizer, Rule
from ottla.server.security.rights import Operation, Resource
from tests.server.coordination.memory import CoordinatorClock

READ, WRITE = int(Operation.READ), int(Operation.WRITE)
TOPIC = int(Resource.TOPIC)
ALLOW_READ: list[Any] = [TOPIC, "orders", 3, "User:alice", "*", READ, 3]
DENY_ALL: list[Any] = [TOPIC, "ord", 4, "User:*", "10.0.0.9", 2, 2]
ELSEWHERE: list[Any] = [TOPIC, "bills", 3, "User:alice", "*", READ, 3]


def authorizer(*rules: list[Any]) -> Authorizer:
    made = [Rule(number.to_bytes(16, "big"), *rule) for number, rule in enumerate(rules)]
    return Authorizer({"User:root"}, rules=made)


def subject(decides: Authorizer | None, clock: CoordinatorClock | None = None) -> Any:
    context = SimpleNamespace(authorizer=decides, clock=SimpleNamespace(now_ms=lambda: 7))
    return SimpleNamespace(context=context, clock=clock or CoordinatorClock())


def test_denials_are_kept_from_the_first_question_on() -> None:
    decides = authorizer(ALLOW_READ)
    asks = decides.ask("User:alice", "10.0.0.7", "Produce")
    assert not asks.topic(Operation.WRITE, "orders")
    assert denials(subject(decides)) == {"enabled": True, "since_ms": 7, "denials": []}
    for _ in range(2):
        assert not asks.topic(Operation.WRITE, "orders")
    assert asks.topic(Operation.READ, "orders")
    assert not asks.topic(Operation.READ, "bills")
    (bills, orders) = denials(subject(decides))["denials"]
    assert (bills["name"], bills["operation"], bills["times"]) == ("bills", READ, 1)
    assert orders == {
        "principal": "User:alice",
        "host": "10.0.0.7",
        "api": "Produce",
        "operation": WRITE,
        "resource": TOPIC,
        "name": "orders",
        "times": 2,
        "last_ms": 7,
    }
    assert len(decides.audit.on_denied) == 1


def test_only_so_many_are_kept() -> None:
    decides = authorizer()
    denials(subject(decides))
    asks = decides.ask("User:alice", "10.0.0.7", "Fetch")
    for number in range(MOST_KEPT + 5):
        asks.topic(Operation.READ, f"t-{number}")
    kept = denials(subject(decides))["denials"]
    assert [kept[0]["name"], kept[-1]["name"], len(kept)] == [f"t-{MOST_KEPT + 4}", "t-5", MOST_KEPT]


def test_one_with_many_names_hides_nobody_elses_denials() -> None:
    decides = authorizer()
    denials(subject(decides))
    for principal in ("User:bob", "User:carol"):
        decides.ask(principal, "10.0.0.8", "Produce").topic(Operation.WRITE, "orders")
    scans = decides.ask("User:alice", "10.0.0.7", "Fetch")
    for number in range(2 * MOST_KEPT):
        scans.topic(Operation.READ, f"t-{number}")
    kept = denials(subject(decides))["denials"]
    assert [each["principal"] for each in kept[-2:]] == ["User:carol", "User:bob"]
    assert [kept[0]["name"], kept[-3]["name"], len(kept)] == [f"t-{2 * MOST_KEPT - 1}", f"t-{MOST_KEPT + 2}", MOST_KEPT]


def test_of_very_many_principals_one_denial_each_is_kept_of_some() -> None:
    decides = authorizer()
    denials(subject(decides))
    for number in range(2 * MOST_KEPT):
        decides.ask(f"User:{number}", "10.0.0.7", "Fetch").topic(Operation.READ, "t")
    kept = denials(subject(decides))["denials"]
    assert [kept[0]["principal"], kept[-1]["principal"], len(kept)] == ["User:399", "User:200", MOST_KEPT]


def test_nothing_is_noted_any_more_when_nobody_has_asked_for_a_while() -> None:
    decides, clock = authorizer(), CoordinatorClock()
    asks = decides.ask("User:alice", "10.0.0.7", "Produce")
    denials(subject(decides, clock))
    asks.topic(Operation.WRITE, "orders")
    clock.advance(NOTED_SECONDS - 1)
    assert len(denials(subject(decides, clock))["denials"]) == 1
    clock.advance(NOTED_SECONDS - 1)
    assert len(decides.audit.on_denied) == 1
    clock.advance(1)
    assert (decides.audit.on_denied, clock.waiting) == ([], 0)
    asks.topic(Operation.WRITE, "orders")
    assert denials(subject(decides, clock))["denials"] == []
    asks.topic(Operation.WRITE, "orders")
    assert len(denials(subject(decides, clock))["denials"]) == 1


def test_the_decision_is_the_authorizers_with_the_rules_that_count() -> None:
    asked = subject(authorizer(ALLOW_READ, DENY_ALL, ELSEWHERE))
    assert decision(asked, "User:alice", "10.0.0.7", READ, TOPIC, "orders") == {
        "allowed": True,
        "rule": ALLOW_READ,
        "without_rule": "",
        "considered": [ALLOW_READ, DENY_ALL],
    }
    assert decision(asked, "User:alice", "10.0.0.9", READ, TOPIC, "orders")["rule"] == DENY_ALL
    said = decision(asked, "User:alice", "10.0.0.7", WRITE, TOPIC, "orders")
    assert (said["allowed"], said["rule"], said["without_rule"]) == (False, None, "DefaultDeny")
    assert decision(asked, "User:root", "10.0.0.9", WRITE, TOPIC, "orders")["without_rule"] == "SuperUser"


def test_what_cannot_be_decided() -> None:
    assert denials(subject(None)) == {"enabled": False, "since_ms": None, "denials": []}
    with pytest.raises(BadQuestion, match=r"authorizer\.class\.name"):
        decision(subject(None), "User:a", "::1", READ, TOPIC, "t")
    with pytest.raises(BadQuestion, match="no such operation"):
        decision(subject(authorizer()), "User:a", "::1", 99, TOPIC, "t")

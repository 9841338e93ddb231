"""These tests compare the assignors with Kafka's own classes on random groups of all shapes, which are seeded.

KafkaAssignorOracle.java runs Kafka's classes, whose jars come from Maven (compat_tests/reference/maven.py).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from ottla.server.base.turns import at_once
from ottla.server.group.consumer.assignors import ASSIGNORS
from ottla.server.group.modern.assignor import Assignment, AssignorError, GroupSpec, MemberSpec, assignment_lookup
from ottla.server.group.modern.java_order import hash_order, string_hash
from tests.java_oracle import asked

SOURCE = Path(__file__).parent / "KafkaAssignorOracle.java"
GROUPS = 600
Case = tuple[str, GroupSpec]


def random_group(rng: random.Random) -> Case:
    topics = {rng.randbytes(16): rng.choice([1, 2, 3, 5, 8, 20, 60]) for _ in range(rng.choice([1, 1, 2, 3, 7, 14]))}
    alike = rng.random() < 0.5
    wanted = [topic for topic in topics if rng.random() < 0.8]
    ids = {f"{rng.choice(['m', 'consumer-', ''])}{rng.randrange(10**6)}" for _ in range(rng.choice([1, 2, 3, 5, 6, 13, 30]))}
    subscriptions = {each: wanted if alike else [topic for topic in topics if rng.random() < 0.6] for each in ids}
    held = previous(rng, topics, list(ids)) if rng.random() < 0.7 else {}
    if rng.random() < 0.05:
        del topics[next(iter(topics))]
    specs = {
        member_id: MemberSpec(
            subscriptions[member_id], held.get(member_id, {}), f"i{rng.randrange(10**6)}" if rng.random() < 0.2 else None
        )
        for member_id in hash_order(sorted(ids), string_hash)
    }
    group = GroupSpec(specs, topics, len(set(map(frozenset, subscriptions.values()))) <= 1, assignment_lookup(held))
    return rng.choice(["uniform", "range"]), group


def previous(rng: random.Random, topics: Mapping[bytes, int], ids: list[str]) -> dict[str, Assignment]:
    """Returns random assignments: some partitions are free, some belong to topics without subscribers, and one
    member has many.
    """
    favourites = rng.sample(ids, max(1, len(ids) // 2))
    held: dict[str, dict[bytes, set[int]]] = {}
    for topic, count in topics.items():
        for index in range(count):
            if rng.random() < 0.8:
                held.setdefault(rng.choice(favourites), {}).setdefault(topic, set()).add(index)
    return {who: {topic: frozenset(sets[topic]) for topic in sorted(sets)} for who, sets in held.items()}


def text_of(assignment: Assignment) -> str:
    parts = (f"{topic.hex()}={','.join(map(str, sorted(indexes)))}" for topic, indexes in sorted(assignment.items()))
    return ";".join(parts) or "-"


def question(case: Case) -> str:
    name, group = case
    lines = [f"topic {topic.hex()} {count}" for topic, count in group.partition_counts.items()]
    for member_id, member in sorted(group.members.items()):
        wanted = ",".join(topic.hex() for topic in member.topics) or "-"
        lines.append(f"member {member_id} {member.instance_id or '-'} {wanted} {text_of(member.assignment)}")
    return "\n".join([*lines, f"assign {name} {str(group.homogeneous).lower()}\n"])


def answer(case: Case) -> list[str]:
    name, group = case
    try:
        assigned = at_once(ASSIGNORS[name](group))
    except AssignorError:
        return ["error"]
    return [*(f"{member_id} {text_of(assigned[member_id])}" for member_id in sorted(assigned)), "."]


def ask(cases: list[Case]) -> list[list[str]]:
    answers: list[list[str]] = [[]]
    for line in asked(SOURCE, "".join(map(question, cases))).splitlines():
        answers[-1].append(line)
        if line in (".", "error"):
            answers.append([])
    return answers[:-1]


def test_random_groups_get_what_kafka_gives_them() -> None:
    rng = random.Random(848)
    cases = [random_group(rng) for _ in range(GROUPS)]
    theirs = ask(cases)
    assert len(theirs) == GROUPS
    assert {"error"} < {each[0] for each in theirs}, "some groups are refused"
    for number, (case, expected) in enumerate(zip(cases, theirs, strict=True)):
        assert answer(case) == expected, f"group {number}, {case[0]}: {question(case)}"

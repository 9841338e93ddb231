"""These tests compare the assignor `simple` with Kafka's own class on random share groups, each with a history of changes, which
are seeded.

KafkaSimpleAssignorOracle.java asks it; Kafka's jars come by Maven. A group lives through several assignments:
members come and go, subscriptions change, partitions get state; each starts from what ours gave before, so an order that differs
shows in the next one at the latest.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from ottla.server.base.turns import at_once
from ottla.server.group.modern.assignor import Assignment, GroupAssignment, GroupSpec, MemberSpec
from ottla.server.group.modern.java_order import hash_order, string_hash
from ottla.server.group.share.assignor import assign
from tests.java_oracle import asked

SOURCE = Path(__file__).parent / "KafkaSimpleAssignorOracle.java"
GROUPS = 120
STEPS = 6


class Case(NamedTuple):
    spec: GroupSpec
    initialized: dict[bytes, frozenset[int]]


class Life:
    """One group that changes."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.topics = {rng.randbytes(16): rng.choice([1, 2, 3, 5, 8, 20, 60]) for _ in range(rng.choice([1, 1, 2, 3, 7, 14]))}
        self.alike = rng.random() < 0.5
        self.wanted: dict[str, list[bytes]] = {}
        self.given: GroupAssignment = {}
        self.ready: dict[bytes, frozenset[int]] = dict.fromkeys(self.topics, frozenset())

    def some_topics(self) -> list[bytes]:
        return [topic for topic in self.topics if self.rng.random() < 0.7] or [next(iter(self.topics))]

    def step(self) -> Case:
        rng = self.rng
        for topic, count in self.topics.items():
            if rng.random() < 0.7:
                self.ready[topic] |= {index for index in range(count) if rng.random() < 0.8}
        for member in list(self.wanted):
            if rng.random() < 0.2:
                del self.wanted[member]
        for _ in range(rng.choice([0, 1, 2, 4, 12]) or not self.wanted):
            self.wanted[f"{rng.choice(['m', 'consumer-', ''])}{rng.randrange(10**6)}"] = []
        common = self.some_topics()
        for member, topics in self.wanted.items():
            if self.alike:
                self.wanted[member] = common
            elif not topics or rng.random() < 0.3:
                self.wanted[member] = self.some_topics()
        ids = hash_order(sorted(self.wanted), string_hash)  # the order in which the oracle hears of them
        specs = {each: MemberSpec(self.wanted[each], self.given.get(each, {})) for each in ids}
        spec = GroupSpec(
            specs, dict(self.topics), len(set(map(frozenset, self.wanted.values()))) <= 1, lambda topic, index: False
        )
        case = Case(spec, dict(self.ready))
        self.given = {member: dict(sorted(found.items())) for member, found in at_once(assign(*case)).items()}  # likewise
        return case


def text_of(assignment: Assignment) -> str:
    return ";".join(f"{topic.hex()}={','.join(map(str, sorted(found)))}" for topic, found in sorted(assignment.items())) or "-"


def question(case: Case) -> str:
    spec, initialized = case
    lines = [
        f"topic {topic.hex()} {count} {','.join(map(str, sorted(initialized[topic]))) or '-'}"
        for topic, count in spec.partition_counts.items()
    ]
    for member_id, member in sorted(spec.members.items()):
        wanted = ",".join(topic.hex() for topic in member.topics)
        lines.append(f"member {member_id} {wanted} {text_of(member.assignment)}")
    return "\n".join([*lines, f"assign {str(spec.homogeneous).lower()}\n"])


def answer(case: Case) -> list[str]:
    return [f"{member_id} {text_of(assigned)}" for member_id, assigned in sorted(at_once(assign(*case)).items())]


def ask(cases: list[Case]) -> list[list[str]]:
    return [each.splitlines() for each in asked(SOURCE, "".join(map(question, cases))).split(".\n")[:-1]]


def test_random_share_groups_get_what_kafka_gives_them() -> None:
    rng = random.Random(932)
    cases = [life.step() for life in (Life(rng) for _ in range(GROUPS)) for _ in range(STEPS)]
    theirs = ask(cases)
    assert len(theirs) == len(cases)
    for number, (case, expected) in enumerate(zip(cases, theirs, strict=True)):
        assert answer(case) == expected, f"assignment {number}: {question(case)}"


def test_everybody_has_something_and_nobody_has_much_more() -> None:
    """Checks what must be true whatever Kafka does: shares differ by at most one, and so do the members of partitions."""
    rng = random.Random(7)
    for _ in range(200):
        life = Life(rng)
        life.alike = True
        case = next(case for case in iter(life.step, None) if case.spec.members)
        partitions = [(t, i) for t in next(iter(case.spec.members.values())).topics for i in case.initialized[t]]
        if not partitions:
            continue
        held = {
            member: {(topic, index) for topic in found for index in found[topic]} for member, found in life.given.items()
        }  # fmt: skip
        counts = [len(each) for each in held.values()]
        assert max(counts) - min(counts) <= 1
        readers = [sum(partition in each for each in held.values()) for partition in partitions]
        assert max(readers) - min(readers) <= 1
        assert min(readers) >= 1

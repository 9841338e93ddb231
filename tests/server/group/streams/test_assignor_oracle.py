"""These tests compare the task assignor with Kafka's own class on random groups of all shapes, which are seeded.

KafkaTaskAssignorOracle.java asks it; Kafka's jars come by Maven. Half of the groups are what the assignor made
of a former one, with members that came and went, so that sticking to what was is tried too.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ottla.server.base.turns import at_once
from ottla.server.group.modern.java_order import hash_order, string_hash
from ottla.server.group.streams.assignor import MemberSpec, SubtopologySpec, assign
from ottla.server.group.streams.tasks import TaskIds, Tasks
from tests.java_oracle import asked

SOURCE = Path(__file__).parent / "KafkaTaskAssignorOracle.java"
GROUPS = 600


class Case(NamedTuple):
    members: dict[str, MemberSpec]
    subtopologies: dict[str, SubtopologySpec]
    replicas: int


def in_order(members: Mapping[str, MemberSpec]) -> dict[str, MemberSpec]:
    """Returns members as the assignor gets them: in the order of a HashMap to which they were added in the order of their ids."""
    return {member_id: members[member_id] for member_id in hash_order(sorted(members), string_hash)}


def random_group(rng: random.Random) -> Case:
    counts = {str(n): rng.choice([1, 2, 3, 5, 8, 20]) for n in range(rng.choice([1, 1, 2, 3, 5]))}
    subtopologies = {name: SubtopologySpec(count, rng.random() < 0.6) for name, count in counts.items()}
    processes = [f"p{rng.randrange(10**5)}" for _ in range(rng.choice([1, 2, 3, 5, 14]))]
    ids = sorted({f"{rng.choice(['m', 'thread-', ''])}{rng.randrange(10**6)}" for _ in range(rng.choice([1, 2, 3, 5, 9, 30]))})
    held = random_tasks(rng, counts, ids)
    members = {
        member_id: MemberSpec(rng.choice(processes), held.get(member_id, Tasks()), random_offsets(rng, counts))
        for member_id in ids
    }
    return Case(in_order(members), subtopologies, rng.choice([0, 0, 1, 1, 2, 4]))


def random_tasks(rng: random.Random, counts: Mapping[str, int], ids: list[str]) -> dict[str, Tasks]:
    """Returns random tasks that members have had: one member had many, and some are free."""
    if rng.random() < 0.3:
        return {}
    favourites = rng.sample(ids, max(1, len(ids) // 2))
    roles: list[dict[str, dict[str, set[int]]]] = [{}, {}]
    for name, count in counts.items():
        for partition in range(count):
            for held, likely in zip(roles, (0.8, 0.4), strict=True):
                if rng.random() < likely:
                    held.setdefault(rng.choice(favourites), {}).setdefault(name, set()).add(partition)
    return {member_id: Tasks(*(frozen(held.get(member_id, {})) for held in roles)) for member_id in ids}


def random_offsets(rng: random.Random, counts: Mapping[str, int]) -> dict[str, dict[int, int]]:
    if rng.random() < 0.7:
        return {}
    return {
        name: {partition: rng.randrange(4) * 100 for partition in range(count) if rng.random() < 0.5 or partition == 0}
        for name, count in counts.items()
    }


def later(rng: random.Random, case: Case) -> Case:
    """Returns the group after its assignment, when members have left and others have joined."""
    assigned = at_once(assign(*case))
    members = {
        member_id: spec._replace(previous=assigned[member_id])
        for member_id, spec in case.members.items()
        if rng.random() < 0.8 or len(case.members) == 1
    }
    for number in range(rng.choice([0, 1, 1, 4])):
        members[f"new{number}"] = MemberSpec(rng.choice(["p-new", *(spec.process_id for spec in case.members.values())]))
    return Case(in_order(members), case.subtopologies, case.replicas) if members else case


def frozen(tasks: Mapping[str, set[int]]) -> TaskIds:
    return {name: frozenset(partitions) for name, partitions in tasks.items()}


def text_of(tasks: TaskIds) -> str:
    return ";".join(f"{name}={','.join(map(str, sorted(tasks[name])))}" for name in sorted(tasks)) or "-"


def offsets_text(offsets: Mapping[str, Mapping[int, int]]) -> str:
    parts = (
        f"{name}={','.join(f'{index}:{offset}' for index, offset in sorted(pairs.items()))}" for name, pairs in offsets.items()
    )
    return ";".join(parts) or "-"


def question(case: Case) -> str:
    lines = [f"subtopology {name} {spec.tasks} {str(spec.stateful).lower()}" for name, spec in case.subtopologies.items()]
    for member_id in sorted(case.members):
        spec = case.members[member_id]
        held = f"{text_of(spec.previous.active)} {text_of(spec.previous.standby)}"
        lines.append(f"member {member_id} {spec.process_id} {held} {offsets_text(spec.offsets)}")
    return "\n".join([*lines, f"assign {case.replicas}\n"])


def answer(case: Case) -> list[str]:
    assigned = at_once(assign(*case))
    return [*(f"{each} {text_of(assigned[each].active)} {text_of(assigned[each].standby)}" for each in sorted(assigned)), "."]


def ask(cases: list[Case]) -> list[list[str]]:
    answers: list[list[str]] = [[]]
    for line in asked(SOURCE, "".join(map(question, cases))).splitlines():
        answers[-1].append(line)
        if line == ".":
            answers.append([])
    return answers[:-1]


def test_random_groups_get_the_tasks_that_kafka_gives_them() -> None:
    rng = random.Random(1071)
    cases: list[Case] = []
    while len(cases) < GROUPS:
        cases.append(random_group(rng))
        cases.append(later(rng, cases[-1]))
    theirs = ask(cases)
    assert len(theirs) == len(cases)
    for number, (case, expected) in enumerate(zip(cases, theirs, strict=True)):
        assert answer(case) == expected, f"group {number}: {question(case)}"

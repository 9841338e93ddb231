"""Clients of different languages together: what one wrote every other reads, and they share a group."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from compat_tests.brokers import Address
from compat_tests.client_jobs import CODECS, comparable, raw, record, sending, values
from compat_tests.programs import GO, NODE, RUST, Member, Program, wait_while_alive
from compat_tests.wire import Wire

__all__ = ["raw"]  # a fixture

PROGRAMS = [
    Program(GO, "franz"),
    Program(GO, "sarama"),
    Program(GO, "kafka-go"),
    Program(NODE, "kafkajs"),
    Program(NODE, "platformatic"),
    Program(RUST, "rdkafka"),
]
RANGE_PROGRAMS = [PROGRAMS[0], PROGRAMS[1], PROGRAMS[5], PROGRAMS[2]]
"""Those that can assign by ranges; kafkajs and @platformatic/kafka have assignors of their own, under names of their own. The
last is kafka-go, which cannot lead a group with sarama in it: it does not read sarama's subscription."""

FRAMES_SNAPPY = {"sarama", "kafka-go"}
"""Snappy in the frames that Java's clients use as well; @platformatic/kafka 1.35 reads snappy without frames only."""

FRAMED = len(PROGRAMS)
"""The partition for framed snappy. The others have their writer's index."""


def written_by(program: Program, partition: int) -> list[dict[str, Any]]:
    """One send a codec; records with a key and a header, and only each second one with a value."""
    sends = []
    for codec in CODECS:
        framed = codec == "snappy" and program.name in FRAMES_SNAPPY
        texts = [f"{program.name} {codec} {n}: grüße " + "again " * 20 for n in range(8)]
        records = [
            record(
                text if n % 2 == 0 else None,
                n,
                FRAMED if framed else partition,
                f"{program.name}-{codec}-{n}",
                [("client", program.name)],
            )
            for n, text in enumerate(texts)
        ]
        sends.append(sending(records, codec))
    return sends


def test_what_one_client_wrote_every_other_reads(broker: Address, raw: Wire) -> None:
    topic = raw.create("cross", len(PROGRAMS) + 1)
    written = []
    for partition, program in enumerate(PROGRAMS):
        sends = written_by(program, partition)
        program.produce(broker.bootstrap, topic, *sends)
        written += [one for send in sends for one in send["records"]]
    for program in PROGRAMS:
        partitions = [p for p in range(len(PROGRAMS) + 1) if p != FRAMED or program.name != "platformatic"]
        expected = sorted((one for one in written if one["partition"] in partitions), key=lambda one: one["partition"])
        got = program.consume(broker.bootstrap, topic, len(expected), partitions=partitions)
        assert comparable(got) == comparable(expected), f"as {program.name} reads them"


def test_members_of_different_clients_share_one_group(broker: Address, raw: Wire, unique: Callable[[str], str]) -> None:
    """They join one after the other, then leave, the last one first; at each step the ranges are split anew and all is read."""
    partitions = list(range(len(RANGE_PROGRAMS)))
    topic, group = raw.create("mixed", len(partitions)), unique("mixed")
    seen: set[str] = set()
    members: list[Member] = []

    def settled() -> bool:
        return sorted(p for member in members for p in member.assigned) == partitions and all(m.assigned for m in members)

    def round_trip(step: str) -> None:
        wait_while_alive(members, settled, f"all partitions are assigned, {step}")
        sent = [record(f"{step} p{p}", 0, p) for p in partitions]
        RANGE_PROGRAMS[0].produce(broker.bootstrap, topic, sending(sent))
        seen.update(values(sent))
        wait_while_alive(members, lambda: seen <= {v for m in joined for v in values(m.records)}, f"all is read, {step}")

    with ExitStack() as stack:
        joined: list[Member] = []
        for program in RANGE_PROGRAMS:
            joined.append(stack.enter_context(program.join(broker.bootstrap, group, topic, balancer="range")))
            members.append(joined[-1])
            round_trip(f"{program.name} joined")
        for program in RANGE_PROGRAMS[-1], *RANGE_PROGRAMS[:-2]:
            leaving = next(member for member in members if member.name == program.name)
            members.remove(leaving)
            leaving.leave()
            round_trip(f"{program.name} left")

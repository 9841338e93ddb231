"""Partitions that move to other brokers, how far that is, and what is done about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.commands import reassignments
from ottla.commands.clients import direct
from ottla.commands.clients.brokers import Brokers
from ottla.commands.clients.partition import Partition
from ottla.commands.output import Failure
from ottla.commands.reassignments import Moving
from ottla.console.cluster.source import Source
from ottla.console.subjects.any_broker import controller

Plan = Mapping[int, tuple[int, ...]]
"""The replicas of each partition of a topic, the preferred leader first."""


def under_way(source: Source) -> list[Moving]:
    """Returns the reassignments under way. Raises Failure."""
    with controller(source) as asked:
        return reassignments.under_way(asked, _timeout_ms(source))


def _timeout_ms(source: Source) -> int:
    """Returns how long a controller may take."""
    return round(source.cluster.timeout_s * 1000)


class Copy(NamedTuple):
    """The replica on a broker to which a partition moves: how large its log is, and the leader's; None if not known."""

    broker: int
    is_in_sync: bool
    size_bytes: int | None
    of_bytes: int | None

    @property
    def percent(self) -> int | None:
        """The share of it that there is, in percent, and never 100 before it is in sync."""
        if self.size_bytes is None or not self.of_bytes:
            return None
        return min(99, 100 * self.size_bytes // self.of_bytes)


def copies(source: Source, moving: Sequence[Moving]) -> tuple[dict[Partition, list[Copy]], list[str]]:
    """Returns how far each of the replicas that come is, and notes of brokers that did not answer."""
    metadata = source.summary().metadata
    known = {
        one.partition: metadata.topics[one.partition.topic].partitions[one.partition.number]
        for one in moving
        if one.partition.topic in metadata.topics and one.partition.number in metadata.topics[one.partition.topic].partitions
    }
    wanted: dict[int, dict[str, list[int]]] = {}
    for one in moving:
        leader = known[one.partition].leader if one.partition in known else -1
        for broker in (leader, *one.adding):
            if broker >= 0:
                wanted.setdefault(broker, {}).setdefault(one.partition.topic, []).append(one.partition.number)
    sizes: dict[int, dict[Partition, int]] = {}
    notes = []
    with Brokers(source.cluster, metadata) as brokers:
        for broker, partitions in wanted.items():
            try:
                sizes[broker] = direct.log_sizes(brokers.at(broker), partitions)
            except Failure as failure:
                notes.append(f"how far the copies of broker {broker} are is not known: {failure}")

    def copy(partition: Partition, broker: int) -> Copy:
        there = known.get(partition)
        of_bytes = None if there is None else sizes.get(there.leader, {}).get(partition)
        in_sync = there is not None and broker in there.isrs
        return Copy(broker, in_sync, sizes.get(broker, {}).get(partition), of_bytes)

    return {one.partition: [copy(one.partition, broker) for broker in one.adding] for one in moving}, notes


def replicas(source: Source, topic: str) -> dict[int, tuple[int, ...]]:
    """Returns the replicas of each partition of a topic as the metadata say. Raises Failure if it has gone."""
    found = source.summary().metadata.topics.get(topic)
    if found is None:
        raise Failure(f"topic {topic} has gone")
    return {number: tuple(one.replicas) for number, one in sorted(found.partitions.items())}


def sizes(source: Source, topic: str, numbers: Sequence[int]) -> tuple[dict[int, int], list[str]]:
    """Returns the bytes of the leaders' logs of these partitions as far as they are known, and notes."""
    there = source.summary().metadata.topics[topic].partitions
    found, notes = source.sizes({topic: [there[number] for number in numbers if number in there]})
    return {partition.number: size for partition, size in found.items()}, notes


def move(source: Source, topic: str, plan: Plan) -> None:
    """Has the partitions of a topic move to these brokers. Raises Failure, which says how many do all the same."""
    _reassign(source, {Partition(topic, number): to for number, to in plan.items()})


def cancel(source: Source, moving: Sequence[Moving]) -> None:
    """Has these partitions stay where they were. Raises Failure, which says how many do all the same."""
    _reassign(source, dict.fromkeys([one.partition for one in moving]))


def _reassign(source: Source, wanted: Mapping[Partition, Sequence[int] | None]) -> None:
    with controller(source) as asked:
        refused = reassignments.reassign(asked, _timeout_ms(source), wanted)
    if refused:
        few = "; ".join(f"{partition}: {why}" for partition, why in list(refused.items())[:3])
        more = f"; and {len(refused) - 3} more" if len(refused) > 3 else ""
        taken = f"the cluster took {len(wanted) - len(refused)} of {len(wanted)} partitions; not " if len(wanted) > 1 else ""
        raise Failure(f"{taken}{few}{more}")

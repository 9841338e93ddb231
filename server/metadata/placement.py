"""Chooses the brokers that hold a new partition's replicas.

Brokers with racks take turns rack by rack, so that a partition's replicas lie in as many racks as possible; within a rack brokers
take turns, too. Each partition continues where the one before stopped, with a random start for each topic, which spreads leaders.
Fenced brokers get replicas only after all others, and never lead. Brokers whose log directories are all cordoned get none. With
one broker all of this is one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from random import Random

from ottla.server.metadata.image import BrokerImage
from ottla.server.metadata.operation import Refused
from ottla.wire.errors import ErrorCode


def place(
    brokers: Mapping[int, BrokerImage], partition_count: int, replication_factor: int, random: Random
) -> list[tuple[int, ...]]:
    """Returns the replicas of each new partition, the preferred leader first. Raises Refused with 38
    INVALID_REPLICATION_FACTOR."""
    if replication_factor > len(brokers):
        raise _too_few(replication_factor, f"the cluster has {len(brokers)} broker(s)")
    open_ones = [broker for broker in brokers.values() if not broker.cordoned]
    usable = _interleaved(broker for broker in open_ones if not broker.fenced)
    if not usable:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR, "No broker can lead a partition: all are fenced or have cordoned.log.dirs."
        )
    if replication_factor > len(open_ones):
        raise _too_few(replication_factor, f"{len(open_ones)} broker(s) have a log directory that is not in cordoned.log.dirs")
    fenced = _interleaved(broker for broker in open_ones if broker.fenced)
    start = random.randrange(len(usable))
    placed = []
    for index in range(start, start + partition_count):
        # Each full round shifts the followers by one more, or the same two brokers would always share their partitions.
        shift = (index - start) // len(usable)
        turn = index % len(usable)
        others = usable[turn + 1 :] + usable[:turn]
        rotated = others[shift % len(others) :] + others[: shift % len(others)] if others else []
        placed.append(tuple([usable[turn], *rotated, *fenced][:replication_factor]))
    return placed


def _too_few(wanted: int, there: str) -> Refused:
    return Refused(ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor {wanted} is too large: {there}.")


def _interleaved(brokers: Iterable[BrokerImage]) -> list[int]:
    """Returns the ids of the brokers, one from each rack in turn."""
    racks: dict[str, list[int]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack or "", []).append(broker.broker_id)
    columns = [sorted(ids) for _, ids in sorted(racks.items())]
    return [broker_id for row in zip_longest(*columns) for broker_id in row if broker_id is not None]


def check_assignment(brokers: Mapping[int, BrokerImage], replicas: Sequence[int], replication_factor: int | None) -> None:
    """Checks the replicas that a client chose. `replication_factor` is that of the topic's other partitions, None for the first.

    Raises Refused with 39 INVALID_REPLICA_ASSIGNMENT.
    """
    reason = None
    if not replicas:
        reason = "A manual assignment needs at least one replica."
    else:
        unknown = next((broker_id for broker_id in sorted(replicas) if broker_id not in brokers), None)
        if unknown is not None:
            reason = f"The manual assignment {list(replicas)} names broker {unknown}, which does not exist."
        elif any(brokers[broker_id].cordoned for broker_id in replicas):
            reason = f"The manual assignment {list(replicas)} names a broker whose log directories are all cordoned."
        elif len(set(replicas)) != len(replicas):
            reason = f"The manual assignment {list(replicas)} has the same broker twice."
        elif replication_factor is not None and len(replicas) != replication_factor:
            reason = f"{len(replicas)} replicas are assigned where the other partitions have {replication_factor}."
        elif not any(brokers[broker_id].active for broker_id in replicas):
            reason = f"Every broker of the manual assignment {list(replicas)} is fenced or stopping."
    if reason is not None:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)

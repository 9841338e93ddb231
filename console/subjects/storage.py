"""The places where the brokers keep their logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.commands.clients import direct
from ottla.commands.clients.brokers import Brokers, check
from ottla.commands.clients.partition import Partition
from ottla.commands.output import Failure
from ottla.console.cluster.source import Source
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest


class Replica(NamedTuple):
    """A log in a directory. `offset_lag` is how far it is behind; `is_future` says that it will replace the one elsewhere."""

    partition: Partition
    size_bytes: int
    offset_lag: int
    is_future: bool


class Directory(NamedTuple):
    """A log directory of a broker. `problem` says why it is offline; sizes of the disk are None if the broker does not tell."""

    broker: int
    path: str
    problem: str | None
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool
    replicas: Sequence[Replica]

    @property
    def used_bytes(self) -> int | None:
        """Returns how much of the disk is in use, by whatever it is."""
        return None if self.total_bytes is None or self.usable_bytes is None else max(0, self.total_bytes - self.usable_bytes)

    @property
    def is_nearly_full(self) -> bool:
        """Returns whether less than a twentieth of the disk is free."""
        return self.total_bytes is not None and self.usable_bytes is not None and self.usable_bytes * 20 < self.total_bytes

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.replicas)

    @property
    def futures(self) -> int:
        return sum(one.is_future for one in self.replicas)


def directories(source: Source, broker: int | None = None, *, with_replicas: bool = True) -> tuple[list[Directory], list[str]]:
    """Returns the log directories of all brokers or one, and notes of brokers that did not answer. Raises Refused, Unsupported
    if none did. Without replicas, each directory is as if it had none, and the answer is short."""
    summary = source.summary()
    found: list[Directory] = []
    notes: list[str] = []
    failures: list[Failure] = []
    asked = [node.number for node in summary.nodes if broker in {None, node.number}]
    with Brokers(source.cluster, summary.metadata) as brokers:
        for number in asked:
            try:
                answer = brokers.at(number).call(DescribeLogDirsRequest(None if with_replicas else []))
                check(answer.error_code)
            except Failure as failure:
                failures.append(failure)
                notes.append(f"the directories of broker {number} are not known: {failure}")
                continue
            found += [_directory(number, one) for one in answer.results]
    if failures and len(failures) == len(asked):
        raise failures[0]
    return found, notes


def _directory(broker: int, result: Any) -> Directory:
    return Directory(
        broker,
        result.log_dir,
        direct.words(result.error_code) if result.error_code else None,
        result.total_bytes if result.total_bytes >= 0 else None,
        result.usable_bytes if result.usable_bytes >= 0 else None,
        result.is_cordoned,
        [
            Replica(Partition(topic.name, each.partition_index), each.partition_size, each.offset_lag, each.is_future_key)
            for topic in result.topics
            for each in topic.partitions
        ],
    )

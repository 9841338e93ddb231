"""Checks of what share groups are given (KIP-932): a record again and again until somebody settles it, and never after that.

redelivered          a record was acquired after somebody's accept, or reject, of it was answered without an error
delivered-too-often  a record was acquired more often than the group's limit says, or the number of its delivery is none
undelivered          a record that nobody of the group has settled, and that was not delivered as often as the limit says,
                     although the group was drained at the end

A release, and the end of a lock, make a record available again. An acquisition whose answer was lost counts as a delivery of
everything, since nobody knows of what. A settlement that certainly failed counts for nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compat_tests.anomalies.history import ACCEPT, REJECT, Key, Operation
from compat_tests.anomalies.records import Anomaly, Records

Place = tuple[str, Key, int]
"""A group, a key and an offset."""


def check_shares(records: Records) -> Iterator[Anomaly]:
    groups = _Groups(records.operations)
    yield from too_often(records)
    yield from redelivered(groups)
    yield from undelivered(records, groups)


class _Groups:
    """The records that the groups of a history acquired and settled."""

    def __init__(self, operations: list[Operation]) -> None:
        self.acquired: dict[Place, list[Operation]] = defaultdict(list)
        self.counts: dict[Place, int] = defaultdict(int)
        """The greatest number of a delivery."""
        self.settled: dict[Place, list[Operation]] = defaultdict(list)
        """The operations that accepted or rejected a record, except those that certainly failed."""
        self.lost: dict[str, int] = defaultdict(int)
        """The number of a group's acquisitions whose answer nobody knows."""
        self.limits: dict[str, int] = {}
        for operation in operations:
            if operation.f == "acquire":
                self._take_acquired(operation)
            elif operation.f == "settle" and not operation.failed:
                self._take_settled(operation)

    def _take_acquired(self, operation: Operation) -> None:
        group = operation.fields["group"]
        self.limits[group] = operation.fields["limit"]
        self.lost[group] += operation.outcome == "info"
        for key, offset, count in _counts(operation):
            self.acquired[group, key, offset].append(operation)
            self.counts[group, key, offset] = max(count, self.counts[group, key, offset])

    def _take_settled(self, operation: Operation) -> None:
        for key, settled in operation.fields["settled"].items():
            for offset, kind in settled:
                if kind in (ACCEPT, REJECT):
                    self.settled[operation.fields["group"], key, offset].append(operation)


def _counts(operation: Operation) -> Iterator[tuple[Key, int, int]]:
    for key, deliveries in operation.fields.get("counts", {}).items():
        for offset, count in deliveries:
            yield key, offset, count


def too_often(records: Records) -> Iterator[Anomaly]:
    for operation in records.operations:
        for key, offset, count in _counts(operation):
            if not 1 <= count <= operation.fields["limit"]:
                where = f"{operation.fields['group']}/{key}"
                yield Anomaly("delivered-too-often", where, f"offset {offset} for the {count}th time by {operation}")


def redelivered(groups: _Groups) -> Iterator[Anomaly]:
    for (group, key, offset), settlements in groups.settled.items():
        settled = min((each for each in settlements if each.ok), key=lambda each: each.completed, default=None)
        if settled is None:
            continue
        for acquisition in groups.acquired[group, key, offset]:
            if acquisition.invoked > settled.completed:
                yield Anomaly("redelivered", f"{group}/{key}", f"offset {offset} was acquired by {acquisition}, after {settled}")
                break


def undelivered(records: Records, groups: _Groups) -> Iterator[Anomaly]:
    for drain in records.operations:
        if drain.f != "drain" or not drain.ok:
            continue
        group = drain.fields["group"]
        for key in drain.fields["keys"]:
            seen = records.anyhow[key]
            for value in seen.final or ():
                for offset in seen.values[value]:
                    delivered = groups.counts[group, key, offset]
                    if groups.settled[group, key, offset] or delivered + groups.lost[group] >= groups.limits.get(group, 1):
                        continue
                    what = f"{value} at offset {offset} was delivered {delivered} times, and nobody settled it before {drain}"
                    yield Anomaly("undelivered", f"{group}/{key}", what)

"""Checks of what the cluster keeps beside records, and that it goes on at all.

lost-commit      a group's committed offset is one that a later commit, which was acknowledged, had replaced
phantom-offset   a group's committed offset that nobody committed, or whose commit certainly failed
zombie-write     a producer's transaction, or its write, succeeded after another had taken over its transactional id
lost-topic       a topic that was created, and not deleted, is not there
undead-topic     a topic that was deleted is there
stuck            a client could do nothing after all was repaired, or the last read did not get to the end
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from compat_tests.anomalies.history import NEVER, OF_CLIENTS_ONLY, Operation
from compat_tests.anomalies.records import Anomaly

_NONE = -1


def check_state(operations: list[Operation], stuck_ns: int) -> Iterator[Anomaly]:
    yield from group_offsets(operations)
    yield from zombies(operations)
    yield from topics(operations)
    yield from stuck(operations, stuck_ns)


# Groups


def group_offsets(operations: Iterable[Operation]) -> Iterator[Anomaly]:
    """Each read of a committed offset must find a commit that may have been the last one: a register, checked read by read."""
    commits: dict[tuple[str, str], list[tuple[int, Operation]]] = defaultdict(list)
    reads: list[tuple[tuple[str, str], int, Operation]] = []
    for operation in operations:
        if "offsets" not in operation.fields or "group" not in operation.fields:
            continue
        for key, offset in operation.fields["offsets"].items():
            register = operation.fields["group"], key
            if operation.f in ("commit", "txn"):
                commits[register].append((offset, operation))
            elif operation.ok:
                reads.append((register, offset, operation))
    for register, offset, read in reads:
        yield from _check_read(register, offset, read, commits[register])


def _check_read(
    register: tuple[str, str], offset: int, read: Operation, commits: list[tuple[int, Operation]]
) -> Iterator[Anomaly]:
    where = f"{register[0]}/{register[1]}"
    certain = [by for _, by in commits if by.ok and by.completed < read.invoked]
    sources = [by for value, by in commits if value == offset and not by.failed and by.invoked < read.completed]

    def replaced(source: Operation) -> bool:
        return any(source.settled < other.invoked for other in certain)

    if offset == _NONE:
        if certain:
            yield Anomaly("lost-commit", where, f"no offset was found by {read}, after {certain[-1]}")
    elif not sources:
        yield Anomaly("phantom-offset", where, f"{offset} was found by {read}")
    elif all(map(replaced, sources)):
        yield Anomaly("lost-commit", where, f"{offset} was found by {read}, after {certain[-1]}")


# Producers


def zombies(operations: Iterable[Operation]) -> Iterator[Anomaly]:
    listed = list(operations)
    inits: dict[str, list[Operation]] = defaultdict(list)
    for operation in listed:
        if operation.f == "init" and operation.ok:
            inits[operation.fields["transactional_id"]].append(operation)
    for operation in listed:
        if operation.f != "txn" or not operation.ok:
            continue
        known = inits[operation.fields["transactional_id"]]
        own = max((each for each in known if each.process == operation.process and each.completed < operation.invoked),
                  key=lambda each: each.completed, default=None)  # fmt: skip
        if own is None:
            continue
        for other in known:
            if other.process != operation.process and other.invoked > own.completed and other.completed < operation.invoked:
                what = f"{operation} succeeded after {other}"
                yield Anomaly("zombie-write", operation.fields["transactional_id"], what)
                break


# Topics


def topics(operations: Iterable[Operation]) -> Iterator[Anomaly]:
    """Each topic is created once and deleted once at most."""
    listed = list(operations)
    created = {each.fields["topic"]: each for each in listed if each.f == "create"}
    deleted = {each.fields["topic"]: each for each in listed if each.f == "delete"}
    for read in listed:
        if read.f != "topics" or not read.ok:
            continue
        names = set(read.fields["names"])
        for topic, creation in created.items():
            deletion = deleted.get(topic)
            if creation.ok and creation.completed < read.invoked and topic not in names:
                if deletion is None or deletion.failed or deletion.invoked > read.completed:
                    yield Anomaly("lost-topic", topic, f"not found by {read}, after {creation}")
            elif topic in names and deletion is not None and deletion.ok and deletion.completed < read.invoked:
                yield Anomaly("undead-topic", topic, f"found by {read}, after {deletion}")


# Liveness


def stuck(operations: list[Operation], stuck_ns: int) -> Iterator[Anomaly]:
    """After `heal`, every process that tries something must succeed once, and nothing may take longer than `stuck_ns`."""
    healed = next((each for each in operations if each.f == "heal"), None)
    for operation in operations:
        if operation.fields.get("final") and not operation.ok:
            yield Anomaly("stuck", ", ".join(operation.fields.get("keys", ())) or "the last read", f"not finished: {operation}")
    if healed is None or not operations:
        return
    crashed = {each.process for each in operations if each.f == "crash"}
    end_ns = max(max(each.began_ns, each.ended_ns if each.ended_ns < NEVER else 0) for each in operations)
    tried: dict[int, list[Operation]] = defaultdict(list)
    for operation in operations:
        if operation.invoked > healed.invoked and operation.process not in crashed and operation.f not in OF_CLIENTS_ONLY:
            tried[operation.process].append(operation)
    for process, attempts in tried.items():
        began_ns = min(each.began_ns for each in attempts)
        if not any(each.ok for each in attempts) and end_ns - began_ns > stuck_ns:
            yield Anomaly("stuck", f"process {process}", f"nothing succeeded after all was repaired: {attempts[-1]}")
        for each in attempts:
            if min(each.ended_ns, end_ns) - each.began_ns > stuck_ns:
                yield Anomaly("stuck", f"process {process}", f"it took too long: {each}")

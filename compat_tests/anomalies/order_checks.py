"""Checks of the order in which things are seen.

poll-skip               a reader passed over a record that others read, from one poll to the next
int-poll-skip           the same within one operation
nonmonotonic-poll       a reader went back, although nothing moved its position
int-nonmonotonic-poll   the same within one operation
nonmonotonic-send       a producer's later write got a lower offset
int-nonmonotonic-send   the same within one operation
hw-backwards            the high watermark was lower than it had been before
lso-backwards           the same of the last stable offset
lso-beyond-hw           the last stable offset was above the high watermark
G1c                     a circle of transactions, each of which read what the one before it wrote
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from compat_tests.anomalies.history import Key, Operation
from compat_tests.anomalies.records import Anomaly, Records


def check_order(records: Records) -> Iterator[Anomaly]:
    yield from polls(records)
    yield from sends(records)
    yield from ends(records)
    yield from circles(records)


# Readers


def polls(records: Records) -> Iterator[Anomaly]:
    visible = {True: _visible(records, committed=True), False: _visible(records, committed=False)}
    last: dict[tuple[int, Key], tuple[int, int]] = {}  # (process, key) -> (offset, number of the operation)
    for operation in _by_completion(records):
        if operation.f == "assign":
            for place in [place for place in last if place[0] == operation.process]:
                del last[place]
            for key, position in operation.fields["positions"].items():
                last[operation.process, key] = (position - 1, operation.number)
            continue
        if operation.f == "acquire":
            continue  # share groups are given records in any order, and again
        offsets = visible[operation.reads_committed]
        for key, polled in operation.polls:
            for offset, _ in polled:
                before, by = last.get((operation.process, key), (None, 0))
                if before is not None:
                    within = "int-" if by == operation.number else ""
                    yield from _step(records, key, within, before, offset, offsets.get(key, []), operation)
                last[operation.process, key] = (offset, operation.number)


def _step(
    records: Records, key: Key, within: str, before: int, offset: int, visible: list[int], reader: Operation
) -> Iterator[Anomaly]:
    if offset <= before:
        yield Anomaly(f"{within}nonmonotonic-poll", key, f"from {before} to {offset}, by {reader}")
    elif key not in records.compacted:
        first = max(before + 1, records.trimmed.get(key, 0))
        passed = visible[bisect_left(visible, first) : bisect_left(visible, offset)]
        if passed:
            yield Anomaly(f"{within}poll-skip", key, f"from {before} to {offset}, past {passed}, by {reader}")


def _visible(records: Records, *, committed: bool) -> dict[Key, list[int]]:
    return {key: sorted(seen.offsets) for key, seen in (records.committed if committed else records.anyhow).items()}


def _by_completion(records: Records) -> list[Operation]:
    """Returns what each reader did and learned, in the order in which it learned it. A transaction has read what it read, also if
    it was aborted.
    """
    learned = [each for each in records.operations if each.f in ("assign", "poll", "txn") and (each.ok or each.f == "txn")]
    return sorted(learned, key=lambda each: each.completed)


# Producers


def sends(records: Records) -> Iterator[Anomaly]:
    done: dict[tuple[int, Key], list[tuple[int, Operation]]] = defaultdict(list)
    for operation in records.operations:
        if not operation.ok:
            continue
        own: dict[Key, int] = {}
        for key, offset, value in operation.sends:
            if offset is None:
                continue
            if offset <= own.get(key, -1):
                yield Anomaly("int-nonmonotonic-send", key, f"{value} at {offset}, after {own[key]}; {operation}")
            own[key] = offset
        for key, offset in own.items():
            earlier = done[operation.process, key]
            for before, by in earlier[-8:]:  # more than can be under way at once
                ordered = by.completed < operation.invoked or (operation.fields.get("idempotent") and by.fields.get("idempotent"))
                if before > offset and ordered:
                    yield Anomaly("nonmonotonic-send", key, f"{offset} in {operation}, after {before} in {by}")
            earlier.append((offset, operation))


# Watermarks


def ends(records: Records) -> Iterator[Anomaly]:
    reads = [each for each in records.operations if each.ok and "ends" in each.fields]
    known: dict[tuple[Key, int], tuple[int, Operation]] = {}  # the highest that was read and completed before this one
    moments = [(each.invoked, 0, each) for each in reads] + [(each.completed, 1, each) for each in reads]
    bound: dict[int, dict[tuple[Key, int], tuple[int, Operation]]] = {}
    for _, completed, operation in sorted(moments, key=lambda moment: moment[:2]):
        if not completed:
            bound[operation.number] = {
                (key, which): known[key, which] for key in operation.fields["ends"] for which in (0, 1) if (key, which) in known
            }
            continue
        for key, (high_watermark, stable) in operation.fields["ends"].items():
            if stable > high_watermark:
                yield Anomaly("lso-beyond-hw", key, f"{stable} above {high_watermark}, read by {operation}")
            for which, name, offset in ((0, "hw-backwards", high_watermark), (1, "lso-backwards", stable)):
                before = bound[operation.number].get((key, which))
                if before is not None and offset < before[0]:
                    yield Anomaly(name, key, f"{offset} read by {operation}, after {before[0]} by {before[1]}")
                if (key, which) not in known or known[key, which][0] < offset:
                    known[key, which] = (offset, operation)


# Transactions


def circles(records: Records) -> Iterator[Anomaly]:
    """Looks for G1c: only reads count, because the order of writes of transactions that overlap is free (G0 is legal)."""
    readers: dict[int, set[int]] = defaultdict(set)
    by_number = {each.number: each for each in records.operations if each.f == "txn"}
    for reader in by_number.values():
        for key, polled in reader.polls:
            for _, value in polled:
                writer = records.writers.get((key, value))
                if writer is not None and writer.f == "txn" and writer is not reader:
                    readers[writer.number].add(reader.number)
    for circle in strongly_connected(readers):
        what = "; ".join(str(by_number[number]) for number in sorted(circle))
        yield Anomaly("G1c", "transactions", f"{len(circle)} read each other's writes: {what}")


def strongly_connected(edges: dict[int, set[int]]) -> Iterator[list[int]]:
    """Yields the strongly connected components of two nodes and more (Tarjan's algorithm, with a stack of its own)."""
    found: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in list(edges):
        if root in found:
            continue
        path = [(root, iter(sorted(edges.get(root, ()))))]
        found[root] = low[root] = len(found)
        stack.append(root)
        on_stack.add(root)
        while path:
            node, following = path[-1]
            for other in following:
                if other not in found:
                    found[other] = low[other] = len(found)
                    stack.append(other)
                    on_stack.add(other)
                    path.append((other, iter(sorted(edges.get(other, ())))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], found[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == found[node]:
                    cut = stack.index(node)
                    component, stack[cut:] = stack[cut:], []
                    on_stack.difference_update(component)
                    if len(component) > 1:
                        yield component

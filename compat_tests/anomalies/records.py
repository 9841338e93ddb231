"""Facts of a history that every check needs: who wrote which value, who read it, and where it lies.

The values of a key are unique, so a value names its writer. The version order of a key is its offsets; gaps in it are legal
(markers, aborted records, compaction).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from compat_tests.anomalies.history import Key, Operation


class Anomaly(NamedTuple):
    """Something that must not happen. `name` is the kind, `where` is the key, group or topic, `what` is a sentence for people."""

    name: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.name} at {self.where}: {self.what}"


class Seen:
    """The values of one key that readers of one isolation saw."""

    __slots__ = ("final", "offsets", "readers", "values")

    def __init__(self) -> None:
        self.values: dict[int, set[int]] = defaultdict(set)
        """The offsets at which a value was seen."""
        self.offsets: dict[int, int] = {}
        """A value that was seen at an offset."""
        self.readers: dict[int, Operation] = {}
        """The operation that was the first to see a value."""
        self.final: set[int] | None = None
        """The values of the whole read at the end; None if there was none."""

    @property
    def highest(self) -> int:
        return max(self.offsets, default=-1)


class Records:
    """The writes and reads of a history. `compacted` names the keys whose records may be replaced by later ones; two values have
    the same record key if they leave the same remainder.
    """

    def __init__(self, operations: Iterable[Operation], compacted: Mapping[Key, int]) -> None:
        self.operations = list(operations)
        self.compacted = compacted
        self.writers: dict[tuple[Key, int], Operation] = {}
        self.sent_at: dict[tuple[Key, int], int] = {}
        self.committed: dict[Key, Seen] = defaultdict(Seen)
        self.anyhow: dict[Key, Seen] = defaultdict(Seen)
        """The records that anybody saw, with whatever isolation."""
        self.trimmed: dict[Key, int] = {}
        for operation in self.operations:
            self._take_sends(operation)
            self._take_polls(operation)
            if operation.f == "trim":
                for key, offset in operation.fields["offsets"].items():
                    self.trimmed[key] = max(offset, self.trimmed.get(key, 0))

    def _take_sends(self, operation: Operation) -> None:
        for key, offset, value in operation.sends:
            self.writers[key, value] = operation
            if offset is not None:
                self.sent_at[key, value] = offset

    def _take_polls(self, operation: Operation) -> None:
        final = operation.fields.get("final") and operation.ok
        for key, records in operation.polls:
            seens = [self.committed[key]] if operation.reads_committed else []
            if not final or not operation.reads_committed:  # the final read of all is the one that skips nothing
                seens.append(self.anyhow[key])
            for seen in seens:
                if final:
                    seen.final = {value for _, value in records} | (seen.final or set())
                for offset, value in records:
                    seen.values[value].add(offset)
                    seen.offsets.setdefault(offset, value)
                    seen.readers.setdefault(value, operation)

    def may_be_gone(self, key: Key, value: int, offset: int | None, seen: Seen) -> bool:
        """Returns whether a record may have been deleted, or replaced by a later one of its record key."""
        if key in self.trimmed and (offset is None or offset < self.trimmed[key]):
            return True
        modulus = self.compacted.get(key)
        if modulus is None:
            return False
        return any(
            (offset is None or later > offset) and other % modulus == value % modulus and other != value
            for later, other in seen.offsets.items()
        )

"""The writes that a broker acknowledged during a soak, and whether they are there: with what retention and compaction may take
away.

| kept | what may be gone |
|---|---|
| records of a topic with retention.ms | those that are older, and stand below the start of the log |
| records of a topic with retention.bytes | those below the start, if what stands above it has that many bytes |
| the last value of a key | nothing; a tombstone that is the last may be there or not |
| transactions | whole ones that are older than retention.ms |
| a committed offset, created topics | nothing |

What was asked for and never answered (the broker died) may be there or not. The first broken promise is an AssertionError.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from scripts.soak.client import Found


@dataclass(frozen=True)
class Kept:
    """An acknowledged record."""

    value: bytes
    at_ms: int


@dataclass
class Log:
    """A partition whose old segments are deleted: by age, or by size."""

    topic: str
    retention_ms: int = -1
    retention_bytes: int = -1
    records: dict[int, Kept] = field(default_factory=dict)
    gone: int = 0
    """The number of records that retention took away."""

    def check(self, start: int, end: int, found: Sequence[Found], now_ms: int) -> None:
        there = {record.offset: record.value for record in found}
        for offset, kept in self.records.items():
            assert offset < end, f"{self.topic}: {offset} was acknowledged, and the log ends at {end}"
            if offset >= start:
                assert there.get(offset) == kept.value, (
                    f"{self.topic}: {_short(there.get(offset))} at {offset}, not {_short(kept.value)}"
                )
            elif self.retention_ms >= 0:
                age = now_ms - kept.at_ms
                assert age > self.retention_ms, f"{self.topic}: {offset} is gone after {age} ms of {self.retention_ms}"
        dropped = [offset for offset in self.records if offset < start]
        if dropped and self.retention_bytes >= 0:
            size = sum(len(kept.value) for offset, kept in self.records.items() if offset >= start)
            # Headers count on disk and not here; they are few beside the values.
            assert size * 1.05 >= self.retention_bytes, f"{self.topic}: {size} bytes are left of {self.retention_bytes}"
        for offset in dropped:
            del self.records[offset]
        self.gone += len(dropped)


@dataclass
class Keys:
    """A compacted partition."""

    topic: str
    last: dict[bytes, bytes | None] = field(default_factory=dict)
    """The last acknowledged value of each key; None is a tombstone."""
    asked: dict[bytes, set[bytes | None]] = field(default_factory=lambda: defaultdict(set))
    """The values that were asked for later and not acknowledged."""

    def acknowledged(self, key: bytes, value: bytes | None) -> None:
        self.last[key] = value
        self.asked.pop(key, None)

    def check(self, found: Sequence[Found]) -> None:
        there = {record.key: record.value for record in found}
        for key, value in self.last.items():
            allowed = {value} | self.asked.get(key, set())
            assert there.get(key) in allowed, f"{self.topic}: {_short(there.get(key))} for {key!r}, not {_short(value)}"


@dataclass
class Transactions:
    """Transactions of PARTS records each, `name part`, of which readers of committed records see all or none."""

    topic: str
    retention_ms: int
    parts: int
    ended: dict[str, tuple[bool | None, int]] = field(default_factory=dict)
    """Its name -> (committed; None if nobody knows, when it began)."""

    def check(self, found: Sequence[Found], now_ms: int) -> None:
        seen: dict[str, list[str]] = defaultdict(list)
        for record in found:
            name, part = (record.value or b" ").decode().split(" ")[:2]
            seen[name].append(part)
        whole = [str(part) for part in range(self.parts)]
        for name, (committed, at_ms) in list(self.ended.items()):
            if committed is False:
                assert name not in seen, f"{self.topic}: {name} was aborted, and is read"
            if now_ms - at_ms > self.retention_ms:
                if name not in seen:
                    del self.ended[name]
                continue
            if committed or (committed is None and name in seen):
                assert seen.get(name) == whole, f"{self.topic}: {name} has the parts {seen.get(name)}"


@dataclass
class Topics:
    """Topics that are created and deleted."""

    there: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    """Asked to be created or deleted, without an answer."""

    def check(self, names: set[str]) -> None:
        missing = set(self.there) - names - self.unknown
        assert not missing, f"topics are gone: {sorted(missing)}"
        back = (self.gone & names) - self.unknown
        assert not back, f"deleted topics are there: {sorted(back)}"


@dataclass
class Committed:
    """The offset that a group committed."""

    acknowledged: int = -1
    asked: int = -1

    def check(self, offset: int) -> None:
        assert self.acknowledged <= offset <= self.asked, f"committed {self.acknowledged} to {self.asked}, and there is {offset}"


def now_ms() -> int:
    return int(time.time() * 1000)


def _short(value: bytes | None) -> str:
    return "nothing" if value is None else repr(value[:24])

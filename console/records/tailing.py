"""The rows that a live tail shows of what comes: so many rows a second, and the count of those that were not shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.console.records.filters import Filter
from ottla.console.records.reading import Reader, Record, brief_of
from ottla.console.rendering.templates import when
from ottla.console.rendering.text import preview, visible

if TYPE_CHECKING:
    from confluent_kafka import Message

    from ottla.console.running.streams import Outlet

ROWS_A_SECOND: Final = 50
COUNTS_EVERY_S: Final = 0.5
"""The seconds after which the counts are sent again while no row is."""


class Tail:
    """Follows partitions for one browser. `clock` counts seconds."""

    def __init__(self, reader: Reader, wanted: Filter, starts: Mapping[int, int], clock: Callable[[], float]) -> None:
        self._reader = reader
        self._wanted = wanted
        self._next = dict(starts)
        self._clock = clock
        self._shown_at: deque[float] = deque(maxlen=ROWS_A_SECOND)
        self._said_at = clock()
        self.came = 0
        self.left_out = 0
        """The number of records that fitted and were not shown."""
        self._is_news = False

    def run(self, outlet: Outlet) -> None:
        """Puts events into the outlet until it is over. Raises Failure."""
        for batch in self._reader.follow(self._next, lambda: outlet.is_over, outlet.rest):
            self.take(batch, outlet)

    def take(self, batch: Sequence[Message], outlet: Outlet) -> None:
        """Shows as much of a batch as may be shown now, and counts the rest, until the outlet is over: a filter may take long."""
        now, rows = self._clock(), []
        for message in batch:
            if outlet.is_over:
                return
            self.came += 1
            self._next[message.partition() or 0] = (message.offset() or 0) + 1
            if not self._reader.fits(self._wanted, message):
                continue
            if self._may_show(now):
                rows.append(row_of(brief_of(message, self._reader.decode)))
            else:
                self.left_out += 1
        self._is_news = self._is_news or bool(batch)
        if rows or (self._is_news and now - self._said_at >= COUNTS_EVERY_S):
            self._said_at = now
            event = {"rows": rows, "came": self.came, "left_out": self.left_out}
            if outlet.offer(event, "-".join(f"{number}.{offset}" for number, offset in self._next.items())):
                self._is_news = False
            else:
                self.left_out += len(rows)

    def _may_show(self, now: float) -> bool:
        if len(self._shown_at) == ROWS_A_SECOND and now - self._shown_at[0] <= 1:
            return False
        self._shown_at.append(now)
        return True


def row_of(record: Record) -> list[Any]:
    """Returns a record's partition and offset, and the texts of the other cells of its row."""
    headers = ["not readable"] if record.headers is None else [f"{name}: {_text(value)}" for name, value in record.headers]
    value = _text(record.value) + (f" (not decoded: {record.problem})" if record.problem else "")
    more = [f"and {record.more_headers} more"] if record.more_headers else []
    texts = [when(record.time_ms), _text(record.key), value, "\n".join([*headers, *more])]
    return [record.partition, record.offset, *map(visible, texts)]


def _text(data: bytes | None) -> str:
    it = preview(data)
    return it.kind if it.kind in {"null", "empty"} else it.text + ("…" if it.is_cut else "")

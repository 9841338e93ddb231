"""The stream reader of which Spark 4.2 can request a limited batch (limits.py). Earlier versions lack what it imports."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import (  # type: ignore[import-not-found,unused-ignore]  # Spark may not be installed
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ottla.pipeline.data_source.limits import Ends, limited, with_absent
from ottla.pipeline.data_source.readers import StreamReader


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc,unused-ignore]  # likewise
    """A stream reader whose `latestOffset` has the arguments of Spark 4.2."""

    _target: Ends | None = None
    """The end of a query that reads only what existed when it began; None for other queries."""

    def getDefaultReadLimit(self) -> ReadAllAvailable | ReadMaxRows:
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = super().latestOffset()

    def latestOffset(self, start: Ends, limit: object) -> Ends:  # type: ignore[override]  # as Spark 4.2 calls it
        end = with_absent(super().latestOffset() if self._target is None else self._target, start)
        return limited(start, end, limit.max_rows, self.first_offset) if isinstance(limit, ReadMaxRows) else end

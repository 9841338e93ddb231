"""The readers of `format("ottla")`: Spark asks a reader for the tasks of a query, and passes each task back to it to be read.

A batch query has a reader of its own; a stream has one object in the driver that plans every micro-batch. Tasks read on Spark's
workers, which get a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from ottla.pipeline.data_source.filters import Pushed
from ottla.pipeline.data_source.limits import Ends, with_absent
from ottla.pipeline.data_source.options import EARLIEST, LATEST, Offsets, Options
from ottla.pipeline.data_source.replicas import Replicas, choose, find_replicas
from ottla.pipeline.data_source.seen import SeenPartitions
from ottla.pipeline.data_source.segments import DataLoss, Place, Slice, SourceError, Wanted, end_offset, offset_at_time, slices
from ottla.pipeline.data_source.worker import lighten

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from ottla.log.partition import PartitionLog

_SEEN_AT_MOST = 128
_SEEN = SeenPartitions(_SEEN_AT_MOST)
"""The partitions of batch queries. The worker of Spark that plans these lives on for the session's next query."""


class Part(InputPartition):
    """The slice that one task reads."""

    def __init__(self, value: Slice) -> None:
        super().__init__(value)


def wanted_partitions(options: Options) -> list[Replicas]:
    """Returns the wanted partitions, each with its replicas. Raises SourceError if a topic that is named does not exist."""
    found = find_replicas(options.path, options.wants_topic)
    if options.topics is not None:
        found = [one for one in found if one.topic in options.topics]
        if missing := options.topics - {one.topic for one in found}:
            raise SourceError(f"{options.path} has no topic {', '.join(sorted(missing))}")
    return [one for one in found if options.wants_partition(one.partition)]


def _resolve(log: PartitionLog, offset: int, end: int) -> int:
    return log.log_start_offset if offset == EARLIEST else end if offset == LATEST else offset


def _start(log: PartitionLog, options: Options, default: int) -> int:
    """Returns the offset at which reading begins. Raises SourceError if the given offset does not exist."""
    end = end_offset(log, options.committed)
    if options.starting_timestamp is not None:
        found = offset_at_time(log, options.starting_timestamp, options.max_batch_bytes)
        return end if found is None else found
    offset = _resolve(log, (options.starting or Offsets(default)).offset_of(log.topic, log.partition), end)
    if options.starting is not None and not log.log_start_offset <= offset <= log.log_end_offset:
        if options.fail_on_data_loss:
            raise SourceError(
                f"{log.topic}-{log.partition} has offsets from {log.log_start_offset} to below {log.log_end_offset}, not "
                f"{offset}, and failOnDataLoss is true"
            )
        return min(max(offset, log.log_start_offset), end)
    return offset


def _wanted(log: PartitionLog, options: Options) -> Wanted:
    """Returns the part of a partition that a batch query wants."""
    high = end = end_offset(log, options.committed)
    if options.ending_timestamp is not None:
        found = offset_at_time(log, options.ending_timestamp, options.max_batch_bytes)
        high = end if found is None else found
    elif options.ending is not None:
        high = _resolve(log, options.ending.offset_of(log.topic, log.partition), end)
    return Wanted(_start(log, options, EARLIEST), high, options.earliest, options.latest, options.committed)


def _read(part: InputPartition | None, columns: Sequence[str], options: Options) -> Iterator[RecordBatch]:
    # imported here, because numpy and the kernel are not needed in the driver
    from ottla.pipeline.data_source.columns import read

    try:
        if part is not None:  # Spark passes None if there are no partitions
            yield from read(
                part.value,
                columns,
                fail_on_data_loss=options.fail_on_data_loss,
                max_batch_bytes=options.max_batch_bytes,
            )
    finally:
        lighten()


class Reader(DataSourceReader):
    """Plans and reads a batch query."""

    def __init__(self, options: Options, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns
        self._pushed = Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        options, pushed = self._options, self._pushed
        found: list[InputPartition] = []
        for replicas in wanted_partitions(options):
            if pushed.excludes(replicas.topic, replicas.partition):
                continue
            place = choose(replicas, _SEEN)

            def plan(log: PartitionLog, place: Place = place) -> list[Slice]:
                return slices(log, place, pushed.narrow(_wanted(log, options)), options.split_bytes)

            found += [Part(one) for one in _SEEN.with_log(place, plan)]
        lighten()
        return found

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return _read(partition, self._columns, self._options)


class FilteringReader(Reader):
    """A reader with the hook for filters of Spark 4.1, which Spark refuses if its configuration does not allow it."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Takes the filters that indexes and exact bounds can answer; yields the others, which Spark evaluates."""
        return [one for one in filters if not self._pushed.take(one)]


class StreamReader(DataSourceStreamReader):
    """Plans and reads a streaming query. One object in the driver plans all micro-batches and remembers the partitions as it last
    saw them."""

    def __init__(self, options: Options, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns
        self._seen = SeenPartitions()
        self._last: Ends = {}
        """The last offsets of every partition that the query has had, including those that are away now."""

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state for the copies that tasks get, which only read."""
        return {"_options": self._options, "_columns": self._columns, "_seen": SeenPartitions(), "_last": {}}

    def initialOffset(self) -> Ends:
        return self._offsets(lambda log: _start(log, self._options, LATEST))

    def latestOffset(self) -> Ends:
        return self._offsets(lambda log: end_offset(log, self._options.committed))

    def first_offset(self, topic: str, partition: str) -> int:
        """Returns the first offset of a partition that did not exist when the query began. One that is gone by now has nothing to
        read."""
        for replicas in wanted_partitions(self._options):
            if (replicas.topic, str(replicas.partition)) == (topic, partition):
                place = choose(replicas, self._seen)
                return int(self._seen.with_log(place, lambda log: log.log_start_offset))
        return 0

    def partitions(self, start: Ends, end: Ends) -> Sequence[InputPartition]:
        options = self._options
        self._last = with_absent(with_absent(self._last, end), start)  # after a restart Spark first asks for (x, x)
        gone = [f"{topic}-{number}" for topic, ends in start.items() for number in ends if number not in end.get(topic, {})]
        if gone and options.fail_on_data_loss:
            raise DataLoss(f"{', '.join(gone)} cannot be found any more, and failOnDataLoss is true")
        found: list[InputPartition] = []
        by_name = {(one.topic, one.partition): one for one in wanted_partitions(options)}
        for topic, ends in end.items():
            for number, high in ends.items():
                low = start.get(topic, {}).get(number, EARLIEST)
                replicas = by_name.get((topic, int(number)))
                if replicas is None:
                    if low != high and options.fail_on_data_loss:
                        raise DataLoss(f"{topic}-{number} was removed before it was read, and failOnDataLoss is true")
                    continue
                if low != high:
                    place = choose(replicas, self._seen)
                    found += [Part(one) for one in self._seen.with_log(place, _between(place, options, low, high))]
        return found

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return _read(partition, self._columns, self._options)

    def _offsets(self, of: Callable[[PartitionLog], int]) -> Ends:
        """Returns an offset of each partition, as `of` gives it; partitions that are not there now keep the last one."""
        found: Ends = {}
        for replicas in wanted_partitions(self._options):
            end = self._seen.with_log(choose(replicas, self._seen), of)
            found.setdefault(replicas.topic, {})[str(replicas.partition)] = end
        self._last = with_absent(found, self._last)
        return self._last


def _between(place: Place, options: Options, low: int, high: int) -> Callable[[PartitionLog], list[Slice]]:
    def plan(log: PartitionLog) -> list[Slice]:
        start, end = log.log_start_offset, log.log_end_offset
        if options.fail_on_data_loss and low > high:
            raise DataLoss(
                f"{place.topic}-{place.partition} was read to below {low} and now ends at {high}: it was cut, or made again, "
                "and failOnDataLoss is true"
            )
        if options.fail_on_data_loss and ((low != EARLIEST and low < start) or high > end):
            raise DataLoss(
                f"{place.topic}-{place.partition} has offsets from {start} to below {end}, and those from {low} to below {high} "
                "are wanted, and failOnDataLoss is true"
            )
        wanted = Wanted(max(low, 0), high, options.earliest, options.latest, options.committed)
        return slices(log, place, wanted, options.split_bytes)

    return plan

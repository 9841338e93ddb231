"""A job's checkpoint directory, and the files in it besides Spark's own that make a repeated micro-batch the same.

    <sink>/                  Spark's checkpoint of the query into that sink
    <sink>/_ottla.json       for a topic: with how many tasks the query writes, however many partitions the topic gets later
    _ottla/<table>.json      for a table of a topic: the offsets between which it lies

At each start of a job a table is read again, unless a query has a micro-batch that was begun and not completed: that one runs
again, and must join the same rows. Then the tables of all queries stay as they were, until the next start.

The directory is an address of Hadoop's file systems (file:///, hdfs://, s3a://), or a path in Spark's default one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.errors import in_one_line
from ottla.pipeline.files import STATE, Files
from ottla.pipeline.sql.job import JobError, Sink, Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS: Final = f"{STATE}.json"


@dataclass(frozen=True)
class Extent:
    """The extent of a table: for each partition its first offset, and the one after its last."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]


class Checkpoint:
    """The checkpoint directory, which is made, with those above it, if it does not exist. Whatever is wrong with it raises
    JobError in one line."""

    def __init__(self, spark: SparkSession, given: str) -> None:
        with _in_words(f"the checkpoint directory {given} cannot be made"):
            self._files = Files(spark, given)
            if not self._files.make():
                raise OSError("its file system refuses it")
            self.address = self._files.address
        with _in_words(f"the checkpoint directory {given} cannot be read"):
            queries = sorted(self._files.names())
            self.unfinished = [name for name in queries if self._last(name, "offsets") > self._last(name, "commits")]
            """The queries with a micro-batch that will run again, determined before any query starts."""

    def directory_of(self, sink: Sink) -> str:
        """Returns the directory of Spark's checkpoint of the query into a sink."""
        return f"{self.address}/{sink.name}"

    def tasks(self, sink: Sink, partitions: int, line: int | None) -> int:
        """Returns with how many tasks the query into a topic writes: as many as the topic had partitions at its first
        micro-batch. Raises JobError."""
        name = f"{sink.name}/{TASKS}"
        if self._last(sink.name, "offsets") < 0:
            self._keep(name, {"topic": sink.place, "tasks": partitions})
            return partitions
        tasks = self._read(name).get("tasks")
        if not isinstance(tasks, int) or tasks < 1:
            raise JobError(f"{self.address}/{name} does not say by how many tasks the query into {sink.name} writes", line)
        if tasks > partitions:
            raise JobError(f"{sink.place} has {partitions} partitions, and the checkpoint of {sink.name} is of {tasks}", line)
        return tasks

    def extent(self, table: Stream, now: Extent) -> Extent:
        """Returns the extent of a table: that of the last start if a micro-batch runs again, otherwise `now`. Raises JobError."""
        name = f"{STATE}/{table.name}.json"
        if self.unfinished and self._exists(name):
            kept = self._read(name)
            try:
                sides = (kept["starts"], kept["ends"])
                starts, ends = ({int(number): int(offset) for number, offset in side.items()} for side in sides)
            except (KeyError, AttributeError, TypeError, ValueError):
                raise JobError(f"{self.address}/{name} does not say where the table {table.name} lies", table.line) from None
            if kept.get("topic") == table.topic:
                if any(end > now.ends.get(number, -1) for number, end in ends.items()):
                    said = f"topic {table.topic} has lost records of a micro-batch of {self.unfinished[0]} that runs again"
                    raise JobError(f"{said}; without {self.address}/{name} it joins what is there", table.line)
                return Extent(starts, ends)
        self._keep(name, {"topic": table.topic, **asdict(now)})
        return now

    def _last(self, query: str, log: str) -> int:
        """Returns the highest batch in one of the query's two logs, -1 if it has none."""
        return max((int(name) for name in self._files.names(f"{query}/{log}") if name.isdecimal()), default=-1)

    def _exists(self, name: str) -> bool:
        with _in_words(f"{self.address}/{name} cannot be read"):
            return self._files.exists(name)

    def _read(self, name: str) -> dict[str, Any]:
        with _in_words(f"{self.address}/{name} cannot be read"):
            found: Any = self._files.read_json(name)
            if found is None:
                raise OSError("there is no such file, though the query has run; another checkpoint begins anew")
            if not isinstance(found, dict):
                raise OSError("ottla did not write it")
            return found

    def _keep(self, name: str, content: dict[str, Any]) -> None:
        with _in_words(f"{self.address}/{name} cannot be written"):
            self._files.write_json(name, content)


@contextmanager
def _in_words(what: str) -> Iterator[None]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException, OSError, ValueError) as error:
        raise JobError(f"{what}: {in_one_line(error)}") from error

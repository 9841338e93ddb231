"""`ottla pipeline run JOB.sql | JOB.py`: a streaming SQL job, from topics to topics and tables. sql/job.py describes job files.

checkpoint/<sink>   Spark's checkpoint of the query into that sink: if the driver is killed at any moment and started again, every
record counts once (except in a topic with delivery = 'at-least-once'); sql/checkpoint.py describes the rest

A Python job has the same header and a function `run(job)`:

    def run(job):
        flights = job.stream("flights")                       # a DataFrame, of a stream in the header
        job.insert("hourly", flights.groupBy(...).count())    # a streaming query into a sink in the header
        job.sql("INSERT INTO late SELECT * FROM flights WHERE dep_delay > ${late}")    # any statements of a SQL job
        job.variables["late"]                                 # the value that --set gave

An error is reported in one line, `JOB.sql:12: ...`, with the line of the file if there is one, and the exit code is 1.
"""

from __future__ import annotations

import re
import runpy
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import PipelineError, in_one_line
from ottla.pipeline.signals import Stop, told_to_stop
from ottla.pipeline.sql.checkpoint import Checkpoint
from ottla.pipeline.sql.job import (
    Insert,
    Job,
    JobError,
    Sink,
    Statement,
    Stream,
    filled_in,
    is_exactly_once,
    read_job,
    read_statement,
    statements,
)
from ottla.pipeline.sql.progress import QueryProgress, serve_metrics, watch
from ottla.pipeline.sql.sinks import start_query
from ottla.pipeline.sql.sources import extent_now, open_stream, open_table, partitions_of_topics, topics_of
from ottla.pipeline.sql.topic_sink import MOST_RECORDS
from ottla.pipeline.tables import conf_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOOTSTRAP: Final = "127.0.0.1:9092"
LOOK_S: Final = 0.5
"""Seconds between two looks at the queries, which do not notify anybody when they end."""

_PLACES: Final = (re.compile(r"\(line (\d+), pos(?:ition)? \d+\)"), re.compile(r"[;,] line (\d+) pos \d+"))


@dataclass(frozen=True)
class RunOptions:
    """The options of the command line, which override the job's header. Without `metrics_port` there are no metrics; 0 is a free
    port."""

    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    """librdkafka's properties; a bootstrap.servers here overrides the header's."""
    checkpoint: str | None = None
    once: bool = False
    from_beginning: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    metrics_port: int | None = None
    progress_s: float = 5.0
    """Seconds between two lines of progress; 0 means no such lines."""


OpenSession = Callable[[Sequence[str], Mapping[str, str]], AbstractContextManager["SparkSession"]]
"""Opens a session with connectors and settings, which the user's own settings override."""


def run_job(path: Path, options: RunOptions, open_session: OpenSession, tell: Callable[[str], None]) -> Signals | None:
    """Runs a job to the end of the present records (`once`), or until a signal, which it returns. Raises PipelineError in one
    line."""
    try:
        job = read_job(path, options.variables)
        checkpoint = checkpoint_of(job, options)
        cluster = KafkaCluster({"bootstrap.servers": job.bootstrap or BOOTSTRAP, **options.kafka})
        partitions = partitions_of_topics(cluster, topics_of(job.steps))
        with open_session(*needs_of(job)) as spark:
            running = RunningJob(job, spark, options, Checkpoint(spark, checkpoint), cluster, partitions, tell)
            with told_to_stop(running.started) as stop:
                running.start(stop)
                if not stop.is_set():
                    running.attend(stop)
    except JobError as error:
        raise PipelineError(f"{path}:{error.line}: {error}" if error.line else f"{path}: {error}") from error
    return stop.signal


def needs_of(job: Job) -> tuple[Sequence[str], Mapping[str, str]]:
    """Returns the connectors and settings that a job needs of its session."""
    is_avro = any(step.options.get("format") == "avro" for step in job.steps if isinstance(step, Stream))
    of_tables = {name: value for step in job.steps if isinstance(step, Sink) for name, value in conf_for(step.kind).items()}
    return ("kafka", "avro") if is_avro else ("kafka",), of_tables | dict(job.spark)


def checkpoint_of(job: Job, options: RunOptions) -> str:
    """Returns the directory of the job's checkpoints, as it was given."""
    given = options.checkpoint or job.checkpoint
    if given is None:
        raise JobError('no checkpoint directory: say checkpoint = "DIR" in the header, or --checkpoint DIR')
    return given


@dataclass
class RunningJob:
    """A job with its Spark session; a Python job gets it as its argument."""

    job: Job
    spark: SparkSession
    options: RunOptions
    checkpoint: Checkpoint
    cluster: KafkaCluster
    partitions: dict[str, int]
    tell: Callable[[str], None]
    streams: dict[str, DataFrame] = field(default_factory=dict)
    sinks: dict[str, Sink] = field(default_factory=dict)
    queries: dict[str, tuple[Any, int | None]] = field(default_factory=dict)
    """The query into each sink, by the sink's name, and the line where it is."""

    def start(self, stop: Stop) -> None:
        """Takes the steps of the job, unless it is stopped before. Raises JobError."""
        for step in self.job.steps:
            if stop.is_set():
                return
            self.take(step)
        if self.job.source is not None and not stop.is_set():
            self.run_python()
        if not self.queries and not stop.is_set():
            raise JobError("the job inserts into no sink")

    def take(self, step: Stream | Sink | Insert | Statement) -> None:
        match step:
            case Stream():
                self.streams[step.name] = in_line(lambda: self.open(step), step.line or 1, moves=False)
                self.streams[step.name].createOrReplaceTempView(step.name)
            case Sink():
                if step.name in self.sinks:
                    raise JobError(f"there are two sinks named {step.name}", step.line)
                self.sinks[step.name] = step
            case Insert():
                self.insert(step.sink, in_line(lambda: self.spark.sql(step.select), step.line), step.line)
            case Statement():
                frame = in_line(lambda: self.spark.sql(step.text), step.line)
                if frame.isStreaming:
                    raise JobError("a stream of rows that goes nowhere: INSERT INTO sink SELECT ...", step.line)

    def open(self, stream: Stream) -> DataFrame:
        if not stream.is_table:
            begin = "earliest" if self.options.from_beginning or self.options.once else "latest"
            into_topic = self.job.source is not None or any(map(is_exactly_once, self.job.steps))
            return open_stream(self.spark, stream, self.cluster, begin, MOST_RECORDS if into_topic else None)
        now = extent_now(self.cluster, stream, self.partitions[stream.topic])
        extent = self.checkpoint.extent(stream, now)
        if extent != now:
            self.tell(f"{stream.name} stays as it was: a micro-batch of {', '.join(self.checkpoint.unfinished)} runs again")
        return open_table(self.spark, stream, self.cluster, extent)

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that --set gave."""
        return self.options.variables

    def stream(self, name: str) -> DataFrame:
        """Returns a stream or table of the header."""
        if name not in self.streams:
            raise JobError(f"there is no stream {name}; there are {', '.join(self.streams) or 'none'}")
        return self.streams[name]

    def sql(self, text: str) -> None:
        """Executes statements as in a SQL job, with variables."""
        for part, line in statements(filled_in(text, self.variables)):
            step = read_statement(part, line)
            self.partitions |= partitions_of_topics(self.cluster, topics_of([step])) if topics_of([step]) else {}
            self.take(step)

    def insert(self, sink: str, frame: DataFrame, line: int | None = None) -> None:
        """Starts a streaming query into a sink."""
        if sink not in self.sinks:
            raise JobError(f"there is no sink {sink}; there are {', '.join(self.sinks) or 'none'}", line)
        if sink in self.queries:
            raise JobError(f"a second query into {sink}: a sink takes one, for its checkpoint is one", line)
        target = self.sinks[sink]
        tasks = self.checkpoint.tasks(target, self.partitions[target.place], line) if target.kind == "topic" else 1
        query = start_query(
            frame, target, checkpoint=self.checkpoint.directory_of(target), cluster=self.cluster, tasks=tasks,
            once=self.options.once, line=line,
        )  # fmt: skip
        self.queries[sink] = (query, line)

    def run_python(self) -> None:
        """Calls the file's `run`. Raises JobError with the line of the file where something went wrong."""
        path = str(self.job.path)
        try:
            function = runpy.run_path(path).get("run")
            if not callable(function):
                raise JobError("a Python job has a function run(job)")
            function(self)
        except JobError as error:
            raise JobError(
                str(error), line_in(error, path)
            ) from error  # its own line would be one of the text that job.sql was given
        except Exception as error:  # whatever the user's code raises
            raise JobError(f"{type(error).__name__}: {in_one_line(error)}", line_in(error, path)) from error

    def attend(self, stop: Stop) -> None:
        """Watches the queries and reports their progress, until all have ended or the job is stopped. Raises JobError if one
        fails."""
        states = {name: QueryProgress(name, time.time()) for name in self.queries}
        server = None
        if self.options.metrics_port is not None:
            server, port = serve_metrics(self.options.metrics_port, self.job.name, states, time.time)
            self.tell(f"metrics at http://127.0.0.1:{port}/metrics")
        try:
            self._attend(states, stop)
        finally:
            if server is not None:
                server.shutdown()
                server.server_close()

    def started(self) -> list[Any]:
        """Returns the job's queries, including those that have ended."""
        return [query for query, _line in self.queries.values()]

    def _attend(self, states: Mapping[str, QueryProgress], stop: Stop) -> None:
        every_s = self.options.progress_s
        next_line_s = time.monotonic() + every_s
        active = True
        while active and not stop.wait(LOOK_S):
            active = False
            for name, (query, line) in self.queries.items():
                active |= query.isActive
                watch(query, states[name], time.time())
                if (error := query.exception()) is not None:
                    raise JobError(f"query into {name}: {in_one_line(error)}", line)
            if every_s and (time.monotonic() >= next_line_s or not active):
                next_line_s = time.monotonic() + every_s
                for state in states.values():
                    self.tell(state.line(time.time()))


def in_line(action: Callable[[], DataFrame], line: int, *, moves: bool = True) -> DataFrame:
    """Does what Spark may refuse, and turns its error into a JobError with the file's line: Spark counts from the statement's
    first."""
    from py4j.protocol import Py4JJavaError  # for errors without a class in pyspark
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger(
        "SQLQueryContextLogger"
    ).disabled = True  # it prints on stderr what is raised anyway, with both stacks
    try:
        return action()
    except (PySparkException, Py4JJavaError) as error:
        found = next((match for match in (place.search(str(error)) for place in _PLACES) if match), None)
        at = line + int(found[1]) - 1 if found and moves else line
        raise JobError(re.sub(r"[;,]? ?\(?line \d+,? pos \d+\)?", "", in_one_line(error)).rstrip(" .;"), at) from error


def line_in(error: BaseException, path: str) -> int | None:
    """Returns the line of this file in the error's traceback, the innermost one."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return lines[-1] if lines else None

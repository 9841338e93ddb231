"""A job that runs, without Spark: its steps in order, what it refuses, how long it looks after its queries."""

from __future__ import annotations

import urllib.request
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException

from ottla.pipeline.errors import PipelineError
from ottla.pipeline.run import RunningJob, RunOptions, checkpoint_of, in_line, line_in, needs_of, run_job
from ottla.pipeline.sql.checkpoint import Extent
from ottla.pipeline.sql.job import Job, JobError, Sink, Statement, Stream


class Query:
    """A query that has ended, or failed, when it is looked at for this time."""

    recentProgress: tuple[Any, ...] = ()
    status: Final = {"message": "at work"}

    def __init__(self, looks: int, error: Exception | None = None) -> None:
        self._looks, self._error = looks, error

    @property
    def isActive(self) -> bool:
        return self._looks > 1

    def exception(self) -> Exception | None:
        """Returns the error, which the job asks for last at each look."""
        self._looks -= 1
        return self._error if self._looks <= 0 else None


class Stop:
    """A stop that never comes; waiting for it takes no time."""

    def __init__(self, *, after: int | None = None) -> None:
        self.waits, self.after = 0, after

    def is_set(self) -> bool:
        return self.after is not None and self.waits >= self.after

    def wait(self, _seconds: float) -> bool:
        self.waits += 1
        return self.is_set()


def job_of(steps: list[Any], checkpoint: str | None = None, spark: dict[str, str] | None = None) -> Job:
    return Job(Path("job.sql"), "job", None, checkpoint, spark or {}, steps)


def running(said: list[str], *steps: Any, spark: Any = None, **options: Any) -> RunningJob:
    nothing: Any = None
    return RunningJob(job_of(list(steps)), spark, RunOptions(**options), nothing, nothing, {}, said.append)


def test_a_job_is_attended_until_its_last_query_has_ended() -> None:
    said: list[str] = []
    job = running(said, progress_s=0)
    short, long = Query(1), Query(3)
    job.queries = {"a": (short, 1), "b": (long, 2)}
    stop: Any = Stop()
    job.attend(stop)
    assert (stop.waits, said) == (3, [])
    assert job.started() == [short, long]


def test_a_job_that_is_stopped_does_not_look_again() -> None:
    job = running([], progress_s=0)
    job.queries = {"a": (Query(100), 1)}
    stop: Any = Stop(after=2)
    job.attend(stop)
    assert stop.waits == 2


def test_the_last_line_of_progress_comes_with_the_end() -> None:
    said: list[str] = []
    job = running(said, progress_s=3600.0)
    job.queries = {"a": (Query(2), 1)}
    stop: Any = Stop()
    job.attend(stop)
    assert [line.partition(":")[0].split()[0] for line in said] == ["a"]


def test_a_query_that_fails_ends_the_job_with_its_line() -> None:
    job = running([], progress_s=0)
    job.queries = {"a": (Query(1, ValueError("no luck")), 7)}
    stop: Any = Stop()
    with pytest.raises(JobError, match="query into a: no luck") as raised:
        job.attend(stop)
    assert raised.value.line == 7


def test_metrics_are_served_while_the_job_runs_and_no_longer() -> None:
    said: list[str] = []
    job = running(said, progress_s=0, metrics_port=0)
    pages: list[str] = []

    class Looks(Stop):
        def wait(self, seconds: float) -> bool:
            with urllib.request.urlopen(said[0].removeprefix("metrics at ")) as page:
                pages.append(page.read().decode())
            return super().wait(seconds)

    job.queries = {"a": (Query(1), 1)}
    stop: Any = Looks()
    job.attend(stop)
    assert 'query="a"' in pages[0]
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(said[0].removeprefix("metrics at "))


def test_steps_are_taken_until_the_job_is_stopped() -> None:
    taken: list[str] = []

    def sql(text: str) -> Any:
        taken.append(text)
        stop.waits += 1
        return SimpleNamespace(isStreaming=False)

    spark: Any = SimpleNamespace(sql=sql)
    stop: Any = Stop(after=2)
    running([], Statement("one", 1), Statement("two", 2), Statement("three", 3), spark=spark).start(stop)
    assert taken == ["one", "two"]


def test_what_a_job_may_not_do() -> None:
    stop: Any = Stop()
    streaming: Any = SimpleNamespace(sql=lambda _text: SimpleNamespace(isStreaming=True))
    with pytest.raises(JobError, match="goes nowhere") as raised:
        running([], Statement("SELECT 1", 4), spark=streaming).start(stop)
    assert raised.value.line == 4
    with pytest.raises(JobError, match="inserts into no sink"):
        running([]).start(stop)
    with pytest.raises(JobError, match="two sinks named out"):
        running([], Sink("out", "topic", "t", {}, 1), Sink("out", "topic", "u", {}, 2)).start(stop)
    frame: Any = None
    job = running([])
    with pytest.raises(JobError, match="there is no sink out; there are none"):
        job.insert("out", frame)
    with pytest.raises(JobError, match="there is no stream s; there are none"):
        job.stream("s")
    job.sinks["out"] = Sink("out", "topic", "t", {}, 1)
    job.queries["out"] = (None, 1)
    with pytest.raises(JobError, match="a second query into out"):
        job.insert("out", frame)


class View:
    """A stream's table; `views` has the names that it was given."""

    def __init__(self) -> None:
        self.views: list[str] = []

    def createOrReplaceTempView(self, name: str) -> None:
        self.views.append(name)


@pytest.mark.parametrize(
    ("options", "begin"),
    [({}, "latest"), ({"once": True}, "earliest"), ({"from_beginning": True}, "earliest")],
)
@pytest.mark.parametrize(
    ("source", "sinks", "most"),
    [
        (None, [], None),
        (None, [Sink("out", "parquet", "p")], None),
        (None, [Sink("out", "topic", "t", {"delivery": "at-least-once"})], None),
        (None, [Sink("out", "topic", "t")], 500_000),  # as docs/pipeline.md says
        ("def run(job): ...", [], 500_000),
    ],
)
def test_where_a_stream_begins_and_how_much_it_takes_at_once(
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    begin: str,
    source: str | None,
    sinks: list[Sink],
    most: int | None,
) -> None:
    opened: list[tuple[Any, ...]] = []

    def open_stream(_spark: Any, stream: Stream, _cluster: Any, *how: Any) -> View:
        opened.append((stream.name, *how))
        return view

    view = View()
    monkeypatch.setattr("ottla.pipeline.run.open_stream", open_stream)
    job = running([], *sinks, Stream("s", "t"), **options)
    job.job.source = source
    job.take(Stream("s", "t"))
    assert (opened, view.views, list(job.streams)) == ([("s", begin, most)], ["s"], ["s"])


@pytest.mark.parametrize(("kept", "said"), [(Extent({0: 0}, {0: 9}), 0), (Extent({0: 0}, {0: 5}), 1)])
def test_a_table_lies_where_the_checkpoint_says(monkeypatch: pytest.MonkeyPatch, kept: Extent, said: int) -> None:
    lines: list[str] = []
    opened: list[Extent] = []
    asked: list[int] = []

    def extent_now(_cluster: Any, _table: Stream, partitions: int) -> Extent:
        asked.append(partitions)
        return Extent({0: 0}, {0: 9})

    monkeypatch.setattr("ottla.pipeline.run.extent_now", extent_now)
    monkeypatch.setattr("ottla.pipeline.run.open_table", lambda _spark, _table, _cluster, extent: opened.append(extent))
    job = running(lines)
    checkpoint: Any = SimpleNamespace(extent=lambda *_: kept, unfinished=["a", "b"])
    job.checkpoint, job.partitions = checkpoint, {"p": 3}
    job.open(Stream("people", "p", is_table=True))
    assert (asked, opened) == ([3], [kept])
    assert lines == ["people stays as it was: a micro-batch of a, b runs again"] * said


@pytest.mark.parametrize(("kind", "tasks"), [("topic", 4), ("parquet", 1)])
def test_a_query_into_a_topic_has_the_tasks_that_its_checkpoint_says(
    monkeypatch: pytest.MonkeyPatch, kind: str, tasks: int
) -> None:
    started: list[dict[str, Any]] = []
    monkeypatch.setattr("ottla.pipeline.run.start_query", lambda _frame, _sink, **how: started.append(how))
    job = running([], once=True)
    checkpoint: Any = SimpleNamespace(
        directory_of=lambda sink: f"c/{sink.name}", tasks=lambda _sink, partitions, _line: partitions - 2
    )
    job.checkpoint, job.partitions = checkpoint, {"place": 6}
    job.take(Sink("out", kind, "place"))
    frame: Any = None
    job.insert("out", frame, 7)
    assert started == [{"checkpoint": "c/out", "cluster": None, "tasks": tasks, "once": True, "line": 7}]
    assert job.queries == {"out": (None, 7)}


@pytest.mark.parametrize(
    ("said", "moves", "line"),
    [
        ("[PARSE_SYNTAX_ERROR] Syntax error at or near 'FORM'. (line 3, pos 7)", True, 12),
        ("[UNRESOLVED] A column is not known\n== SQL (line 3, position 7) ==\nSELECT x", True, 12),
        ("[UNRESOLVED] A column is not known\n== SQL (line 1, position 7) ==\nSELECT x", True, 10),
        ("[UNRESOLVED] A column is not known; line 2 pos 0", True, 11),
        ("[UNRESOLVED] A column is not known; line 2 pos 0", False, 10),
        ("[UNRESOLVED] A column is not known", True, 10),
    ],
)
def test_spark_counts_lines_from_the_statements_first(said: str, moves: bool, line: int) -> None:
    def refuse() -> Any:
        raise PySparkException(said)

    with pytest.raises(JobError) as raised:
        in_line(refuse, 10, moves=moves)
    assert raised.value.line == line
    assert str(raised.value) in ("Syntax error at or near 'FORM'", "A column is not known")


@pytest.mark.parametrize(
    ("source", "why", "line"),
    [
        ("x = 1\n", "a Python job has a function run\\(job\\)", None),
        ("run = 1\n", "a Python job has a function run\\(job\\)", None),
        ("def run(job):\n    x = 1\n    1 // 0\n", "ZeroDivisionError: .*zero", 3),
        ("def run(job):\n    x = 1\n    job.stream('s')\n", "there is no stream s", 3),
        ("x = 1\nx.y\n", "AttributeError: ", 2),
    ],
)
def test_an_error_in_a_python_job_has_the_line_of_its_file(tmp_path: Path, source: str, why: str, line: int | None) -> None:
    path = tmp_path / "job.py"
    path.write_text(source)
    job = running([])
    job.job.path, job.job.source = path, source
    stop: Any = Stop()
    with pytest.raises(JobError, match=f"^{why}") as raised:
        job.start(stop)
    assert raised.value.line == line


def test_a_python_job_takes_its_own_steps_unless_it_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text("def run(job):\n    job.queries['out'] = (job.variables['x'], 1)\n")
    job = running([], variables={"x": "given"})
    job.job.path, job.job.source = path, path.read_text()
    stop: Any = Stop(after=0)
    job.start(stop)
    assert job.queries == {}
    stop = Stop()
    job.start(stop)
    assert job.started() == ["given"]


def test_the_connectors_that_a_job_needs() -> None:
    plain, avro = Stream("s", "t"), Stream("a", "t", options={"format": "avro"})
    assert needs_of(job_of([plain]))[0] == ("kafka",)
    assert needs_of(job_of([plain, avro]))[0] == ("kafka", "avro")
    assert needs_of(job_of([plain], spark={"spark.x": "1"}))[1] == {"spark.x": "1"}


def test_the_checkpoint_of_the_command_line_counts_more_than_the_headers() -> None:
    assert checkpoint_of(job_of([], checkpoint="here"), RunOptions()) == "here"
    assert checkpoint_of(job_of([], checkpoint="here"), RunOptions(checkpoint="there")) == "there"


def test_a_job_that_cannot_run_says_so_in_one_line_and_where(tmp_path: Path) -> None:
    path = tmp_path / "job.sql"
    path.write_text("SELECT 1;\n")
    nothing: Any = nullcontext
    with pytest.raises(PipelineError, match=r"job\.sql: no checkpoint directory"):
        run_job(path, RunOptions(), nothing, print)
    path.write_text("SELECT 1;\n\nCREATE STREAM s FROM TOPIC t WITH (a);\n")
    with pytest.raises(PipelineError, match=r"job\.sql:3: "):
        run_job(path, RunOptions(checkpoint="here"), nothing, print)


def test_the_innermost_line_of_a_file_is_found_in_a_traceback() -> None:
    def fails() -> None:
        raise ValueError  # in this line

    with pytest.raises(ValueError) as raised:
        fails()
    lines = Path(__file__).read_text().splitlines()
    assert line_in(raised.value, __file__) == next(n for n, line in enumerate(lines, 1) if line.endswith("# in this line"))
    assert line_in(raised.value, "another.py") is None

"""A job that runs, without Spark: its steps in order, what it refuses, how long it looks after its queries."""

from __future__ import annotations

import urllib.request
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from ottla.pipeline.errors import PipelineError
from ottla.pipeline.run import RunningJob, RunOptions, checkpoint_of, line_in, needs_of, run_job
from ottla.pipeline.run_job import Job, JobError, Sink, Statement, Stream


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
        """What the job asks last at each look."""
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

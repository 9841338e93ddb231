"""`ottla pipeline run`: how the command line reaches a job, and how the command ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from signal import SIGINT, Signals
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ottla.commands.clients.client import DEFAULT_BOOTSTRAP
from ottla.pipeline.run import RunOptions
from ottla.server.program.app import app

ELSEWHERE = "here:9,there:9"


class Jobs:
    """Stands in for the job: notes what it was run with, says a line, and ends by `signal`."""

    def __init__(self) -> None:
        self.path = Path()
        self.options = RunOptions()
        self.open_session: Any = None
        self.signal: Signals | None = None

    def __call__(self, path: Path, options: RunOptions, open_session: Any, tell: Callable[[str], None]) -> Signals | None:
        self.path, self.options, self.open_session = path, options, open_session
        tell("a line of progress")
        return self.signal

    def run(self, *words: str) -> Result:
        unset = {"OTTLA_BOOTSTRAP": None, "KAFKA_BOOTSTRAP_SERVERS": None}
        return CliRunner().invoke(app, ["pipeline", "run", *words], env={**unset, "COLUMNS": "300", "TERM": "dumb"})

    def given(self, *words: str) -> RunOptions:
        """Runs the command, which must succeed, and returns the job's options."""
        result = self.run("job.sql", *words)
        assert result.exit_code == 0, result.output
        return self.options


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    made = Jobs()
    monkeypatch.setattr("ottla.pipeline.run.run_job", made)
    return made


def test_without_options_the_jobs_own_header_counts(jobs: Jobs) -> None:
    found = jobs.given()
    assert "bootstrap.servers" not in found.kafka
    assert (found.checkpoint, found.once, found.from_beginning) == (None, False, False)
    assert (found.variables, found.metrics_port, found.progress_s) == ({}, None, 5.0)
    assert jobs.path == Path("job.sql")


def test_each_option_reaches_the_job(jobs: Jobs) -> None:
    assert jobs.given("--checkpoint", "dir").checkpoint == "dir"
    assert jobs.given("--once").once
    assert not jobs.given("--continuous").once
    assert jobs.given("--from-beginning").from_beginning
    assert jobs.given("--set", "late=5", "--set", "day=a=b").variables == {"late": "5", "day": "a=b"}
    assert jobs.given("--metrics-port", "0").metrics_port == 0
    assert jobs.given("--progress", "0").progress_s == 0


def test_a_cluster_that_is_named_counts_more_than_the_header(jobs: Jobs) -> None:
    assert jobs.given("--bootstrap", ELSEWHERE).kafka["bootstrap.servers"] == ELSEWHERE
    assert jobs.given("--bootstrap", DEFAULT_BOOTSTRAP).kafka["bootstrap.servers"] == DEFAULT_BOOTSTRAP
    assert jobs.given("-X", "client.id=me").kafka == {"client.id": "me"}, "other properties go with the header's cluster"


def test_spark_is_as_the_command_line_says(jobs: Jobs) -> None:
    jobs.given("--master", "local[3]", "--spark-conf", "a=b")
    spark = jobs.open_session.__self__.options
    assert (spark.master, spark.conf) == ("local[3]", {"a": "b"})


@pytest.mark.parametrize(
    ("signal", "words", "code"),
    [(None, ["--once"], 0), (None, [], 0), (SIGINT, [], 0), (SIGINT, ["--continuous"], 0), (SIGINT, ["--once"], 128 + SIGINT)],
)
def test_a_signal_is_the_normal_end_of_a_continuous_job(jobs: Jobs, signal: Signals | None, words: list[str], code: int) -> None:
    jobs.signal = signal
    result = jobs.run("job.sql", *words)
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", "a line of progress\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Missing argument 'JOB.sql|JOB.py'"),
        (("job.sql", "--set", "late"), "'late' is not"),
        (("job.sql", "--metrics-port", "65536"), "'--metrics-port': Input should be less than or equal to 65535"),
        (("job.sql", "--metrics-port", "-1"), "'--metrics-port': Input should be greater than or equal to 0"),
        (("job.sql", "--progress", "-1"), "'--progress': Input should be greater than or equal to 0"),
    ],
)
def test_what_is_wrong_is_said_before_the_job_begins(jobs: Jobs, words: tuple[str, ...], told: str) -> None:
    result = jobs.run(*words)
    assert result.exit_code == 2
    assert told in result.output
    assert jobs.path == Path(), "it was not run"

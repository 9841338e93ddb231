"""Tests of how `ottla pipeline archive` and `run` end by a signal: a job of what is there badly, for it is not done; others well.

`ottla pipeline archive t --to d && ottla topic delete t` must not delete what a Ctrl-C has kept out of the archive.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from compat_tests.audits import audited
from compat_tests.commands import running
from compat_tests.test_pipeline import archived, fill
from compat_tests.waiting import wait_for
from ottla.pipeline.audit_job import Report
from ottla.pipeline.run import RunOptions, run_job

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COUNT: Final = 3000
FEW: Final = 30
WAIT_S: Final = 240
SIGNALS: Final = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]

JOB: Final = """
CREATE STREAM records FROM TOPIC ${topic} WITH (rows_per_batch = '${batch}');
CREATE SINK rows TO PARQUET '${rows}';
INSERT INTO rows SELECT _partition, _offset, value FROM records;
"""


def ended_by(number: signal.Signals, when: str, *words: str, bootstrap: str, log: Path) -> tuple[int, list[str]]:
    """The exit code and the lines of a command that gets the signal when it has said this."""
    told = ["pipeline", *words, "--master", "local[2]"]
    with (
        log.open("wb") as file,
        running(*told, bootstrap=bootstrap, stdout=file, stderr=file, start_new_session=True) as process,
    ):
        wait_for(lambda: when in log.read_text(), when, WAIT_S)
        if number == signal.SIGINT:  # as a terminal does: the JVM gets it, too
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        code = process.wait(WAIT_S)
    said = log.read_text()
    assert "Traceback" not in said
    return code, said.splitlines()


@pytest.mark.kafka_in_full
@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_an_archive_of_what_is_there_that_is_interrupted_has_failed(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    topic, directory = topic_of("ends-once"), tmp_path / "archive"
    fill(bootstrap, topic, COUNT)
    words = ["archive", topic, "--to", str(directory), "--once", "--batch", str(FEW)]
    ended, lines = ended_by(number, "batch 1: ", *words, bootstrap=bootstrap, log=tmp_path / "log")
    told = re.fullmatch(
        r"(.*): interrupted after (\S+) records in \d+ batch(?:es)? to (.*); the next run continues there", lines[-1]
    )
    assert told is not None, lines
    assert (ended, told[1], told[3]) == (code, topic, str(directory)), lines
    assert FEW <= int(told[2].replace(",", "")) < COUNT

    archived(spark, bootstrap, topic, directory)
    assert audited(spark, bootstrap, topic, str(directory)) == Report(COUNT, [])


@pytest.mark.kafka_in_full
def test_an_archive_that_goes_on_ends_well_by_sigterm(bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path) -> None:
    """By Ctrl-C: test_pipeline.py."""
    topic, directory = topic_of("ends-continuous"), tmp_path / "archive"
    fill(bootstrap, topic, FEW)
    words = ["archive", topic, "--to", str(directory), "--continuous", "--interval", "0.5"]
    ended, lines = ended_by(signal.SIGTERM, "batch 0: ", *words, bootstrap=bootstrap, log=tmp_path / "log")
    assert (ended, lines[-1]) == (0, f"{topic}: {FEW} records in 1 batch to {directory}"), lines


@pytest.mark.kafka_in_full
@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_job_of_what_is_there_that_is_interrupted_has_failed(
    spark: Any, bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    told = {"topic": topic_of("ends-run"), "rows": str(tmp_path / "rows")}
    fill(bootstrap, told["topic"], COUNT)
    (tmp_path / "job.sql").write_text(JOB)
    checkpoint = str(tmp_path / "checkpoint")
    words = ["run", str(tmp_path / "job.sql"), "--once", "--checkpoint", checkpoint, "--progress", "0.5"]
    sets = [word for name, value in {**told, "batch": str(FEW)}.items() for word in ("--set", f"{name}={value}")]
    ended, lines = ended_by(number, " rows, ", *words, *sets, bootstrap=bootstrap, log=tmp_path / "log")
    assert ended == code, lines
    assert 0 < spark.read.parquet(told["rows"]).count() < COUNT

    variables = {**told, "batch": str(COUNT)}
    options = RunOptions({"bootstrap.servers": bootstrap}, checkpoint, once=True, variables=variables, progress_s=0)
    assert run_job(tmp_path / "job.sql", options, lambda _connectors, _settings: nullcontext(spark), print) is None
    spark.catalog.dropTempView("records")
    rows = spark.read.parquet(told["rows"])
    assert (rows.count(), rows.distinct().count()) == (COUNT, COUNT)

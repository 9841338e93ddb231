"""Jobs as text: what a header and statements say, and in which line an error is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipeline.sql.job import Insert, Job, JobError, Sink, Statement, Stream, is_exactly_once, read_job


def read(tmp_path: Path, text: str, name: str = "job.sql", **variables: str) -> Job:
    path = tmp_path / name
    path.write_text(text)
    return read_job(path, variables)


def error(tmp_path: Path, text: str, **variables: str) -> tuple[int | None, str]:
    with pytest.raises(JobError) as raised:
        read(tmp_path, text, **variables)
    return raised.value.line, str(raised.value)


HEADER = """-- what this is
-- /// job
-- checkpoint = "here"
-- bootstrap = "host:9092"
-- [streams.flights]
-- topic = "all-flights"
-- schema = "origin STRING, at TIMESTAMP"
-- watermark = "at 2 hours"
-- rows_per_batch = 500
-- [tables.planes]
-- schema = "tailnum STRING"
-- [sinks.out]
-- topic = "result"
-- key = "origin"
-- kafka.linger.ms = 20
-- [sinks.files]
-- parquet = "/data/out"
-- partition_by = "origin"
-- [spark]
-- "spark.sql.shuffle.partitions" = 4
-- spark.speculation = false
-- ///
"""


def test_a_header_declares_streams_tables_sinks_and_settings(tmp_path: Path) -> None:
    job = read(tmp_path, HEADER)
    assert (job.name, job.checkpoint, job.bootstrap) == ("job", "here", "host:9092")
    assert job.spark == {"spark.sql.shuffle.partitions": "4", "spark.speculation": "false"}
    columns = "origin STRING, at TIMESTAMP"
    assert job.steps == [
        Stream("flights", "all-flights", columns, ("at", "2 hours"), {"rows_per_batch": "500"}, line=2),
        Stream("planes", "planes", "tailnum STRING", is_table=True, line=2),
        Sink("out", "topic", "result", {"key": "origin", "kafka.linger.ms": "20"}, 2),
        Sink("files", "parquet", "/data/out", {"partition_by": "origin"}, 2),
    ]


def test_the_same_header_stands_in_a_python_job(tmp_path: Path) -> None:
    job = read(tmp_path, HEADER.replace("--", "#") + "def run(job): ...\n", "job.py")
    assert [step.name for step in job.steps if isinstance(step, Stream | Sink)] == ["flights", "planes", "out", "files"]
    assert job.source is not None


def test_statements_are_ours_or_go_to_spark_as_they_are(tmp_path: Path) -> None:
    job = read(
        tmp_path,
        """/* a; comment */ CREATE STREAM s (a STRUCT<b: DECIMAL(10, 2)>, -- ; and one more)
  t TIMESTAMP) FROM TOPIC `my-topic`
  WATERMARK t DELAY OF INTERVAL 2 HOURS
  WITH (format = 'json', from = '2026-11-21T09:00', kafka.max.poll.records = 10);
CREATE STREAM bare FROM TOPIC 'x.y';
CREATE TABLE now (a INT) FROM TOPIC t;
CREATE TABLE sparks (a INT) USING parquet;
SET x = 'a;b';
CREATE SINK out TO TOPIC result WITH (key = 'a''b');
create sink files to parquet '/data/out';

INSERT INTO out
SELECT 1;
SELECT ';' AS `;`
""",
    )
    first = job.steps[0]
    assert isinstance(first, Stream)
    assert first.schema is not None
    assert first.schema.startswith("a STRUCT<b: DECIMAL(10, 2)>,")
    assert (first.name, first.topic, first.watermark, first.line) == ("s", "my-topic", ("t", "2 HOURS"), 1)
    assert first.options == {"format": "json", "from": "2026-11-21T09:00", "kafka.max.poll.records": "10"}
    assert job.steps[1:] == [
        Stream("bare", "x.y", line=5),
        Stream("now", "t", "a INT", is_table=True, line=6),
        Statement("CREATE TABLE sparks (a INT) USING parquet", 7),
        Statement("SET x = 'a;b'", 8),
        Sink("out", "topic", "result", {"key": "a'b"}, 9),
        Sink("files", "parquet", "/data/out", {}, 10),
        Insert("out", "SELECT 1", 13),
        Statement("SELECT ';' AS `;`", 14),
    ]


def test_variables_are_filled_in_and_must_be_given(tmp_path: Path) -> None:
    assert read(tmp_path, "CREATE STREAM s FROM TOPIC ${topic};", topic="t").steps == [Stream("s", "t", line=1)]
    assert error(tmp_path, "\n\nSET a = ${b}") == (3, "${b} is not given: --set b=VALUE")


def test_of_a_python_job_the_header_alone_is_filled_in(tmp_path: Path) -> None:
    text = "# /// job\n# name = 'a'\n# checkpoint = '${where}'\n# ///\ndef run(job): print(f'${price}')\n"
    job = read(tmp_path, text, "job.py", where="${price}")
    assert (job.checkpoint, job.source) == ("${price}", text)
    with pytest.raises(JobError, match=r"^\$\{where\} is not given") as raised:
        read(tmp_path, text, "job.py")
    assert raised.value.line == 3


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("-- /// job\n-- a = ;\n-- ///", 2, "the header is not TOML"),
        ("\n-- /// job\n-- name = 'a'\n", 2, "not closed"),
        ("-- /// job\n-- nam = 'a'\n-- ///", 1, "unknown key nam"),
        ("-- /// job\n-- [sinks.a]\n-- key = 'b'\n-- ///", 1, "sink a needs one of topic"),
        ("-- /// job\n-- [streams]\n-- a = 1\n-- ///", 1, "a in the header is a table"),
        ("\nCREATE STREAM s (a INT FROM TOPIC t;", 2, "no end"),
        ("CREATE STREAM s (a INT)\n\nFORM TOPIC t;", 3, "FROM TOPIC is expected where it says 'FORM TOPIC t'"),
        ("CREATE STREAM s (a INT)\nFROM TOPIC t\nWITH a = 1;", 3, "WITH (option = 'value', ...)"),
        ("CREATE STREAM s FROM TOPIC t WITH (a b);", 1, "option = 'value' is expected where it says 'a b'"),
        ("CREATE STREAM s FROM TOPIC t WITH (formt = 'json');", 1, "s has no option formt"),
        ("CREATE STREAM s FROM TOPIC t WITH (bad_records = 'skip');", 1, "bad_records is"),
        ("CREATE SINK s TO NOWHERE t;", 1, "nowhere is not one of topic, parquet"),
        ("CREATE SINK s INTO TOPIC t;", 1, "a sink is CREATE SINK"),
        ("CREATE SINK s TO TOPIC t WITH (delivery = 'twice');", 1, "delivery is"),
        ("CREATE SINK s TO TOPIC t WITH (partitions = 'some');", 1, "partitions is a number"),
        ("CREATE SINK s TO TOPIC t WITH (delivery = 'at-least-once', timestamp = 'a');", 1, "timestamp has no effect"),
        ("CREATE SINK s TO TOPIC t WITH (spark.includeHeaders = 'true');", 1, "spark.includeHeaders has no effect"),
        ("CREATE SINK s TO TOPIC t WITH (delivery = 'at-least-once', spark.a = 1);", 1, "spark.a has no effect"),
        ("CREATE SINK s TO TOPIC t WITH (kafka.transactional.id = 'a');", 1, "kafka.transactional.id has no effect"),
        ("-- /// job\n-- [sinks.s]\n-- parquet = 'd'\n-- kafka.acks = 1\n-- ///", 1, "kafka.acks has no effect, parquet is"),
        ("CREATE TABLE s FROM TOPIC t WITH (rows_per_batch = 5);", 1, "a table has neither"),
        ("CREATE TABLE s (a TIMESTAMP) FROM TOPIC t WATERMARK a DELAY OF INTERVAL 1 DAY;", 1, "a table has neither"),
        ("CREATE TABLE s FROM TOPIC t WITH (spark.endingOffsets = 'latest');", 1, "spark.endingOffsets"),
    ],
)
def test_an_error_names_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    found, words = error(tmp_path, text)
    assert (found, said in words) == (line, True), (found, words)
    assert "\n" not in words


def test_options_of_a_sink_that_have_an_effect_are_taken(tmp_path: Path) -> None:
    exact = "CREATE SINK s TO TOPIC t WITH (key = 'a', timestamp = 'b', kafka.linger.ms = 5, partitions = 2, mode = 'update');"
    least = "CREATE SINK s TO TOPIC t WITH (delivery = 'at-least-once', key = 'a', kafka.acks = '1', format = 'text');"
    table = "CREATE SINK s TO PARQUET 'd' WITH (partition_by = 'a', spark.compression = 'zstd');"
    assert [is_exactly_once(read(tmp_path, text).steps[0]) for text in (exact, least, table)] == [True, False, False]


def test_a_job_is_a_readable_file_of_sql_or_python(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"No such file"):
        read_job(tmp_path / "none.sql")
    with pytest.raises(JobError, match=r"named \.sql or \.py"):
        read_job(tmp_path / "job.txt")


def test_lines_are_counted_from_the_first_of_the_file_also_where_it_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path, "\nSELECT 1;\n\nSELECT 2").steps == [Statement("SELECT 1", 2), Statement("SELECT 2", 4)]

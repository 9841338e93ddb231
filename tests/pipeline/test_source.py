"""The data source as Spark calls it, without Spark: options, schema, planning of batches and of micro-batches, filters."""

from __future__ import annotations

import pickle
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from ottla.pipeline.data_source.filters import Pushed
from ottla.pipeline.data_source.options import KNOWN, parse
from ottla.pipeline.data_source.readers import FilteringReader, StreamReader
from ottla.pipeline.data_source.segments import MAX_OFFSET, MIN_TIMESTAMP, DataLoss, SourceError
from ottla.pipeline.source import OttlaDataSource
from ottla.wire.compression import MAX_DECOMPRESSED_BYTES
from tests.log.support import NOW_MS, batch
from tests.pipeline.logs import end_transaction, fill, numbered, rig


def source(path: Path | str, **options: str) -> OttlaDataSource:
    named = {name.replace("__", "."): value for name, value in options.items()}
    given = CaseInsensitiveDict({"path": str(path), **named})
    return OttlaDataSource(cast("dict[str, str]", given))  # Spark hands this over, whatever its annotation says


def schema_of(of: OttlaDataSource) -> StructType:
    """As Spark parses the DDL, without its JVM."""
    schema = StructType()
    for column in of.schema().split(", `"):
        name, kind = column.strip("`").split("` ")
        json: str | dict[str, Any] = {"bigint": "long", "int": "integer"}.get(kind, kind)
        if kind.startswith("array"):
            pair = {"type": "struct", "fields": [_field("key", "string"), _field("value", "binary")]}
            json = {"type": "array", "elementType": pair, "containsNull": True}
        schema.add(StructType.fromJson({"type": "struct", "fields": [_field(name, json)]}).fields[0])
    return schema


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def read_batch(of: OttlaDataSource, *filters: Any) -> list[dict[str, Any]]:
    reader = of.reader(schema_of(of))
    if filters:
        assert isinstance(reader, FilteringReader)
        assert list(reader.pushFilters(list(filters))) == []
    return [
        row
        for part in reader.partitions()
        for batch in reader.read(pickle.loads(pickle.dumps(part)))
        for row in batch.to_pylist()
    ]


def offsets(of: OttlaDataSource, *filters: Any) -> list[int]:
    return [row["offset"] for row in read_batch(of, *filters)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    log = rig(tmp_path, segment_bytes=3000, index_interval_bytes=300)
    fill(log, 30)
    log.manager.close(True)
    return tmp_path


def test_the_schema_is_that_of_the_kafka_source(data: Path) -> None:
    plain = "`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint, `timestamp` timestamp, "
    plain += "`timestampType` int"
    assert source(data).schema() == plain
    assert source(data, includeHeaders="true").schema() == f"{plain}, `headers` array<struct<key: string, value: binary>>"
    assert source(data, columns="Timestamp, offset").schema() == "`timestamp` timestamp, `offset` bigint"


def test_a_schema_that_the_user_gives_is_what_is_read(data: Path) -> None:
    of = source(data)
    reader = of.reader(schema_of(source(data, columns="offset")))
    (batch, *_) = reader.read(reader.partitions()[0])
    assert batch.schema.names == ["offset"]
    with pytest.raises(SourceError, match="the schema's column 'size' is not one of key"):
        of.reader(StructType.fromJson({"type": "struct", "fields": [_field("size", "integer")]}))
    with pytest.raises(SourceError, match="the schema's column offset is int; it must be bigint"):
        of.reader(StructType.fromJson({"type": "struct", "fields": [_field("offset", "integer")]}))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, range(300)),
        ({"startingOffsets": "latest"}, range(0)),
        ({"startingOffsets": "120", "endingOffsets": '{"t": {"0": 130}}'}, range(120, 130)),
        ({"startingOffsets": '{"t": {"0": -2}}', "endingOffsets": '{"t": {"0": -1}}'}, range(300)),
        ({"startingTimestamp": str(NOW_MS + 40_000), "endingTimestamp": str(NOW_MS + 50_000)}, range(40, 50)),
        ({"fromTimestamp": "2023-11-14T22:14:00Z", "untilTimestamp": "2023-11-14T23:14:05+01:00"}, range(40, 45)),
        ({"partitions": "1,2"}, range(0)),
        ({"partitions": "0"}, range(300)),
        ({"startingOffsets": "300"}, range(0)),
        ({"startingOffsets": "earliest", "endingOffsets": "0"}, range(0)),
        ({"topic": "t", "splitBytes": "1"}, range(300)),
        ({"subscribePattern": "[s-u]"}, range(300)),
        ({"subscribePattern": "x.*"}, range(0)),
        ({"startingTimestamp": str(NOW_MS + 400_000)}, range(0)),
    ],
)
def test_options_bound_what_is_read(data: Path, options: dict[str, str], expected: range) -> None:
    assert offsets(source(data, **options)) == list(expected)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"topics": "t"}, "option 'topics' is not known; there are columns, endingOffsets"),
        ({"topic": "t,nowhere"}, "has no topic nowhere$"),
        ({"topic": "t", "subscribe": "t"}, "only one of topic, subscribe and subscribePattern"),
        ({"subscribePattern": "("}, "is not a regular expression"),
        ({"isolation__level": "committed"}, "it may be read_committed or read_uncommitted"),
        ({"columns": "offset,size"}, "columns is 'offset,size'; it may name each of key, value"),
        ({"columns": "offset,offset"}, "columns is"),
        ({"startingOffsets": "soon"}, "startingOffsets is 'soon'; it may be earliest, latest, a number, or"),
        ({"startingOffsets": '{"t": 3}'}, "startingOffsets is"),
        ({"endingOffsets": "-3"}, "endingOffsets is"),
        ({"fromTimestamp": "yesterday"}, "fromTimestamp is 'yesterday'; it must be milliseconds"),
        ({"fromTimestamp": "2024-01-01T00:00:00"}, "says no time zone"),
        ({"splitBytes": "0"}, "splitBytes is '0'; it must be a whole number from 1 on"),
        ({"splitBytes": "9223372036854775808"}, "splitBytes is"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'; it must be a whole number from 1 on"),
        ({"paths": "a"}, r"paths is 'a'; it must be a list of paths in JSON"),
        ({"maxDecompressedBatchBytes": "0"}, "maxDecompressedBatchBytes is '0'; it must be a whole number from 1 on"),
        ({"partitions": "0,-1"}, "partitions is '-1'; it must be a whole number from 0 on"),
        ({"columns": " "}, "columns is ' '; it may name each of key"),
        ({"startingOffsets": "true"}, "startingOffsets is 'true'; it may be earliest"),
        ({"startingOffsets": "9223372036854775808"}, "startingOffsets is"),
        ({"maxDecompressedBatchBytes": "x"}, "maxDecompressedBatchBytes is 'x'; it must be a whole number from 1 on"),
        ({"includeHeaders": "yes"}, "includeHeaders is 'yes'; it may be true or false"),
        ({"path": ""}, "a path is missing"),
    ],
)
def test_mistakes_are_one_clear_line_at_load(data: Path, options: dict[str, str], problem: str) -> None:
    with pytest.raises(SourceError, match=problem) as caught:
        source(**({"path": str(data)} | options)).schema()
    assert "\n" not in str(caught.value)


def test_offsets_that_are_not_there_are_an_error_unless_that_does_not_matter(data: Path) -> None:
    with pytest.raises(SourceError, match="t-0 has offsets from 0 to below 300, not 301, and failOnDataLoss is true"):
        offsets(source(data, startingOffsets="301"))
    assert offsets(source(data, startingOffsets="301", failOnDataLoss="false")) == []


def test_what_lies_before_the_start_of_the_log_is_not_there(tmp_path: Path) -> None:
    log = rig(tmp_path)
    fill(log, 5)
    log.log.raise_log_start_offset(23)
    log.manager.close(True)
    assert offsets(source(tmp_path, startingOffsets="23")) == list(range(23, 50))
    with pytest.raises(SourceError, match="t-0 has offsets from 23 to below 50, not 22, and failOnDataLoss is true"):
        offsets(source(tmp_path, startingOffsets="22"))
    assert offsets(source(tmp_path, startingOffsets="22", failOnDataLoss="false")) == list(range(23, 50))
    reader = stream(tmp_path)
    assert micro_batch(reader, {"t": {"0": 23}}, {"t": {"0": 50}}) == list(range(23, 50))
    with pytest.raises(DataLoss, match="t-0 has offsets from 23 to below 50, and those from 22 to below 50 are wanted"):
        reader.partitions({"t": {"0": 22}}, {"t": {"0": 50}})


def test_internal_topics_are_read_only_if_they_are_named(tmp_path: Path) -> None:
    log = rig(tmp_path)
    log.append(numbered(0, 2))
    log.manager.close(True)
    (tmp_path / "t-0").rename(tmp_path / "__consumer_offsets-0")
    assert offsets(source(tmp_path)) == []
    assert offsets(source(tmp_path, topic="__consumer_offsets")) == [0, 1]
    assert offsets(source(tmp_path / "__consumer_offsets")) == [0, 1]


def test_every_option_is_documented() -> None:
    import ottla.pipeline.data_source.options as module

    assert [name for name in KNOWN - {"path"} if name not in str(module.__doc__)] == []


def _made(kind: str, column: str, value: Any) -> Any:
    """A filter as Spark 4.1 hands it over."""
    made = type(kind, (SimpleNamespace,), {})
    return made(attribute=(column,), value=value)


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(NOW_MS / 1000, UTC) + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([("GreaterThan", "offset", 100), ("LessThanOrEqual", "offset", 105)], range(101, 106)),
        ([("GreaterThanOrEqual", "offset", 290)], range(290, 300)),
        ([("LessThan", "offset", 3), ("IsNotNull", "offset", None)], range(3)),
        ([("EqualTo", "offset", 17)], range(17, 18)),
        ([("GreaterThan", "timestamp", at(7)), ("LessThan", "timestamp", at(10))], range(8, 10)),
        ([("GreaterThanOrEqual", "timestamp", at(7.0001)), ("LessThanOrEqual", "timestamp", at(9.9))], range(8, 10)),
        ([("EqualTo", "timestamp", at(7))], range(7, 8)),
        ([("EqualTo", "timestamp", at(7.0001))], range(0)),
        ([("EqualTo", "partition", 1)], range(0)),
        ([("In", "partition", (0, 3)), ("EqualTo", "topic", "t"), ("LessThan", "offset", 2)], range(2)),
        ([("In", "topic", ("x", "y"))], range(0)),
        ([("EqualTo", "topic", "t"), ("In", "topic", ("x", "y"))], range(0)),
        ([("In", "partition", (0, 3)), ("In", "partition", (0, 1)), ("LessThan", "offset", 2)], range(2)),
        (
            [
                (kind, "offset", value)
                for kind, value in (("GreaterThan", 9), ("GreaterThan", 5), ("LessThan", 15), ("LessThan", 20))
            ],
            range(10, 15),
        ),
        (
            [
                (kind, "timestamp", at(value))
                for kind, value in (("GreaterThan", 9), ("GreaterThan", 5), ("LessThan", 15), ("LessThan", 20))
            ],
            range(10, 15),
        ),
    ],
)
def test_filters_that_spark_pushes(data: Path, filters: list[tuple[str, str, Any]], expected: range) -> None:
    assert offsets(source(data, pushFilters="true"), *(_made(*one) for one in filters)) == list(expected)


@pytest.mark.parametrize(("low", "high", "expected"), [(5, 40, range(20, 30)), (22, 25, range(22, 25))])
@pytest.mark.parametrize("column", ["offset", "timestamp"])
def test_options_and_filters_both_count(data: Path, column: str, low: int, high: int, expected: range) -> None:
    options = {
        "offset": {"startingOffsets": "20", "endingOffsets": '{"t": {"0": 30}}'},
        "timestamp": {"fromTimestamp": str(NOW_MS + 20_000), "untilTimestamp": str(NOW_MS + 30_000)},
    }[column]
    bounds: list[Any] = [low, high] if column == "offset" else [at(low), at(high)]
    filters = [_made("GreaterThanOrEqual", column, bounds[0]), _made("LessThan", column, bounds[1])]
    assert offsets(source(data, pushFilters="true", **options), *filters) == list(expected)


def test_filters_that_no_index_answers_are_left_to_spark() -> None:
    pushed = Pushed()
    for one in (
        _made("EqualTo", "value", b"x"),
        _made("StringContains", "topic", "t"),
        _made("In", "offset", (1, 2)),
        _made("GreaterThan", "timestamp", 5),
        _made("IsNotNull", "key", None),
        type("Not", (), {"child": None})(),
        SimpleNamespace(attribute=("headers", "key"), value=1),
    ):
        assert not pushed.take(one)
    assert (pushed.low, pushed.high, pushed.topics) == (0, MAX_OFFSET, None)


def test_the_hook_is_there_only_if_it_is_asked_for(data: Path) -> None:
    """Spark 4.1 refuses a reader that has it where its configuration says no."""
    assert not hasattr(source(data).reader(schema_of(source(data))), "pushFilters")


# Streams


def stream(path: Path, **options: str) -> StreamReader:
    reader = source(path, **options).streamReader(schema_of(source(path, columns="offset")))
    assert isinstance(reader, StreamReader)
    return reader


def micro_batch(reader: StreamReader, start: Any, end: Any) -> list[int]:
    copy = pickle.loads(pickle.dumps(reader))  # as a task has it
    return [row["offset"] for part in reader.partitions(start, end) for batch in copy.read(part) for row in batch.to_pylist()]


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Partitions 0 and 1 with ten and four records."""
    log = rig(tmp_path)
    fill(log, 1)
    other = log.manager.create("t", 1, log.topic_id, log.config)
    other.append_as_leader(numbered(0, 4), leader_epoch=0)
    log.manager.close(True)
    return tmp_path


def test_a_stream_follows_a_log_that_grows_and_rolls(tmp_path: Path) -> None:
    log = rig(tmp_path, segment_bytes=2000)
    fill(log, 3)
    reader = stream(tmp_path, startingOffsets="earliest")
    start = reader.initialOffset()
    assert start == {"t": {"0": 0}}
    seen: list[int] = []
    for round_ in range(8):
        end = reader.latestOffset()
        seen += micro_batch(reader, start, end)
        assert seen == list(range(30 + 20 * round_))
        assert micro_batch(stream(tmp_path), start, end) == micro_batch(reader, start, end)  # after a restart as well
        start = end
        assert reader.latestOffset() == end
        assert micro_batch(reader, end, end) == []
        fill(log, 2)
    log.manager.close(True)


def test_a_stream_begins_at_the_end_by_default(data: Path) -> None:
    assert stream(data).initialOffset() == {"t": {"0": 300}}
    assert stream(data, startingTimestamp=str(NOW_MS + 40_000)).initialOffset() == {"t": {"0": 40}}
    with pytest.raises(SourceError, match="endingOffsets is for batch queries"):
        stream(data, endingOffsets="5")


def test_half_a_batch_is_not_seen_before_it_is_whole(tmp_path: Path) -> None:
    log = rig(tmp_path)
    fill(log, 2)
    log.manager.close(False)
    reader = stream(tmp_path, startingOffsets="earliest")
    file = tmp_path / "t-0" / "00000000000000000000.log"
    whole = file.read_bytes()
    ends = []
    for cut in (50, 20, 0):
        file.write_bytes(whole[: len(whole) - cut])
        ends.append(reader.latestOffset()["t"]["0"])
    assert ends == [10, 10, 20]


def test_a_committed_stream_waits_for_the_transaction_to_end(tmp_path: Path) -> None:
    log = rig(tmp_path)
    fill(log, 1)
    log.append(batch(5, producer=(7, 0, 0), transactional=True))
    fill(log, 1)
    reader = stream(tmp_path, startingOffsets="earliest", isolation__level="read_committed")
    first = reader.latestOffset()
    assert first == {"t": {"0": 10}}
    end_transaction(log, 7, commit=False)
    second = reader.latestOffset()
    assert second == {"t": {"0": 26}}
    assert micro_batch(reader, first, second) == list(range(15, 25))
    log.manager.close(True)


def test_a_partition_that_appears_is_read_from_its_start(tmp_path: Path) -> None:
    log = rig(tmp_path)
    fill(log, 1)
    reader = stream(tmp_path)
    start = reader.initialOffset()
    other = log.manager.create("t", 1, log.topic_id, log.config)
    other.append_as_leader(numbered(0, 4), leader_epoch=0)
    end = reader.latestOffset()
    assert end == {"t": {"0": 10, "1": 4}}
    assert micro_batch(reader, start, end) == [0, 1, 2, 3]
    log.manager.close(True)


def test_a_stream_reports_offsets_that_are_gone(data: Path) -> None:
    reader = stream(data)
    reader.latestOffset()
    with pytest.raises(DataLoss, match="t-0 has offsets from 0 to below 300, and those from 290 to below 310 are wanted"):
        reader.partitions({"t": {"0": 290}}, {"t": {"0": 310}})
    with pytest.raises(DataLoss, match="t-3 was removed before it was read"):
        reader.partitions({"t": {"3": 0}}, {"t": {"3": 5}})
    easy = stream(data, failOnDataLoss="false")
    assert micro_batch(easy, {"t": {"0": 290, "3": 0}}, {"t": {"0": 310, "3": 5}}) == list(range(290, 300))


def test_a_log_that_was_cut_or_made_again_is_loss_and_not_silence(tmp_path: Path) -> None:
    log = rig(tmp_path)
    fill(log, 3)
    log.manager.close(True)
    reader = stream(tmp_path)
    read = reader.latestOffset()
    shutil.rmtree(tmp_path)
    again = rig(tmp_path)
    fill(again, 1)
    end = reader.latestOffset()
    assert end == {"t": {"0": 10}}
    with pytest.raises(DataLoss, match="t-0 was read to below 30 and now ends at 10: it was cut, or made again, and failOnDataL"):
        reader.partitions(read, end)
    easy = stream(tmp_path, failOnDataLoss="false")
    assert micro_batch(easy, read, end) == []  # as the kafka source: what comes from here on
    fill(again, 1)
    assert micro_batch(easy, end, easy.latestOffset()) == list(range(10, 20))
    again.manager.close(True)


def test_a_partition_that_is_away_goes_on_where_it_was(two: Path) -> None:
    reader = stream(two, startingOffsets="earliest")
    assert reader.initialOffset() == {"t": {"0": 0, "1": 0}}
    (two / "t-1").rename(two / "t-1-stray")
    start = reader.latestOffset()
    assert start == {"t": {"0": 10, "1": 0}}
    (two / "t-1-stray").rename(two / "t-1")
    read = reader.latestOffset()
    assert read == {"t": {"0": 10, "1": 4}}
    assert micro_batch(reader, start, read) == [0, 1, 2, 3]
    (two / "t-1").rename(two / "t-1-stray")
    assert reader.latestOffset() == read  # so Spark has nothing to do
    assert micro_batch(reader, read, read) == []
    with pytest.raises(DataLoss, match="t-1 was removed before it was read"):
        reader.partitions(start, read)


def test_a_partition_that_is_away_when_the_query_starts_again(two: Path) -> None:
    read, end = {"t": {"0": 10, "1": 4}}, {"t": {"0": 10}}
    (two / "t-1").rename(two / "t-1-stray")
    reader = stream(two)
    assert reader.latestOffset() == end  # if Spark did not say first where the query stands
    with pytest.raises(DataLoss, match="t-1 cannot be found any more, and failOnDataLoss is true"):
        reader.partitions(read, end)
    assert reader.latestOffset() == read  # now it has
    easy = stream(two, failOnDataLoss="false")
    assert micro_batch(easy, read, end) == []
    planned = stream(two)  # as Spark 4.0 begins again at a checkpoint
    assert micro_batch(planned, read, read) == []
    assert planned.latestOffset() == read


def test_parsed_options_know_topics_and_partitions() -> None:
    options = parse({"path": "/x", "TOPIC": "a, b", "Partitions": "0,2"})
    assert [options.wants_topic(name) for name in ("a", "b", "c")] == [True, True, False]
    assert [options.wants_partition(number) for number in range(3)] == [True, False, True]


def test_options_that_are_not_given_are_those_of_the_documentation() -> None:
    options = parse({"path": "/x"})
    assert (options.split_bytes, options.max_batch_bytes) == (256 << 20, MAX_DECOMPRESSED_BYTES)
    assert (options.earliest, options.latest) == (MIN_TIMESTAMP, MAX_OFFSET)
    assert (options.starting, options.ending, options.starting_timestamp, options.ending_timestamp) == (None, None, None, None)
    assert (options.committed, options.fail_on_data_loss, options.push_filters) == (False, True, False)
    assert (options.max_offsets, options.partitions, options.topics) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "text"),
    [("splitBytes", "1"), ("splitBytes", str(2**63 - 1)), ("maxOffsetsPerTrigger", "1"), ("startingOffsets", "-2")],
)
def test_the_least_and_the_greatest_numbers_are_numbers(name: str, text: str) -> None:
    options = parse({"path": "/x", name: text})
    assert int(text) in (options.split_bytes, options.max_offsets, options.starting and options.starting.default)


def test_the_kafka_sources_name_of_the_isolation_level_is_known_and_the_other_comes_first() -> None:
    assert parse({"path": "/x", "kafka.isolation.level": "read_committed"}).committed
    assert not parse({"path": "/x", "kafka.isolation.level": "read_committed", "isolation.level": "read_uncommitted"}).committed

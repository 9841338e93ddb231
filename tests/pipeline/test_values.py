"""Tests of how values are written: what is said of a schema before there is Spark and by it, and where a framed Avro body
begins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.pipeline.errors import PipelineError, UsageError
from ottla.pipeline.values import Values, avro_schema, check_given, inferred, struct_of, text_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # py4j leaves some

RECORD = '{"type": "record", "name": "r", "fields": []}'


def test_a_schema_is_a_files_name_or_the_text(tmp_path: Path) -> None:
    file = tmp_path / "schema"
    file.write_text("id BIGINT")
    assert text_of(str(file)) == "id BIGINT"
    assert text_of("id BIGINT, name STRING") == "id BIGINT, name STRING"
    assert text_of(RECORD) == RECORD
    assert text_of(f"id {'x' * 5000}") == f"id {'x' * 5000}"  # too long to be a name
    with pytest.raises(UsageError, match="--schema: nothing-there: No such file"):
        text_of("nothing-there")


@pytest.mark.parametrize(
    ("kind", "given", "why"),
    [
        ("xml", None, "--value: xml is not one of"),
        ("raw", "id BIGINT", "says nothing about raw values"),
        ("avro", None, "needs --schema"),
        ("framed-avro", "{}", "it has no type"),
        ("json", "nothing-there", "No such file"),
    ],
)
def test_what_cannot_be_meant_is_refused(kind: str, given: str | None, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_given(kind, given)


@pytest.mark.parametrize(("kind", "given"), [("raw", None), ("json", None), ("json", "id BIGINT"), ("avro", RECORD)])
def test_what_can_be_meant_is_not(kind: str, given: str | None) -> None:
    check_given(kind, given)


@pytest.mark.parametrize("text", [RECORD, '["null", "string"]', '"string"'])
def test_avro_schemas(text: str) -> None:
    assert avro_schema(text) == text


@pytest.mark.parametrize(
    ("text", "why"), [("{", "is not an Avro schema"), ("7", "it has no type"), ('{"name": "r"}', "it has no type")]
)
def test_what_is_no_avro_schema(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        avro_schema(text)


def test_a_struct_in_sparks_json_form_needs_no_session() -> None:
    field = '{"name": "id", "type": "long", "nullable": true, "metadata": {}}'
    assert struct_of(f' {{"type": "struct", "fields": [{field}]}}').names == ["id"]
    with pytest.raises(UsageError, match="--schema cannot be read"):
        struct_of('{"type": "struct"}')


def test_a_framed_body_begins_behind_its_five_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.sql.functions.expr", lambda text: text)
    monkeypatch.setattr("pyspark.sql.functions.col", lambda name: f"col {name}")
    monkeypatch.setattr("pyspark.sql.avro.functions.from_avro", lambda *arguments: arguments)
    options = {"mode": "PERMISSIVE"}
    assert Values("framed-avro", RECORD).column() == ("substring(value, 6)", RECORD, options)  # SQL counts from one
    assert Values("avro", RECORD).column() == ("col value", RECORD, options)
    assert Values().column() is None


STRUCT = '{"type": "struct", "fields": [{"name": "a", "type": "integer", "nullable": true, "metadata": {}}]}'


def test_a_value_that_does_not_fit_is_null(spark: SparkSession) -> None:
    values = [b'{"a": 7}', b'{"b": 7}', b"not json", None]
    column = Values("json", STRUCT).column()
    assert column is not None
    rows = spark.createDataFrame([(value,) for value in values], "value binary").select(column.alias("data")).collect()
    assert [row["data"] and row["data"].asDict() for row in rows] == [{"a": 7}, {"a": None}, None, None]


def test_a_list_of_columns_is_parsed_by_the_session(spark: SparkSession) -> None:
    assert struct_of(" id BIGINT, name STRING ").names == ["id", "name"]
    with pytest.raises(UsageError, match=r"^--schema is one type, and no list of columns"):
        struct_of("BIGINT")
    with pytest.raises(UsageError, match=r"^--schema cannot be read: "):
        struct_of("id NUMBER OF THINGS")


def test_a_schema_is_inferred_from_json_and_from_nothing_else(spark: SparkSession) -> None:
    def sample(*values: bytes | None) -> DataFrame:
        return spark.createDataFrame([(value,) for value in values], "value binary")

    assert inferred(spark, sample(None, b'{"a": 7}', b"not json", b'{"b": "x"}')).names == ["a", "b"]
    with pytest.raises(PipelineError, match=r"^no schema can be inferred, for the topic has no JSON objects yet; give --schema$"):
        inferred(spark, sample(None))

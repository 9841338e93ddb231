"""How values are written: what is said of a schema before there is Spark, and where a framed Avro body begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipeline.errors import UsageError
from ottla.pipeline.values import Values, avro_schema, check_given, struct_of, text_of

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

"""Unpacks values: makes the column `data` of an archive from JSON or Avro, by a schema that is given or inferred.

A schema is a file or the text itself: for JSON a list of columns as in SQL (`id BIGINT, name STRING`) or Spark's own JSON form of
a schema; for Avro a schema in JSON. Without one, the schema of JSON is inferred from the records that the topic has when the
archive begins, and kept, because a table has one schema. An Avro body does not contain its schema.

A value that does not fit the schema does not stop the job: `data` is null, and the value itself is kept unchanged beside it. Avro
values may have the frame of schema registries, a zero byte and four bytes of an id before the body (`framed`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.pipeline.errors import PipelineError, UsageError, in_one_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

KINDS: Final = ("raw", "json", "avro", "framed-avro")
FRAME_BYTES: Final = 5


@dataclass(frozen=True)
class Values:
    """Says how values are encoded. `schema` is Spark's JSON form of it for JSON, Avro's for Avro, and empty for raw values."""

    kind: str = "raw"
    schema: str = ""

    def column(self) -> Column | None:
        """Returns the column `data`, None for raw values."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        if self.kind == "json":
            parsed = F.from_json(
                F.col("value").cast("string"), StructType.fromJson(json.loads(self.schema)), {"mode": "PERMISSIVE"}
            )
            fits = F.try_parse_json(F.col("value").cast("string")).isNotNull()
            return F.when(fits, parsed)
        if self.kind in {"avro", "framed-avro"}:
            from pyspark.sql.avro.functions import from_avro

            body = F.expr(f"substring(value, {FRAME_BYTES + 1})") if self.kind == "framed-avro" else F.col("value")
            return from_avro(body, self.schema, {"mode": "PERMISSIVE"})
        return None


def text_of(given: str) -> str:
    """Returns the text of a schema, which is given as the name of a file or as the text itself."""
    looks_like_file = not given.lstrip().startswith("{") and " " not in given.strip()
    try:
        return Path(given).read_text() if looks_like_file or Path(given).is_file() else given
    except OSError as error:
        if not looks_like_file:  # it is a text that is too long for a file name
            return given
        raise UsageError(f"--schema: {given}: {error.strerror}") from None


def check_given(kind: str, given: str | None) -> None:
    """Checks of a schema what can be checked before Spark has started. Raises UsageError, in one line."""
    if kind not in KINDS:
        raise UsageError(f"--value: {kind} is not one of {', '.join(KINDS)}")
    if kind == "raw" and given is not None:
        raise UsageError("--schema says nothing about raw values; add --value json or --value avro")
    if kind.endswith("avro"):
        if given is None:
            raise UsageError("--value avro needs --schema: an Avro body does not contain its schema")
        avro_schema(text_of(given))
    elif given is not None:
        text_of(given)


def avro_schema(text: str) -> str:
    """Returns the text if it is JSON and may be an Avro schema, which Spark checks in detail later. Raises UsageError."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--schema is not an Avro schema: {error}") from None
    if not isinstance(found, dict | list | str) or (isinstance(found, dict) and "type" not in found):
        raise UsageError("--schema is not an Avro schema: it has no type")
    return text


def struct_of(text: str) -> StructType:
    """Returns a schema for JSON, given as a list of columns as in SQL, which the active session parses, or in Spark's JSON form.
    Raises UsageError in one line.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        if text.lstrip().startswith("{"):
            return StructType.fromJson(json.loads(text))
        found = StructType.fromDDL(text.strip())
    except (PySparkException, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"--schema cannot be read: {in_one_line(error)}") from None
    if not isinstance(found, StructType):
        raise UsageError("--schema is one type, and no list of columns: write `id BIGINT, name STRING`")
    return found


def inferred(spark: SparkSession, sample: DataFrame) -> StructType:
    """Returns the schema of the JSON values in `sample`. Raises PipelineError if there is none to infer from."""
    texts = sample.selectExpr("cast(value as string) as value").where("value is not null")
    found: StructType = spark.read.option("mode", "DROPMALFORMED").json(texts.rdd.map(lambda row: row[0])).schema
    if not found.fields:
        raise PipelineError("no schema can be inferred, for the topic has no JSON objects yet; give --schema")
    return found

"""`ottla pipeline`: topics as tables, on Spark. The jobs themselves are in ottla.pipeline; docs/pipeline.md describes them.

Errors that can be known before Spark starts are reported before: an unreachable broker, an unknown topic, an invalid schema. Data
goes to standard output, progress to standard error. Exit codes are those of output.py, and `audit` exits with 1 if it found a
difference.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

import typer

from ottla.commands import output
from ottla.commands.clients import client
from ottla.commands.output import Failure, counted
from ottla.commands.pipeline import frame, run
from ottla.commands.pipeline.gaps import explained, is_compacted, snapshot
from ottla.commands.positions import parse_time_ms

app = typer.Typer(help="Topics as tables, on Spark: archive, replay, audit, run.", no_args_is_help=True)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)]
Time = Annotated[str | None, typer.Option(metavar="TIME", help="As in `ottla consume`: 2026-11-21T09:00, or @1795251600000.")]
_EVERY: Final = 10.0


@app.command("archive")
@client.command
@frame.command
def archive(
    cluster: client.Cluster,
    spark: frame.Spark,
    topic: Topic,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="A local directory, or any address that Spark can write to.")],
    continuous: Annotated[
        bool, typer.Option("--continuous/--once", help="Run until Ctrl-C, or archive what is there and end.")
    ] = False,
    value: Annotated[str, typer.Option(help="The format of values: raw, json, avro, framed-avro.")] = "raw",
    schema: Annotated[
        str | None,
        typer.Option(metavar="FILE|TEXT", help="For json `id BIGINT, name STRING`, for avro its JSON. Default: inferred."),
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="Infer a schema from this many records.")] = 10_000,
    table: Annotated[
        str, typer.Option("--format", help="parquet, delta or iceberg (the latter two need --packages).")
    ] = "parquet",
    interval: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Time between batches with --continuous.")] = _EVERY,
    batch: Annotated[int | None, typer.Option(min=1, metavar="RECORDS", help="The most records in one batch.")] = None,
    uncommitted: Annotated[bool, typer.Option("--uncommitted", help="Also archive records of uncommitted transactions.")] = False,
    allow_loss: Annotated[
        bool, typer.Option("--allow-loss", help="Continue even if records were deleted before they were read.")
    ] = False,
) -> None:
    """Archive a topic as a table, exactly once, continuing where the last run ended."""
    from ottla.pipeline import archive as job

    kafka = frame.kafka_cluster(cluster)
    plan = job.Archive(
        kafka, topic, to, value, schema, sample, table, continuous, interval, batch, not uncommitted, allow_loss
    )  # fmt: skip
    job.check(plan)
    frame.known_topic(cluster, topic)
    connectors = ("kafka", "avro") if value.endswith("avro") else ("kafka",)
    with spark.session(connectors, job.conf(plan)) as session:
        totals = job.run(session, plan, output.note)
    done = f"{counted(totals.records, 'record')} in {counted(totals.batches, 'batch', 'batches')} to {to}"
    is_cut = totals.stopped_by is not None and not continuous
    output.note(f"{topic}: interrupted after {done}; the next run continues there" if is_cut else f"{topic}: {done}")
    frame.end_by(totals.stopped_by, continuous=continuous)


@app.command("replay")
@client.command
@frame.command
def replay(
    cluster: client.Cluster,
    spark: frame.Spark,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The archive.", show_default=False)],
    to: Annotated[str, typer.Option("--to", metavar="TOPIC", help="The topic to write to.")],
    since: Time = None,
    until: Time = None,
    key: Annotated[list[str] | None, typer.Option(help="Only records with this key. May be repeated.")] = None,
    key_pattern: Annotated[str | None, typer.Option(metavar="REGEX", help="Only records whose key matches.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, metavar="N", help="The most records per second.")] = None,
    name: Annotated[
        str | None, typer.Option(metavar="GROUP", help="The group that keeps the replay's progress; a new name starts over.")
    ] = None,
) -> None:
    """Write an archive back to a topic, with partitions, order, keys, values, headers and timestamps. It can be resumed."""
    from ottla.pipeline import archive as archive_job
    from ottla.pipeline import replay as job

    kafka = frame.kafka_cluster(cluster)
    plan = job.Replay(kafka, directory, to, name, _ms(since), _ms(until), tuple(key or ()), key_pattern, rate)
    partitions = len(frame.known_topic(cluster, to).partitions)
    with spark.session((), archive_job.conf_of(directory)) as session:
        totals = job.run(session, plan, partitions)
    before = f"; {totals.already:,} were there from an earlier run" if totals.already else ""
    output.note(f"{to}: {counted(totals.written, 'record')} written{before}")


@app.command("audit")
@client.command
@frame.command
def audit(
    cluster: client.Cluster,
    spark: frame.Spark,
    topic: Topic,
    against: Annotated[
        str | None, typer.Option(metavar="DIR|TOPIC|HOST:PORT[/TOPIC]", help="What should hold the same records.")
    ] = None,
    unique: Annotated[
        str | None,
        typer.Option("--unique", metavar="SQL", help="What no two records may share: key, value:id, or any expression."),
    ] = None,
    ordered: Annotated[
        str | None, typer.Option("--ordered", metavar="SQL", help="What must not decrease within a partition, such as timestamp.")
    ] = None,
    bucket: Annotated[
        float, typer.Option(min=0.001, metavar="SECONDS", help="The span of time that a checksum covers.")
    ] = 3600.0,
    gaps: Annotated[bool, typer.Option("--gaps/--no-gaps", help="Whether offsets without a record are differences.")] = True,
    match: Annotated[
        str, typer.Option(help="offset, content, or auto, which compares by offset with an archive of the same topic.")
    ] = "auto",
    limit: Annotated[int, typer.Option(min=1, help="List at most this many differences of a kind.")] = 1000,
    as_json: output.Json = False,
) -> None:
    """Prove that a topic is complete, by itself or compared with something else. The exit code is 1 for any difference."""
    from ottla.pipeline import audit as job
    from ottla.pipeline import audit_job

    kafka = frame.kafka_cluster(cluster)
    other = audit_job.other_side(kafka, topic, against, match)
    partitions = len(frame.known_topic(cluster, topic).partitions)
    if isinstance(other, audit_job.Topic):
        far = client.Cluster({**cluster.properties, "bootstrap.servers": other.cluster.bootstrap}, file=cluster.file)
        frame.known_topic(far, other.name)
        other = other._replace(look=partial(snapshot, far, other.name))
    plan = job.Audit(round(bucket * 1000), unique, ordered, not gaps or is_compacted(cluster, topic), limit)
    asked = partial(snapshot, cluster, topic), other, plan, partial(explained, cluster, topic)
    with spark.session(("kafka",), audit_job.conf(other)) as session:
        report = audit_job.run(session, kafka, topic, *asked)
    output.write_table(job.COLUMNS, [tuple(found) for found in report.findings], as_json=as_json)
    if report.cut:
        output.note(f"only the first {limit:,} are listed of: {', '.join(report.cut)} (--limit)")
    if report.findings:
        least = "at least " if report.cut else ""
        raise Failure(f"{topic}: {least}{counted(len(report.findings), 'difference')} in {counted(report.records, 'record')}")
    output.note(f"{topic}: {counted(report.records, 'record')} in {counted(partitions, 'partition')}, no differences")


app.command("run")(run.run)


def _ms(text: str | None) -> int | None:
    """Returns a time in ms. Raises BadParameter unless it is written as in positions.py."""
    if text is None:
        return None
    found = parse_time_ms(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a time; write 2026-11-21T09:00 or @milliseconds")
    return found

"""`ottla pipeline run`: the options of a streaming SQL job. The job itself is in ottla.pipeline.run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ottla.commands import output
from ottla.commands.admin import pairs
from ottla.commands.clients import client
from ottla.commands.pipeline import frame


@client.command
@frame.command
def run(
    cluster: client.Cluster,
    spark: frame.Spark,
    job: Annotated[Path, typer.Argument(metavar="JOB.sql|JOB.py", help="Its header may also name cluster and checkpoint.")],
    checkpoint: Annotated[str | None, typer.Option(metavar="DIR", help="The directory that keeps each query's progress.")] = None,
    continuous: Annotated[
        bool, typer.Option("--continuous/--once", help="Run until Ctrl-C, or process what is there and end.")
    ] = True,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Without a checkpoint, begin at the oldest record, as --once always does.")
    ] = False,
    assign: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="The value of ${NAME} in the job.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve rows, rows/s and lag to Prometheus on 127.0.0.1; 0: a free port.")
    ] = None,
    progress: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Time between lines of progress; 0: none.")] = 5.0,
) -> None:
    """Run a streaming SQL job from topics to topics and tables, exactly once, continuing where the last run ended."""
    from ottla.pipeline.run import RunOptions, run_job

    kafka = dict(frame.kafka_cluster(cluster).properties)
    if not cluster.is_named:
        del kafka["bootstrap.servers"]  # so that the one in the header takes effect
    options = RunOptions(kafka, checkpoint, not continuous, from_beginning, pairs(assign or (), "--set"), metrics_port, progress)
    frame.end_by(run_job(job, options, spark.session, output.note), continuous=continuous)

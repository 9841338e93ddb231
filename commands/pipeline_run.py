"""`ottla pipeline run`: the options of a streaming SQL job. The job itself is ottla.pipeline.run's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ottla.commands import client, output, pipeline_frame
from ottla.commands.admin import pairs


@client.command
@pipeline_frame.command
def run(
    cluster: client.Cluster,
    spark: pipeline_frame.Spark,
    job: Annotated[Path, typer.Argument(metavar="JOB.sql|JOB.py", help="Its header may name cluster and checkpoint, too.")],
    checkpoint: Annotated[str | None, typer.Option(metavar="DIR", help="Where it is kept how far each query is.")] = None,
    continuous: Annotated[
        bool, typer.Option("--continuous/--once", help="Go on until Ctrl-C, or take what is there and end.")
    ] = True,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Without a checkpoint, begin at the oldest record; --once does anyway.")
    ] = False,
    assign: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="What ${NAME} in the job stands for.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Rows, rows/s and lag for Prometheus on 127.0.0.1; 0 is a free port.")
    ] = None,
    progress: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Between two lines of progress; 0: none.")] = 5.0,
) -> None:
    """Run a streaming SQL job: from topics to topics and tables, exactly once, and go on where the last run ended."""
    from ottla.pipeline.run import RunOptions, run_job

    kafka = dict(pipeline_frame.kafka_cluster(cluster).properties)
    if not cluster.is_named:
        del kafka["bootstrap.servers"]  # the header's counts
    options = RunOptions(kafka, checkpoint, not continuous, from_beginning, pairs(assign or (), "--set"), metrics_port, progress)
    pipeline_frame.end_by(run_job(job, options, spark.session, output.note), continuous=continuous)

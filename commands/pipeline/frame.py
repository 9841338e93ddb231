"""The parts that the commands of `ottla pipeline` share: the options that say where Spark is, and the reporting of Spark's
errors.

    @app.command("archive")
    @client.command
    @frame.command
    def archive(topic: str, *, cluster: client.Cluster, spark: frame.Spark) -> None:
        with spark.session(("kafka",)) as session:
            ...

Nothing of Spark is imported before a session is opened, and nothing of ottla.pipeline before a command runs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from signal import Signals
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ottla.commands import output
from ottla.commands.admin import pairs
from ottla.commands.clients import client
from ottla.commands.output import Failure

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import TopicMetadata
    from pyspark.sql import SparkSession

    from ottla.pipeline.cluster import KafkaCluster
    from ottla.pipeline.session import SparkOptions

_PANEL: Final = "Spark"


class Spark:
    """The location of Spark, as the user gave it."""

    def __init__(self, options: SparkOptions) -> None:
        self.options = options

    @contextmanager
    def session(self, connectors: Sequence[str], conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
        """Opens a session, which is stopped at the end."""
        from dataclasses import replace

        from ottla.pipeline.session import session

        started = session(replace(self.options, conf={**(conf or {}), **self.options.conf}), connectors=connectors)
        try:
            yield started
        finally:
            started.stop()


def kafka_cluster(cluster: client.Cluster) -> KafkaCluster:
    """Returns the cluster in the form that jobs use."""
    from ottla.pipeline.cluster import KafkaCluster

    return KafkaCluster({**cluster.file, **cluster.properties})


def known_topic(cluster: client.Cluster, topic: str) -> TopicMetadata:
    """Returns the topic's metadata. Raises Failure, before Spark starts, if the cluster does not answer or lacks the topic."""
    found = cluster.reach(cluster.admin()).topics.get(topic)
    if found is None:
        raise Failure(f"{topic}: there is no such topic at {cluster.bootstrap}")
    return found


def _option(annotation: Any, default: Any, name: str) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def end_by(signal: Signals | None, *, continuous: bool) -> None:
    """Exits with the shell's code for this signal, unless the job is continuous: for such a job a signal is the normal end."""
    if signal is not None and not continuous:
        raise typer.Exit(128 + signal)


OPTIONS: Final = (
    _option(
        Annotated[
            str | None,
            typer.Option(
                "--master",
                metavar="URL",
                help="An existing cluster: spark://HOST:PORT, yarn, k8s://HOST:PORT. Default: local[*], or spark-submit's.",
                rich_help_panel=_PANEL,
            ),
        ],
        None,
        "master",
    ),
    _option(
        Annotated[
            list[str] | None,
            typer.Option("--jars", metavar="FILE,...", help="The connector's jars. Default: from Maven.", rich_help_panel=_PANEL),
        ],
        None,
        "jars",
    ),
    _option(
        Annotated[
            list[str] | None,
            typer.Option(
                "--packages",
                metavar="GROUP:NAME:VERSION,...",
                help="More jars by Maven coordinates, such as those of Delta or Iceberg.",
                rich_help_panel=_PANEL,
            ),
        ],
        None,
        "packages",
    ),
    _option(
        Annotated[
            list[str] | None,
            typer.Option(
                "--spark-conf", metavar="KEY=VALUE", help="A setting of Spark. May be repeated.", rich_help_panel=_PANEL
            ),
        ],
        None,
        "spark_conf",
    ),
)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Returns a command whose parameter `spark` comes from these options, and which puts Spark's errors into words."""

    @functools.wraps(function)
    def run(
        *,
        master: str | None,
        jars: list[str] | None,
        packages: list[str] | None,
        spark_conf: list[str] | None,
        **own: Any,
    ) -> None:
        from ottla.pipeline.errors import PipelineError, UsageError
        from ottla.pipeline.session import SparkOptions

        conf = pairs(spark_conf or (), "--spark-conf")
        spark = Spark(SparkOptions(master, _listed(jars), _listed(packages), conf))
        try:
            with _in_words():
                function(spark=spark, **own)
        except UsageError as error:
            raise typer.BadParameter(str(error)) from None
        except PipelineError as error:
            raise Failure(str(error)) from None

    output.with_resolved_types(run, function, spark=OPTIONS)
    return run


def _listed(words: list[str] | None) -> tuple[str, ...]:
    return tuple(part for word in words or () for part in word.split(",") if part)


@contextmanager
def _in_words() -> Iterator[None]:
    """Turns errors of Spark and Py4J into a PipelineError of one line. Their classes are only looked up if they are loaded."""
    import sys

    from ottla.pipeline.errors import PipelineError, in_one_line

    try:
        yield
    except Exception as error:
        spark, py4j = sys.modules.get("pyspark.errors"), sys.modules.get("py4j.protocol")
        kinds = [] if spark is None else [spark.PySparkException]
        kinds += [] if py4j is None else [py4j.Py4JError]
        if not isinstance(error, tuple(kinds)):
            raise
        raise PipelineError(in_one_line(error)) from error

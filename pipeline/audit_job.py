"""Runs an audit: works out the other side from what the user named and how the two are compared, and collects the findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.pipeline import archive, audit, compare
from ottla.pipeline.audit import Audit, Bounds, Finding, Gap
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MATCHES: Final = ("auto", "offset", "content")
_ADDRESS: Final = re.compile(r"^([^/\s]+:\d+(?:,[^/\s]+:\d+)*)(?:/(.+))?$")


class Directory(NamedTuple):
    """An archive with which the topic is compared."""

    path: str
    match: str


class Topic(NamedTuple):
    """A topic with which the topic is compared, at this or another cluster, and the function that returns its bounds."""

    cluster: KafkaCluster
    name: str
    match: str
    look: Callable[[], Bounds] | None = None


class Report(NamedTuple):
    """The result: how many records the topic has, what is wrong, and the kinds of which only the first findings are listed."""

    records: int
    findings: list[Finding]
    cut: tuple[str, ...] = ()


def other_side(cluster: KafkaCluster, topic: str, against: str | None, match: str) -> Directory | Topic | None:
    """Returns what `--against` names: a directory, if that exists or if it can be nothing else; HOST:PORT; or a topic."""
    if match not in MATCHES:
        raise UsageError(f"--match: {match} is not one of {', '.join(MATCHES)}")
    if against is None:
        return None
    if "://" in against or against.startswith(("/", ".", "~")) or Path(against).is_dir():
        return Directory(str(Path(against).expanduser()) if "://" not in against else against, match)
    address = _ADDRESS.match(against)
    if address:
        return Topic(cluster.at(address[1]), address[2] or topic, match)
    if against == topic:
        raise UsageError(f"--against {against} is the topic itself")
    return Topic(cluster, against, match)


def conf(other: Directory | Topic | None) -> dict[str, str]:
    """Returns the configuration that the session needs to read the other side."""
    if not isinstance(other, Directory):
        return {}
    return archive.conf_of(other.path)


def run(
    spark: SparkSession,
    cluster: KafkaCluster,
    topic: str,
    look: Callable[[], Bounds],
    other: Directory | Topic | None,
    plan: Audit,
    explain: Callable[[Iterable[Gap]], Iterator[Gap]],
) -> Report:
    """Runs the audit and returns its report. Spark caches the topic's side over the several jobs, on disk if it must.

    `look` returns the topic's bounds: those of its snapshot and, if it is called again at the end, the present ones.
    """
    far: Bounds = other.look() if isinstance(other, Topic) and other.look is not None else {}
    bounds = look()
    filled = {partition: pair for partition, pair in bounds.items() if pair[1] > pair[0]}
    rows = audit.of_topic(spark, cluster, topic, bounds).persist()
    try:
        found = audit.alone(spark, rows, plan, filled, explain)
        if other is not None:
            if isinstance(other, Directory):
                archived, what = archive.read(spark, other.path)
                side = compare.Side(audit.canonical(archived))
                same_offsets = other.match == "offset" or (other.match == "auto" and what["topic"] == topic)
            else:
                side = compare.Side(audit.of_topic(spark, other.cluster, other.name, far), far, other.look)
                same_offsets = other.match == "offset"
            if same_offsets:
                found += compare.by_offset(compare.Side(rows, bounds, look), side, plan)
            else:
                found += compare.by_content(rows, side.rows, plan)
        return Report(rows.count(), *audit.listed(found, plan.limit))
    finally:
        rows.unpersist()

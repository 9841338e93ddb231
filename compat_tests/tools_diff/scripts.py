"""All scripts, in the order in which both brokers take them, and the settings of these brokers."""

from __future__ import annotations

from collections.abc import Iterator

from compat_tests.tools_diff import scripts_checks, scripts_cluster, scripts_groups, scripts_records, scripts_topics
from compat_tests.tools_diff.masks import MASKS, Mask
from compat_tests.tools_diff.script import Run

SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""Beyond those of every broker of the tests: quick heartbeats, small internal topics."""

ALL = scripts_topics.ALL + scripts_cluster.ALL + scripts_groups.ALL + scripts_records.ALL + scripts_checks.ALL


def calls() -> Iterator[Run]:
    """Yields every call of a tool, in order."""
    for script in ALL:
        yield from (step for step in script.steps if isinstance(step, Run))


def calls_by_mask() -> dict[Mask, list[str]]:
    """Returns the masks of single calls, each with its calls as they are typed."""
    found: dict[Mask, list[str]] = {}
    for call in calls():
        for mask in call.hide:
            found.setdefault(mask, []).append(call.line)
    return found


def all_masks() -> tuple[Mask, ...]:
    """Returns the masks of every call, then those of single ones."""
    return (*MASKS, *calls_by_mask())

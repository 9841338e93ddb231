"""Partitions that a group's lag leaves out: partitions of its topics in which nothing is committed and that no member reads.

Kafka lists such a partition nowhere, so a group that has read one partition of three looks nearly caught up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.commands.clients.partition import Partition
from ottla.commands.output import counted
from ottla.console.cluster.source import TopicSummary

MOST: Final = 3


def uncommitted(topics: Mapping[str, TopicSummary], listed: Iterable[Partition]) -> list[str]:
    """Returns a sentence for each topic of the `listed` partitions that has others, for the first `MOST` of them."""
    seen = Counter(one.topic for one in set(listed))
    missing = {name: topics[name].partitions - number for name, number in sorted(seen.items()) if name in topics}
    return [
        f"The lag leaves out {counted(number, 'partition')} of {name} without a committed offset; "
        "where a consumer begins there is up to its auto.offset.reset."
        for name, number in missing.items()
        if number > 0
    ][:MOST]

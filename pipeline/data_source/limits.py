"""Implements `maxOffsetsPerTrigger` of a stream of `format("ottla")`: how much of the unread records a micro-batch takes.

Only from 4.2 on does Spark request limited batches of a Python source: then it passes where the batch begins and its limit
(`latestOffset(start, limit)`), and announces a query that is to end with what exists now, perhaps after many batches
(`prepareForTriggerAvailableNow`); admission.py is the reader for that. Earlier versions do neither. There a source cannot
know the position of a query that continues from its checkpoint, and with availableNow Spark would end after one batch, whatever
is left: so the option is refused.

As in the kafka source, offsets count, not records, and each partition contributes its share of what is unread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

Ends = dict[str, dict[str, int]]
"""A stream's offsets: {"topic": {"0": next offset}}."""

REFUSED: Final = "maxOffsetsPerTrigger needs Spark 4.2: earlier versions do not pass a Python source the start of a micro-batch"


def with_absent(ends: Mapping[str, Mapping[str, int]], before: Mapping[str, Mapping[str, int]]) -> Ends:
    """Returns `ends`, completed by the offsets in `before` of partitions that are not in it."""
    return {topic: {**before.get(topic, {}), **ends.get(topic, {})} for topic in (*before, *ends)}


def limited(begin: Mapping[str, Mapping[str, int]], end: Ends, most: int, first_offset: Callable[[str, str], int]) -> Ends:
    """Returns the end of a batch of at most `most` offsets from `begin`; `first_offset` returns where a partition begins that is
    not in `begin`.

    A partition that ends before it begins stays as it is, to be reported when the batch is planned. Shares are rounded down; what
    is left over goes to the partitions with the most unread records, so no batch is empty.
    """
    begins = {
        (topic, number): begin[topic][number] if number in begin.get(topic, {}) else first_offset(topic, number)
        for topic, ends in end.items()
        for number in ends
    }
    unread = {place: max(0, end[place[0]][place[1]] - low) for place, low in begins.items()}
    total = sum(unread.values())
    if total <= most:
        return end
    taken = {place: behind * most // total for place, behind in unread.items()}
    left_over = most - sum(taken.values())
    for place in sorted(unread, key=lambda place: (-unread[place], place))[:left_over]:
        taken[place] += taken[place] < unread[place]
    found: Ends = {}
    for (topic, number), low in begins.items():
        found.setdefault(topic, {})[number] = min(low + taken[topic, number], end[topic][number])
    return found

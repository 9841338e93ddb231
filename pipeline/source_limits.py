"""`maxOffsetsPerTrigger` of a stream of `format("ottla")`: how much of what there is a micro-batch takes.

Spark asks a Python source for less than all only from 4.2 on: then it says where the batch begins and what it may hold
(`latestOffset(start, limit)`), and tells when a query is to end with what is there now, be it many batches
(`prepareForTriggerAvailableNow`); source_admission.py is the reader for it. Earlier ones say neither. So a source cannot know
where a query stands that goes on from its checkpoint, and with availableNow Spark would end after one batch, whatever is left:
there the option is refused.

As in the kafka source, what counts are offsets, not records, and each partition gives its share of what is unread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

Ends = dict[str, dict[str, int]]
"""A stream's offsets: {"topic": {"0": next offset}}."""

REFUSED: Final = "maxOffsetsPerTrigger needs Spark 4.2: earlier ones do not tell a Python source where a micro-batch begins"


def with_absent(ends: Mapping[str, Mapping[str, int]], before: Mapping[str, Mapping[str, int]]) -> Ends:
    """Returns the offsets, and of `before` those of partitions that they lack."""
    return {topic: {**before.get(topic, {}), **ends.get(topic, {})} for topic in (*before, *ends)}


def limited(begin: Mapping[str, Mapping[str, int]], end: Ends, most: int, first_offset: Callable[[str, str], int]) -> Ends:
    """Returns the end of a batch of at most so many offsets from `begin`; `first_offset` is where a partition begins that is not
    in it.

    A partition that ends before it begins stays as it is, for who plans the batch to tell. Shares are rounded
    down; what is left over goes to the partitions with the most that is unread, so every batch has something.
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

"""The kinds of groups that `__consumer_offsets` holds."""

from __future__ import annotations

import enum


class Kind(enum.Enum):
    """The values are the names of group types that ListGroups shows, in lower case."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"

"""Lists the kinds of groups in `__consumer_offsets`."""

from __future__ import annotations

import enum


class Kind(enum.Enum):
    """The kinds of groups. The values are the names of group types that ListGroups shows, in lower case."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"

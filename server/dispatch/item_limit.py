"""Bounds what one request asks for (`ottla.request.max.items`), before it is decoded.

On the loop, elements are counted only until there are more of them than are decoded there; the rest of such a request is counted
in the thread that decodes it, because walking over fifty thousand of them takes longer than a turn.
"""

from __future__ import annotations

from ottla.server.base.errors import CloseConnection
from ottla.server.requests.context import BrokerContext
from ottla.wire.api import APIS
from ottla.wire.items import TooManyItems, count_items, has_more_items, layout_of
from ottla.wire.primitives import Buffer


def is_long(broker: BrokerContext, key: int, version: int, frame: Buffer, pos: int, few: int) -> bool:
    """Returns whether the lists of the request whose body is at `pos` have more than `few` elements. Raises CloseConnection if it
    is certain already that there are more than are allowed, or one of MALFORMED."""
    most = most_items(broker)
    try:
        return has_more_items(key, version, frame, pos, most, min(most, few))
    except TooManyItems:
        raise refused(broker, key, version, len(frame)) from None


def count_all(broker: BrokerContext, key: int, version: int, frame: Buffer, pos: int) -> None:
    """Raises TooManyItems if a request has more elements than are allowed, or one of MALFORMED."""
    layout = layout_of(key, version)
    if layout is not None:
        count_items(layout, frame, pos, most_items(broker))


def refused(broker: BrokerContext, key: int, version: int, size: int) -> CloseConnection:
    """Returns what closes the connection that a request with too many elements came by, and counts the request."""
    broker.refused_requests += 1
    return CloseConnection(
        f"its {APIS[key].name} v{version} of {size} bytes has more than {most_items(broker)} items (ottla.request.max.items)"
    )


def most_items(broker: BrokerContext) -> int:
    """Returns how many elements the lists of a request may have."""
    most: int = broker.config.values["ottla.request.max.items"]
    return most

"""The names of a fault's fields, and where each belongs: in `on`, in `do`, or beside them. Python has them all as keywords."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.server.testkit.fields import Refused

if TYPE_CHECKING:
    from ottla.server.testkit.fields import Fields

SELECTORS: Final = (
    *("api", "topic", "partition", "group", "transactional_id", "resource"),
    *("client_id", "client_host", "node", "version", "where"),
)
ACTIONS: Final = (
    *("error", "message", "top_level", "throttle_ms", "delay_ms", "jitter_ms", "hold", "disconnect", "blackhole"),
    *("drip", "cut_after", "corrupt", "observe"),
)
RULES: Final = ("times", "on_call", "probability", "for_ms", "act")

FOR_EVER: Final = -1
"""The value of `times` for a fault that does not end by itself."""
MOST_TIMES: Final = 2**31 - 1

OUTERMOST: Final = ""
_PLACES: Final = {
    **dict.fromkeys(SELECTORS, "on"),
    **dict.fromkeys(ACTIONS, "do"),
    **dict.fromkeys(RULES, OUTERMOST),
}


def check_places(fields: Fields, place: str) -> None:
    """Raises Refused for a field of a fault that is in another object than its own; `place` is the one that these are in."""
    for name in fields.all():
        belongs = _PLACES.get(name, place)
        if belongs != place:
            where = "beside on and do" if belongs == OUTERMOST else f"in {belongs}"
            raise Refused(f"{fields.path(name)} is no field here; it belongs {where}")

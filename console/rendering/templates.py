"""Templates: everything that they put out is made visible (text.py), then escaped. `|safe` is forbidden, by a test.

Filters: `number` 1,234; `size` 1.2 KiB; `lasting` 3 min, of ms; `when` a time in ms since 1970 on this computer's clock, `utc`
the same in UTC; `seg` one part of an address; `preview` and `shown` of bytes, `folded` of JSON that is shown; `plural`;
`as_typed` for what goes back into a field; `amount` of a number in a chart. What is not known is a dash.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ottla.commands.output import counted
from ottla.commands.topic_rows import human_bytes
from ottla.commands.why.verdicts import human_seconds
from ottla.console.rendering.charts import amount
from ottla.console.rendering.folding import folded
from ottla.console.rendering.text import preview, shown, visible

FOLDER: Final = Path(__file__).parents[1] / "templates"
NOT_KNOWN: Final = "–"


def number(value: int | None) -> str:
    """Returns a number with separators."""
    return NOT_KNOWN if value is None else f"{value:,}"


def size(value: int | None) -> str:
    return NOT_KNOWN if value is None else human_bytes(value)


def lasting(time_ms: int | None) -> str:
    """Returns how long something lasts: 0.4 s, 40 s, 3 min, 5 h, 2 days."""
    return NOT_KNOWN if time_ms is None else human_seconds(time_ms / 1000)


def when(time_ms: int | None) -> str:
    """Returns a time on this computer's clock; one that no calendar has as its number."""
    return _time(time_ms, utc=False)


def utc(time_ms: int | None) -> str:
    return _time(time_ms, utc=True)


def _time(time_ms: int | None, *, utc: bool) -> str:
    if time_ms is None or time_ms < 0:
        return NOT_KNOWN
    try:
        at = datetime.fromtimestamp(time_ms // 1000, UTC).replace(microsecond=time_ms % 1000 * 1000)
        return at.isoformat(" ", "milliseconds") if utc else at.astimezone().replace(tzinfo=None).isoformat(" ", "milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def segment(text: object) -> str:
    """Returns the text as one part of an address, or as a value in a query."""
    return quote(str(text), safe="", errors="replace")


class AsTyped(str):
    """A text that a user has typed into a field, to be put back into it as it was; it is escaped all the same."""

    __slots__ = ()


def _put_out(value: Any) -> Any:
    if isinstance(value, Markup | AsTyped):  # Markup is a macro's, whose own values came through here
        return value
    return "" if value is None else visible(str(value))


class Templates:
    """The console's templates; `known` are values that every one has."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_put_out,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "number": number,
            "size": size,
            "lasting": lasting,
            "when": when,
            "utc": utc,
            "seg": segment,
            "preview": preview,
            "shown": shown,
            "folded": folded,
            "plural": counted,
            "as_typed": AsTyped,
            "amount": amount,
        }
        self._environment.globals |= known

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        return self._environment.get_template(template).render(values)

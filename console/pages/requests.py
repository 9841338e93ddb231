"""The page about what requests do: those of one client, or of all, as lanes of what the broker did for each, while it watched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.commands.output import Failure
from ottla.console.ask import Answer, Ask, Page, Redirect, paged, whole
from ottla.console.errors import BadInput

MOST: Final = 500
DEFAULT: Final = 100
SECONDS: Final = 60
WIDTH: Final = 1000
HEIGHT: Final = 16
SHOWN: Final = 80
_STAGES: Final = ("decoded", "handled", "waited", "encoded")


class Bar(NamedTuple):
    """A stage of a request, in a picture that is WIDTH wide."""

    stage: str
    x: float
    width: float


class Lane(NamedTuple):
    """A request: its number, where its lane is, and its stages."""

    number: int
    y: int
    seen: Mapping[str, Any]
    bars: Sequence[Bar]
    took_us: float


def requests(ask: Ask) -> Answer:
    """Shows the last watch, the fields of one of its requests if `?request=` names it, and the form that begins another."""
    if ask.inside is None:
        return Page("without_inside.html", {"title": "Requests"})
    chosen = ask.number("request", 0, 1, MOST)
    found = ask.inside.ask("watched_requests", request=chosen - 1 if chosen else None)
    return _page(ask, found, chosen, {})


def watch(ask: Ask) -> Answer:
    """Begins a watch. It changes nothing of the cluster, but costs the watched requests some time."""
    if ask.inside is None:
        return Page("without_inside.html", {"title": "Requests"})
    try:
        most = whole(ask.form.get("n", ""), "n", DEFAULT, 1, MOST, label="requests")
        seconds = whole(ask.form.get("seconds", ""), "seconds", 10, 1, SECONDS)
        client = ask.form.get("client", "") or None
        ask.inside.ask("watch_requests", client_id=client, most=most, seconds=seconds)
    except (BadInput, Failure) as error:
        return _page(ask, ask.inside.ask("watched_requests"), 0, {**ask.form, "problem": str(error)}, 400)
    ask.audit(f"watched {most} requests of {'all clients' if client is None else ascii(client)} for {seconds} s")
    return Redirect("/requests")


def _page(ask: Ask, found: Mapping[str, Any], chosen: int, form: Mapping[str, str], status: int = 200) -> Page:
    seen = found.get("requests", [])
    page = paged(ask, seen, SHOWN)
    is_chosen = bool(found.get("fields"))
    lanes = [] if is_chosen else lanes_of(page.shown, page.first - 1)
    return Page(
        "requests.html",
        {
            "found": found,
            "lanes": lanes,
            "height": HEIGHT * len(lanes),
            "page": page,
            "span_us": span_of([lane.seen for lane in lanes]),
            "chosen": chosen if is_chosen else 0,
            "form": {"client": "", "n": str(DEFAULT), "seconds": "10", "problem": "", **form},
            "width": WIDTH,
        },
        status,
    )


def span_of(seen: Sequence[Mapping[str, Any]]) -> float:
    """Returns how many microseconds there are from the first to the end of the last."""
    return max((each["after_us"] + _took(each) for each in seen), default=0) - (seen[0]["after_us"] if seen else 0)


def _took(each: Mapping[str, Any]) -> float:
    return sum(each[f"{stage}_us"] or 0 for stage in _STAGES)


def lanes_of(seen: Sequence[Mapping[str, Any]], first: int) -> list[Lane]:
    """Returns a lane for each request, in one scale of time; what is too short to be seen is a unit wide."""
    scale = WIDTH / max(1.0, span_of(seen))
    lanes = []
    for at, each in enumerate(seen):
        x, bars = (each["after_us"] - seen[0]["after_us"]) * scale, []
        for stage in _STAGES:
            us = each[f"{stage}_us"]
            if us is not None:
                bars.append(Bar(stage, round(min(x, WIDTH - 1), 1), round(max(1.0, us * scale), 1)))
                x += us * scale
        lanes.append(Lane(first + at + 1, at * HEIGHT, each, bars, _took(each)))
    return lanes

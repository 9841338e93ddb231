"""The call of the kit that a form on the test kit's page stands for: its method, path and body."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from ottla.console.ask import Ask, whole
from ottla.console.errors import BadInput

MOST: Final = 2**31 - 1
UNITS: Final = {"seconds": 1000, "minutes": 60_000, "hours": 3_600_000, "days": 86_400_000}
PASSES: Final = ("retention", "compaction", "expiry")
WAYS: Final = ("clean", "kill", "power_cut")
_ON: Final = ("api", "topic", "group", "client_id")

DO: Final[Mapping[str, Callable[[str], dict[str, Any]]]] = {
    "answer with the error": lambda value: {"error": value},
    "wait, in ms": lambda value: {"delay_ms": _ms(value)},
    "throttle, in ms": lambda value: {"throttle_ms": _ms(value)},
    "hold until released": lambda _: {"hold": True},
    "close the connection": lambda _: {"disconnect": "close"},
    "reset the connection": lambda _: {"disconnect": "reset"},
    "never answer": lambda _: {"blackhole": True},
    "only count": lambda _: {"observe": True},
}
"""The effects of faults, by the words in the form."""


class Called(NamedTuple):
    method: str
    path: str
    body: Any = None


def called_by(ask: Ask) -> Called:
    """Returns the call that the form that was sent stands for. Raises BadInput."""
    act = ask.form.get("act", "")
    if act not in _ACTS:
        raise BadInput(f"act: there is no {act!r:.40}", "act")
    return _ACTS[act](ask)


def _fault(ask: Ask) -> Called:
    if text := ask.form.get("json", "").strip():
        try:
            return Called("POST", "/v1/faults", json.loads(text))
        except (ValueError, RecursionError) as error:
            raise BadInput(f"JSON: {error}", "json") from None
    kind = ask.form.get("do", "")
    if kind not in DO:
        raise BadInput(f"do: has to be one of {', '.join(DO)}", "do")
    on = {name: value for name in _ON if (value := ask.form.get(name, "").strip())}
    body: dict[str, Any] = {"on": on, "do": DO[kind](ask.form.get("value", "").strip())}
    if ask.form.get("times", "").strip():
        body["times"] = whole(ask.form["times"], "times", 1, -1, MOST)
    return Called("POST", "/v1/faults", body)


def _ms(text: str) -> int:
    if not text:
        raise BadInput("value: say how many ms", "value")
    return whole(text, "value", 0, 0, MOST)


def _one_fault(ask: Ask) -> str:
    return f"/v1/faults/{quote(ask.form.get('id', ''), safe='')}"


def _advance(ask: Ask) -> Called:
    unit = ask.form.get("unit", "hours")
    if unit not in UNITS:
        raise BadInput(f"unit: has to be one of {', '.join(UNITS)}", "unit")
    by = whole(ask.form.get("by", ""), "by", 1, 0, MOST) * UNITS[unit]
    keep = {"keep_members": True} if ask.form.get("keep_members") == "1" else {}
    return Called("POST", "/v1/clock/advance", {"ms": by, **keep})


def _snapshot(ask: Ask) -> Called:
    name = ask.form.get("name", "").strip()
    return Called("POST", "/v1/snapshots", {"name": name} if name else {})


def _restart(ask: Ask) -> Called:
    down_ms = whole(ask.form.get("down_ms", ""), "down_ms", 0, 0, 600_000)
    return Called("POST", "/v1/restart", {"how": ask.form.get("how", WAYS[0]), "down_ms": down_ms})


def _record(ask: Ask) -> Called:
    most = whole(ask.form.get("max", ""), "max", 1000, 0, 1_000_000)
    return Called("POST", "/v1/recording", {"max": most, "records": ask.form.get("records") == "1"})


_ACTS: Final[Mapping[str, Callable[[Ask], Called]]] = {
    "fault": _fault,
    "release": lambda ask: Called("POST", f"{_one_fault(ask)}/release"),
    "remove": lambda ask: Called("DELETE", _one_fault(ask)),
    "remove all": lambda _: Called("DELETE", "/v1/faults"),
    "advance": _advance,
    "set": lambda ask: Called("POST", "/v1/clock/set", {"at": ask.form.get("at", "").strip()}),
    "freeze": lambda _: Called("POST", "/v1/clock/freeze"),
    "resume": lambda _: Called("POST", "/v1/clock/resume"),
    "run": lambda ask: Called("POST", "/v1/run", {"what": ask.form.get("what", "")}),
    "snapshot": _snapshot,
    "restart": _restart,
    "record": _record,
    "forget": lambda _: Called("DELETE", "/v1/requests"),
}

"""The calls about recorded requests, for the table in control.py."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ottla.server.testkit.fault_fields import SELECTORS
from ottla.server.testkit.fields import Fields, Refused
from ottla.server.testkit.given import Given

if TYPE_CHECKING:
    from ottla.server.testkit.kit import Kit
    from ottla.server.testkit.recording.recording import Entry, Recorder

DEFAULT_REQUESTS: Final = 10_000
MOST_REQUESTS: Final = 1_000_000
FORMATS: Final = ("json", "frames")


def record(kit: Kit, given: Given) -> Any:
    """Has the latest `max` requests recorded, 0 for none, and with `records` also the records in them."""
    fields = given.fields
    most, records = fields.take_number("max", DEFAULT_REQUESTS, high=MOST_REQUESTS), fields.take("records", bool, False)
    fields.done()
    return _describe(kit.record(most, records=records))


def describe(kit: Kit, given: Given) -> Any:
    """Says what is recorded."""
    given.fields.done()
    return _describe(kit.recorder)


def _describe(recorder: Recorder | None) -> dict[str, Any]:
    if recorder is None:
        return {"max": 0, "records": False, "requests": 0, "bytes": 0, "last_seq": 0}
    return {
        "max": recorder.max,
        "records": recorder.records,
        "requests": len(recorder),
        "bytes": recorder.held_bytes,
        "last_seq": recorder.last_seq,
    }


def requests(kit: Kit, given: Given) -> Any:
    """Answers with the recorded requests that are selected, the oldest first: those after `since`, the last `limit` of them, with
    `held` only those that a fault holds. Raises Refused, with 409 if nothing was ever recorded."""
    from ottla.server.testkit.calls.request_selector import RequestSelector, from_query

    recorder = _recorder(kit)
    fields = given.fields
    since, limit, held = fields.take_number("since", 0), fields.take_number("limit", MOST_REQUESTS), _flag(fields, "held")
    form = fields.take_choice("format", FORMATS, FORMATS[0])
    selected_by = {name: fields.take_any(name) for name in SELECTORS}
    fields.done()
    selector = RequestSelector(from_query({name: value for name, value in selected_by.items() if value is not None}), kit)
    found = [entry for entry in recorder if entry.seq > since and (not held or _is_held(kit, entry)) and selector(entry)]
    return _shown(found, limit, recorder, form)


def report(kit: Kit, given: Given) -> Any:
    """Answers with what a failed test wants to know: the last requests, at most `limit`, and all faults, also removed ones. With
    the `last_seq` and `last_fault` of an earlier report as `since` and `since_fault`, it leaves out what was before."""
    fields, recorder = given.fields, kit.recorder
    since, since_fault, limit = (fields.take_number(name, 0) for name in ("since", "since_fault", "limit"))
    fields.done()
    faults = kit.faults if kit.has_faults else None
    removed = [] if faults is None else [fault for fault in faults.removed if fault.number > since_fault]
    found = [] if recorder is None else [entry for entry in recorder if entry.seq > since]
    return {
        "last_seq": 0 if recorder is None else recorder.last_seq,
        "last_fault": 0 if faults is None else faults.count,
        "faults": [fault.describe() for fault in sorted([*(faults or ()), *removed], key=lambda fault: fault.number)],
        "requests": [] if recorder is None else _shown(found, limit, recorder, FORMATS[0]),
    }


def _shown(found: list[Entry], limit: int, recorder: Recorder, form: str) -> list[dict[str, Any]]:
    """Returns the last of the requests that were found, at most `limit`."""
    from ottla.server.testkit.recording.recorded import show, show_frames

    last = found[max(0, len(found) - limit) :]
    return [show_frames(entry) if form == FORMATS[1] else show(entry, records=recorder.records) for entry in last]


def forget(kit: Kit, given: Given) -> Any:
    """Forgets all recorded requests; answers with how many they were."""
    given.fields.done()
    recorder = _recorder(kit)
    count = len(recorder)
    recorder.clear()
    return {"forgotten": count}


def _recorder(kit: Kit) -> Recorder:
    if kit.recorder is None:
        raise Refused("nothing is recorded yet; begin with POST /v1/recording, or record() in Python", HTTPStatus.CONFLICT)
    return kit.recorder


def _is_held(kit: Kit, entry: Entry) -> bool:
    return entry.request is not None and kit.has_faults and any(fault.holds(entry.request) for fault in kit.faults)


def _flag(fields: Fields, name: str) -> bool:
    """Takes out true or false, which in a query is 1, 0 or a word, and may be so in Python. Raises Refused."""
    value = fields.take_any(name)
    if value is None:
        return False
    text = str(value).lower() if type(value) in (bool, int) else value
    flags = {"1": True, "true": True, "0": False, "false": False}
    if not isinstance(text, str) or text not in flags:
        raise Refused(f"{name} must be 1 or 0, or true or false, not {value!r:.50}")
    return flags[text]

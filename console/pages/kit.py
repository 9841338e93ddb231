"""The test kit of a broker under test: its faults, its clock, its lives and snapshots, and what it has recorded.

Each form stands for one call of the kit (kit_forms.py); the page shows the last one as HTTP has it, with its answer. What throws
data away has a page of its own, where a name has to be typed.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from ottla.commands.output import Failure
from ottla.console.ask import Answer, Ask, Page, Redirect
from ottla.console.broker.kit import do, look
from ottla.console.errors import BadInput, Missing
from ottla.console.pages.forms import Form, form_page, submit
from ottla.console.pages.kit_forms import DO, PASSES, UNITS, WAYS, called_by

REQUESTS: Final = 25
"""So many of the recorded requests are shown."""
LONGEST: Final = 1500
"""So many characters of a body in JSON."""
AT: Final = "/test"


def kit(ask: Ask) -> Answer:
    """Shows the kit; `?api=` and `?client=` select recorded requests."""
    return _page(ask)


def act(ask: Ask) -> Answer:
    """Makes the call of the form that was sent."""
    if ask.inside is None:
        return _page(ask)
    try:
        call = called_by(ask)
        do(ask.inside, *call)
    except (BadInput, Failure, Missing) as error:
        ask.audit(f"test kit: refused: {ask.form.get('act', '')!a}: {error}")
        return _page(ask, str(error), HTTPStatus.BAD_REQUEST)
    ask.source.changed()
    ask.audit(f"test kit: {call.method} {call.path} {'' if call.body is None else json.dumps(call.body)}: done")
    return Redirect(AT)


def ask_to_reset(ask: Ask) -> Answer:
    """Asks whether all data shall go."""
    return form_page(ask, _reset_form())


def reset(ask: Ask) -> Answer:
    """Begins anew with an empty broker."""
    return submit(ask, _reset_form(), "test kit: reset", lambda: _do(ask, "POST", "/v1/reset"), AT)


def ask_to_restore(ask: Ask) -> Answer:
    """Asks whether the data shall be those of the snapshot `?name=`."""
    return form_page(ask, _restore_form(ask))


def restore(ask: Ask) -> Answer:
    """Begins anew with the data of the snapshot."""
    form = _restore_form(ask)
    path = f"{_path(ask)}/restore"
    return submit(ask, form, f"test kit: restore snapshot {form.name!a}", lambda: _do(ask, "POST", path), AT)


def ask_to_delete(ask: Ask) -> Answer:
    """Asks whether the snapshot `?name=` shall go."""
    return form_page(ask, _delete_form(ask))


def delete(ask: Ask) -> Answer:
    """Deletes the snapshot."""
    form = _delete_form(ask)
    return submit(ask, form, f"test kit: delete snapshot {form.name!a}", lambda: _do(ask, "DELETE", _path(ask)), AT)


def _do(ask: Ask, method: str, path: str) -> None:
    if ask.inside is None:
        raise Failure(ask.without_inside)
    do(ask.inside, method, path)


def _path(ask: Ask) -> str:
    return f"/v1/snapshots/{quote(ask.query.get('name', ''), safe='')}"


def _reset_form() -> Form:
    text = [
        "The broker begins anew at the same address: topics, groups, records and all settings that were changed are gone, and so "
        "are faults, recorded requests and older versions. Clients lose their connections. Snapshots stay."
    ]
    return Form("Reset the broker", text, "Reset", AT, name="reset", called="the word reset")


def _restore_form(ask: Ask) -> Form:
    text = ["What the broker has now is gone, and it begins anew with the data of the snapshot, at the same address."]
    return Form("Restore a snapshot", text, "Restore", AT, name=ask.query.get("name", ""), called="the snapshot's name")


def _delete_form(ask: Ask) -> Form:
    return Form("Delete a snapshot", [], "Delete", AT, name=ask.query.get("name", ""), called="the snapshot's name")


def _page(ask: Ask, problem: str = "", status: int = HTTPStatus.OK) -> Answer:
    inside = ask.inside
    if inside is None:
        return Page("without_inside.html", {"title": "Test kit"})
    state, why_down = look(inside, "/v1/state", limit="0")
    recording, _ = look(inside, "/v1/recording")
    selected = {"api": ask.text("api"), "client_id": ask.text("client")}
    requests: list[Any] | None = None
    why_none = ""
    if recording and recording["last_seq"]:
        given = {name: value for name, value in selected.items() if value}
        requests, why_none = look(inside, "/v1/requests", limit=str(REQUESTS), **given)
    return Page(
        "kit.html",
        {
            "problem": problem,
            "state": state,
            "why_down": why_down,
            "done": inside.ask("kit_done"),
            "faults": look(inside, "/v1/faults")[0] or [],
            "clock": look(inside, "/v1/clock")[0],
            "snapshots": look(inside, "/v1/snapshots")[0] or [],
            "recording": recording,
            "requests": list(reversed(requests or [])),
            "why_none": why_none,
            "selected": selected,
            "form": ask.form,
            "kinds": list(DO),
            "units": list(UNITS),
            "passes": PASSES,
            "ways": WAYS,
            "as_json": as_json,
        },
        status,
    )


def as_json(value: Any, longest: int = LONGEST) -> str:
    """Returns a value as JSON, and only its beginning if it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= longest else f"{text[:longest]} … ({len(text):,} characters)"

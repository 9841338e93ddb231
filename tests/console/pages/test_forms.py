"""Forms: the name has to be typed, a reason is shown above what was sent, no password comes back, and each end is audited."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.commands.output import Failure
from ottla.console.ask import Ask, Page, Redirect
from ottla.console.errors import BadInput
from ottla.console.pages.forms import Field, Form, form_page, one_of, submit, text_of
from tests.console.fakes import FakeSource

FIELDS = [Field("a", "A", "before"), Field("p", "P", "", "password")]
FORM = Form("Title", ["text"], "Do", "/back", FIELDS, "the\u202ename", "its name")


def ask_with(lines: list[str], **form: str) -> Ask:
    source: Any = FakeSource()
    return Ask(source, "/x", form=form, audit=lines.append)


def values_of(page: object) -> tuple[int, str | None, list[str]]:
    assert isinstance(page, Page)
    return page.status, page.values["problem"], [field.value for field in page.values["fields"]]


def test_what_was_sent_is_shown_again_and_no_password() -> None:
    assert values_of(form_page(ask_with([]), FORM)) == (200, None, ["before", ""])
    assert values_of(form_page(ask_with([], a="after", p="hunter2"), FORM, "no")) == (400, "no", ["after", ""])


@pytest.mark.parametrize("typed", ["", "the", "THE\u202eNAME"])
def test_another_name_does_nothing(typed: str) -> None:
    lines: list[str] = []
    done: list[int] = []
    page = submit(ask_with(lines, typed=typed), FORM, "do it", lambda: done.append(1), "/to")
    assert values_of(page)[:2] == (400, "Nothing was changed: what was typed is not its name.")
    assert (done, lines) == ([], [])


@pytest.mark.parametrize("typed", ["the\u202ename", " the\u202ename ", "the⟨U+202E⟩name"])
def test_the_name_as_it_is_or_as_it_is_shown(typed: str) -> None:
    lines: list[str] = []
    ask = ask_with(lines, typed=typed)
    assert submit(ask, FORM, "do it", lambda: None, "/to") == Redirect("/to")
    assert lines == ["do it: done"]
    source: Any = ask.source
    assert source.asked == ["changed"]
    submit(ask, FORM, "do it", lambda: "seven", "/to")
    assert lines[1:] == ["do it: done: seven"]


@pytest.mark.parametrize(
    ("error", "word", "asked"), [(BadInput("bad"), "refused", ["changed"]), (Failure("closed"), "failed", ["lost", "changed"])]
)
def test_a_reason_is_shown_and_audited(error: Exception, word: str, asked: list[str]) -> None:
    lines: list[str] = []

    def act() -> None:
        raise error

    ask = ask_with(lines, typed="the\u202ename")
    assert values_of(submit(ask, FORM, "do it", act, "/to"))[:2] == (400, str(error))
    assert lines == [f"do it: {word}: {error}"]
    source: Any = ask.source
    assert source.asked == asked


def test_fields_that_are_no_text_or_no_choice() -> None:
    assert text_of(ask_with([], a=" x "), "a", "A") == "x"
    for wrong in ("", " ", "a\0b", "\ud800"):
        with pytest.raises(BadInput, match="A "):
            text_of(ask_with([], a=wrong), "a", "A")
    assert one_of(ask_with([]), "a", "A", ["x", "y"]) == "x"
    with pytest.raises(BadInput, match="A has to be one of x, y"):
        one_of(ask_with([], a="z"), "a", "A", ["x", "y"])

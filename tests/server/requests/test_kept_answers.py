"""Answers are given again while the metadata is the same, and only a bounded number of bytes of them."""

from __future__ import annotations

from ottla.server.requests import kept_answers
from ottla.server.requests.kept_answers import KeptAnswers


def test_an_answer_is_right_until_something_changes() -> None:
    answers = KeptAnswers()
    assert answers.get(0, "all") is None
    kept = answers.keep(0, "all", b"body")
    assert kept.body == b"body"
    assert answers.get(0, "all") is kept
    assert answers.get(0, "others") is None
    assert answers.get(1, "all") is None
    answers.keep(1, "others", b"new")
    assert answers.get(1, "all") is None


def test_what_is_kept_is_bounded_in_number_and_bytes() -> None:
    answers = KeptAnswers()
    for number in range(kept_answers.MAX_ANSWERS + 1):
        assert answers.keep(0, number, b"x").body == b"x"
    assert [answers.get(0, number) is not None for number in (0, kept_answers.MAX_ANSWERS)] == [True, False]
    large = bytes(kept_answers.MAX_BYTES // 2 + 1)
    answers.keep(1, "first", large)
    answers.keep(1, "second", large)
    assert [answers.get(1, name) is not None for name in ("first", "second")] == [True, False]
    answers.keep(2, "second", large)
    assert answers.get(2, "second") is not None


def test_who_asks_what_somebody_answers_already_may_wait_for_that() -> None:
    answers = KeptAnswers()
    with answers.making("all"):
        assert answers.promise_of("others") is None
        waiting = [answers.promise_of("all") for _ in range(2)]
        assert waiting[0] is not None
        assert waiting[1] is not None
        waiting[1].cancel()
        assert not waiting[0].done()
    assert waiting[0].result() is None
    assert answers.promise_of("all") is None

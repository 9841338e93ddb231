"""Regular expressions of strangers: what is refused, how little the largest that is not refused takes, and that long texts are
left to threads."""

from __future__ import annotations

import pytest
import re2

from ottla.server.base import expressions
from ottla.server.base.expressions import (
    A_JOB,
    AT_ONCE,
    MAX_MEMORY,
    MAX_NAMED,
    MAX_WEIGHT,
    ExpressionError,
    compile_expression,
    matching,
    weight,
)
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Workers, at_once, take_steps
from ottla.server.metadata.names import MAX_LENGTH
from tests.fakes import ManualClock, Threads

LARGE = "|".join(f".*[a{letter}].{{100}}[b{letter}]" for letter in "cdefghij")
"""Eight times a hundred characters, each of which takes eight instructions: 6,500 of the 10,800 that there may be."""


def no_threads() -> Workers:
    raise AssertionError("this is to be matched at once")


def named(count: int) -> str:
    return "".join(f"(?P<n{number}>a?)" for number in range(count))


def test_it_matches_whole_texts_in_any_language() -> None:
    steps = matching(compile_expression("t.*|\\p{Lu}(?i:X)"), ["t", "tt", "at", "Äx", "äx"], no_threads)
    assert at_once(steps) == {"t", "tt", "Äx"}


@pytest.mark.parametrize("expression", ["t.*", "[^a]+", r"\w+x?", "(?i)TT", r"\pL*", r"[\x{212a}t]+", "ä?tt", "t(?P<n>t)?"])
def test_it_matches_the_same_texts_of_ascii_when_it_knows_that_they_are(expression: str) -> None:
    texts = ["t", "tt", "at", "K", "_x", "t.t", ""]
    usual, of_ascii = compile_expression(expression), compile_expression(expression, of_ascii=True)
    assert [of_ascii.matches(text) for text in texts] == [usual.matches(text) for text in texts]


def test_an_expression_of_many_names_with_dots_is_accepted_for_topics() -> None:
    names = [f"team{number:03}.orders.payment-{number:05}.v1" for number in range(240)]
    with pytest.raises(ExpressionError):
        compile_expression("|".join(names))
    assert compile_expression("|".join(names), of_ascii=True).matches(names[17])


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("(", r"missing \)"),
        ("(?=a)", "invalid perl operator"),
        ("a" * (MAX_WEIGHT + 1), "too long"),
        ("a{2}" * 100, "too long"),
        ("\\pL" * 40, "too long"),
        ("\\P{Lu}" * 30, "too long"),
        (".{1000}" * 2, "pattern too large - compile failed"),
        (named(MAX_NAMED + 1), "names more than 10 groups"),
    ],
)
def test_what_is_no_expression_or_beyond_a_bound_is_refused(expression: str, why: str) -> None:
    with pytest.raises(ExpressionError, match=why):
        compile_expression(expression)


@pytest.mark.parametrize(
    "expression", ["a" * MAX_WEIGHT, "ab|" * 2_600, "()" * 3_900, "\\pL" * 6, ".{900}", named(MAX_NAMED), LARGE]
)
def test_what_is_within_the_bounds_is_accepted(expression: str) -> None:
    assert weight(expression.encode()) <= MAX_WEIGHT
    compile_expression(expression)


def test_groups_are_not_captured() -> None:
    """With captures, a text would take a position for each group and each instruction: three gigabytes, for twenty kilobytes."""
    expression = compile_expression("(" * 3_900 + ")" * 3_900 + "a")
    assert expression.work("a") < 20
    assert expression.matches("a")
    assert compile_expression("a").work("aa") == 2 * compile_expression("a").work("a")
    assert compile_expression("(?P<name>a)").work("a") > 1.5 * compile_expression("(a)").work("a")


def test_nothing_is_kept() -> None:
    """RE2's binding would keep the last 128, and each may take MAX_MEMORY."""
    compile_expression("a.*")
    with pytest.raises(ExpressionError):
        compile_expression("(")
    assert re2._Regexp._make.cache_info().currsize == 0
    assert MAX_MEMORY <= compile_expression(LARGE).memory < 2 * MAX_MEMORY


def test_the_work_is_bounded() -> None:
    """This is the largest program that is accepted: of a topic's name, 8 times what is done at once, or 18 ms."""
    largest = compile_expression("a?b?" * 1_990)
    assert 6 * AT_ONCE < largest.work("a" * MAX_LENGTH) < 9 * AT_ONCE


def test_others_come_in_between_two_texts() -> None:
    steps = matching(compile_expression("a.*"), ["a1", "b", "a2"], no_threads)
    assert [next(steps) for _ in range(3)] == [None] * 3
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == {"a1", "a2"}


def test_long_texts_are_matched_in_threads_a_bounded_job_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    expression = compile_expression(f"{LARGE}|[a-d]*")
    a_text = A_JOB // 3 // expression.work("a")
    texts = [letter * a_text for letter in "abcdefgh"] + ["x" * 10 * a_text, "short"]
    asked: list[str] = []
    matches = expressions.Expression.matches

    def noting(self: expressions.Expression, text: str) -> bool:
        asked.append(text)
        return matches(self, text)

    monkeypatch.setattr(expressions.Expression, "matches", noting)
    threads = Threads()
    workers = Workers(threads.run)
    found = take_steps(matching(expression, texts, lambda: workers), clock := ManualClock())
    assert asked == [], "the first job is full with three texts"
    assert len(threads.jobs) == 1
    jobs = []
    while threads.jobs:
        before = len(asked)
        threads.end_first()
        clock.advance(0)
        jobs.append([text for text in asked[before:] if text != "short"])
    assert [len(job) for job in jobs] == [3, 3, 2, 1]
    assert all(sum(map(expression.work, job)) <= A_JOB for job in jobs[:-1])
    assert asked.count("short") == 1
    assert isinstance(found, Promise)
    assert found.result() == {text for text in texts if matches(expression, text)}

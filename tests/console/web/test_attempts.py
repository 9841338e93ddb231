"""Wrong passwords are bounded by source and by user, and right ones take nothing back but themselves."""

from __future__ import annotations

from ottla.console.web.attempts import FOR_USER, FROM_SOURCE, MOST_KEPT, TOKENS_IN_LOG, TOKENS_WITHIN_S, WITHIN_S, Attempts


class Now:
    s = 0.0

    def __call__(self) -> float:
        return self.s


def test_a_source_has_so_many_attempts() -> None:
    now = Now()
    attempts = Attempts(now)
    for number in range(FROM_SOURCE):
        now.s = float(number)
        assert attempts.begin("a", None) == 0
    assert attempts.begin("a", "alice") == WITHIN_S - now.s
    assert attempts.begin("b", "alice") == 0
    now.s = WITHIN_S
    assert attempts.begin("a", None) == 0  # the first one is forgotten
    assert attempts.begin("a", None) > 0


def test_a_user_has_so_many_from_everywhere() -> None:
    attempts = Attempts(Now())
    assert [attempts.begin(f"a{number}", "alice") for number in range(FOR_USER)] == [0] * FOR_USER
    assert attempts.begin("another", "alice") == WITHIN_S
    assert attempts.begin("another", "bob") == 0


def test_what_was_refused_counts_for_nothing() -> None:
    now = Now()
    attempts = Attempts(now)
    for _ in range(3 * FROM_SOURCE):
        attempts.begin("a", "alice")
    assert attempts.begin("b", "alice") == 0  # 10 of a's counted for alice, not 30
    now.s = WITHIN_S
    assert attempts.begin("a", "alice") == 0


def test_a_password_of_one_s_own_does_not_reset_the_count() -> None:
    attempts = Attempts(Now())
    for _ in range(FROM_SOURCE - 1):
        assert attempts.begin("a", "alice") == 0
        assert attempts.begin("a", "mallory") == 0
        attempts.succeeded("a", "mallory")
    assert attempts.begin("a", "alice") == 0
    assert attempts.begin("a", "alice") > 0


def test_who_guesses_elsewhere_does_not_lock_out_a_user_at_a_place_of_earlier() -> None:
    attempts = Attempts(Now())
    attempts.begin("home", "alice")
    attempts.succeeded("home", "alice")
    for number in range(FOR_USER):
        assert attempts.begin(f"a{number}", "alice") == 0
    assert attempts.begin("another", "alice") > 0
    assert [attempts.begin("home", "alice") for _ in range(FROM_SOURCE)] == [0] * FROM_SOURCE
    assert attempts.begin("home", "alice") > 0  # a place has no more attempts than any other
    attempts.begin("home", "bob")
    for number in range(FOR_USER):
        attempts.begin(f"b{number}", "bob")
    assert attempts.begin("home2", "bob") > 0  # it is one user's


def test_many_sources_do_not_make_what_counts_for_a_user_forgotten() -> None:
    attempts = Attempts(Now())
    for number in range(FOR_USER):
        attempts.begin(f"a{number}", "alice")
    for number in range(2 * MOST_KEPT):
        attempts.begin(f"b{number}", None)
    assert attempts.begin("another", "alice") > 0


def test_of_wrong_tokens_the_log_has_so_many_a_minute_and_how_many_it_has_not() -> None:
    now = Now()
    attempts = Attempts(now)
    assert [attempts.note_wrong_token() for _ in range(TOKENS_IN_LOG)] == ["wrong token"] * TOKENS_IN_LOG
    assert {attempts.note_wrong_token() for _ in range(1500)} == {""}
    now.s = TOKENS_WITHIN_S
    assert attempts.note_wrong_token() == "wrong token, after 1,500 that are not in this log"
    assert attempts.note_wrong_token() == "wrong token"
    now.s *= 2
    assert attempts.note_wrong_token() == "wrong token"


def test_only_so_many_are_remembered() -> None:
    attempts = Attempts(Now())
    for number in range(2 * MOST_KEPT):
        attempts.begin(f"a{number}", f"u{number}")
        attempts.succeeded(f"a{number}", f"u{number}")
    assert [len(each) for each in (attempts._of_sources, attempts._of_users, attempts._places)] == [MOST_KEPT] * 3

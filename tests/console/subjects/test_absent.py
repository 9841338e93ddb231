"""Tests that what a cluster does not have is a sentence, and what went wrong stays a failure."""

from __future__ import annotations

from typing import NoReturn

import pytest

from ottla.commands.clients.direct import Refused, Unsupported
from ottla.commands.output import Failure
from ottla.console.subjects.absent import in_a_sentence, or_why
from ottla.wire.errors import ErrorCode


def raising(failure: Failure) -> NoReturn:
    raise failure


def test_an_answer_comes_without_a_reason() -> None:
    assert or_why(lambda: 7) == (7, None)


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (
            Unsupported("host:1: the broker does not support DescribeQuorum"),
            "has no such thing: host:1: the broker does not supp",
        ),
        (Refused(ErrorCode.SECURITY_DISABLED, "no"), "has no authorizer"),
        (Refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "no"), "has no delegation tokens"),
        (Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no"), "does not show this to the principal"),
    ],
)
def test_what_is_not_there_is_a_sentence(failure: Failure, sentence: str) -> None:
    found, why = or_why(lambda: raising(failure))
    assert found is None
    assert sentence in (why or "")


@pytest.mark.parametrize("failure", [Failure("closed"), Refused(ErrorCode.NOT_CONTROLLER, "moved")])
def test_what_went_wrong_is_none(failure: Failure) -> None:
    with pytest.raises(Failure, match=str(failure)):
        or_why(lambda: raising(failure))


def test_a_refusal_of_a_change_is_told_by_the_same_sentences() -> None:
    assert in_a_sentence(lambda: 7) == 7
    with pytest.raises(Failure, match="neither the owner of the token"):
        in_a_sentence(lambda: raising(Refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, "no")))
    with pytest.raises(Failure, match="moved"):
        in_a_sentence(lambda: raising(Refused(ErrorCode.NOT_CONTROLLER, "moved")))

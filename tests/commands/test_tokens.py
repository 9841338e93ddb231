"""Delegation tokens: what is made of answers. tests/console/pages/test_tokens.py has a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.commands import tokens as asked
from ottla.commands.clients.direct import Refused, Unsupported
from ottla.commands.tokens import Token
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import create_delegation_token as creating
from ottla.wire.messages import describe_delegation_token as describing


def connection(answer: Any, newest: int = 3) -> Any:
    return SimpleNamespace(call=lambda _: answer, who="host:1", versions={creating.API_KEY: (1, newest)})


def test_a_description_of_an_older_broker_names_no_requester() -> None:
    renewers = [describing.DescribedDelegationTokenRenewer("User", "r")]
    one = describing.DescribedDelegationToken("User", "alice", "", "", 0, 1000, 2000, "the-token", b"hunter2", renewers)
    answer = describing.DescribeDelegationTokenResponse(0, [one])
    token = Token("the-token", "User:alice", None, ("User:r",), 0, 1000, 2000)
    assert asked.described(connection(answer)) == [(token, b"hunter2")]


def test_an_older_broker_that_would_forget_the_owner_is_not_asked() -> None:
    answer = creating.CreateDelegationTokenResponse(0, "User", "alice", "", "", 0, 1, 2, "the-token", b"x")
    owner = asked.Principal("User", "carol")
    with pytest.raises(Unsupported, match="only for those who ask"):
        asked.create(connection(answer, 2), owner, [], -1)
    token, secret = asked.create(connection(answer, 2), None, [], -1)
    assert (token.owner, token.requester, secret) == ("User:alice", None, b"x")


def test_a_refusal_is_one() -> None:
    refused = creating.CreateDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    with pytest.raises(Refused):
        asked.create(connection(refused), None, [], -1)

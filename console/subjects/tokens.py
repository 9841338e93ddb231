"""Delegation tokens: which there are, and what is done with them. Only who makes one is told its secret."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.commands import tokens as asked
from ottla.commands.tokens import Principal, Token
from ottla.console.cluster.source import Source
from ottla.console.errors import Missing
from ottla.console.subjects.any_broker import any_broker


def tokens(source: Source) -> list[Token]:
    """Returns the delegation tokens that this client may see. Raises direct.Refused where there are none, and Failure."""
    with any_broker(source) as broker:
        return [token for token, _ in asked.described(broker)]


def create(source: Source, owner: Principal | None, renewers: Sequence[Principal], lifetime_ms: int) -> tuple[Token, bytes]:
    """Makes a token, and returns it with its secret. Raises Failure."""
    with any_broker(source) as broker:
        return asked.create(broker, owner, renewers, lifetime_ms)


def renew(source: Source, name: str, period_ms: int) -> int:
    """Has a token last for so long from now, and returns until when. Raises Missing, Failure."""
    with any_broker(source) as broker:
        return asked.renew(broker, _secret(asked.described(broker), name), period_ms)


def expire(source: Source, name: str) -> None:
    """Ends a token at once. Raises Missing, Failure."""
    with any_broker(source) as broker:
        asked.expire(broker, _secret(asked.described(broker), name), asked.AT_ONCE)


def _secret(known: Sequence[tuple[Token, bytes]], name: str) -> bytes:
    for token, secret in known:
        if token.name == name:
            return secret
    raise no_token(name)


def no_token(name: str) -> Missing:
    return Missing(f"There is no delegation token {name or '(empty name)'} that this console may see.")

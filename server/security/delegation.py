"""Decides who may make requests about delegation tokens, and which tokens a description shows. The tokens themselves are in
server/metadata/tokens.py.

A token stands for its owner, so only an authenticated client may make such requests: not on a PLAINTEXT listener, nor anonymously
on one with TLS. Nor may a client that logged in with a token itself, which could make itself new ones for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from ottla.server.security.principals import ANONYMOUS

if TYPE_CHECKING:
    from ottla.server.settings.listeners import ListenerAddress
    from ottla.wire.messages.internal.delegation_token_record import DelegationTokenRecord

NO_TIME: Final = -1
"""The time in the answer to a request that is refused."""


class Client(Protocol):
    """Declares what of a session decides."""

    listener: str
    principal: str
    by_delegation_token: bool


def may_ask(listeners: Iterable[ListenerAddress], client: Client) -> bool:
    """Returns whether a client may make requests about tokens."""
    (protocol,) = (each.protocol for each in listeners if each.name == client.listener)
    if protocol == "PLAINTEXT" or client.by_delegation_token:
        return False
    return protocol != "SSL" or client.principal != ANONYMOUS


def is_wanted(token: DelegationTokenRecord, owners: Collection[str] | None) -> bool:
    """Returns whether a request for the tokens of these owners (None: of all) means this token. Without an authorizer everybody
    may see all tokens.
    """
    return owners is None or any(each in owners for each in (token.owner, *token.renewers))

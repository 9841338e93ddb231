"""Who may ask for delegation tokens, and which of them somebody is told of. The tokens themselves: server/metadata/tokens.py.

A token stands for its owner, so only a client that has proven who it is may have to do with any: not on a PLAINTEXT listener, nor
anonymously on one with TLS. All listeners that ottla opens are PLAINTEXT, so every request is refused today.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.server.requests.context import RequestContext
    from ottla.wire.messages.internal.delegation_token_record import DelegationTokenRecord

ANONYMOUS: Final = "User:ANONYMOUS"
NO_TIME: Final = -1
"""In the answer to a request that is not let through."""


def may_ask(ctx: RequestContext) -> bool:
    (protocol,) = (listener.protocol for listener in ctx.broker.config.listeners if listener.name == ctx.listener)
    return protocol != "PLAINTEXT" and not (protocol == "SSL" and ctx.principal == ANONYMOUS)


def is_wanted(token: DelegationTokenRecord, owners: Collection[str] | None) -> bool:
    """Whether somebody who asks for the tokens of these principals (None: of all) means this one. There is no authorizer that
    would keep anybody's from anybody.
    """
    return owners is None or any(each in owners for each in (token.owner, *token.renewers))

"""Who may ask for delegation tokens, and which of them somebody is told of. The tokens themselves: server/metadata/tokens.py.

A token stands for its owner, so only a client that has proven who it is may have to do with any: not on a PLAINTEXT listener, nor
anonymously on one with TLS. All listeners that ottla opens are PLAINTEXT, so every request is refused today.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from ottla.server.security.principals import ANONYMOUS

if TYPE_CHECKING:
    from ottla.server.settings.listeners import ListenerAddress
    from ottla.wire.messages.internal.delegation_token_record import DelegationTokenRecord

NO_TIME: Final = -1
"""In the answer to a request that is not let through."""


def may_ask(listeners: Iterable[ListenerAddress], listener: str, principal: str) -> bool:
    """Whether a client may have to do with tokens that came as `principal` by the listener of this name."""
    (protocol,) = (each.protocol for each in listeners if each.name == listener)
    return protocol != "PLAINTEXT" and not (protocol == "SSL" and principal == ANONYMOUS)


def is_wanted(token: DelegationTokenRecord, owners: Collection[str] | None) -> bool:
    """Whether somebody who asks for the tokens of these principals (None: of all) means this one. There is no authorizer that
    would keep anybody's from anybody.
    """
    return owners is None or any(each in owners for each in (token.owner, *token.renewers))

"""The SASL mechanism GSSAPI (RFC 4752): a client shows a ticket of Kerberos, and both sides agree on no security layer.

    token of GSSAPI             token of GSSAPI, until the context is established
    (empty)                     the layers on offer: 01 00 00 00, wrapped
    01 and three more octets,   (empty)
    and whom it wants to be,
    wrapped

The only layer on offer is none, as in Kafka: what is encrypted is up to TLS. Whom the client wants to be does not count, as in
Kafka; it is logged in as the principal of its ticket, by the rules of kerberos_names.py.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, Protocol

from ottla.server.security.kerberos_names import LocalNames
from ottla.server.security.mechanism import Challenge, Done, Failed, Outcome

NAME: Final = "GSSAPI"
LONGEST_TOKEN: Final = 64 * 1024
"""So many bytes a token may have. The longest are tickets with the groups of their holder; Windows stops at 48,000 by default."""
_NO_LAYER: Final = 1
_OFFER: Final = bytes((_NO_LAYER, 0, 0, 0))
"""The layers that there are, and the size of the longest message, which is 0 where there is no layer."""


class NotAccepted(Exception):
    """The library does not accept a token. The text says why, for the log."""


class Context(Protocol):
    """Declares a security context of the library on the side that accepts. Its methods may block, and raise NotAccepted."""

    @property
    def established(self) -> bool:
        """Returns whether the client is known."""
        ...

    def accept(self, token: bytes, /) -> bytes:
        """Takes the client's next token; returns what it has to be sent, which may be empty."""
        ...

    def client(self) -> str:
        """Returns the client's principal, once the context is established."""
        ...

    def wrap(self, message: bytes, /) -> bytes:
        """Returns a message with a proof of who sent it."""
        ...

    def unwrap(self, token: bytes, /) -> bytes:
        """Returns the message that the client wrapped."""
        ...


class _State(Enum):
    """The subject of the client's next token."""

    CONTEXT = auto()
    EMPTY = auto()
    LAYER = auto()


class Gssapi:
    """Logs in those who have a ticket for the principal of this listener. `accept` makes the context of a login."""

    name = NAME
    longest_blocking = LONGEST_TOKEN

    def __init__(self, accept: Callable[[], Context], names: LocalNames) -> None:
        self._accept = accept
        self._names = names

    def begin(self) -> GssapiExchange:
        """Returns the exchange of a new login."""
        return GssapiExchange(self._accept(), self._names)


class GssapiExchange:
    """The tokens of one login. `step` may block."""

    __slots__ = ("_context", "_names", "_state")

    refused = False

    def __init__(self, context: Context, names: LocalNames) -> None:
        self._context = context
        self._names = names
        self._state = _State.CONTEXT

    def step(self, token: bytes) -> Outcome:
        """Takes the client's next token."""
        if len(token) > LONGEST_TOKEN:
            return Failed(None, f"its token is longer than {LONGEST_TOKEN} bytes")
        try:
            if self._state is _State.CONTEXT:
                return self._establish(token)
            if self._state is _State.EMPTY:
                return Failed(None, "it sent a token where none belongs") if token else self._offer()
            return self._log_in(self._context.unwrap(token))
        except NotAccepted as error:
            return Failed(None, f"its ticket does not count: {error}")

    def _establish(self, token: bytes) -> Outcome:
        answer = self._context.accept(token)
        if not self._context.established:
            return Challenge(answer)
        if not answer:
            return self._offer()
        self._state = _State.EMPTY
        return Challenge(answer)

    def _offer(self) -> Outcome:
        self._state = _State.LAYER
        return Challenge(self._context.wrap(_OFFER))

    def _log_in(self, chosen: bytes) -> Outcome:
        if len(chosen) < len(_OFFER) or chosen[0] != _NO_LAYER:
            return Failed(None, "it wants a security layer, and there is none")
        principal = self._context.client()
        name = self._names.name_of(principal)
        if name is None:
            return Failed(None, f"no rule of sasl.kerberos.principal.to.local.rules makes a user of {principal!r}")
        return Done(f"User:{name}")

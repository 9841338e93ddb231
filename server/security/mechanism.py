"""The interface of every SASL mechanism towards a login: an exchange of tokens that ends with a principal or with a failure.

A mechanism makes an exchange for each login. The exchange gets the client's tokens one after the other (`step`) and says each
time where things stand. It does no IO and keeps nothing of a token but what it needs; time and random numbers are parameters of
the mechanism.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Challenge(NamedTuple):
    """The login goes on: the client has to answer these bytes."""

    token: bytes


class Done(NamedTuple):
    """The client is who it says it is.

    `principal` is text such as `User:alice`. `token` goes to the client with the success. `expires_ms` is the wall time in ms at
    which what it presented ends, None for what has no end. `by_delegation_token` is true if that was a delegation token.
    """

    principal: str
    token: bytes = b""
    expires_ms: int | None = None
    by_delegation_token: bool = False


class Failed(NamedTuple):
    """The client is refused. `text` is for the client, and says nothing that a guesser could use; None is for a failure of which
    the client learns nothing but that it is one. `reason` is for the broker's log, without any secret; by default it is the text.
    """

    text: str | None
    reason: str = ""


Outcome = Challenge | Done | Failed


class Exchange(Protocol):
    """The tokens of one login."""

    @property
    def refused(self) -> bool:
        """Returns whether the client is refused and knows it from a Challenge, which it has to answer before the login fails."""
        ...

    def step(self, token: bytes, /) -> Outcome:
        """Takes the client's next token. After Done or Failed it is not called again. It raises nothing, whatever the bytes
        are."""
        ...


class Mechanism(Protocol):
    """A SASL mechanism that a listener offers, with the credentials against which it checks."""

    name: str
    longest_blocking: int
    """The most bytes of a token with which a step of its exchanges may wait for something, so that it is taken in a thread.
    Longer ones are refused at once. 0 if no step ever waits."""

    def begin(self) -> Exchange:
        """Returns the exchange of a new login."""
        ...

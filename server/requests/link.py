"""Links do something before and after handlers, for instance enforce quotas; server/dispatch/chain.py puts them in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.wire.api import Api
from ottla.wire.primitives import Buffer, Parts

Decode = Callable[[Buffer, int], tuple[Any, int]]
"""Takes a frame and the position where the request's body begins; returns the body and the position where it ends."""
Handle = Callable[[Any, Request], Any]
"""Takes a request's body and the request; returns the answer, an awaitable of it, or None if the client wants no answer."""
Encode = Callable[[Any, Parts], None]
"""Appends the bytes of an answer to the parts."""


class Steps(NamedTuple):
    """Holds the three steps that serve a request of one API in one version, in their order."""

    decode: Decode
    handle: Handle
    encode: Encode


class Link(Protocol):
    """Declares what can stand around the handlers."""

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """Returns the steps with the link's own around them, or `steps` itself if the link has nothing to do with the API."""
        ...

"""A link is something that stands before and after handlers, such as quotas; server/dispatch/chain.py puts links in order."""

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
"""Takes a request's body, and the request; returns the answer, or an awaitable of it, or None where the client wants none."""
Encode = Callable[[Any, Parts], None]
"""Appends the bytes of an answer to the parts."""


class Steps(NamedTuple):
    """What is done with the requests of one API in one version, one step after the other."""

    decode: Decode
    handle: Handle
    encode: Encode


class Link(Protocol):
    """What wants to stand around the handlers."""

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """Returns the steps with the link's own around them, and `steps` itself where the API is none of its business."""
        ...

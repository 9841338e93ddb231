"""The chain of links puts together, in one place, what happens before and after the handlers.

A route is made of the steps of one API: decode, handle, encode. Links stand around these steps, each for one purpose: quotas
today, and the faults of a test kit; an authorizer and an audit log will find their places here as well. The steps are composed
when a route is made, and all routes are made anew when a link comes or goes. An existing route never changes: a request that
waits is answered by the route that it began with. Without links the steps are the handler's own, so a missing link costs nothing.

A broker has one chain, which all its dispatches share: what holds for clients holds on every listener, also on one that opens
later.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from ottla.server.requests.link import Link, Steps
from ottla.server.requests.traits import Traits
from ottla.wire.api import Api


class Place(IntEnum):
    """Gives each link its place, whenever it comes. The lowest is next to the handler; the highest sees a request first."""

    QUOTAS = 0
    FAULTS = 1
    """The faults of a test kit are outside the quotas, so that a request that never arrives is counted against nobody."""


class Chain:
    """Holds the links of one broker, at most one in each place."""

    __slots__ = ("_links", "_subscribers")

    def __init__(self) -> None:
        self._links: dict[Place, Link] = {}
        self._subscribers: list[Callable[[], object]] = []

    def subscribe(self, callback: Callable[[], object]) -> None:
        """Calls back after every change of the links. A dispatch makes its routes anew then."""
        self._subscribers.append(callback)

    def put(self, place: Place, link: Link | None) -> bool:
        """Puts a link into its place, or with None takes out the one that is there; returns whether anything changed."""
        if self._links.get(place) is link:
            return False
        if link is None:
            del self._links[place]
        else:
            self._links[place] = link
        for callback in self._subscribers:
            callback()
        return True

    def compose(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """Returns the steps of an API with all links around them."""
        for _, link in sorted(self._links.items()):
            steps = link.around(api, traits, steps)
        return steps

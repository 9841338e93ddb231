"""What stands before and after the handlers, put together in one place.

A route is made of the steps of one API: decode, handle, encode. Links stand around them, each for one purpose: quotas today; the
faults of a test kit, an authorizer and an audit log find their places here, too. The steps are composed when a route is made, and
all routes are made anew when a link comes or goes. Nothing is changed in a route that exists: a request that waits is answered
by the route that it began with. Without links the steps are the handler's own, so what is not there costs nothing.
"""

from __future__ import annotations

from enum import IntEnum

from ottla.server.requests.link import Link, Steps
from ottla.server.requests.traits import Traits
from ottla.wire.api import Api


class Place(IntEnum):
    """Where a link stands, whenever it comes. The lowest is next to the handler, the highest sees a request first."""

    QUOTAS = 0
    FAULTS = 1
    """What a test kit does to requests stands outside, so that a request that never arrives is counted against nobody."""


class Chain:
    """The links of one dispatch; at most one in each place."""

    __slots__ = ("_links",)

    def __init__(self) -> None:
        self._links: dict[Place, Link] = {}

    def put(self, place: Place, link: Link | None) -> bool:
        """Puts a link into its place, or takes out what is there; returns whether anything changed."""
        if self._links.get(place) is link:
            return False
        if link is None:
            del self._links[place]
        else:
            self._links[place] = link
        return True

    def compose(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """Returns the steps of an API with all links around them."""
        for _, link in sorted(self._links.items()):
            steps = link.around(api, traits, steps)
        return steps

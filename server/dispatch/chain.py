"""The chain of links puts together, in one place, what happens before and after the handlers.

A route is made of the steps of one API: decode, handle, encode. Links stand around these steps, each for one purpose: an
authorizer, quotas, the metrics of requests, and the faults, nodes, versions and waits of a test kit. The steps are composed when
a route is made, and all routes are made anew when a link comes or goes. An existing route never changes: a request that waits is
answered by the route that it began with. Without links the steps are the handler's own, so a missing link costs nothing.

A broker has one chain, which all its dispatches share: what holds for clients holds on every listener, also on one that opens
later.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from ottla.server.dispatch.reserved_descriptors import ReservedDescriptors
from ottla.server.dispatch.route import Plan, Route
from ottla.server.requests.link import Link, Steps

MakeRoute = Callable[[Plan, Steps], Route]


class Place(IntEnum):
    """Gives each link its place, whenever it comes. The lowest is next to the handler; the highest sees a request first."""

    NODES = 0
    """A simulated node of a test kit refuses what it does not lead after authorization, as a broker does."""
    AUTHORIZATION = 1
    """The authorizer is inside all links but that of simulated nodes, because it takes out of requests what may not be done."""
    QUOTAS = 2
    FAULTS = 3
    """The faults of a test kit are outside the quotas, so that a request that never arrives is counted against nobody."""
    VERSIONS = 4
    """The versions that a test pretends to serve are reported in place of our own, whatever a fault does to that answer."""
    PRESENCE = 5
    """A broker in a quorum first of all looks whether it stood still (server/broker/absence.py)."""
    WAITS = 6
    """Any request, also one that gets no further, may bring about what a test waits for."""
    GROUPS = 7
    """Whoever watches a group (server/inspect/group_watch.py) sees what its members ask and what they are told in the end."""
    REQUESTS = 8
    """Whoever watches requests (server/inspect/request_watch.py) sees all that a client asks, and what it is told."""


class Chain:
    """Holds the links of one broker, at most one in each place."""

    __slots__ = ("_links", "_make_route", "_subscribers", "reserved")

    def __init__(self) -> None:
        self._links: dict[Place, Link] = {}
        self._make_route: MakeRoute = Route
        self._subscribers: list[Callable[[], object]] = []
        self.reserved = ReservedDescriptors()
        """Descriptors for loading the modules of routes: one reserve for all dispatches."""

    def subscribe(self, callback: Callable[[], object]) -> None:
        """Calls back after every change of the links. A dispatch makes its routes anew then."""
        self._subscribers.append(callback)

    def unsubscribe(self, callback: Callable[[], object]) -> None:
        """Takes back what `subscribe` was given."""
        self._subscribers.remove(callback)

    def close(self) -> None:
        """Gives back the descriptors and forgets who subscribed, because the broker ends."""
        self._subscribers = []
        self.reserved.close()

    def put(self, place: Place, link: Link | None) -> bool:
        """Puts a link into its place, or with None takes out the one that is there; returns whether anything changed."""
        if self._links.get(place) is link:
            return False
        if link is None:
            del self._links[place]
        else:
            self._links[place] = link
        self._changed()
        return True

    def measure(self, make_route: MakeRoute | None) -> None:
        """Has all routes made by `make_route`, or with None by nothing but Route. This is the outermost link: what measures
        requests sees all that they take, also the answers that come later and those that were encoded before.
        """
        self._make_route = make_route or Route
        self._changed()

    def _changed(self) -> None:
        for callback in self._subscribers:
            callback()

    def compose(self, plan: Plan) -> Route:
        """Returns the route of a plan, with all links around its steps."""
        steps = plan.own_steps
        for _, link in sorted(self._links.items()):
            steps = link.around(plan.api, plan.traits, steps)
        return self._make_route(plan, steps)

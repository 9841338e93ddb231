"""Links stand around the steps in the order of their places, whenever they come, and leave nothing behind when they go."""

from __future__ import annotations

from typing import Any

from ottla.server.dispatch.chain import Chain, Place
from ottla.server.dispatch.route import Plan, Route
from ottla.server.handlers import heartbeat
from ottla.server.requests.link import Steps
from ottla.server.requests.traits import Traits
from ottla.wire.api import BY_MODULE, Api
from ottla.wire.messages.heartbeat import HeartbeatResponse

HEARTBEAT = BY_MODULE["heartbeat"]


def own_steps(seen: list[str]) -> Steps:
    def decode(frame: Any, pos: int) -> tuple[Any, int]:
        return "body", pos

    def handle(body: Any, request: Any) -> Any:
        seen.append("handler")
        return "answer"

    def encode(answer: Any, parts: Any) -> None:
        parts.append(answer.encode())

    return Steps(decode, handle, encode)


def plan(steps: Steps) -> Plan:
    return Plan(HEARTBEAT, 4, heartbeat.TRAITS, steps, HeartbeatResponse, 1000)


def steps_of(route: Route) -> Steps:
    return Steps(route.decode, route.handle, route.encode)


class Noting:
    """A link that notes when a request passes it, in both directions; or has nothing to do with any."""

    def __init__(self, name: str, seen: list[str], *, concerned: bool = True) -> None:
        self.name = name
        self.seen = seen
        self.concerned = concerned
        self.asked: list[tuple[Api, Traits]] = []

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        self.asked.append((api, traits))

        def handle(body: Any, request: Any) -> Any:
            self.seen.append(f"{self.name} before")
            answer = steps.handle(body, request)
            self.seen.append(f"{self.name} after")
            return answer

        return steps._replace(handle=handle) if self.concerned else steps


def composed(chain: Chain, seen: list[str]) -> list[str]:
    """Returns what a request meets now."""
    seen.clear()
    request: Any = None
    assert chain.compose(plan(own_steps(seen))).handle("body", request) == "answer"
    return list(seen)


def test_without_links_the_steps_are_the_handlers_own() -> None:
    steps = own_steps([])
    route = Chain().compose(plan(steps))
    assert type(route) is Route
    assert steps_of(route) == steps


def test_a_link_sees_the_api_and_its_traits() -> None:
    seen: list[str] = []
    chain, link = Chain(), Noting("quotas", seen)
    assert chain.put(Place.QUOTAS, link)
    assert composed(chain, seen) == ["quotas before", "handler", "quotas after"]
    assert link.asked == [(HEARTBEAT, heartbeat.TRAITS)]


def test_the_order_is_that_of_the_places_whichever_came_first() -> None:
    seen: list[str] = []
    for places in ((Place.QUOTAS, Place.FAULTS), (Place.FAULTS, Place.QUOTAS)):
        chain = Chain()
        for place in places:
            chain.put(place, Noting(place.name, seen))
        assert composed(chain, seen) == ["FAULTS before", "QUOTAS before", "handler", "QUOTAS after", "FAULTS after"]


def test_a_link_that_goes_leaves_the_others() -> None:
    seen: list[str] = []
    chain = Chain()
    chain.put(Place.QUOTAS, Noting("quotas", seen))
    chain.put(Place.FAULTS, Noting("faults", seen))
    assert chain.put(Place.QUOTAS, None)
    assert composed(chain, seen) == ["faults before", "handler", "faults after"]
    assert chain.put(Place.FAULTS, None)
    assert composed(chain, seen) == ["handler"]


def test_a_link_takes_the_place_of_another() -> None:
    seen: list[str] = []
    chain = Chain()
    chain.put(Place.QUOTAS, Noting("old", seen))
    assert chain.put(Place.QUOTAS, Noting("new", seen))
    assert composed(chain, seen) == ["new before", "handler", "new after"]


def test_what_changes_nothing_is_reported_as_such() -> None:
    chain, link = Chain(), Noting("quotas", [])
    assert not chain.put(Place.QUOTAS, None)
    assert chain.put(Place.QUOTAS, link)
    assert not chain.put(Place.QUOTAS, link)


def test_a_link_may_leave_an_api_alone() -> None:
    chain, steps = Chain(), own_steps([])
    chain.put(Place.QUOTAS, Noting("quotas", [], concerned=False))
    assert steps_of(chain.compose(plan(steps))) == steps


def test_what_measures_makes_the_routes_outside_all_links() -> None:
    seen: list[str] = []
    chain, made = Chain(), list[Plan]()

    def make_route(plan: Plan, steps: Steps) -> Route:
        made.append(plan)
        return Route(plan, steps)

    changes: list[int] = []
    chain.subscribe(lambda: changes.append(len(made)))
    chain.measure(make_route)
    chain.put(Place.QUOTAS, Noting("quotas", seen))
    assert composed(chain, seen) == ["quotas before", "handler", "quotas after"]
    assert [plan.api for plan in made] == [HEARTBEAT]
    chain.measure(None)
    assert composed(chain, seen) == ["quotas before", "handler", "quotas after"]
    assert (len(made), changes) == (1, [0, 0, 1])

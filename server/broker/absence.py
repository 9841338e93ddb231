"""Has a broker in a quorum lead nothing after it stood still for long, until it knows what it leads: server/quorum/absence.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.server.dispatch.chain import Chain, Place

if TYPE_CHECKING:
    from ottla.server.metadata.cluster import Cluster
    from ottla.server.partitions.replicas import Replicas
    from ottla.server.requests.link import Steps
    from ottla.server.requests.request import Request
    from ottla.server.requests.traits import Traits
    from ottla.wire.api import Api


class LookFirst:
    """The link that looks at the time before each request: what came while the broker stood still is read before anything else
    that could notice it."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """See Link. Any request may be the first."""
        look, handle = self._look, steps.handle

        def look_and_handle(body: Any, request: Request) -> Any:
            look()
            return handle(body, request)

        return steps._replace(handle=look_and_handle)


def watch_absence(cluster: Cluster, chain: Chain, replicas: Replicas, reload: Callable[[], None]) -> None:
    """Connects what notices an absence with the requests and with what is led. `reload` loads the coordinators' shards that could
    not be loaded in doubt.
    """
    assert cluster.look is not None, "a broker that is its own controller need not notice any"

    def doubt(in_doubt: bool) -> None:
        replicas.doubt(in_doubt)
        if not in_doubt:
            reload()

    cluster.on_doubt = doubt
    chain.put(Place.PRESENCE, LookFirst(cluster.look))

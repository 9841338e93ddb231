"""The parts of the broker from which the requests at one simulated node are served, except for what a real node has of its own,
which are its id, its sessions, and the share partitions that it leads.

A copy of the context would make the parts a second time that are made when they are first used, so this one has the broker's,
field by field. It is a BrokerContext, because compiled handlers insist on that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from ottla.server.requests.context import BrokerContext

if TYPE_CHECKING:
    from ottla.server.partitions.fetch_sessions import FetchSessions
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.server.share.share_partitions import SharePartitions
    from ottla.server.testkit.nodes.near_replicas import NearReplicas

OWN: Final = frozenset({"config", "fetch_sessions", "read_replicas"})
"""The fields that a node has of its own."""


class NodeContext(BrokerContext):
    """The context of one node. `shared` is the broker's."""

    __slots__ = ("_own", "_share_partitions", "_shared")

    def __init__(
        self, shared: BrokerContext, config: BrokerConfig, fetch_sessions: FetchSessions, read_replicas: NearReplicas | None
    ) -> None:
        self._shared = shared
        self._own: dict[str, Any] = {"config": config, "fetch_sessions": fetch_sessions, "read_replicas": read_replicas}
        self._share_partitions: SharePartitions | None = None

    def share_partitions(self) -> SharePartitions:
        """Returns the share partitions that this node leads."""
        if self._share_partitions is None:
            # not loaded as long as nobody uses share groups
            from ottla.server.testkit.nodes.node_share import NodeSharePartitions

            self._share_partitions = NodeSharePartitions(self._shared.share_partitions(), self.config.node_id)
        return self._share_partitions


def _own_field(name: str) -> property:
    return property(lambda context: context._own[name])


def _shared_field(name: str) -> property:
    return property(lambda context: getattr(context._shared, name), lambda context, value: setattr(context._shared, name, value))


def _shared_method(name: str) -> Callable[..., Any]:
    return lambda context, *arguments: getattr(context._shared, name)(*arguments)


for _field in fields(BrokerContext):
    setattr(NodeContext, _field.name, (_own_field if _field.name in OWN else _shared_field)(_field.name))
for _name, _value in vars(BrokerContext).items():
    if isinstance(_value, property):
        setattr(NodeContext, _name, _shared_field(_name))
    if callable(_value) and not _name.startswith("_") and _name not in vars(NodeContext):
        setattr(NodeContext, _name, _shared_method(_name))

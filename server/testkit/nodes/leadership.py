"""Refuses at each simulated node what that node does not lead or coordinate, as a broker does that is alone behind its address.

It is a link of the chain, next to the handlers. A request names partitions, groups or transactional ids; those that another node
leads are cut out of it and answered with Kafka's error, and the handler serves the rest (refusals.py). What lists what a broker
has is answered with the part that the node has. Everything else is the same at all nodes: metadata, and what is for the
controller, which brokers forward.

A Fetch is served by any in-sync replica since v11 (KIP-392), and its epoch says whether the client knows the leader; before, only
by the leader. One that waited is looked at again when it is answered, because the leader may have changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.server.group.errors import GroupError
from ottla.server.guards.ask import change_answer
from ottla.server.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.server.testkit.refusals.entities import Named, Place, Role, named_in, partition_of, shape_of, topic_of
from ottla.server.testkit.refusals.refusals import Refusal, Refused, Selected, refuse, select
from ottla.server.testkit.refusals.session_refusals import Partition, put_partitions, refuse_partitions, select_partitions
from ottla.server.txn.errors import TransactionError
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.metadata.image import MetadataImage, PartitionImage
    from ottla.server.requests.link import Handle, Steps
    from ottla.server.requests.request import Request
    from ottla.server.requests.traits import Traits
    from ottla.server.testkit.refusals.refusals import Fits
    from ottla.wire.api import Api

LED: Final = frozenset(
    (
        *("produce", "list_offsets", "delete_records", "offset_for_leader_epoch"),
        *("share_acknowledge", "write_txn_markers"),
    )
)
"""APIs that the leader of each partition serves."""
OF_REPLICAS: Final = frozenset(("describe_producers",))
"""APIs that each replica of a partition serves."""
OF_GROUPS: Final = frozenset(
    (
        *("join_group", "sync_group", "heartbeat", "leave_group", "offset_commit", "offset_fetch", "offset_delete"),
        *("describe_groups", "delete_groups", "txn_offset_commit", "consumer_group_heartbeat", "consumer_group_describe"),
        *("share_group_heartbeat", "share_group_describe", "describe_share_group_offsets", "alter_share_group_offsets"),
        *("delete_share_group_offsets", "streams_group_heartbeat", "streams_group_describe"),
        "streams_group_topology_description_update",
    )
)
"""APIs that the coordinator of each group serves."""
OF_TRANSACTIONS: Final = frozenset(
    ("init_producer_id", "add_partitions_to_txn", "add_offsets_to_txn", "end_txn", "describe_transactions")
)
"""APIs that the coordinator of each transactional id serves."""
FROM_FOLLOWERS_SINCE: Final = 11

Guard = Callable[["Handle", Any, "Request"], Any]
Serves = Callable[["PartitionImage", int], bool]
"""Says of a partition whether the node of this id serves what a client asks of it."""


class Leadership:
    """The link; see the module's docstring."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._guards: Mapping[str, Guard] = {
            **dict.fromkeys(LED, partial(self._by_partition, _leads)),
            **dict.fromkeys(OF_REPLICAS, partial(self._by_partition, _has_replica)),
            **dict.fromkeys(OF_GROUPS, partial(self._by_coordinator, Role.GROUP)),
            **dict.fromkeys(OF_TRANSACTIONS, partial(self._by_coordinator, Role.TRANSACTION)),
            "fetch": self._fetch,
            "share_fetch": self._share_fetch,
            "list_groups": partial(self._list, Role.GROUP, "groups", "group_id"),
            "list_transactions": partial(self._list, Role.TRANSACTION, "transaction_states", "transactional_id"),
            "describe_log_dirs": self._describe_log_dirs,
        }

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """See Link."""
        guard = self._guards.get(api.module)
        return steps if guard is None else steps._replace(handle=partial(guard, steps.handle))

    # Partitions

    def _by_partition(self, serves: Serves, handle: Handle, body: Any, request: Request) -> Any:
        shape = shape_of(request.api_key, request.api_version)
        parts = []
        for way in shape.ways:
            depth = next(at for at, place in enumerate(way, 1) if place.level.role is Role.PARTITION)
            elsewhere = tuple(each for each in named_in(body, way[:depth]) if self._is_elsewhere(each, way, serves, request))
            if elsewhere:
                parts.append(Refused(way, elsewhere))
        if not parts:
            return handle(body, request)
        return refuse(Selected(shape, tuple(parts)), _not_leader(request), handle, body, request, acts=False)

    def _is_elsewhere(self, named: Named, way: tuple[Place, ...], serves: Serves, request: Request) -> bool:
        at = next(at for at, place in enumerate(way) if place.level.role is Role.TOPIC)
        name = topic_of(named.elements[at], self._image.topics_by_id)
        image = None if name is None else self._image.partition(name, partition_of(named.elements[-1]))
        return image is not None and not serves(image, request.broker.config.node_id)

    def _fetch(self, handle: Handle, body: Any, request: Request) -> Any:
        elsewhere = self._unreadable(_partitions_of(body, request), request)
        if elsewhere:
            return refuse_partitions(elsewhere, _not_leader(request), handle, body, request, acts=False)
        before = self._image.changes

        def look_again(answer: Any) -> Any:
            if self._image.changes == before:
                return answer
            lost = self._unreadable(_partitions_of(body, request), request)
            return put_partitions(answer, lost, _not_leader(request), request) if lost else answer

        return change_answer(handle(body, request), look_again)

    def _unreadable(self, partitions: list[Partition], request: Request) -> list[Partition]:
        """Returns those partitions that exist and that a client cannot read from this node."""
        return [each for each in partitions if (image := self._find(each)) is not None and not _serves(image, request)]

    def _share_fetch(self, handle: Handle, body: Any, request: Request) -> Any:
        node_id = request.broker.config.node_id
        known = _partitions_of(body, request)
        elsewhere = [each for each in known if (image := self._find(each)) is not None and image.leader != node_id]
        if not elsewhere:
            return handle(body, request)
        return refuse_partitions(elsewhere, _not_leader(request), handle, body, request, acts=False)

    def _find(self, partition: Partition) -> PartitionImage | None:
        if isinstance(partition.topic, str):
            return self._image.partition(partition.topic, partition.number)
        return self._image.partition_by_id(partition.topic, partition.number)

    # Coordinators

    def _by_coordinator(self, role: Role, handle: Handle, body: Any, request: Request) -> Any:
        selected = select(body, request, _Elsewhere(role, self._coordinator_of(role, request), request.broker.config.node_id))
        if selected is None:
            return handle(body, request)
        refusal = Refusal(ErrorCode.NOT_COORDINATOR, f"Node {request.broker.config.node_id} is not the coordinator.")
        return refuse(selected, refusal, handle, body, request, acts=False)

    def _coordinator_of(self, role: Role, request: Request) -> Callable[[str], int | None]:
        """Returns a function that returns the node of a group or a transactional id, None if there is no such topic yet."""
        is_group, broker = role is Role.GROUP, request.broker
        topic = CONSUMER_OFFSETS if is_group else TRANSACTION_STATE
        partition_for = broker.groups.partition_for if is_group else broker.transaction_coordinator().partition_for

        def node_of(name: str) -> int | None:
            try:
                image = self._image.partition(topic, partition_for(name))
            except (GroupError, TransactionError):
                return None
            return None if image is None else image.leader

        return node_of

    # Lists of what a node has

    def _list(self, role: Role, field: str, name: str, handle: Handle, body: Any, request: Request) -> Any:
        """Leaves in the list `field` of the answer those whose coordinator the node is, by the `name` of each."""
        node_of, node_id = self._coordinator_of(role, request), request.broker.config.node_id

        def keep(answer: Any) -> Any:
            setattr(answer, field, [each for each in getattr(answer, field) if node_of(getattr(each, name)) == node_id])
            return answer

        return change_answer(handle(body, request), keep)

    def _describe_log_dirs(self, handle: Handle, body: Any, request: Request) -> Any:
        node_id = request.broker.config.node_id

        def keep(answer: Any) -> Any:
            for directory in answer.results:
                for topic in directory.topics:
                    topic.partitions = [
                        each
                        for each in topic.partitions
                        if (image := self._image.partition(topic.name, each.partition_index)) is not None
                        and node_id in image.replicas
                    ]
                directory.topics = [topic for topic in directory.topics if topic.partitions]
            return answer

        return change_answer(handle(body, request), keep)


class _Elsewhere:
    """Selects the groups or transactional ids that another node coordinates."""

    def __init__(self, role: Role, node_of: Callable[[str], int | None], node_id: int) -> None:
        self._node_of = node_of
        self._node_id = node_id
        self.entities: Mapping[Role, Fits] = {role: self}

    def fits(self, name: object) -> bool:
        """See Fits."""
        return isinstance(name, str) and self._node_of(name) not in (None, self._node_id)


class _Everything:
    """Selects all partitions."""

    def fits(self, name: object) -> bool:
        """See Fits."""
        return True

    @property
    def entities(self) -> Mapping[Role, Fits]:
        """See Selects."""
        return {Role.PARTITION: self}


_EVERYTHING: Final = _Everything()


def _partitions_of(body: Any, request: Request) -> list[Partition]:
    return select_partitions(body, request, _EVERYTHING) or []


def _leads(image: PartitionImage, node_id: int) -> bool:
    return image.leader == node_id


def _has_replica(image: PartitionImage, node_id: int) -> bool:
    return node_id in image.replicas


def _serves(image: PartitionImage, request: Request) -> bool:
    """Returns whether the node of a Fetch reads a partition for its client."""
    node_id = request.broker.config.node_id
    return image.leader == node_id or (request.api_version >= FROM_FOLLOWERS_SINCE and node_id in image.isr)


def _not_leader(request: Request) -> Refusal:
    return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Node {request.broker.config.node_id} does not lead the partition.")

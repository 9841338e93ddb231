"""Calls about the nodes of a simulated cluster, with the fields that it gives. They are in the table of control.py.

All but the first two change the cluster, and have done so when they are answered.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ottla.server.metadata.image import NO_LEADER
from ottla.server.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.server.testkit.fields import Refused

if TYPE_CHECKING:
    from ottla.server.testkit.given import Given
    from ottla.server.testkit.kit import Kit
    from ottla.server.testkit.nodes.node import Node
    from ottla.server.testkit.nodes.nodes import Nodes

MOST_NODE_ID = 2**31 - 1
MOST_DIGITS = 10
"""The digits of the highest id or partition that Kafka's int32 can have."""


def list_nodes(kit: Kit, given: Given) -> list[dict[str, Any]]:
    """Returns all nodes."""
    given.fields.done()
    return [node.describe() for node in _nodes(kit)]


def show_node(kit: Kit, given: Given) -> dict[str, Any]:
    """Returns one node."""
    given.fields.done()
    return _node(_nodes(kit), given).describe()


async def change_node(kit: Kit, given: Given) -> dict[str, Any]:
    """Gives a node another `state` or `rack`; answers with the node."""
    from ottla.server.testkit.nodes.node import State

    fields, nodes = given.fields, _nodes(kit)
    state, rack = fields.take_choice("state", list(State), None), fields.take("rack", str, None)
    fields.done()
    async with kit.lives.turn:
        _ = kit.lives.broker  # or Refused: it is down as a whole
        node = _node(nodes, given)  # which may have been removed before it was this call's turn
        await nodes.change(node, node.state if state is None else State(state), node.rack if rack is None else rack or None)
    return node.describe()


async def add_node(kit: Kit, given: Given) -> dict[str, Any]:
    """Adds a node, with a `rack` if one is given; answers with the node."""
    rack, nodes = given.fields.take("rack", str, None), _nodes(kit)
    given.fields.done()
    async with kit.lives.turn:
        _ = kit.lives.broker
        try:
            node = await nodes.add(rack or None)
        finally:
            kit.forget_gone()
        kit.lives.keep_address()
    return node.describe()


async def remove_node(kit: Kit, given: Given) -> dict[str, Any]:
    """Takes a node away for good; answers with it as it was."""
    given.fields.done()
    nodes = _nodes(kit)
    async with kit.lives.turn:
        _ = kit.lives.broker
        node = _node(nodes, given)
        described = node.describe()
        nodes.remove(node)
        kit.forget_gone()
    return described


def move_partition(kit: Kit, given: Given) -> dict[str, Any]:
    """Gives a partition another `leader`, or none with -1, or other in-sync replicas (`isr`); answers with the partition."""
    fields, nodes = given.fields, _nodes(kit)
    leader, isr = fields.take("leader", int, None), fields.take("isr", list, None)
    fields.done()
    if leader is None and isr is None:
        raise Refused("leader or isr must be there")
    for node_id in isr or ():
        if type(node_id) is not int:
            raise Refused(f"isr must be a list of node ids, not {isr!r:.50}")
    if leader is not None and leader != NO_LEADER:
        nodes.get(leader)
    return _move(kit, nodes, given.variables["topic"], _number(given, "partition"), leader, isr)


async def move_group(kit: Kit, given: Given) -> dict[str, Any]:
    """Makes a `node` the coordinator of a group; answers with the partition of __consumer_offsets that it leads."""
    return await _move_coordinator(kit, given, CONSUMER_OFFSETS, given.variables["group"])


async def move_transaction(kit: Kit, given: Given) -> dict[str, Any]:
    """Makes a `node` the coordinator of a transactional id; answers with the partition of __transaction_state that it leads."""
    return await _move_coordinator(kit, given, TRANSACTION_STATE, given.variables["transactional_id"])


async def _move_coordinator(kit: Kit, given: Given, topic: str, name: str) -> dict[str, Any]:
    nodes = _nodes(kit)
    node = nodes.get(given.fields.take_number("node", high=MOST_NODE_ID))
    given.fields.done()
    context = kit.lives.context
    await nodes.create(topic)
    coordinator = context.groups if topic == CONSUMER_OFFSETS else context.transaction_coordinator()
    return _move(kit, nodes, topic, coordinator.partition_for(name), node.id, None)


def _move(kit: Kit, nodes: Nodes, topic: str, index: int, leader: int | None, isr: list[int] | None) -> dict[str, Any]:
    context = kit.lives.context
    nodes.move(topic, index, leader, isr)
    image = context.metadata.partition(topic, index)
    assert image is not None
    return {
        "topic": topic,
        "partition": index,
        "leader": image.leader,
        "leader_epoch": image.leader_epoch,
        "replicas": list(image.replicas),
        "isr": list(image.isr),
    }


def _nodes(kit: Kit) -> Nodes:
    nodes = kit.lives.nodes
    if nodes is None:
        raise Refused("this broker simulates no nodes; start it with nodes=3, or --test-nodes 3", HTTPStatus.CONFLICT)
    return nodes


def _node(nodes: Nodes, given: Given) -> Node:
    return nodes.get(_number(given, "node"))


def _number(given: Given, name: str) -> int:
    """Returns the number of a node or a partition in the path. Raises Refused."""
    text = given.variables[name]
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise Refused(f"there is no {name} {text!r:.50}", HTTPStatus.NOT_FOUND)
    return int(text)

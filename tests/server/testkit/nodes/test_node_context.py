"""A node's context is the broker's but for what a node has of its own, and nothing of the broker's is left out."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

from ottla.server.partitions.fetch_sessions import FetchSessions
from ottla.server.requests.context import BrokerContext
from ottla.server.testkit.nodes.node_context import OWN, NodeContext
from tests.fakes import MemoryBroker


def parts() -> set[str]:
    """Returns the names of the fields, properties and methods that a broker's context has for handlers."""
    public = {name for name in vars(BrokerContext) if not name.startswith("_")}
    return public | {each.name for each in fields(BrokerContext)}


def test_every_part_of_the_broker_is_the_node_s_too() -> None:
    assert vars(NodeContext).keys() & parts() == parts() - OWN
    assert {name for name in vars(NodeContext) if not name.startswith("_")} - parts() == {"shared"}


def test_a_part_is_looked_up_and_set_in_the_broker_s_context() -> None:
    broker = MemoryBroker({"t": 1})
    mine = cast(FetchSessions, object())
    node: Any = NodeContext(broker.context, broker.config, mine, None)
    assert isinstance(node, BrokerContext)
    for name in {each.name for each in fields(BrokerContext)} - OWN:
        assert getattr(node, name) is getattr(broker.context, name), name
    node.refused_requests += 1
    assert broker.context.refused_requests == 1
    assert node.groups is broker.context.groups is broker.context.existing_groups
    assert node.fetch_sessions is mine is not broker.context.fetch_sessions

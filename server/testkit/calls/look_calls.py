"""The calls that look into the broker, for the table in control.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.server.inspect.connections import connections, describe_connection, describe_waiting
from ottla.server.inspect.groups import describe_group, summarize_groups
from ottla.server.inspect.names import bounded
from ottla.server.inspect.topics import describe_topic, summarize_topic
from ottla.server.inspect.transactions import all_transactions, describe_transaction, describe_transactions, producers
from ottla.server.testkit.looks.finding import find_group, find_topic
from ottla.server.testkit.looks.names import absent, take_limit

if TYPE_CHECKING:
    from ottla.server.network.connection import Connection
    from ottla.server.requests.context import BrokerContext
    from ottla.server.testkit.given import Given
    from ottla.server.testkit.kit import Kit
    from ottla.server.txn.state import Transaction


def show_state(kit: Kit, given: Given) -> dict[str, Any]:
    """Says which broker this is, and what there is in short."""
    limit = take_limit(given.fields)
    given.fields.done()
    context, clock = kit.lives.context, kit.lives.clock
    found = [
        _topics(context, limit),
        summarize_groups(context, limit),
        describe_transactions(context, limit, _summarize_transaction),
        bounded("connections", list(connections(kit.lives.broker)), limit, lambda each: {"client_id": each.session.client_id}),
    ]
    left_off = sum(each.pop("left_off") for each in found)
    state = {**kit.describe(), "clock": {"now_ms": clock.now_ms(), "offset_ms": clock.offset_ms, "frozen": clock.frozen}}
    for each in found:
        state |= each
    return {**state, "faults": len(list(kit.faults)) if kit.has_faults else 0, "left_off": left_off}


def list_topics(kit: Kit, given: Given) -> dict[str, Any]:
    """Returns all topics in short, by name."""
    limit = take_limit(given.fields)
    given.fields.done()
    return _topics(kit.lives.context, limit)


def show_topic(kit: Kit, given: Given) -> dict[str, Any]:
    """Returns all about a topic."""
    given.fields.done()
    context = kit.lives.context
    return describe_topic(context, find_topic(context, given.variables["topic"]))


def list_groups(kit: Kit, given: Given) -> dict[str, Any]:
    """Returns all groups in short, by id."""
    limit = take_limit(given.fields)
    given.fields.done()
    return summarize_groups(kit.lives.context, limit)


def show_group(kit: Kit, given: Given) -> dict[str, Any]:
    """Returns all about a group."""
    given.fields.done()
    context = kit.lives.context
    return describe_group(context, find_group(context, given.variables["group"]), reads=True)


def list_transactions(kit: Kit, given: Given) -> dict[str, Any]:
    """Returns all transactional ids, with what is known of each."""
    limit = take_limit(given.fields)
    given.fields.done()
    context = kit.lives.context
    return describe_transactions(context, limit, lambda each: describe_transaction(context, each))


def show_transaction(kit: Kit, given: Given) -> dict[str, Any]:
    """Returns all about a transactional id."""
    given.fields.done()
    context = kit.lives.context
    known, wanted = all_transactions(context), given.variables["transaction"]
    if wanted not in known:
        raise absent("transactional id", wanted, known)
    return describe_transaction(context, known[wanted])


def list_connections(kit: Kit, given: Given) -> dict[str, Any]:
    """Returns all connections of clients."""
    limit = take_limit(given.fields)
    given.fields.done()
    return bounded("connections", list(connections(kit.lives.broker)), limit, lambda each: _describe_connection(kit, each))


def list_producers(kit: Kit, given: Given) -> dict[str, Any]:
    """Returns what the partitions of one `topic`, or of all, remember of their producers."""
    limit, topic = take_limit(given.fields), given.fields.take("topic", str, None)
    given.fields.done()
    context = kit.lives.context
    if topic is not None:
        find_topic(context, topic)
    return bounded("producers", list(producers(context, topic)), limit, lambda each: each)


def _describe_connection(kit: Kit, connection: Connection) -> dict[str, Any]:
    found = kit.parked.get(connection.session) if connection.waiting else None
    waits = None if found is None else describe_waiting(found.request, kit.clock.monotonic() - found.since_s)
    return describe_connection(connection, kit.context.clock, waits)


def _topics(context: BrokerContext, limit: int) -> dict[str, Any]:
    found = list(context.metadata.topics.values())
    return bounded("topics", found, limit, lambda each: summarize_topic(context, each), key=lambda each: each.name)


def _summarize_transaction(transaction: Transaction) -> dict[str, Any]:
    return {"transactional_id": transaction.transactional_id, "state": transaction.state.text}

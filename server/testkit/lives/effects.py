"""The effects of a move of the clock on a broker: who is expelled, which transactions are aborted, which segments are deleted.

Nothing in the broker reports this. It is the difference of two looks, one before and one after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.server.inspect.connections import connections
from ottla.server.inspect.groups import client_of, loaded_groups
from ottla.server.inspect.transactions import all_transactions
from ottla.server.txn.state import State

if TYPE_CHECKING:
    from ottla.server.broker.broker import Broker
    from ottla.server.requests.context import BrokerContext

_ABORTED = frozenset({State.PREPARE_ABORT, State.COMPLETE_ABORT})


class Look(NamedTuple):
    """The state of a broker at one moment."""

    members: set[tuple[str, str]]
    """The members of all groups: group id and member id."""
    transactions: dict[str, State]
    """The state of each transactional id."""
    segments: dict[tuple[str, int], list[int]]
    """The base offsets of each partition's segments."""


def look(context: BrokerContext) -> Look:
    """Returns what there is now."""
    members = {(each.group.group_id, member_id) for each in loaded_groups(context) for member_id in each.group.members}
    logs = context.replicas.logs.logs
    segments = {name: [segment.base_offset for segment in log.segments] for name, log in logs.items()}
    return Look(members, {name: each.state for name, each in all_transactions(context).items()}, segments)


def effects(before: Look, context: BrokerContext) -> dict[str, Any]:
    """Returns what has happened since `before`. What clients did meanwhile is not told apart."""
    after = look(context)
    gone = sorted(before.members - after.members)
    aborted = [
        transactional_id
        for transactional_id, state in before.transactions.items()
        if state is State.ONGOING and after.transactions.get(transactional_id) in _ABORTED
    ]
    deleted = 0
    for name, log in context.replicas.logs.logs.items():  # compaction replaces segments above the start; those are not deleted
        left = set(after.segments[name])
        deleted += sum(base < log.log_start_offset and base not in left for base in before.segments.get(name, ()))
    return {
        "expired_members": [{"group": group_id, "member": member_id} for group_id, member_id in gone],
        "aborted_transactions": sorted(aborted),
        "deleted_segments": deleted,
    }


def keep_members(context: BrokerContext, broker: Broker, seconds: float) -> None:
    """Gives the members of all groups whose client has an open connection so much more time, because the clock is moved by as
    much. A client is known by its client id and host."""
    connected = {(each.session.client_id, each.session.client_host) for each in connections(broker)}
    for shard, group in loaded_groups(context):
        for member_id, member in group.members.items():
            if client_of(member) in connected:
                shard.protocol_of(group.group_id).postpone_session(group, member_id, seconds)

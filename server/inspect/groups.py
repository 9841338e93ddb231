"""Groups of all four kinds: state, members with what they have been given, commits, armed timers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.server.group.classic.members import Member
from ottla.server.group.kind import Kind
from ottla.server.inspect.assignments import by_name, decode_assignment
from ottla.server.inspect.names import bounded
from ottla.server.inspect.positions import positions
from ottla.server.inspect.texts import text_of

if TYPE_CHECKING:
    from ottla.server.group.group import Group
    from ottla.server.group.protocol import Deadline
    from ottla.server.group.shard import GroupShard
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.requests.context import BrokerContext


class Found(NamedTuple):
    """A group, and the shard that it is in."""

    shard: GroupShard
    group: Group

    @property
    def deadlines(self) -> list[Deadline]:
        """The deadlines of the group and its members, the earliest first."""
        armed = self.shard.protocol_of(self.group.group_id).deadlines(self.group)
        return sorted(armed, key=lambda each: each.seconds_left)


def loaded_groups(context: BrokerContext) -> Iterator[Found]:
    """Yields the groups of the shards that are loaded now."""
    for shard in context.groups.loaded_shards():
        for group in shard.groups.values():
            yield Found(shard, group)


def all_groups(context: BrokerContext) -> dict[str, Found]:
    """Returns the groups of all shards that are loaded, by id."""
    context.groups.refresh()
    return {found.group.group_id: found for found in loaded_groups(context)}


def summarize_groups(context: BrokerContext, limit: int) -> dict[str, Any]:
    """Returns the groups in short, by id."""
    found = list(all_groups(context).values())
    return bounded("groups", found, limit, summarize_group, key=lambda each: each.group.group_id)


def get_group(context: BrokerContext, group_id: str) -> Found | None:
    """Returns a group, None if there is none of this id."""
    context.groups.refresh()
    for shard in context.groups.loaded_shards():
        group = shard.groups.get(group_id)
        if group is not None:
            return Found(shard, group)
    return None


def summarize_group(found: Found) -> dict[str, Any]:
    """Returns a group in short."""
    group = found.group
    return {"group": group.group_id, "kind": group.kind.value, "state": group.state_name, "members": group.member_count}


def describe_group(context: BrokerContext, found: Found, *, reads: bool) -> dict[str, Any]:
    """Returns all about a group. `due_in_ms` is by the broker's clock; `reads` is as for positions."""
    where = positions(context, found.shard, found.group, reads=reads)
    lags = [each.lag for each in where if each.lag is not None]
    return {
        **summarize_group(found),
        **_epochs(found.group),
        "members": list(_members(context.metadata, found.group)),
        "offsets": [each.describe() for each in where],
        "lag": sum(lags) if lags else None,
        "timers": [
            {"timer": each.name, "member_id": each.member_id, "due_in_ms": round(each.seconds_left * 1000)}
            for each in found.deadlines
        ],
    }


def _epochs(group: Any) -> dict[str, Any]:
    if group.kind is Kind.CLASSIC:
        return {
            "generation": group.generation,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol,
            "leader": group.leader,
        }
    return {"epoch": group.epoch, "assignment_epoch": group.assignment_epoch}


def client_of(member: Any) -> tuple[str, str]:
    """Returns the client id and the host of a member of a group of any kind."""
    client_id, host = member.client if isinstance(member, Member) else (member.client_id, member.client_host)
    return client_id, host.removeprefix("/")


def _members(image: MetadataImage, group: Any) -> Iterator[dict[str, Any]]:
    describe = _MEMBERS[group.kind]
    for member_id, member in group.members.items():
        client_id, host = client_of(member)
        yield {
            "member_id": member_id,
            "instance_id": getattr(member, "instance_id", None),
            "client_id": client_id,
            "host": host,
            **describe(image, group, member),
        }


def _classic(image: MetadataImage, group: Any, member: Any) -> dict[str, Any]:
    """Returns what a classic member has. `waits_in` is the request in which it waits for the others."""
    waits_in = "JoinGroup" if member.awaiting_join is not None else "SyncGroup" if member.awaiting_sync is not None else None
    decoded = decode_assignment(member.assignment)
    return {
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "protocols": [protocol.name for protocol in member.protocols],
        "waits_in": waits_in,
        "assignment": text_of(member.assignment) if decoded is None and member.assignment else decoded or {},
    }


def _consumer(image: MetadataImage, group: Any, member: Any) -> dict[str, Any]:
    return {
        "epoch": member.epoch,
        "state": member.state.name,
        "protocol": "classic" if member.is_classic else "consumer",
        "topics": sorted(member.topics),
        "regex": member.regex,
        "assignment": by_name(image, member.assigned),
        "revoking": by_name(image, member.revoking),
        "target": by_name(image, group.targets.get(member.member_id, {})),
    }


def _share(image: MetadataImage, group: Any, member: Any) -> dict[str, Any]:
    return {
        "epoch": member.epoch,
        "topics": sorted(member.topics),
        "assignment": by_name(image, member.assigned),
        "target": by_name(image, group.target_of(member.member_id)),
    }


def _streams(image: MetadataImage, group: Any, member: Any) -> dict[str, Any]:
    return {
        "epoch": member.epoch,
        "state": member.state.name,
        "process_id": member.process_id,
        "assignment": _tasks(member.held),
        "revoking": _tasks(member.to_revoke),
        "target": _tasks(group.target_of(member.member_id)),
    }


def _tasks(tasks: Any) -> dict[str, dict[str, list[int]]]:
    """Returns tasks by what they are (active, standby, warmup) and by subtopology."""
    by_role: Mapping[str, Mapping[str, Iterable[int]]] = tasks._asdict()
    return {role: {name: sorted(partitions) for name, partitions in held.items()} for role, held in by_role.items()}


_MEMBERS = {Kind.CLASSIC: _classic, Kind.CONSUMER: _consumer, Kind.SHARE: _share, Kind.STREAMS: _streams}

"""The states of groups of every kind, with members and offsets, as a cluster's answers give them.

librdkafka asks a coordinator for the committed offsets of one group per request, so all of these requests are sent before the
first answer is awaited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.commands import admin, client, group_kinds, group_reset
from ottla.commands.brokers import Brokers
from ottla.commands.group_kinds import Listed
from ottla.commands.group_rows import NO_SUCH_GROUP, GroupState, group_state, state_name, with_offsets
from ottla.commands.positions import Partition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def states_of(
    cluster: client.Cluster, ours: AdminClient, brokers: Brokers, wanted: Sequence[Listed], notes: dict[str, None]
) -> tuple[list[GroupState], dict[str, str]]:
    """Returns the states of these groups, and the errors by group. What is unknown without being an error goes to `notes`."""
    newer = [one for one in wanted if one.broker is not None and one.kind != group_kinds.CLASSIC]
    shares = [one for one in newer if one.kind == group_kinds.SHARE]
    described_apart = {one.name for one in newer}
    plain = [one.name for one in wanted if one.name not in described_apart]
    asked = ours.describe_consumer_groups(plain, request_timeout=admin.GROUP_TIMEOUT_S) if plain else {}
    with_commits = {one.name for one in wanted} - {one.name for one in shares}
    committed, errors = group_reset.committed_of(cluster, ours, sorted(with_commits))
    states, wrong = group_kinds.described(brokers, newer)
    held, unheld = group_kinds.share_offsets(brokers, shares)
    described, failed = admin.settle_groups(cluster, asked)
    dead = [name for name, group in described.items() if state_name(group.state) == "Dead" and not committed.get(name)]
    errors |= dict.fromkeys(dead, NO_SUCH_GROUP) | failed | unheld | wrong
    states |= {name: group_state(group) for name, group in described.items()}
    committed |= {name: {partition: at.start for partition, at in of.items()} for name, of in held.items()}
    ends = ends_of(cluster, ours, states.values(), committed, notes)
    lags = {name: {partition: at.lag for partition, at in of.items()} for name, of in held.items()}
    names = [one.name for one in wanted if one.name not in errors]
    return [with_offsets(states[name], committed[name], ends, lags.get(name, {})) for name in names], errors


def ends_of(
    cluster: client.Cluster,
    ours: AdminClient,
    states: Iterable[GroupState],
    committed: Mapping[str, Mapping[Partition, int]],
    notes: dict[str, None],
) -> dict[Partition, int]:
    """Returns the end offsets of all partitions that these groups have committed or read, as far as they are known."""
    wanted = {partition for offsets in committed.values() for partition in offsets}
    wanted |= {partition for state in states for member in state.members for partition in member.partitions}
    ends, wrong = admin.list_offsets(cluster, ours, dict.fromkeys(sorted(wanted), admin.offset_specs().latest()))
    notes.update((f"the end offset of {partition} is not known: {error}", None) for partition, error in wrong.items())
    return ends

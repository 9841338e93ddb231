"""The states of groups of every kind, with members and offsets, as a cluster's answers give them.

Coordinators are asked for their groups together (batched_requests.py), and librdkafka for what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.commands import admin
from ottla.commands.clients import client
from ottla.commands.clients.brokers import Brokers
from ottla.commands.clients.partition import Partition
from ottla.commands.groups import batched_requests, kinds, reset
from ottla.commands.groups.kinds import Listed
from ottla.commands.groups.rows import NO_SUCH_GROUP, GroupState, group_state, with_offsets

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def states_of(
    cluster: client.Cluster,
    ours: AdminClient,
    brokers: Brokers,
    wanted: Sequence[Listed],
    notes: dict[str, None],
    topic: str | None = None,
) -> tuple[list[GroupState], dict[str, str]]:
    """Returns the states of these groups, and the errors by group. What is unknown without being an error goes to `notes`.

    With a topic, offsets are those in it: there may be ten thousand end offsets that nobody needs. Of other topics there is only
    which partitions members have.
    """
    newer = [one for one in wanted if one.broker is not None and one.kind != kinds.CLASSIC]
    shares = [one for one in newer if one.kind == kinds.SHARE]
    described_apart = {one.name for one in newer}
    without_commits = {one.name for one in shares}
    commits = [one for one in wanted if one.name not in without_commits]
    states, wrong = kinds.described(brokers, newer)
    classic, failed = batched_requests.described(brokers, [one for one in wanted if one.name not in described_apart])
    committed, errors = batched_requests.committed_of(brokers, commits)
    # what is left is asked for by librdkafka: a request a group, all sent before the first answer is awaited
    plain = [one.name for one in wanted if one.name not in described_apart | classic.keys() | failed.keys()]
    asked = ours.describe_consumer_groups(plain, request_timeout=admin.GROUP_TIMEOUT_S) if plain else {}
    uncommitted = sorted(one.name for one in commits if one.name not in committed.keys() | errors.keys())
    more, unknown = reset.committed_of(cluster, ours, uncommitted)
    held, unheld = kinds.share_offsets(brokers, shares)
    described, undescribed = admin.settle_groups(cluster, asked)
    states |= classic | {name: group_state(group) for name, group in described.items()}
    committed |= more
    dead = [name for name, group in states.items() if group.state == "Dead" and not committed.get(name)]
    errors |= unknown | dict.fromkeys(dead, NO_SUCH_GROUP) | failed | undescribed | unheld | wrong
    committed |= {name: {partition: at.start for partition, at in of.items()} for name, of in held.items()}
    if topic is not None:
        committed = {name: {where: at for where, at in of.items() if where.topic == topic} for name, of in committed.items()}
    ends = ends_of(cluster, ours, brokers, states.values(), committed, notes, topic)
    lags = {name: {partition: at.lag for partition, at in of.items()} for name, of in held.items()}
    names = [one.name for one in wanted if one.name not in errors]
    return [with_offsets(states[name], committed[name], ends, lags.get(name, {})) for name in names], errors


def ends_of(
    cluster: client.Cluster,
    ours: AdminClient,
    brokers: Brokers,
    states: Iterable[GroupState],
    committed: Mapping[str, Mapping[Partition, int]],
    notes: dict[str, None],
    topic: str | None = None,
) -> dict[Partition, int]:
    """Returns the end offsets of all partitions that these groups have committed or read, or those of one topic, as far as they
    are known."""
    wanted = {partition for offsets in committed.values() for partition in offsets}
    wanted |= {partition for state in states for member in state.members for partition in member.partitions}
    if topic is not None:
        wanted = {partition for partition in wanted if partition.topic == topic}
    ends = batched_requests.ends_of(brokers, sorted(wanted))
    left = sorted(wanted - ends.keys())
    more, wrong = admin.list_offsets(cluster, ours, dict.fromkeys(left, admin.offset_specs().latest()))
    notes.update((f"the end offset of {partition} is not known: {error}", None) for partition, error in wrong.items())
    return ends | more

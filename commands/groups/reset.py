"""`ottla group reset GROUP`: lets a group continue at other offsets.

| | a partition's new offset |
|---|---|
| `--to earliest`, `--to latest`, or `--to-earliest`, `--to-latest` | its first offset; the next one to be written |
| `--to 17`, `--to=-5` | that offset; five before the end |
| `--to 2026-11-21T09:00`, `--to @1795251600000`, or `--to-datetime` | its first record then or later; its end if there is none |
| `--shift-by=-10` | the committed offset, moved |
| `--by-duration 1h30m` (or `PT1H30M`) | its first record within that time before now |

The new offset always lies within the partition: one that would not is moved to the nearer end, and a note says so. The partitions
are those of `--topic T` or `--topic T:0,2`, or with `--all-topics` all that the group has committed. It is all or nothing up to
the commit itself: if the new offset of one partition cannot be determined, none is changed.

A group with members is refused, since they would go on from where they are and commit over it. A group that the cluster does not
know is an error, since it is mostly a typo; `--create` creates it with these offsets. A share group has no committed offsets,
only the offsets where its partitions start; these are moved by a request of their own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ottla.commands import admin, output
from ottla.commands.clients import client
from ottla.commands.clients.brokers import Brokers
from ottla.commands.clients.client import explain
from ottla.commands.clients.partition import Partition
from ottla.commands.groups import kinds
from ottla.commands.groups.rows import NO_SUCH_GROUP, RESET_COLUMNS, reset_rows, state_name
from ottla.commands.output import Failure
from ottla.commands.positions import Kind, Position, Span, parse_position, resolve, spans

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_DURATION: Final = re.compile(
    r"(?P<iso>p)?(?:(\d+)w)?(?:(\d+)d)?(?(iso)(?:t(?=\d)|$))(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?",
    re.ASCII | re.IGNORECASE,
)
"""ISO 8601's P1M is a month, which has no fixed length; its minutes come after the T."""
_UNITS_MS: Final = (604_800_000, 86_400_000, 3_600_000, 60_000, 1000, 1)


@client.command
def reset(
    cluster: client.Cluster,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.", show_default=False)],
    topics: Annotated[
        list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC[:0,2]", help="All or some partitions. May be repeated.")
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Every partition the group has committed.")] = False,
    to: Annotated[str | None, typer.Option(metavar="PLACE", help="earliest, latest, OFFSET, -N, a time or @MS.")] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="The same as --to earliest.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="The same as --to latest.")] = False,
    to_datetime: Annotated[
        str | None, typer.Option("--to-datetime", metavar="TIME", help="The same as --to TIME.", show_default=False)
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="Move by this many offsets; back if negative.", show_default=False)
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Back to the first record of the last 90s, 1h30m, 7d, PT1H30M, ...")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the group if it does not exist.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the table; change nothing.")] = False,
    as_json: output.Json = False,
) -> None:
    """Let a group without members continue at other offsets."""
    given = {"--to": to, "--to-datetime": to_datetime}
    given |= {"--to-earliest": "earliest" if to_earliest else None, "--to-latest": "latest" if to_latest else None}
    places = {option: text for option, text in given.items() if text is not None}
    if len(places) + sum(each is not None for each in (shift_by, by_duration)) != 1:
        raise typer.BadParameter("give one of --to, --shift-by and --by-duration", param_hint="--to")
    if bool(topics) == all_topics:
        raise typer.BadParameter("give either --topic or --all-topics", param_hint="--topic")
    place = None
    for option, text in places.items():
        place = parse_position(text, option)
        if option == "--to-datetime" and place.kind is not Kind.TIME:
            raise typer.BadParameter(f"{text!r} is not a time", param_hint=option)
    if by_duration is not None:
        place = Position(Kind.TIME, max(0, round(time.time() * 1000) - duration_ms(by_duration)))
    admin.checked([group])
    wanted = [parse_topic(text) for text in topics or ()]
    ours = cluster.admin()
    with Brokers(cluster, cluster.reach(ours)) as brokers:
        share = check_group(cluster, ours, brokers, group, create=create, dry_run=dry_run)
        before = before_of(cluster, ours, brokers, group, share)
        partitions = sorted(before) if all_topics else partitions_of(wanted, brokers.metadata.topics)
        if not partitions:
            raise Failure(f"group {group}: no offset is committed; name topics with --topic")
        have = spans_of(cluster, ours, partitions)
        after = shifted(before, have, shift_by or 0) if place is None else placed(cluster, ours, place, have)
        if not dry_run:
            if share is None:
                commit(cluster, ours, group, after)
            else:
                alter_share(brokers, share, after)
    ends = {partition: span.end for partition, span in have.items()}
    output.write_table(RESET_COLUMNS, reset_rows(before, after, ends), as_json=as_json)


# What is asked for


def parse_topic(text: str) -> tuple[str, list[int] | None]:
    """Parses `T` or `T:0,2`: a topic and its partitions, None for all. Raises BadParameter for anything else."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    words = numbers.split(",")
    if not topic or not all(word.isascii() and word.isdecimal() for word in words):
        raise typer.BadParameter(f"{text!r} is not TOPIC or TOPIC:0,2", param_hint="--topic")
    return topic, [int(word) for word in dict.fromkeys(words)]


def duration_ms(text: str) -> int:
    """Parses `90s`, `1h30m`, `7d`, or ISO 8601's `PT1H30M`. Raises BadParameter for anything else."""
    found = _DURATION.fullmatch(text)
    counts = () if found is None else found.groups()[1:]
    if not any(counts):
        raise typer.BadParameter(f"{text!r} is not a duration; write 90s, 1h30m, 7d or PT1H30M", param_hint="--by-duration")
    return sum(int(count) * unit for count, unit in zip(counts, _UNITS_MS, strict=True) if count)


def partitions_of(wanted: Sequence[tuple[str, list[int] | None]], known: Mapping[str, Any]) -> list[Partition]:
    """Returns the selected partitions. `known`: librdkafka's TopicMetadata by name. Raises Failure if one does not exist."""
    found: set[Partition] = set()
    for topic, numbers in wanted:
        if topic not in known:
            raise Failure(f"topic {topic}: there is no such topic")
        there = known[topic].partitions
        for number in sorted(there) if numbers is None else numbers:
            if number not in there:
                raise Failure(f"topic {topic} has no partition {number}: it has {len(there)}, counted from 0")
            found.add(Partition(topic, number))
    return sorted(found)


# What is there


def check_group(
    cluster: client.Cluster, ours: AdminClient, brokers: Brokers, group: str, *, create: bool, dry_run: bool
) -> kinds.Listed | None:
    """Returns the group if it is a share group, else None. Raises Failure if it does not exist or cannot be moved."""
    notes: dict[str, None] = {}
    known = kinds.listing(cluster, ours, brokers, notes)[0].get(group)
    if known is not None and known.kind in kinds.OURS_ALONE:
        states, wrong = kinds.described(brokers, [known])
        if wrong:
            raise Failure(f"group {group}: {wrong[group]}")
        state, members = states[group].state, len(states[group].members)
    else:
        asked = ours.describe_consumer_groups([group], request_timeout=admin.GROUP_TIMEOUT_S)
        described, wrong = admin.settle_groups(cluster, asked)
        if wrong and not wrong[group].startswith(NO_SUCH_GROUP):
            raise Failure(f"group {group}: {wrong[group]}")
        state = "Dead" if wrong else state_name(described[group].state)
        members = 0 if wrong else len(described[group].members)
    if state == "Dead":
        for note in notes:
            output.note(note)
        if not create:
            raise Failure(f"group {group}: {NO_SUCH_GROUP}; --create creates it")
        return None
    if members or state != "Empty":
        count = "1 member" if members == 1 else f"{members} members"
        reason = f"group {group} has {count} (state {state}), which would commit over the new offsets; stop the members first"
        if not dry_run:
            raise Failure(reason)
        output.note(f"would be refused: {reason}")
    return known if known is not None and known.kind == kinds.SHARE else None


def before_of(
    cluster: client.Cluster, ours: AdminClient, brokers: Brokers, group: str, share: kinds.Listed | None
) -> dict[Partition, int]:
    """Returns the group's current offset in each partition where it has one."""
    if share is None:
        committed, wrong = committed_of(cluster, ours, [group])
    else:
        held, wrong = kinds.share_offsets(brokers, [share])
        committed = {name: {partition: at.start for partition, at in of.items()} for name, of in held.items()}
    if wrong:
        raise Failure(f"group {group}: {wrong[group]}")
    return committed[group]


def committed_of(
    cluster: client.Cluster, ours: AdminClient, groups: Sequence[str]
) -> tuple[dict[str, dict[Partition, int]], dict[str, str]]:
    """Returns what each group has committed, and the errors by group."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    futures: dict[str, Any] = {}
    for group in groups:  # librdkafka takes only one per call
        futures |= ours.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=admin.GROUP_TIMEOUT_S)
    done, wrong = admin.settle_groups(cluster, futures)
    found = {
        group: {
            Partition(one.topic, one.partition): one.offset
            for one in answer.topic_partitions or ()
            if one.error is None and one.offset >= 0
        }
        for group, answer in done.items()
    }
    return found, wrong


def spans_of(cluster: client.Cluster, ours: AdminClient, partitions: Sequence[Partition]) -> dict[Partition, Span]:
    from confluent_kafka import IsolationLevel

    have: dict[Partition, Span] = {}
    with admin.progress("looking up offsets", len(partitions), admin.PARTITIONS_AT_ONCE) as advance:
        for batch in admin.batches(partitions, admin.PARTITIONS_AT_ONCE):
            have |= spans(cluster, ours, batch, IsolationLevel.READ_UNCOMMITTED)
            advance(len(batch))
    return have


# What it comes to


def placed(cluster: client.Cluster, ours: AdminClient, place: Position, have: Mapping[Partition, Span]) -> dict[Partition, int]:
    after = resolved(cluster, ours, place, have)
    if place.kind is Kind.OFFSET:
        note_moved(dict.fromkeys(have, place.number), after, have)
    return after


def resolved(cluster: client.Cluster, ours: AdminClient, place: Position, have: Mapping[Partition, Span]) -> dict[Partition, int]:
    """Returns the offset of the place in each partition, asked for in batches. Raises KafkaException, Failure."""
    from confluent_kafka import IsolationLevel

    after: dict[Partition, int] = {}
    for batch in admin.batches(list(have), admin.PARTITIONS_AT_ONCE):
        some = {partition: have[partition] for partition in batch}
        after |= resolve(cluster, ours, place, some, IsolationLevel.READ_UNCOMMITTED)
    return after


def shifted(before: Mapping[Partition, int], have: Mapping[Partition, Span], by: int) -> dict[Partition, int]:
    """Shifts the committed offsets. Raises Failure if a partition has none."""
    for partition in have:
        if partition not in before:
            raise Failure(f"{partition}: no offset is committed, so there is none to shift; use --to, or name other partitions")
    wanted = {partition: before[partition] + by for partition in have}
    after = {partition: min(max(wanted[partition], span.begin), span.end) for partition, span in have.items()}
    note_moved(wanted, after, have)
    return after


def note_moved(wanted: Mapping[Partition, int], after: Mapping[Partition, int], have: Mapping[Partition, Span]) -> None:
    """Notes the partitions where the offset asked for is out of range."""
    for partition, offset in after.items():
        if offset != wanted[partition]:
            span = have[partition]
            output.note(f"{partition}: has {span.begin} to {span.end}, not {wanted[partition]}; using {offset}")


def commit(cluster: client.Cluster, ours: AdminClient, group: str, after: Mapping[Partition, int]) -> None:
    """Commits the offsets. Raises Failure if the cluster refuses, and says how many of many partitions were moved before that."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    moved = 0
    with admin.progress("resetting", len(after), admin.PARTITIONS_AT_ONCE) as advance:
        for batch in admin.batches(list(after), admin.PARTITIONS_AT_ONCE):
            offsets = [TopicPartition(topic, number, after[Partition(topic, number)]) for topic, number in batch]
            futures = ours.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, offsets)], request_timeout=admin.GROUP_TIMEOUT_S
            )
            done, wrong = admin.settle_groups(cluster, futures)
            refused = [one for answer in done.values() for one in answer.topic_partitions if one.error is not None]
            moved += len(batch) - len(refused) if done else 0
            if wrong or refused:
                why = wrong[group] if wrong else f"{refused[0].topic} [{refused[0].partition}]: {explain(refused[0].error)}"
                raise Failure(f"group {group}: {moved} of {len(after)} partitions were reset; then {why}")
            advance(len(batch))


def alter_share(brokers: Brokers, share: kinds.Listed, after: Mapping[Partition, int]) -> None:
    """Alters the offsets of a share group, with a single request."""
    try:
        kinds.alter_share_offsets(brokers, share, after)
    except Failure as failure:
        raise Failure(f"group {share.name}: {failure}") from None

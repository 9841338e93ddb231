"""The verdict on a group: rules in a fixed order, each a function from facts to a verdict or None.

The first rule that holds decides. A rule that stops nobody (an idle member beside busy ones, a rebalance that has only begun)
gives way to a later one that does. The order goes from what makes the rest meaningless (no such group) to what is well.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from ottla.commands.groups.kinds import CLASSIC, SHARE
from ottla.commands.groups.rows import MemberState, assigned
from ottla.commands.output import counted
from ottla.commands.topic_rows import human_bytes
from ottla.commands.why.facts import GroupFacts, PartitionFacts

STUCK_COMMIT_S: Final = 30.0
"""For so long a member that reads has committed nothing, if it ever has."""
REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


class Level(StrEnum):
    """The level of a verdict, by what it means for the group: nothing moves, something is slow or odd, or all is well."""

    STUCK = "stuck"
    NOTICE = "notice"
    WELL = "well"


class Verdict(NamedTuple):
    """One reason, in a sentence; what it was seen by, and what would help."""

    reason: str
    level: Level
    text: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""


Rule = Callable[[GroupFacts], Verdict | None]


def judge(facts: GroupFacts) -> Verdict:
    """Returns the verdict on a group."""
    first: Verdict | None = None
    for rule in RULES.values():
        verdict = rule(facts)
        if verdict is None:
            continue
        if verdict.level is Level.STUCK:
            return verdict
        if first is None or (first.level is Level.WELL and verdict.level is Level.NOTICE):
            first = verdict
    assert first is not None, "the last rule always holds"
    return first


def needs_longer(facts: GroupFacts) -> bool:
    """Returns whether the verdict would be surer after a longer look."""
    verdict = judge(facts)
    return verdict.level is not Level.STUCK and (verdict.reason == "rebalancing" or not_committing(facts) is not None)


# The group


def not_there(facts: GroupFacts) -> Verdict | None:
    if facts.exists is False:
        return Verdict(
            "not-there",
            Level.STUCK,
            f"There is no group {facts.name}.",
            ("no broker lists it",),
            "A group begins with the first member or commit: compare group.id with the names in the list. Offsets that are older"
            " than offsets.retention.minutes are forgotten, and the group with them.",
        )
    if facts.missing_topics:
        topic, client_id = facts.missing_topics[0]
        return Verdict(
            "not-there",
            Level.STUCK,
            f"There is no topic {topic}, to which {client_id} subscribes.",
            (f"{counted(len(facts.missing_topics), 'topic')} of those subscribed to is not in the cluster's metadata",),
            f"Create it (ottla topic create {shlex.quote(topic)}), or correct the name in the consumer.",
        )
    return None


def offline(facts: GroupFacts) -> Verdict | None:
    found = [one for one in facts.partitions if one.leader is None]
    if not found:
        return None
    one = found[0]
    more = f" and {counted(len(found) - 1, 'more partition')}" if len(found) > 1 else ""
    return Verdict(
        "offline",
        Level.STUCK,
        f"{one.partition}{more} has no leader, so nobody can read it.",
        (f"its replicas are on {_brokers(one.replicas)}",),
        f"Start {_brokers(one.replicas)} again.",
    )


def no_coordinator(facts: GroupFacts) -> Verdict | None:
    if facts.coordinator_error is None:
        return None
    return Verdict(
        "no-coordinator",
        Level.STUCK,
        "The group's coordinator is not there, so members can neither join nor commit.",
        (facts.coordinator_error,),
        "Look whether __consumer_offsets has partitions without a leader, and start the broker that has them.",
    )


def no_member(facts: GroupFacts) -> Verdict | None:
    if facts.members or facts.state in REBALANCING or any(one.has_moved for one in facts.partitions):
        return None
    if not facts.behind:
        return None
    return Verdict(
        "no-member",
        Level.STUCK,
        f"Nobody reads: the group has no member, and {_amount(facts)} left to read.",
        (f"state {facts.state}", *_where(facts)),
        "Start a consumer with this group.id. If one is running, it has left the group, lost its session, or takes partitions "
        "by assign().",
    )


def rebalancing(facts: GroupFacts) -> Verdict | None:
    if facts.state not in REBALANCING:
        return None
    stays = facts.state_before in REBALANCING and facts.is_same_rebalance and facts.watched_s > 0
    # Where the broker assigns, a member is told so by its next heartbeat, which may be 5 s away.
    is_long = stays and (facts.kind == CLASSIC or facts.is_patient)
    waits = facts.awaited
    if not waits:
        text = "A rebalance is running" + ("." if stays else ", which has only begun.")
        evidence: tuple[str, ...] = (f"state {facts.state}{_for(facts) if stays else ''}",)
        if not facts.has_inside:
            evidence = (*evidence, "for whom it waits, a client cannot see")
    else:
        first = waits[0]
        until = "" if first.within_s is None else f", for {human_seconds(first.within_s)} at most"
        more = f" and {len(waits) - 1} more" if len(waits) > 1 else ""
        text = f"A rebalance is running, and waits for {first.client_id} ({first.member_id}, {first.host}){more}{until}."
        evidence = (f"state {facts.state}{_for(facts) if stays else ''}", *(f"{one.client_id} {one.doing}" for one in waits[:5]))
    remedy = (
        "Look what the member does: it rejoins with its next poll(). If it takes longer than max.poll.interval.ms it is removed,"
        " and the others go on."
    )
    return Verdict("rebalancing", Level.STUCK if is_long else Level.NOTICE, text, evidence, remedy)


def idle_member(facts: GroupFacts) -> Verdict | None:
    if facts.state in REBALANCING or facts.kind == SHARE:
        return None
    idle = [member for member in facts.members if not member.partitions and not _has_tasks(member)]
    if not idle:
        return None
    count, parts = len(facts.members), sum(len(member.partitions) for member in facts.members)
    who = f"{_who(idle[0])}{f' and {len(idle) - 1} more' if len(idle) > 1 else ''}"
    if parts and parts < count:
        why = f"there are {counted(count, 'member')} for {counted(parts, 'partition')}"
        remedy = "It takes over when another member leaves. To use it now, add partitions to the topic."
    else:
        why = "the assignor gave it nothing"
        remedy = "Compare the topics that the members subscribe to, and whether these exist."
    return Verdict("idle-member", Level.NOTICE, f"{who} has no partition: {why}.", (f"state {facts.state}",), remedy)


# Its partitions


def not_fetching(facts: GroupFacts) -> Verdict | None:
    if not facts.has_inside or not facts.watched_s:
        return None
    for one in facts.behind:
        member = one.member
        if member is None or one.fetched is not None or one.has_moved or _is_outside(one):
            continue
        if any((each.client_id, each.host) == (member.client_id, member.address) for each in facts.throttled):
            continue  # it is not let to
        others = [each for each in facts.partitions if each.fetched is not None and each.member == member]
        if others:
            what = "it fetches its other partitions, so this one is paused, or the buffer for it is full"
            remedy = "Look for pause() without resume() in the consumer."
        else:
            poll = "" if facts.max_poll_s is None else f" (it is removed after {human_seconds(facts.max_poll_s)} without a poll)"
            what = f"it has paused all its partitions, or is busy with what it has{poll}"
            remedy = "Look for pause() without resume(), and for what the consumer does between two polls."
        idle = () if one.idle_s is None else (f"its last fetch was {human_seconds(one.idle_s)} ago",)
        return Verdict(
            "not-fetching",
            Level.STUCK,
            f"{_who(member)} has {one.partition} and does not fetch it, with {_records(one)} left to read: {what}.",
            (f"no fetch and no commit{_for(facts)}", *idle, _committed(one)),
            remedy,
        )
    return None


def out_of_range(facts: GroupFacts) -> Verdict | None:
    for one in facts.partitions:
        refused = one.fetched is not None and one.fetched.is_out_of_range
        if not refused and (not _is_outside(one) or (one.fetched is not None and facts.watched_s) or one.has_moved):
            continue
        at = one.position
        if at is None or one.log_start is None or one.high_watermark is None or one.log_start <= at <= one.high_watermark:
            continue
        if one.member is None and facts.has_inside and facts.members:
            continue
        is_low = at < one.log_start
        who = _who(one.member) if one.member else "The group"
        where = f"below the log's start, {one.log_start}" if is_low else f"above the log's end, {one.high_watermark}"
        why = (
            "retention, or somebody, has deleted those records"
            if is_low
            else "the topic was created anew, or lost records, since that was committed"
        )
        seen = ("the broker refused its fetches",) if refused else ("as far as what is committed says",)
        return Verdict(
            "out-of-range",
            Level.STUCK,
            f"{who} is at offset {at} of {one.partition}, which is {where}; with auto.offset.reset=none it cannot go on.",
            (*seen, why, f"offsets there are {one.log_start} to {one.high_watermark}"),
            "Reset the group to an offset that is there, or set auto.offset.reset to earliest or latest.",
        )
    return None


def blocked(facts: GroupFacts) -> Verdict | None:
    for one in facts.behind:
        found, before = one.transaction, one.transaction_before
        if found is None or one.last_stable is None or one.high_watermark is None or one.last_stable >= one.high_watermark:
            continue
        if facts.watched_s and (before is None or (before.producer_id, before.start_offset) != found[1:3]):
            continue
        if one.position != one.last_stable or one.has_moved:
            continue
        if one.fetched is not None and not one.fetched.is_read_committed:
            continue
        who = f"transaction {found.transactional_id}" if found.transactional_id is not None else "a transaction that nobody knows"
        age = "" if found.started_ms is None else f", open for {human_seconds((facts.now_ms - found.started_ms) / 1000)}"
        ends = () if found.timeout_ms is None else (f"it times out {human_seconds(found.timeout_ms / 1000)} after it began",)
        name = found.transactional_id
        reader = () if facts.has_inside else ("as far as a client can see: it reads committed records only",)
        return Verdict(
            "blocked",
            Level.STUCK,
            f"{one.partition} is blocked at offset {one.last_stable} by {who} (producer {found.producer_id}){age}.",
            (f"last stable offset {one.last_stable}, high watermark {one.high_watermark}", *ends, *reader),
            f"End it: ottla txn abort {shlex.quote(name)}."
            if name is not None
            else f"Abort it: ottla txn abort --at {one.partition.topic}:{one.partition.number}:{found.start_offset}.",
        )
    return None


def throttled(facts: GroupFacts) -> Verdict | None:
    if not facts.behind or not facts.throttled:
        return None
    one = facts.throttled[0]
    until = "" if one.for_ms is None else f", now for {human_seconds(one.for_ms / 1000)}"
    return Verdict(
        "throttled",
        Level.STUCK,
        f"{one.client_id} at {one.host} is throttled by the quota {one.quota}{until}, with {_counted(facts)} left to read.",
        (f"the longest that it was told to wait is {human_seconds(one.throttle_ms / 1000)}",),
        "Raise the quota: ottla quota set.",
    )


def not_committing(facts: GroupFacts) -> Verdict | None:
    if not facts.has_inside or facts.kind == SHARE:
        return None
    for one in facts.behind:
        seen = one.fetched
        if seen is None or one.commits or one.member is None or seen.is_out_of_range:
            continue
        begin = one.begin
        if begin is None or seen.last_offset <= begin or seen.first_offset <= begin or one.committed != one.committed_before:
            continue
        committed_s = None if one.committed_ms is None else (facts.now_ms - one.committed_ms) / 1000
        is_long = facts.is_patient and (committed_s is None or committed_s >= STUCK_COMMIT_S)
        what = "nothing is committed" if one.committed is None else f"offset {one.committed} is committed"
        age = "" if committed_s is None else f", {human_seconds(committed_s)} ago"
        return Verdict(
            "not-committing",
            Level.STUCK if is_long else Level.WELL,
            f"{_who(one.member)} reads {one.partition} (it has come to offset {seen.last_offset}) and does not commit."
            if is_long
            else f"{_who(one.member)} has read {one.partition} to offset {seen.last_offset}, and may commit that soon.",
            (f"{what}{age}", f"no commit{_for(facts)}"),
            "Look whether enable.auto.commit is false and nothing calls commit, or whether commits fail (the client's log)."
            if is_long
            else "",
        )
    return None


def damaged(facts: GroupFacts) -> Verdict | None:
    for one in facts.behind:
        batch = one.next_batch
        if batch is None or batch.damage is None or (one.has_moved and facts.watched_s):
            continue
        who = "" if one.member is None else f"{_who(one.member)} cannot go on: "
        return Verdict(
            "damaged",
            Level.STUCK,
            f"{who}the next batch of {one.partition}, at offset {batch.base_offset}, is damaged: {batch.damage}.",
            (_committed(one), f"the batch has {human_bytes(batch.size_bytes)}"),
            f"Look at it with ottla log verify; then reset the group behind it, or restore the partition's replica"
            f" (offset {batch.base_offset}).",
        )
    return None


def too_large(facts: GroupFacts) -> Verdict | None:
    for one in facts.behind:
        batch, seen = one.next_batch, one.fetched
        if batch is None or seen is None or one.has_moved or batch.size_bytes <= seen.max_bytes or one.member is None:
            continue
        if one.committed is not None and seen.last_offset > one.committed:
            continue
        return Verdict(
            "too-large",
            Level.STUCK,
            f"The next batch of {one.partition}, at offset {batch.base_offset}, has {human_bytes(batch.size_bytes)}, more than"
            f" the {human_bytes(seen.max_bytes)} that {_who(one.member)} takes.",
            (f"it was fetched {counted(seen.times, 'time')} from offset {seen.last_offset} on{_for(facts)}, and not passed",),
            "Raise max.partition.fetch.bytes and fetch.max.bytes (with librdkafka also receive.message.max.bytes) above it.",
        )
    return None


# What is left


def behind(facts: GroupFacts) -> Verdict | None:
    lagging = facts.behind
    if not lagging:
        return None
    moved = [one for one in facts.partitions if one.has_moved]
    where = lagging[0].partition
    if not facts.watched_s:
        return Verdict("behind", Level.NOTICE, f"{_amount(facts).capitalize()} left to read.", (f"most in {where}",))
    if not moved:
        if facts.has_inside:
            text, remedy = f"{_amount(facts).capitalize()} left to read, and it has not moved{_for(facts)}.", ""
        else:
            text = f"{_amount(facts).capitalize()} left to read; as far as a client can see, nothing was committed{_for(facts)}."
            remedy = "Watch for longer. Beside an ottla broker, the console sees what members fetch."
        return Verdict("behind", Level.NOTICE, text, (f"most in {where}",), remedy)
    produced = sum((one.high_watermark or 0) - (one.end_before or 0) for one in facts.partitions if one.end_before is not None)
    read = sum(_progress(one) for one in facts.partitions)
    rate = (read - produced) / facts.watched_s
    speed = f"reads {read / facts.watched_s:,.0f} and is sent {produced / facts.watched_s:,.0f} records/s"
    if rate < 0:
        text = f"{_amount(facts).capitalize()} left to read, and it falls further behind, by {-rate:,.1f} records/s."
        return Verdict("behind", Level.NOTICE, text, (speed, f"most in {where}"), "Add members or partitions.")
    if not rate:
        text = f"{_amount(facts).capitalize()} left to read; it keeps up with what is written."
    else:
        text = f"{_amount(facts).capitalize()} left to read, and it comes nearer, by {rate:,.1f} records/s."
    return Verdict("behind", Level.WELL, text, (speed, f"most in {where}"))


def markers_only(facts: GroupFacts) -> Verdict | None:
    gaps = sum(max(0, one.lag) for one in facts.partitions)
    if facts.behind or not gaps:
        return None
    return Verdict(
        "markers",
        Level.WELL,
        f"Not behind: 0 records are left to read. The lag of {gaps:,} is markers of transactions and gaps that compaction left.",
        (f"offsets between what is committed and the end: {gaps:,}; records among them: 0",),
    )


def well(facts: GroupFacts) -> Verdict | None:
    if facts.behind:
        return None
    return Verdict("not-behind", Level.WELL, "Not behind: it has read all that there is.", (f"state {facts.state}",))


RULES: Final[dict[str, Rule]] = {
    "not-there": not_there,
    "offline": offline,
    "no-coordinator": no_coordinator,
    "no-member": no_member,
    "rebalancing": rebalancing,
    "idle-member": idle_member,
    "not-fetching": not_fetching,
    "out-of-range": out_of_range,
    "blocked": blocked,
    "throttled": throttled,
    "not-committing": not_committing,
    "damaged": damaged,
    "too-large": too_large,
    "behind": behind,
    "markers": markers_only,
    "not-behind": well,
}
"""The fifteen reasons in their order, and last that there is none."""


# Words


def _who(member: MemberState) -> str:
    instance = "" if member.instance_id is None else f", instance {member.instance_id}"
    return f"{member.client_id or member.member_id} ({member.address}{instance})"


def _brokers(numbers: tuple[int, ...]) -> str:
    return f"broker{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}" if numbers else "brokers that nobody names"


def _counted(facts: GroupFacts) -> str:
    return counted(facts.to_read, "record" if facts.is_exact else "offset")


def _amount(facts: GroupFacts) -> str:
    return f"{_counted(facts)} {'is' if facts.to_read == 1 else 'are'}"


def _records(one: PartitionFacts) -> str:
    return counted(one.to_read, "record" if one.left is not None and one.left.is_all else "offset")


def _committed(one: PartitionFacts) -> str:
    if one.committed is None:
        return f"nothing is committed in {one.partition}"
    return f"offset {one.committed} is committed, the end is {one.high_watermark}"


def _where(facts: GroupFacts) -> tuple[str, ...]:
    """Returns which partitions have something to read, of many the 20 with the most."""
    places = assigned(sorted(one.partition for one in facts.behind[:20]))
    return (f"behind in {places}",) if places else ()


def _is_outside(one: PartitionFacts) -> bool:
    """Returns whether what is committed is no offset of the log; the end, where the next record will be, is one."""
    if one.committed is None or one.log_start is None or one.high_watermark is None:
        return False
    return not one.log_start <= one.committed <= one.high_watermark


def _has_tasks(member: MemberState) -> bool:
    return member.tasks is not None and any(member.tasks)


def _progress(one: PartitionFacts) -> int:
    """Returns how many offsets were read while it was watched: by commits, or else by fetches, for clients fetch ahead."""
    if one.committed is not None and one.committed_before is not None and one.committed > one.committed_before:
        return one.committed - one.committed_before
    return 0 if one.fetched is None else max(0, one.fetched.last_offset - one.fetched.first_offset)


def _for(facts: GroupFacts) -> str:
    return f" in the {human_seconds(facts.watched_s)} watched" if facts.watched_s else ""


def human_seconds(seconds: float) -> str:
    """Returns a time for people: 2.5 s, 40 s, 3 min, 5 h, 2 days."""
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    for size, name in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"

"""Puts what a broker saw inside to the facts of a group (server/inspect/watched_groups.py has the questions)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from ottla.commands.clients.partition import Partition
from ottla.commands.groups.kinds import SHARE
from ottla.commands.output import Failure
from ottla.commands.why.facts import Awaited, Fetched, GroupFacts, PartitionFacts, Throttled

Asking = Callable[..., Any]
"""Asks a question by its name, with arguments; returns what JSON can hold, or raises Failure."""

_REBALANCES: Final = frozenset({"join", "sync", "rebalance"})
"""The timers of a rebalance: of the whole classic group, or of a member."""
_ANY_BYTES: Final = 2**31 - 1
LATELY_MS: Final = 60_000
"""A consumer that takes partitions by assign() is no member. Whoever fetches them is taken for it if the group has committed
there so lately; else it is taken for a reader of its own, such as a member of another group."""


class Watch:
    """The group as the broker that runs the console sees it meanwhile; nothing, if there is none, or it watches too many."""

    def __init__(self, ask: Asking | None, name: str, seconds: float) -> None:
        self._ask = ask
        self._number: int | None = None
        if ask is not None and seconds:
            with suppress(Failure):  # then what a client sees has to do
                self._number = ask("watch_group", name=name, seconds=seconds)["watch"]

    def seen(self) -> Mapping[str, Any] | None:
        """Returns what it has seen so far."""
        if self._ask is None or self._number is None:
            return None
        try:
            found: Mapping[str, Any] = self._ask("watched_group", watch=self._number)
        except Failure:
            return None
        return found

    def end(self) -> None:
        if self._ask is not None and self._number is not None:
            with suppress(Failure):
                self._ask("unwatch_group", watch=self._number)


def with_inside(facts: GroupFacts, seen: Mapping[str, Any]) -> GroupFacts:
    """Returns the facts with what a broker saw of the group's members while it watched."""
    fetches = {(each["client_id"], each["host"], Partition(each["topic"], each["partition"])): each for each in seen["fetches"]}
    commits = {Partition(each["topic"], each["partition"]): each["times"] for each in seen["commits"]}
    described = {Partition(each["topic"], each["partition"]): each for each in seen["offsets"]}
    idle = {(each["client_id"], each["host"]): each["idle_ms"] / 1000 for each in seen["clients"]}
    sharers = {(each["client_id"], each["host"]) for each in seen["sharers"]}
    partitions = []
    for one in facts.partitions:
        who = None if one.member is None else (one.member.client_id, one.member.address)
        fetch = None if who is None else fetches.get((*who, one.partition))
        if sharers and facts.kind == SHARE:
            partitions.append(replace(one, fetched=Fetched(1, 0, 0, False, _ANY_BYTES, False), commits=None))
            continue
        if who is None and facts.members == () and _commits_lately(described.get(one.partition, {}), facts.now_ms):
            fetch = next((each for (_, _, where), each in fetches.items() if where == one.partition), None)
        partitions.append(_with_seen(one, fetch, commits, described, None if who is None else idle.get(who)))
    polls = [each["rebalance_timeout_ms"] / 1000 for each in seen["members"] if each.get("rebalance_timeout_ms", -1) > 0]
    awaited = tuple(_awaited(seen))
    return replace(
        facts,
        partitions=tuple(partitions),
        throttled=tuple(Throttled(**each) for each in seen["throttled"]),
        awaited=awaited or facts.awaited,
        is_same_rebalance=seen["same_rebalance"],
        max_poll_s=max(polls, default=None),
        has_inside=True,
    )


def _commits_lately(position: Mapping[str, Any], now_ms: int) -> bool:
    committed_ms = position.get("committed_ms")
    return committed_ms is not None and now_ms - committed_ms < LATELY_MS


def _with_seen(
    one: PartitionFacts,
    fetch: Mapping[str, Any] | None,
    commits: Mapping[Partition, int],
    described: Mapping[Partition, Mapping[str, Any]],
    idle_s: float | None,
) -> PartitionFacts:
    where = described.get(one.partition, {})
    return replace(
        one,
        fetched=None
        if fetch is None
        else Fetched(
            fetch["times"],
            fetch["first_offset"],
            fetch["last_offset"],
            fetch["is_out_of_range"],
            fetch["max_bytes"],
            fetch["is_read_committed"],
        ),
        commits=commits.get(one.partition, 0),
        committed_ms=where.get("committed_ms"),
        idle_s=idle_s,
    )


def _awaited(seen: Mapping[str, Any]) -> list[Awaited]:
    """Returns the members for which a rebalance waits."""
    within = {each["member_id"]: each["due_in_ms"] / 1000 for each in seen["timers"] if each["timer"] in _REBALANCES}
    found = []
    for each in seen["awaited"]:
        due = within.get(each["member_id"], within.get(None))
        found.append(Awaited(each["client_id"], each["host"], each["member_id"], each["doing"], due))
    return found

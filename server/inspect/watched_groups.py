"""The questions about why a group is stuck: `watch_group` begins a watch, `watched_group` tells what it has seen so far, and
`unwatch_group` ends it. A watch that nobody ends, ends by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from ottla.server.dispatch.chain import Place
from ottla.server.group.kind import Kind
from ottla.server.inspect.connections import connections
from ottla.server.inspect.group_watch import GroupLink, GroupWatch
from ottla.server.inspect.groups import describe_group, get_group
from ottla.server.inspect.positions import topics_of
from ottla.server.inspect.subject import BadQuestion, Subject
from ottla.server.metadata.quotas import CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, quotas_of
from ottla.server.quotas.limits import Limits

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable, Clock
    from ottla.server.broker.broker import Broker
    from ottla.server.requests.context import BrokerContext

MOST_SECONDS: Final = 60.0
SPARE_SECONDS: Final = 10.0
"""For so long beyond the time that was asked for, what was seen may still be fetched."""
MOST_AT_ONCE: Final = 8
"""The most groups that are watched at a time; each costs something for every fetch."""


class GroupWatches:
    """The watches that run on a broker; the link is there as long as there is one."""

    def __init__(self, broker: Broker) -> None:
        self._chain = broker.chain
        self._last = 0
        self._watches: dict[int, GroupWatch] = {}
        self._timers: dict[int, Cancellable] = {}

    def begin(self, watch: GroupWatch, seconds: float, clock: Clock) -> int:
        """Begins a watch that ends by itself after so many seconds, and returns its number. Raises BadQuestion."""
        if len(self._watches) >= MOST_AT_ONCE:
            raise BadQuestion(f"{MOST_AT_ONCE} groups are being watched already; try again in some seconds.")
        self._last += 1
        number = self._last
        self._watches[number] = watch
        self._timers[number] = clock.call_later(seconds, lambda: self.end(number))
        if len(self._watches) == 1:
            self._chain.put(Place.GROUPS, GroupLink(self._watches, partial(self._note_failed, clock)))
        return number

    def find(self, number: int) -> GroupWatch:
        """Returns a watch. Raises BadQuestion if it has ended."""
        found = self._watches.get(number)
        if found is None:
            raise BadQuestion("There is no such watch any more.")
        return found

    def end(self, number: int) -> None:
        """Ends a watch, if it is still there."""
        if self._watches.pop(number, None) is None:
            return
        self._timers.pop(number).cancel()
        self._tidy()

    def _note_failed(self, clock: Clock, number: int) -> None:
        """Ends a watch that the link has taken out. The link stays until the request is over, whose route would change."""
        self._timers.pop(number).cancel()
        clock.call_later(0, self._tidy)

    def _tidy(self) -> None:
        if not self._watches:
            self._chain.put(Place.GROUPS, None)


_running: Final[WeakKeyDictionary[Broker, GroupWatches]] = WeakKeyDictionary()


def watch_group(subject: Subject, name: str, seconds: float) -> dict[str, Any]:
    """Begins to watch a group for so many seconds, and returns the number of the watch. Raises BadQuestion."""
    if not 0 < seconds <= MOST_SECONDS:
        raise BadQuestion(f"A group is watched for up to {MOST_SECONDS:g} s.")
    context, broker = subject.context, subject.broker
    found = get_group(context, name)
    watch = GroupWatch(context, name, frozenset(() if found is None else topics_of(context, found.shard, found.group)))
    watch.epoch = None if found is None else _epoch(found.group)
    watching = _running.get(broker)
    if watching is None:
        watching = _running[broker] = GroupWatches(broker)
    return {"watch": watching.begin(watch, seconds + SPARE_SECONDS, subject.clock)}


def watched_group(subject: Subject, watch: int) -> dict[str, Any]:
    """Returns what a watch has seen of its group so far, and the group as it is now. Raises BadQuestion."""
    watching = _running.get(subject.broker)
    if watching is None:
        raise BadQuestion("There is no such watch any more.")
    seen, context = watching.find(watch), subject.context
    found = get_group(context, seen.group)
    if found is None:
        raise BadQuestion(f"This broker coordinates no group {seen.group}.")
    group = describe_group(context, found, reads=False)
    members = {(each["client_id"], each["host"]) for each in group["members"]}
    sessions = _sessions(context)
    return {
        "fetches": list(_fetches(seen, members, sessions)),
        "sharers": [{"client_id": client, "host": host} for client, host in sorted(seen.sharers)],
        "commits": [{"topic": topic, "partition": number, "times": times} for (topic, number), times in seen.commits.items()],
        "throttled": list(_throttled(subject, seen, members)),
        "clients": [
            {"client_id": client, "host": host, "idle_ms": idle_ms, "since_ms": since_ms}
            for (client, host), (idle_ms, since_ms) in sessions.items()
            if (client, host) in members
        ],
        "offsets": group["offsets"],
        "members": group["members"],
        "timers": group["timers"],
        "awaited": list(_awaited(group)),
        "same_rebalance": seen.epoch == _epoch(found.group),
    }


def unwatch_group(subject: Subject, watch: int) -> dict[str, Any]:
    """Ends a watch, if it is still there."""
    watching = _running.get(subject.broker)
    if watching is not None:
        watching.end(watch)
    return {"watch": watch}


def _epoch(group: Any) -> int:
    found: int = group.generation if group.kind is Kind.CLASSIC else group.epoch
    return found


def _fetches(
    seen: GroupWatch, members: set[tuple[str, str]], sessions: dict[tuple[str, str], tuple[int, int]]
) -> Iterator[dict[str, Any]]:
    for client, (topic, number), noted in seen.fetches.notes_of(members):
        yield {
            "client_id": client[0],
            "host": client[1],
            "topic": topic,
            "partition": number,
            "times": noted.times,
            "first_offset": noted.first_offset,
            "last_offset": noted.last_offset,
            "is_out_of_range": noted.is_out_of_range,
            "max_bytes": noted.max_bytes,
            "is_read_committed": noted.is_read_committed,
            "since_ms": sessions[client][1] if client in sessions else None,
        }


def _sessions(context: BrokerContext) -> dict[tuple[str, str], tuple[int, int]]:
    """Returns how long ago each client used its fetch sessions, and how old the oldest is, in ms."""
    now_ms = context.clock.now_ms()
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for session in context.fetch_sessions:
        connection: Any = session.connection
        if connection is None or connection.is_closed:
            continue
        client = connection.client_id or "", connection.client_host
        idle_ms, since_ms = now_ms - session.last_used_ms, now_ms - session.created_ms
        known = found.get(client, (idle_ms, since_ms))
        found[client] = min(known[0], idle_ms), max(known[1], since_ms)
    return found


def _throttled(subject: Subject, seen: GroupWatch, members: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Yields the members' clients that were told to wait, or still have to, those with the longest time first."""
    muted = _muted(subject)
    told = dict(muted)
    for client, (throttle_ms, principal) in seen.throttled.items():
        told[client] = max(throttle_ms, told.get(client, (0, ""))[0]), principal
    told = {client: each for client, each in told.items() if client in members}
    limits = _limits(subject.context) if told else {}
    for client, (throttle_ms, principal) in sorted(told.items(), key=lambda each: -each[1][0]):
        yield {
            "client_id": client[0],
            "host": client[1],
            "quota": _quota(limits, principal.partition(":")[2], client[0]),
            "throttle_ms": throttle_ms,
            "for_ms": muted[client][0] if client in muted else None,
        }


def _muted(subject: Subject) -> dict[tuple[str, str], tuple[int, str]]:
    """Returns for how long nothing is read from clients, in ms, with their principals."""
    now_s = subject.context.clock.monotonic()
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for connection in connections(subject.broker):
        left_ms = round((connection.muted_until - now_s) * 1000)
        client = connection.session.client_id or "", connection.session.client_host
        if left_ms > found.get(client, (0, ""))[0]:
            found[client] = left_ms, connection.session.principal
    return found


def _limits(context: BrokerContext) -> dict[str, Limits]:
    """Returns the quotas of bytes that are fetched, and of the time that requests take."""
    set_for = quotas_of(context.metadata)
    return {
        key: Limits({entity: values[key] for entity, values in set_for.items() if key in values})
        for key in (CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)
    }


def _quota(limits: dict[str, Limits], user: str, client_id: str) -> str:
    """Returns the first quota that makes a client wait, in words."""
    for key, each in limits.items():
        found = each.find(user, client_id)
        if found is not None:
            of_user, of_client = found.share
            whose = [f"user {of_user}"] if of_user else []
            whose += [f"client id {of_client}"] if of_client else []
            return f"{key}={found.limit:g} of {' and '.join(whose) or 'everybody'}"
    return "of this broker"


def _awaited(group: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the members for which a rebalance waits, and what each has yet to do."""
    for each in group["members"]:
        doing = None
        if group["state"] == "PreparingRebalance" and each.get("waits_in") != "JoinGroup":
            doing = "has yet to join again"
        elif group["state"] == "CompletingRebalance" and each["member_id"] == group.get("leader"):
            doing = None if each.get("waits_in") == "SyncGroup" else "leads, and has yet to send the assignment"
        elif each.get("revoking") and any(each["revoking"].values()):
            doing = "has yet to give partitions up"
        if doing is not None:
            yield {"client_id": each["client_id"], "host": each["host"], "member_id": each["member_id"], "doing": doing}

"""Calls by which a test moves the clock and the lives of its broker, with the fields that it gives. They are in the table of
control.py."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ottla.log.errors import LogError
from ottla.server.testkit.fields import Refused, nearest
from ottla.server.testkit.lives.effects import effects, keep_members, look
from ottla.server.testkit.lives.emptying import delete_topics
from ottla.server.testkit.lives.steered import UnknownPass

if TYPE_CHECKING:
    from ottla.server.testkit.fields import Fields
    from ottla.server.testkit.given import Given
    from ottla.server.testkit.kit import Kit
    from ottla.server.testkit.lives.archives import Archive
    from ottla.server.testkit.lives.lives import Lives

MOST_MS: Final = 100 * 366 * 86_400_000
"""The longest time by which the clock may be moved at once: a century."""
LONGEST_DOWN_MS: Final = 600_000
FAULTS: Final = "faults"
VERSIONS: Final = "versions"
KEPT: Final = (FAULTS, VERSIONS)
"""The words that `keep` may contain."""
POWER_CUT: Final = "power_cut"
WAYS: Final = ("clean", "kill", POWER_CUT)
CONNECTIONS: Final = ("drop", "keep")
PASSES: Final = {
    "retention": ("retention", "delete"),
    "compaction": ("cleaner",),
    "expiry": ("offset expiration", "transaction timeout", "transactional id expiration", "producer expiration"),
}
"""The passes that each word of `run` stands for."""


def show_clock(kit: Kit, given: Given) -> dict[str, Any]:
    """Returns what the broker's clock shows."""
    given.fields.done()
    clock = kit.lives.clock
    return {"now_ms": clock.now_ms(), "offset_ms": clock.offset_ms, "frozen": clock.frozen}


def freeze(kit: Kit, given: Given) -> dict[str, Any]:
    """Lets the clock stand still."""
    given.fields.done()
    kit.lives.clock.freeze()
    return show_clock(kit, given)


def resume(kit: Kit, given: Given) -> dict[str, Any]:
    """Lets the clock go on from where it stands."""
    given.fields.done()
    kit.lives.clock.resume()
    return show_clock(kit, given)


async def advance(kit: Kit, given: Given) -> dict[str, Any]:
    """Moves the clock by `ms` and returns what that did. With `keep_members`, members whose clients have a connection keep their
    sessions."""
    fields = given.fields
    fields.only("ms", "keep_members")
    ms, keep = fields.take_number("ms", high=MOST_MS), fields.take("keep_members", bool, False)
    return await _move(kit.lives, lambda: ms, keep=keep)


async def set_clock(kit: Kit, given: Given) -> dict[str, Any]:
    """Moves the clock to the time `at`, ISO 8601 or ms since 1970, and returns what that did. Raises Refused if that time is
    past."""
    fields, lives = given.fields, kit.lives
    fields.only("at", "keep_members")
    at_ms, keep = _time(fields), fields.take("keep_members", bool, False)
    return await _move(lives, lambda: at_ms - lives.clock.now_ms(), keep=keep)


async def _move(lives: Lives, find_ms: Callable[[], int], *, keep: bool) -> dict[str, Any]:
    lives.home.check()  # retention deletes what has become old
    async with lives.turn:
        context, clock = lives.context, lives.clock
        ms = find_ms()
        if not 0 <= ms <= MOST_MS:
            way = "a century or more ahead of" if ms > 0 else "before"
            raise Refused(f"at must not be {way} what the clock shows, {clock.now_ms()}: it only goes forward")
        before = look(context)
        if keep:
            keep_members(context, lives.broker, ms / 1000)
        jump = await clock.advance(ms / 1000)
        done: dict[str, Any] = {"timers": jump.timers, "passes": jump.passes}
        return done | effects(before, context) | {"now_ms": clock.now_ms()}


def _time(fields: Fields) -> int:
    at = fields.take_any("at")
    if type(at) is int:
        return at
    try:
        moment = datetime.fromisoformat(at)
    except (TypeError, ValueError):
        raise Refused(f"at must be a time such as 2027-03-01T00:00:00Z, or ms since 1970, not {at!r:.50}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


async def run(kit: Kit, given: Given) -> dict[str, Any]:
    """Runs retention, compaction or expiry now (`what`), and returns what that did."""
    given.fields.only("what")
    what, lives = given.fields.take_choice("what", PASSES), kit.lives
    lives.home.check()
    async with lives.turn:
        context = lives.context
        before = look(context)
        try:
            for name in PASSES[what]:
                await lives.clock.run_pass(name)
        except UnknownPass as error:
            raise Refused(f"what: {what} is off, because log.cleaner.enable is false", HTTPStatus.CONFLICT) from error
        return {"passes": list(PASSES[what]), **effects(before, context)}


async def reset(kit: Kit, given: Given) -> dict[str, Any]:
    """Begins anew with an empty broker at the same address. `keep` may name the faults and the versions. With `connections` =
    keep the broker goes on and deletes its topics and groups."""
    keep = _take_kept(given.fields)
    connections = given.fields.take_choice("connections", CONNECTIONS, CONNECTIONS[0])
    given.fields.done()
    kit.lives.home.check()
    _forget(kit, keep)
    if connections == CONNECTIONS[0]:
        await kit.lives.reset()
    else:
        async with kit.lives.turn:
            context = kit.lives.context
            await delete_topics(context, list(context.metadata.topics))
    return _address(kit)


async def restart(kit: Kit, given: Given) -> dict[str, Any]:
    """Stops the broker and starts it again, `how` it is stopped: clean, kill or power_cut."""
    fields = given.fields
    how, down_ms = fields.take_choice("how", WAYS, WAYS[0]), fields.take_number("down_ms", 0, high=LONGEST_DOWN_MS)
    fields.done()
    try:
        if how == POWER_CUT:
            await kit.lives.cut_power(kit.random, down_ms=down_ms)
        else:
            await kit.lives.restart(clean=how == WAYS[0], down_ms=down_ms)
    except (LogError, OSError) as error:  # a test may have broken the disk
        raise Refused(f"the broker was stopped, and could not be started: {error}", HTTPStatus.CONFLICT) from error
    return _address(kit)


async def snapshot(kit: Kit, given: Given) -> dict[str, Any]:
    """Copies the log directories; the copy gets a `name` if none is given."""
    wanted, lives = given.fields.take("name", str, None), kit.lives
    given.fields.done()
    name = await lives.snapshot(wanted)
    return {"name": name, "files": lives.snapshots[name].files}


def list_snapshots(kit: Kit, given: Given) -> list[dict[str, Any]]:
    """Returns all snapshots."""
    given.fields.done()
    return [{"name": name, "files": each.files} for name, each in kit.lives.snapshots.items()]


async def restore(kit: Kit, given: Given) -> dict[str, Any]:
    """Begins anew with the files of a snapshot. `keep` is that of a reset."""
    keep, name = _take_kept(given.fields), given.variables["snapshot"]
    given.fields.done()
    kit.lives.check_restore(name)
    _forget(kit, keep)
    await kit.lives.restore(name)
    return _address(kit)


def archive(kit: Kit, given: Given) -> Archive:
    """Returns a snapshot as a tar."""
    given.fields.done()
    return kit.lives.archive(given.variables["snapshot"])


def delete_snapshot(kit: Kit, given: Given) -> dict[str, Any]:
    """Deletes a snapshot; answers with what it was."""
    given.fields.done()
    name = given.variables["snapshot"]
    return {"name": name, "files": kit.lives.delete_snapshot(name).files}


def _take_kept(fields: Fields) -> list[Any]:
    keep = fields.take("keep", list, [])
    for each in keep:
        if each not in KEPT:
            raise Refused(f"keep: there is no {each!r:.50}{nearest(each, KEPT)}")
    return keep


def _forget(kit: Kit, keep: list[Any]) -> None:
    if FAULTS not in keep:
        kit.remove_faults()
        kit.lives.disk_faults.clear()
    if VERSIONS not in keep:
        kit.pretend(None)
    if kit.recorder is not None:
        kit.recorder.clear()


def _address(kit: Kit) -> dict[str, Any]:
    broker = kit.lives.broker
    return {"bootstrap": broker.bootstrap, "cluster_id": broker.cluster_id}

"""The calls about time and lives as Python methods, for `ottla.testing.Broker`: the same as over HTTP (control.py).

Each has taken effect when it returns. `Awaited` has the same methods for callers that await them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from ottla.log.disk.files import OsDisk
from ottla.server.testkit.python.calling import Calls
from ottla.server.testkit.python.disk_handles import Disk
from ottla.server.testkit.python.looking import Looking
from ottla.server.testkit.python.node_handles import NodeMoves
from ottla.server.testkit.python.seen_requests import Recording


class Clock:
    """The clock of a broker, which the test moves. Those of its clients do not move."""

    def __init__(self, call: Calls) -> None:
        self._call = call

    @property
    def now_ms(self) -> int:
        """The time that it shows, in ms since 1970."""
        return int(self._call("clock")["now_ms"])

    @property
    def frozen(self) -> bool:
        """Returns whether it stands still."""
        return bool(self._call("clock")["frozen"])

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: float = 0,
        keep_members: bool = False,
    ) -> dict[str, Any]:
        """Moves it forward. What falls due on the way has happened when this returns; the answer says what that was: `timers`,
        `passes`, `expired_members`, `aborted_transactions`, `deleted_segments`.

        Members of groups are expelled, since they were silent for that long; with `keep_members` only those whose client has no
        connection.
        """
        whole = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=ms)
        fields = {"ms": round(whole.total_seconds() * 1000), "keep_members": keep_members}
        return dict(self._call("advance", fields))

    def set(self, at: datetime | str | int, *, keep_members: bool = False) -> dict[str, Any]:
        """Moves it forward to a time, which may be ISO 8601 or ms since 1970, as `advance` does."""
        moment = at.astimezone().isoformat() if isinstance(at, datetime) else at
        return dict(self._call("set_clock", {"at": moment, "keep_members": keep_members}))

    def freeze(self) -> None:
        """Lets it stand still: nothing expires, and what waits for a time is not answered, until it is advanced or resumed."""
        self._call("freeze")

    def resume(self) -> None:
        """Lets it go on from where it stands."""
        self._call("resume")


class Moving(Looking, Recording, NodeMoves):
    """The calls by which a test changes the time, the lives and the nodes of its broker, and asks about what is in it and its
    requests."""

    def __init__(self, call: Calls) -> None:
        super().__init__(call)
        self.clock = Clock(call)
        """The broker's clock."""
        self.disk = Disk(call)
        """The broker's disk."""

    def run(self, what: str) -> dict[str, Any]:
        """Runs "retention", "compaction" or "expiry" now, and returns what that did, as `Clock.advance`."""
        return dict(self._call("run", {"what": what}))

    def reset(self, *, keep: Sequence[str] = (), connections: str = "drop") -> None:
        """Empties it: no topics, no groups, no faults, settings as at the start, the real time. The address stays the same;
        connections are lost. What `keep` names is kept: "faults", "versions".

        With `connections="keep"` it goes on instead, and deletes its topics, groups and transactions, as its clients could have
        done; its settings, its users and its clock stay as they are."""
        self._call("reset", {"keep": list(keep), "connections": connections})

    def restart(self, how: str = "clean", *, down_ms: int = 0) -> None:
        """Stops it, "clean", by "kill" or by "power_cut", and starts it again at the same address, `down_ms` later. It serves
        when this returns. A power cut takes what was not synced, and needs a broker whose disk is in memory."""
        self._call("restart", {"how": how, "down_ms": down_ms})

    def snapshot(self, name: str | None = None) -> str:
        """Copies what it has stored, as it is at this moment; nothing is interrupted. Returns the name for `restore`."""
        return str(self._call("snapshot", {} if name is None else {"name": name})["name"])

    def restore(self, name: str) -> None:
        """Puts it back to a snapshot, its clock included. The address stays the same; connections are lost."""
        self._call("restore", snapshot=name)

    def archive(self, name: str, path: object) -> None:
        """Writes a snapshot to a tar file at `path`, a text or a Path. Unpacked, it is the log directory of a broker, of ottla or
        of Apache Kafka."""
        from ottla.server.testkit.lives.archives import write_archive  # with tarfile, which few tests need

        write_archive(self._call("archive", snapshot=name), OsDisk(), str(path))

    def delete_snapshot(self, name: str) -> None:
        """Deletes a snapshot."""
        self._call("delete_snapshot", snapshot=name)

    def pretend(self, as_: str | None = None, **versions: Sequence[int] | None) -> dict[str, Any]:
        """Has it pretend to serve fewer versions than it does: those of an older release of Apache Kafka (`as_="3.5"`), of single
        APIs (`Produce=[3, 9]`), or no version of them (None). Without arguments it serves all again. Returns all versions."""
        if as_ is None and not versions:
            return dict(self._call("be_itself"))
        ranges = {name: list(found) if isinstance(found, tuple | range) else found for name, found in versions.items()}
        return dict(self._call("pretend", {"as": as_, **ranges}))

    def create_topic(self, name: str, partitions: int | None = None, **settings: object) -> None:
        """Creates a topic, which can be used when this returns. `settings` are the topic's, written as the broker's:
        `retention_ms=1000`."""
        configs = {key.replace("_", "."): value for key, value in settings.items()}
        self._call("create_topic", {"partitions": partitions, "configs": configs}, topic=name)


class Awaited:
    """The same methods and attributes of an object, awaited: each runs in a thread, and the event loop goes on meanwhile."""

    __slots__ = ("_target",)  # so that an attribute which can only be set without waiting is refused, not kept here

    def __init__(self, target: object) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        if isinstance(getattr(type(self._target), name, None), property):
            return asyncio.to_thread(getattr, self._target, name)
        found = getattr(self._target, name)
        if isinstance(found, Clock | Disk):
            return Awaited(found)

        async def call(*arguments: Any, **named: Any) -> Any:
            return await asyncio.to_thread(found, *arguments, **named)

        return call

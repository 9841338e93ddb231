"""Carries out operations on groups, those on large groups in turns.

An operation on a group whose members read ten thousand topics takes a quarter of a second: their names are looked through, and
records, targets and answers have a part for each. So it is in steps (server/base/turns.py), which plan it and change nothing:
only the records that they return do, when they are written. In between, others may change the group: members whose deadline is
over, targets that were made in the background, the topics that it reads. Then the plan is no longer true, and is made again. The
operations on a large group that come meanwhile wait in line, so that they do not keep each other from ever being carried out.

Those on other groups, which are nearly all, are carried out at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sized
from typing import TypeVar

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, at_once, take_steps
from ottla.server.base.waiting import in_line_of
from ottla.server.group.errors import GroupError
from ottla.server.group.group import Group
from ottla.server.group.modern.group import LARGE, SubscribedGroup
from ottla.server.group.protocol import ShardContext
from ottla.server.group.records import GroupRecord, encode_ahead
from ottla.server.group.result import Result
from ottla.wire.errors import ErrorCode

T = TypeVar("T")


class Operations:
    """The operations on the groups of one kind on one shard."""

    def __init__(self, shard: ShardContext) -> None:
        self._shard = shard
        self._lines: dict[str, deque[Promise[None]]] = {}

    def carry_out(self, group_id: str, plan: Callable[[], Steps[Result[T]]], names: Sized | None = None) -> T | Promise[T]:
        """Takes the steps that `plan` makes, writes the records of their result, and returns its answer, or a promise of it if
        that takes longer than a turn. `names` are those that a request brings. What the steps do before their result is there
        must not change anything, and they may be taken again.

        Raises GroupError if a step does or the records cannot be written, or the promise fails with it.
        """
        group = self._shard.groups.get(group_id)
        is_large = isinstance(group, SubscribedGroup) and group.is_large
        if group_id in self._lines or is_large or (names is not None and len(names) > LARGE):
            return take_steps(in_line_of(self._lines, group_id, self._in_steps(group_id, plan)), self._shard.clock)
        return self._shard.run(at_once(plan()))

    def _in_steps(self, group_id: str, plan: Callable[[], Steps[Result[T]]]) -> Steps[T]:
        shard = self._shard
        while not shard.is_over:
            group = shard.groups.get(group_id)
            if _is_other(group):
                return shard.run(at_once(plan()))
            changes = _changes(group)
            result = yield from plan()
            encoded: list[GroupRecord] = []
            for record in result.records:
                encoded.append(encode_ahead(record, shard.clock.now_ms()))
                yield None
            is_same = shard.groups.get(group_id) is group and _changes(group) == changes and not _is_other(group)
            if is_same and not shard.is_over:
                return shard.run(result._replace(records=encoded))
        raise GroupError(ErrorCode.NOT_COORDINATOR)


def _is_other(group: Group | None) -> bool:
    """Returns whether the group is one of another kind that is in use: of that, nobody knows when it changes."""
    return group is not None and not isinstance(group, SubscribedGroup) and not group.is_empty


def _changes(group: object) -> int:
    return group.changes if isinstance(group, SubscribedGroup) else 0

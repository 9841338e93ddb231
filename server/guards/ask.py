"""The parts that all guards use: the errors and their texts, and a change of an answer that may come later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial, wraps
from typing import Any, Final, TypeVar

from ottla.server.base.answers import keep_running, map_answer
from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.requests.link import Handle
from ottla.server.requests.request import Request
from ottla.server.security.authorizer import Ask
from ottla.server.security.rights import Operation
from ottla.wire.errors import ErrorCode
from ottla.wire.primitives import ZERO_UUID, WireStruct

T = TypeVar("T")
U = TypeVar("U")

NAMES_A_STEP: Final = 250
"""So many names are asked about before others may come first: about 0.7 ms."""
OPERATIONS_A_STEP: Final = 50
"""The same for things of which every operation is asked about."""

TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TEXTS: Final = {
    TOPIC: "This needs a right to the topic.",
    GROUP: "This needs a right to the group.",
    CLUSTER: "This needs a right to the cluster.",
    TRANSACTION: "This needs a right to the transactional id.",
}


Guard = Callable[[Ask, Handle, Any, Request], Any]
"""Takes the handler's `handle` and what this takes; returns what this returns."""


def in_turns(guard: Callable[[Ask, Handle, Any, Request], Steps[Any]], on_pause: Callable[[Any], object] | None = None) -> Guard:
    """Makes a guard of one in steps, which asks about many names: others come between two steps. What is about few names takes no
    step, and is answered as it would be without. `on_pause` is called with the request before it has to wait; it has to copy what
    of the frame is still needed."""

    @wraps(guard)
    def guarded(ask: Ask, handle: Handle, body: Any, request: Request) -> Any:
        steps = guard(ask, handle, body, request)
        try:
            first = next(steps)
        except StopIteration as end:
            return end.value
        clock = request.broker.clock
        taken = take_steps(_boxed(first, steps), clock, None if on_pause is None else partial(on_pause, body))
        return take_steps(_unboxed(taken), clock) if isinstance(taken, Promise) else taken[0]

    return guarded


def _boxed(first: Any, steps: Steps[Any]) -> Steps[tuple[Any]]:
    """Takes the steps after the first; returns the answer in a tuple, because it may be a promise itself."""
    yield first
    return ((yield from steps),)


def _unboxed(taken: Promise[tuple[Any]]) -> Steps[Any]:
    """Waits for the tuple, and then for the answer in it. Taken as steps, that stays an answer in turns, so that a thread encodes
    it if it is long."""
    yield taken
    return (yield from answered(taken.result()[0]))


def answered(answer: Any) -> Steps[Any]:
    """Makes steps that wait for an answer, in whatever form a handler gives that, and return it. Raises CloseConnection if it is
    given up."""
    if answer is None or isinstance(answer, WireStruct):
        return answer
    if not isinstance(answer, Promise):
        answer = asyncio.shield(keep_running(answer))
    yield answer
    if answer.cancelled():
        raise CloseConnection("its request was cancelled")
    return answer.result()


def select(items: Iterable[T], fits: Callable[[T], object]) -> Steps[list[T]]:
    """Makes steps that return the items for which `fits` is true, in their order."""
    found: list[T] = []
    for at, item in enumerate(items, 1):
        if fits(item):
            found.append(item)
        if at % NAMES_A_STEP == 0:
            yield None
    return found


def make_each(items: Iterable[T], make: Callable[[T], U]) -> Steps[list[U]]:
    """Makes steps that return what `make` returns for each of the items."""
    made: list[U] = []
    for at, item in enumerate(items, 1):
        made.append(make(item))
        if at % NAMES_A_STEP == 0:
            yield None
    return made


Change = Callable[[Any], Steps[Any]]
"""Makes steps that put what was refused of a group into its answer, and return that."""


def guard_each_group(
    ask: Ask,
    handle: Handle,
    body: Any,
    request: Request,
    cut: Callable[[Any], Steps[Change]],
    refuse: Callable[[str], Any],
) -> Steps[Any]:
    """Serves those groups of a request that the client may describe; the answers stand in the order of the request. `cut` makes
    steps that take the refused topics out of a group; `refuse` makes the answer about a group that is refused.
    """
    names = [group.group_id for group in body.groups]
    changes: list[Change | None] = []
    allowed = []
    for at, group in enumerate(body.groups, 1):
        if at % NAMES_A_STEP == 0:
            yield None
        if ask.group(Operation.DESCRIBE, group.group_id):
            changes.append((yield from cut(group)))
            allowed.append(group)
        else:
            changes.append(None)
    body.groups = allowed

    answer = yield from answered(handle(body, request))
    served = iter(list(answer.groups))
    groups = []
    for at, (name, change) in enumerate(zip(names, changes, strict=True), 1):
        groups.append(refuse(name) if change is None else (yield from change(next(served))))
        if at % NAMES_A_STEP == 0:
            yield None
    answer.groups = request.broker.long_answers.bounded(groups)
    return answer


def change_answer(answer: Any, change: Callable[[Any], Any]) -> Any:
    """Returns what `change` makes of an answer, in whatever form a handler gives that: now, promised, or awaitable."""
    if isinstance(answer, Promise):
        return map_answer(answer, change)
    if answer is None or isinstance(answer, WireStruct):
        return change(answer)
    return _change_later(answer, change)


async def _change_later(answer: Awaitable[T], change: Callable[[T], Any]) -> Any:
    return change(await answer)


def without(items: Iterable[T], refused: Iterable[T]) -> list[T]:
    """Returns the items that are not among the refused, which are some of them: the objects count, not what is in them.

    A request may name tens of thousands of things, so this takes no longer than looking at each of them once.
    """
    gone = set(map(id, refused))
    return [each for each in items if id(each) not in gone]


def topic_name(name: str | None, topic_id: bytes, request: Request) -> str | None:
    """Returns the name of a topic that a request names by name or id; None for an id that no topic has."""
    if topic_id == ZERO_UUID:
        return name
    topic = request.broker.metadata.topics_by_id.get(topic_id)
    return None if topic is None else topic.name

"""Steps of a share group: members that come, go and lie about their epochs, and the offsets that the group shares.

One partition, whose state is begun before anybody joins, and never deleted: so that nothing happens beside the requests. It is a
group of members alone; what they read and acknowledge is compared by test_share_fetch.py and test_share_acknowledge.py.
"""

from __future__ import annotations

from typing import Any

from compat_tests.wire_diff.random_walk.session import Session, until
from compat_tests.wire_diff.random_walk.steps import draws, some, step
from compat_tests.wire_diff.test_share_groups import ShareGroup

MEMBER = some("a", "b", "c")
WANTED = some(["only"], ["only"], ["missing"], ["only", "missing"])


def shared(session: Session) -> ShareGroup:
    if "share" not in session.members:
        group = session.members["share"] = ShareGroup(session.wire)
        topic = group.create("only")
        group.alter((topic, {0: 0}))
        until(lambda: bool(group.offsets().groups[0].topics), "the group knows that its partition has state")
    found: ShareGroup = session.members["share"]
    return found


@step("share", 4, draws(member=MEMBER, topics=WANTED))
def share_join(session: Session, member: str, topics: list[str]) -> Any:
    return shared(session).join(member, *map(session.name, topics))


@step("share", 4, draws(member=MEMBER, topics=some(None, None, ["only"], ["missing"], []), epoch=some(0, 0, 0, 0, 1, -1, -2)))
def share_beat(session: Session, member: str, topics: list[str] | None, epoch: int) -> Any:
    group = shared(session)
    names = None if topics is None else [session.name(topic) for topic in topics]
    return group.beat(member, group.epochs.get(member, 0) + epoch, names)


@step("share", 1, draws(member=MEMBER))
def share_leave(session: Session, member: str) -> Any:
    group = shared(session)
    answer = group.beat(member, -1)
    group.epochs.pop(member, None)
    return answer


@step("share", 2, draws())
def share_state(session: Session) -> Any:
    group = shared(session)
    return group.describe(), group.offsets(), group.listed()


@step("share", 1, draws(what=some("delete", "forget", "alter"), offset=some(0, 3)))
def share_refusal(session: Session, what: str, offset: int) -> Any:
    """Asks for what a group with members refuses; of one without, it would go on after the answer."""
    group = shared(session)
    if not group.describe().groups[0].members:
        return None
    if what == "delete":
        return group.delete()
    topic = session.name("only")
    return group.forget(topic) if what == "forget" else group.alter((topic, {0: offset}))

"""Steps of members: of a classic group, whose joins wait for each other, and of a consumer group (KIP-848).

A classic member has a connection of its own, and at most one request on the way. Which answers are due is Kafka's to say:
lockstep.py looks after every step, and compares that the same members have theirs.
"""

from __future__ import annotations

from typing import Any, Final

from compat_tests.wire_diff.consumers import Consumer, described
from compat_tests.wire_diff.members import Member
from compat_tests.wire_diff.random_walk.session import SET, Session, until
from compat_tests.wire_diff.random_walk.steps import draws, some, step
from ottla.wire.messages import incremental_alter_configs, join_group, sync_group

BUSY: Final = "has a request on the way"
LONGEST_MS: Final = 1_800_000
MEMBER = some("m0", "m0", "m1", "s0")
GROUP_RESOURCE: Final = 32


def member(session: Session, role: str) -> Member:
    if role not in session.members:
        instance = session.name(role) if role == "s0" else None
        session.members[role] = Member(session.wire, session.name("g0"), role, instance)
        session.wire.connect()  # the newest is for all other requests
    found: Member = session.members[role]
    return found


def send(session: Session, role: str, api: Any, request: Any, version: int) -> str:
    connection = member(session, role).connection
    connection.send(request, version)
    session.waiting[role] = (connection, api, version)
    return "sent"


def noted(session: Session, role: str, answer: Any) -> Any:
    """An answer that was waited for: a join's makes the member what it is."""
    if isinstance(answer, join_group.JoinGroupResponse):
        who = member(session, role)
        if answer.member_id and answer.member_id not in session.wire.labels:
            session.wire.label(answer.member_id, f"{role} of its {len(session.wire.labels)}th name")
        who._noted(answer)
    return answer


PROTOCOLS: Final = ([["range", "a"]], [["range", "a"], ["sticky", "b"]], [["sticky", "b"]])


@step(
    "classic",
    7,
    draws(
        role=MEMBER, known=some(True, True, True, False), protocols=some(*PROTOCOLS[:2], PROTOCOLS[1], PROTOCOLS[1], PROTOCOLS[2])
    ),
)
def join(session: Session, role: str, known: bool, protocols: list[list[str]]) -> Any:
    if role in session.waiting:
        return BUSY
    who = member(session, role)
    offered = [(name, data.encode()) for name, data in protocols]
    fields: dict[str, Any] = {"session_timeout_ms": LONGEST_MS, "rebalance_timeout_ms": LONGEST_MS, "protocols": offered}
    return send(session, role, join_group, who.join_request(**fields | ({} if known else {"member_id": ""})), 9)


@step("classic", 5, draws(role=MEMBER, generation=some(0, 0, 0, 0, 1, -1), assign=some(True, True, True, False)))
def sync(session: Session, role: str, generation: int, assign: bool) -> Any:
    """As the leader with an assignment for everybody it knows."""
    if role in session.waiting:
        return BUSY
    who = member(session, role)
    parts = (
        {each.id: f"of {name}".encode() for name, each in session.members.items() if each.id}
        if assign and who.leader == who.id
        else {}
    )
    request = who.sync_request(parts, generation_id=who.generation + generation, protocol_type=None, protocol_name=None)
    return send(session, role, sync_group, request, 5)


@step("classic", 4, draws(role=MEMBER, generation=some(0, 0, 0, 0, 1, -1)))
def beat(session: Session, role: str, generation: int) -> Any:
    if role in session.waiting:
        return BUSY
    who = member(session, role)
    return who.heartbeat(generation_id=who.generation + generation)


@step("classic", 1, draws(role=MEMBER))
def leave(session: Session, role: str) -> Any:
    if role in session.waiting:
        return BUSY
    return member(session, role).leave()


@step("classic", 3, draws(role=MEMBER, offset=some(1, 2, 3), generation=some(0, 0, 0, 1, -1)))
def commit_as(session: Session, role: str, offset: int, generation: int) -> Any:
    if role in session.waiting:
        return BUSY
    who = member(session, role)
    return who.commit(session.name("t0"), offset, generation_id_or_member_epoch=who.generation + generation)


# -- consumer groups ------------------------------------------------------------------------------------------------------

CONSUMER = some("k0", "k1", "k2")
WIDE: Final = 5


def consumer(session: Session, role: str) -> Consumer:
    """The group's assignments are made at once, and its topic is known to the coordinator before anybody joins."""
    if not session.probe_made:
        session.probe_made = True
        setting = incremental_alter_configs.AlterableConfig("consumer.assignment.interval.ms", SET, "0")
        resource = incremental_alter_configs.AlterConfigsResource(GROUP_RESOURCE, session.name("cg"), [setting])
        session.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resource]), 1)
        topic, probe = session.wire.create("wide", WIDE), Consumer(session.wire, session.name("probe"), "m")
        probe.join([topic])

        def has_all() -> bool:
            probe.owning()
            return sum(map(len, probe.assigned.values())) == WIDE

        until(has_all, "the coordinator knows the topic")
        probe.leave()
    if role not in session.members:
        instance = "i2" if role == "k2" else None
        session.members[role] = Consumer(session.wire, session.name("cg"), role, instance)
    found: Consumer = session.members[role]
    return found


READ: Final = (["wide"], ["wide"], ["wide", "nope"], ["nope"])


@step("consumer", 3, draws(role=CONSUMER, topics=some(*READ), assignor=some(None, "range")))
def enter(session: Session, role: str, topics: list[str], assignor: str | None) -> Any:
    who = consumer(session, role)
    who.assigned = {}
    return who.join([session.name(topic) for topic in topics], server_assignor=assignor)


@step("consumer", 3, draws(role=CONSUMER, epoch=some(0, 0, 0, 0, 1, -1, -2)))
def report(session: Session, role: str, epoch: int) -> Any:
    who = consumer(session, role)
    return who.beat(member_epoch=max(who.epoch + epoch, 1))


@step("consumer", 7, draws(role=CONSUMER, keeps=some(*["all"] * 5, "none", "even")))
def own(session: Session, role: str, keeps: str) -> Any:
    who = consumer(session, role)
    kept = {
        "all": None,
        "none": {},
        "even": {topic: [index for index in held if index % 2 == 0] for topic, held in who.assigned.items()},
    }
    return who.owning(kept[keeps], member_epoch=max(who.epoch, 1))


@step("consumer", 2, draws(role=CONSUMER, topics=some(*READ, [])))
def subscribe(session: Session, role: str, topics: list[str]) -> Any:
    who = consumer(session, role)
    return who.owning(subscribed_topic_names=[session.name(topic) for topic in topics], member_epoch=max(who.epoch, 1))


@step("consumer", 1, draws(role=CONSUMER, for_a_while=some(False, False, True)))
def part(session: Session, role: str, for_a_while: bool) -> Any:
    return consumer(session, role).leave(member_epoch=-2 if for_a_while else -1)


@step("consumer", 2, draws())
def members(session: Session) -> Any:
    consumer(session, "k0")
    answer = described(session.wire, session.name("cg"))
    for each in (each for group in answer.groups for each in group.members):
        each.subscribed_topic_names.sort()  # from hash tables, as the next
        for held in [*each.assignment.topic_partitions, *each.target_assignment.topic_partitions]:
            held.partitions.sort()
    return answer

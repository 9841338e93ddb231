"""This test runs groups under random clients: after every step the invariants hold, and a new coordinator over the same log has
the same state.

Clients join (static and dynamic, at all versions), react to answers as real ones do, fall silent, leave, commit, and lose their
connections; time passes; appends fail; the broker dies and comes back. The seed decides everything.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.server.group.classic.group import ClassicGroup, State
from ottla.wire.errors import ErrorCode
from tests.in_loop import in_loop
from tests.server.coordination.memory import CoordinatorClock, CoordinatorLog
from tests.server.group.fakes import Broker, Driver, classic, waits

GROUPS = ("g", "h", "other")
STEPS = 400
SETTINGS = {"initial_rebalance_delay_ms": 3_000, "max_size": 4, "offsets_retention_ms": 300_000}


@dataclass
class Client:
    group: str
    instance: str | None
    version: int
    member: str = ""
    generation: int = -1
    parked: Any = None
    protocols: dict[str, bytes] = field(default_factory=lambda: {"range": b"1"})


class Model:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log = CoordinatorLog()
        self.driver = Driver(Broker(self.log, CoordinatorClock(), None, **SETTINGS))
        self.clients = [
            Client(self.random.choice(GROUPS), f"i{index % 3}" if index % 4 == 0 else None, self.random.choice((2, 5, 8, 9)))
            for index in range(12)
        ]
        self.leaders: dict[tuple[str, int, int], str] = {}  # (group, how often it was founded, generation) -> leader
        self.founded: Counter[str] = Counter()
        self.generations: dict[str, int] = {}
        self.seen: Counter[str] = Counter()
        self.failed = False  # whether appends failed in this step
        self.behind: set[str] = set()

    # What clients do

    def step(self) -> None:
        action = self.random.choices(
            (self.act, self.wait, self.commit, self.leave, self.hang_up, self.crash, self.administrate),
            weights=(60, 15, 12, 6, 3, 1, 2),
        )[0]
        self.failed = self.random.random() < 0.03
        self.log.fail = OSError("no space") if self.failed else None
        action()
        self.log.fail = None

    def client(self) -> Client:
        return self.random.choice(self.clients)

    def act(self) -> None:
        """Lets one client go on: it takes an answer, joins, syncs or sends a heartbeat, depending on its state."""
        client = self.client()
        if client.parked is not None:
            if not waits(client.parked):
                self.take(client)
        elif client.generation < 0:
            self.join(client)
        else:
            code = self.driver.heartbeat(client.member, client.generation, group=client.group, instance=client.instance)
            self.seen[f"heartbeat {ErrorCode(code).name}"] += 1
            if code != ErrorCode.NONE:
                self.start_over(client, code)

    def join(self, client: Client) -> None:
        if self.random.random() < 0.2:
            client.protocols = self.random.choice(({"range": b"1"}, {"range": b"2"}, {"sticky": b"", "range": b"3"}))
        client.parked = self.driver.join(
            client.group,
            client.member,
            instance=client.instance,
            protocols=client.protocols,
            version=client.version,
            rebalance_ms=20_000,
        )
        if not waits(client.parked):
            self.take(client)

    def take(self, client: Client) -> None:
        """Handles the answer to a parked request: after joining comes syncing."""
        parked, client.parked = client.parked, None
        answer = parked.result() if hasattr(parked, "done") else parked
        code = answer.error_code
        self.seen[f"{type(answer).__name__} {ErrorCode(code).name}"] += 1
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member = answer.member_id
        elif code != ErrorCode.NONE:
            self.start_over(client, code)
        elif hasattr(answer, "members"):
            client.member, client.generation = answer.member_id, answer.generation_id
            assignments = {member.member_id: f"{answer.generation_id}".encode() for member in answer.members}
            if answer.members and self.random.random() < 0.05:
                return  # a leader that dies before it assigns
            client.parked = self.driver.sync(
                client.member,
                client.generation,
                assignments,
                group=client.group,
                instance=client.instance,
                protocol=None,
                version=4,
            )
            if not waits(client.parked):
                self.take(client)

    def start_over(self, client: Client, code: int) -> None:
        client.generation = -1
        if code != ErrorCode.REBALANCE_IN_PROGRESS:
            client.member = ""

    def wait(self) -> None:
        self.driver.clock.advance(self.random.choice((0.01, 1, 3, 11, 25)))

    def commit(self) -> None:
        client = self.client()
        offsets = {self.random.randrange(3): self.random.randrange(100)}
        codes = self.driver.commit(
            offsets,
            topic=self.random.choice(("t", "t", "u")) if 0 in offsets else "t",
            group=client.group,
            member=client.member if client.generation >= 0 else "",
            generation=client.generation,
            instance=client.instance if client.generation >= 0 else None,
        )
        self.seen[f"commit {ErrorCode(codes[0]).name}"] += 1

    def leave(self) -> None:
        client = self.client()
        self.driver.leave((client.member, client.instance), group=client.group)
        client.member, client.generation, client.parked = "", -1, None

    def hang_up(self) -> None:
        client = self.client()
        if waits(client.parked):
            client.parked.cancel()
        client.parked, client.generation = None, -1

    def crash(self) -> None:
        self.seen["crash"] += 1
        self.driver = Driver(Broker(self.log, self.driver.clock, None, **SETTINGS))
        # The process is gone, and its timers with it.
        self.driver.clock._timers.clear()
        self.driver.broker.groups.refresh()
        for client in self.clients:
            client.parked = None
        self.generations.clear()
        self.behind.clear()
        self.leaders.clear()

    def administrate(self) -> None:
        groups = self.driver.broker.groups
        if self.random.random() < 0.5:
            groups.expire()
        else:
            groups.topic_deleted("u")

    # What must hold

    def check(self) -> None:
        live = {group.group_id: classic(group) for group in self.driver.broker.groups.all_groups()}
        for name in GROUPS:
            if name in self.generations and name not in live:
                del self.generations[name]
                self.founded[name] += 1
        for group in live.values():
            self.check_group(group)
        replayed_broker = Broker(self.log, CoordinatorClock(), None, **SETTINGS)
        replayed_broker.groups.refresh()
        replayed = {group.group_id: classic(group) for group in replayed_broker.groups.all_groups()}
        assert replayed.keys() == live.keys()
        for name, group in live.items():
            again = replayed[name]
            ours = self.driver.broker.groups.shard(name).offsets.of_group(name)
            assert replayed_broker.groups.shard(name).offsets.of_group(name) == ours
            assert again.generation <= group.generation
            if group.state is State.EMPTY and self.failed and persistent(again) != persistent(group):
                self.behind.add(name)  # the one thing that may get lost: that everybody left (rebalance.py)
            if group.state is State.STABLE or (group.state is State.EMPTY and name not in self.behind):
                assert persistent(again) == persistent(group)
                self.behind.discard(name)

    def check_group(self, group: ClassicGroup) -> None:
        self.seen[group.state.name] += 1
        assert group.generation >= self.generations.get(group.group_id, 0), "generations only grow"
        self.generations[group.group_id] = group.generation
        assert (group.leader in group.members) if group.members else group.leader is None
        if group.leader is not None and group.state in (State.COMPLETING_REBALANCE, State.STABLE):
            identity = group.members[group.leader].instance_id or group.leader
            key = (group.group_id, self.founded[group.group_id], group.generation)
            assert self.leaders.setdefault(key, identity) == identity, "two leaders in one generation"
        assert group.awaited_joins == sum(member.awaiting_join is not None for member in group.members.values())
        statics = {member.instance_id: key for key, member in group.members.items() if member.instance_id is not None}
        assert group.static_members == statics
        assert all(key == member.member_id for key, member in group.members.items())
        assert group.pending_syncs <= group.members.keys()
        assert not group.pending_joins.keys() & group.members.keys()
        assert bool(group.members) or group.state in (State.EMPTY, State.PREPARING_REBALANCE)
        if group.state is State.PREPARING_REBALANCE:
            assert group.join_timer is not None, "a rebalance that nothing ends"
            assert group.join_timer.active, "a rebalance that nothing ends"
        for member in group.members.values():
            assert member.awaiting_join is None or group.state is State.PREPARING_REBALANCE
            assert member.awaiting_sync is None or group.state is State.COMPLETING_REBALANCE
            assert member.keeps_session or (member.session is not None and member.session.active), "a member that never expires"


def persistent(group: ClassicGroup) -> tuple[object, ...]:
    members = {
        key: (member.instance_id, member.client, member.rebalance_timeout_ms, member.session_timeout_ms, member.assignment)
        for key, member in group.members.items()
    }
    subscriptions = {key: member.metadata(group.protocol) for key, member in group.members.items()}
    return group.state, group.generation, group.protocol_type, group.protocol, group.leader, members, subscriptions


@pytest.mark.parametrize("seed", range(40))
@in_loop
async def test_random_histories(seed: int) -> None:
    model = Model(seed)
    for _ in range(STEPS):
        model.step()
        model.check()


@in_loop
async def test_the_histories_reach_what_they_are_about() -> None:
    seen: Counter[str] = Counter()
    for seed in range(6):
        model = Model(seed)
        for _ in range(STEPS):
            model.step()
            model.check()
        seen += model.seen
    wanted = [state.name for state in State if state is not State.DEAD]
    wanted += ["JoinGroupResponse NONE", "JoinGroupResponse GROUP_MAX_SIZE_REACHED", "SyncGroupResponse NONE", "crash"]
    wanted += ["heartbeat NONE", "heartbeat REBALANCE_IN_PROGRESS", "heartbeat UNKNOWN_MEMBER_ID", "commit NONE"]
    assert not [each for each in wanted if not seen[each]], seen

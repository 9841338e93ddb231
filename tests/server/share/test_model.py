"""This test runs random lives of a share partition, with members that accept, release, reject, forget and crash, and with leaders
that restart.

In every run no two members hold a record at the same time; a record is accepted once at most; a record that is done is never
delivered again; no record is delivered more often than the limit; and with members that accept everything, all records are done
in the end.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ottla.server.share.acknowledgement import Acknowledgement
from ottla.server.share.persister import ShareError
from ottla.server.share.states import ACCEPT, ACQUIRED, GAP, REJECT, RELEASE, RENEW, TERMINAL
from ottla.wire.errors import ErrorCode
from tests.server.share.support import LOCK_SECONDS, SETTINGS, MemoryPersister, Partition

MEMBERS = ("a", "b", "c", "d")
STEPS = 300
LIMIT = 4


class Life:
    """The model. `held` is the member that holds each offset, as far as members know, `fate` the final state of offsets, and
    `counts` their deliveries.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        settings = replace(SETTINGS, delivery_count_limit=LIMIT, max_record_locks=100)
        self.partition = Partition(self._log(), settings=settings)
        self.held: dict[int, tuple[str, float]] = {}
        self.fate: dict[int, str] = {}
        self.kept_counts: dict[int, int] = {}

    def _log(self) -> list[tuple[int, int]]:
        log, offset = [], 0
        for _ in range(40):
            size = self.random.randint(1, 20)
            log.append((offset, offset + size - 1))
            offset += size
        return log

    @property
    def end(self) -> int:
        return self.partition.log[-1][1] + 1

    def step(self) -> None:
        steps = (self.fetch, self.fetch, self.settle, self.settle, self.settle, self.wait, self.leave, self.lose, self.restart)
        self.random.choice(steps)()
        self.check()

    def fetch(self) -> None:
        member, strict = self.random.choice(MEMBERS), self.random.random() < 0.4
        limit = self.random.randint(1, 30)
        acquired = self.partition.acquire(
            member, limit, self.random.choice((1, 5, 100)), strict=strict, batches=self.random.randint(1, 4)
        )
        assert not strict or sum(each.size for each in acquired) <= limit
        deadline = self.partition.clock.monotonic() + LOCK_SECONDS
        for each in acquired:
            assert 1 <= each.delivery_count <= LIMIT
            for offset in range(each.first, each.last + 1):
                assert offset not in self.fate, f"{offset} was {self.fate[offset]} and is handed out"
                assert offset not in self.held, f"{offset} is held by {self.held[offset]} and handed out"
                assert each.delivery_count > self.kept_counts.get(offset, 0)
                self.held[offset] = member, deadline

    def settle(self) -> None:
        """Lets a member acknowledge a range of what it holds, or of something that it does not hold."""
        if not self.held:
            return
        first = self.random.choice(list(self.held))
        member = self.held[first][0]
        last = first
        while self.held.get(last + 1, ("", 0.0))[0] == member and self.random.random() < 0.9:
            last += 1
        if self.random.random() < 0.3:
            kinds = self.random.choices((GAP, ACCEPT, RELEASE, REJECT, RENEW), k=last - first + 1)
        else:
            kinds = [self.random.choice((ACCEPT, ACCEPT, RELEASE, REJECT, RENEW))]
        if self.random.random() < 0.1:
            self._refused("nobody", first, last, kinds)
            return
        self.partition.share.acknowledge(member, [Acknowledgement(first, last, kinds)])
        deadline = self.partition.clock.monotonic() + LOCK_SECONDS
        for offset in range(first, last + 1):
            kind = kinds[offset - first] if len(kinds) > 1 else kinds[0]
            if kind == RENEW:
                self.held[offset] = member, deadline
                continue
            del self.held[offset]
            if kind != RELEASE:
                self.fate[offset] = "accepted" if kind == ACCEPT else "rejected"

    def _refused(self, member: str, first: int, last: int, kinds: list[int]) -> None:
        before = self.partition.states()
        with pytest.raises(ShareError):
            self.partition.share.acknowledge(member, [Acknowledgement(first, last, kinds)])
        assert self.partition.states() == before

    def wait(self) -> None:
        self.partition.clock.advance(self.random.choice((0.5, 5, LOCK_SECONDS)))
        now = self.partition.clock.monotonic()
        self.held = {offset: held for offset, held in self.held.items() if held[1] > now}

    def leave(self) -> None:
        member = self.random.choice(MEMBERS)
        self.partition.share.release(member)
        self.held = {offset: held for offset, held in self.held.items() if held[0] != member}

    def lose(self) -> None:
        """The coordinator is unavailable for a moment: nothing changes."""
        before = self.partition.states()
        self.partition.persister.refusal = ErrorCode.NOT_COORDINATOR
        for offset, (member, _) in list(self.held.items())[:1]:
            with pytest.raises(ShareError):
                self.partition.share.acknowledge(member, [Acknowledgement(offset, offset, [ACCEPT])])
        self.partition.persister.refusal = None
        assert self.partition.states() == before

    def restart(self) -> None:
        """The leader is lost, and with it the knowledge of which member holds what."""
        if self.random.random() < 0.2:
            self.partition.restart()
            self.held = {}

    def check(self) -> None:
        share = self.partition.share
        behind = -1
        for batch in share.batches:
            assert batch.first > behind
            behind = batch.last
            assert [run.first for run in batch.runs] == [batch.first, *(run.last + 1 for run in batch.runs[:-1])]
            assert batch.runs[-1].last == batch.last
            for run in batch.runs:
                self._check_run(run.first, run.last, run.state in TERMINAL, run.member_id if run.state is ACQUIRED else "")
        assert behind <= share.end
        for offset in range(share.start):
            self.fate.setdefault(offset, "given up")
            assert offset not in self.held
        self.kept_counts = {
            offset: row.delivery_count
            for row in self.partition.persister.batches
            for offset in range(row.first_offset, row.last_offset + 1)
        }

    def _check_run(self, first: int, last: int, done: bool, holder: str) -> None:
        for offset in range(first, last + 1):
            assert self.held.get(offset, ("", 0))[0] == holder
            if done:
                self.fate.setdefault(offset, "given up")
            else:
                assert offset not in self.fate

    def finish(self) -> None:
        """All members leave, and another one accepts the rest."""
        for member in MEMBERS:
            self.partition.share.release(member)
        self.held = {}
        for _ in range(10_000):
            acquired = self.partition.acquire("last", 50)
            for each in acquired:
                self.partition.share.acknowledge("last", [Acknowledgement(each.first, each.last, [ACCEPT])])
            if not acquired:
                break
        assert self.partition.share.start == self.end
        assert self.partition.share.batches == []


@pytest.mark.parametrize("seed", range(60))
def test_a_random_life(seed: int) -> None:
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
    life.finish()


def test_what_is_kept_is_enough_to_go_on_after_every_step() -> None:
    """A leader that starts from the stored state must not have handed out records that are done."""
    life = Life(1000)
    for _ in range(STEPS):
        life.step()
        persister = MemoryPersister(life.partition.persister.start_offset, life.partition.persister.batches)
        other = Partition(life.partition.log, settings=life.partition.settings, persister=persister)
        for each in other.acquire("x"):
            settled = [offset for offset in range(each.first, each.last + 1) if life.fate.get(offset) in ("accepted", "rejected")]
            assert settled == []

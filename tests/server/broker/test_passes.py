"""The recurring work of a broker: what is due when, and that it loads nothing that nobody uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from ottla.log.disk.directory import do_at_once
from ottla.log.disk.files import remove_tree
from ottla.server.base.scheduler import Scheduler
from ottla.server.broker.passes import Compaction, CoordinatorPasses, schedule_passes
from tests.fakes import MemoryBroker
from tests.log.support import batch


class Recorded:
    """A scheduler that only writes down what it is given."""

    def __init__(self) -> None:
        self.passes: dict[str, tuple[int | Callable[[], int], Callable[[], object]]] = {}

    def every(self, name: str, interval_ms: int | Callable[[], int], action: Callable[[], object]) -> None:
        assert name not in self.passes
        self.passes[name] = interval_ms, action

    def in_slices(self, steps: Iterator[Callable[[], None] | None]) -> None:
        do_at_once(steps)


class Coordinator:
    """Stands for the coordinators; remembers what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self.asked.append(name)


def scheduled(**settings: str) -> tuple[MemoryBroker, Recorded]:
    broker = MemoryBroker({"t": 1}, {name.replace("_", "."): value for name, value in settings.items()})
    broker.context.existing_groups = cast(Any, Coordinator())
    recorded = Recorded()
    compaction = Compaction(broker.context, broker.logs, broker.disk, None)
    schedule_passes(cast(Scheduler, recorded), broker.context, broker.logs, compaction)
    return broker, recorded


def test_intervals_are_those_of_the_settings() -> None:
    _, recorded = scheduled(
        log_retention_check_interval_ms="7", log_flush_scheduler_interval_ms="9", offsets_retention_check_interval_ms="11"
    )
    assert {name: recorded.passes[name][0] for name in ("retention", "flush", "offset expiration")} == {
        "retention": 7,
        "flush": 9,
        "offset expiration": 11,
    }


def test_offsets_expire_only_where_there_are_groups() -> None:
    broker, recorded = scheduled()
    expire = recorded.passes["offset expiration"][1]
    expire()
    assert cast(Any, broker.context.existing_groups).asked == ["expire"]
    broker.context.existing_groups = None
    expire()
    assert broker.context.existing_groups is None


def test_due_flushes_are_looked_for_every_second_at_least() -> None:
    assert scheduled()[1].passes["flush"][0] == 1_000


def test_partitions_whose_directory_was_removed_are_looked_for() -> None:
    broker, recorded = scheduled()
    interval_ms, action = recorded.passes["removed directories"]
    assert interval_ms == 5_000
    remove_tree(broker.disk, "/data/t-0")
    action()
    assert broker.replicas.get("t", 0) is None


@pytest.mark.parametrize("name", ["checkpoint", "flush", "removed directories"])
def test_what_looks_at_all_partitions_does_so_in_slices(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    broker, recorded = scheduled()
    steps: list[object] = []
    monkeypatch.setattr(recorded, "in_slices", steps.extend)
    result = recorded.passes[name][1]()
    if name == "flush":
        asyncio.run(cast(Any, result))
    assert steps.count(None) >= len(broker.logs.logs)


def test_the_cleaner_s_pause_is_asked_for_each_time_and_without_the_cleaner_there_is_no_pass() -> None:
    pause = scheduled(log_cleaner_backoff_ms="77")[1].passes["cleaner"][0]
    assert callable(pause)
    assert pause() == 77
    assert "cleaner" not in scheduled(log_cleaner_enable="false")[1].passes


def test_coordinators_that_nobody_loaded_are_passed_over_and_others_asked() -> None:
    context = MemoryBroker({}).context
    passes = CoordinatorPasses(context)

    def run() -> None:
        for each in (passes.abort_overdue, passes.expire_transactional_ids, passes.snapshot_cold, passes.prune_share_state):
            each()

    run()
    assert (context.existing_transaction_coordinator, context.existing_share_coordinator) == (None, None)
    coordinator = Coordinator()
    context.existing_transaction_coordinator = context.existing_share_coordinator = cast(Any, coordinator)
    run()
    assert coordinator.asked == ["abort_overdue", "expire", "snapshot_cold", "prune"]


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_the_cleaner_is_loaded_for_a_compacted_topic_only(policy: str) -> None:
    broker = MemoryBroker({})
    broker.create_topic("t", cleanup_policy=policy)
    compaction = Compaction(broker.context, broker.logs, broker.disk, None)
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    replica.append(batch(1))

    async def run() -> None:
        compacting = compaction.run_pass()
        assert (compacting is not None) == (policy == "compact")
        if compacting is not None:
            await compacting

    asyncio.run(run())
    compaction.stop()

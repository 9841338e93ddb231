"""Fetcher: what happens to partitions, and to the fetcher, while it waits for an answer or lets others have a turn."""

from __future__ import annotations

import pytest

from tests.server.replication.played import Rig, run, turns


def test_a_partition_that_goes_while_others_have_a_turn_is_not_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """This broker may lead it from then on."""
    monkeypatch.setattr("ottla.server.replication.fetcher.SLICE_BYTES", 100)

    async def scenario(rig: Rig) -> None:
        first, second = rig.follow("first"), rig.follow("second")
        rig.leader_log(first).fill(3)
        rig.leader_log(second).fill(3)
        await turns()
        rig.leader.answer()
        while not first.log.log_end_offset:
            await turns(1)
        assert second.log.log_end_offset == 0
        rig.fetcher.remove(second.key)
        await turns()
        assert second.log.log_end_offset == 0
        assert first.log.log_end_offset == 3

    run(scenario)

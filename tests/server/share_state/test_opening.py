"""These tests cover the share coordinator of a broker over real partitions: it is loaded after a power cut, and pruned with the
segments removed.
"""

from __future__ import annotations

from ottla.server.metadata.names import SHARE_GROUP_STATE
from ottla.server.share_state.batches import StateBatch
from tests.fakes import MemoryBroker

SETTINGS = {"share.coordinator.snapshot.update.records.per.snapshot": "1"}


def test_pruned_segments_go_and_what_counts_stays() -> None:
    broker = MemoryBroker({"t": 1, SHARE_GROUP_STATE: 1}, SETTINGS)
    coordinator = broker.context.share_coordinator()
    topic_id = broker.image.topics["t"].topic_id
    replica = broker.replicas.get(SHARE_GROUP_STATE, 0)
    assert replica is not None
    coordinator.initialize("g", topic_id, 0, 1, 0)
    for offset in range(20):
        coordinator.write("g", topic_id, 0, 1, 0, offset, 0, [StateBatch(offset, offset, 1, 2)])
        replica.log.roll()
    kept = coordinator.read("g", topic_id, 0, 0)
    assert replica.log.log_start_offset == 0
    coordinator.prune()
    assert replica.log.log_start_offset == 20
    assert replica.log.apply_retention(broker.clock.now_ms()) > 10
    coordinator.close()
    coordinator.refresh()
    assert coordinator.read("g", topic_id, 0, 0) == kept

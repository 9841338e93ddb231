"""Parts that are made with the first who asks: once, out of the broker's own."""

from __future__ import annotations

import subprocess
import sys

from ottla.server.txn.producer_ids import ProducerIds
from tests.fakes import MemoryBroker


def test_each_part_is_made_once() -> None:
    broker = MemoryBroker({}).context
    broker.flushing, broker.producer_ids = None, ProducerIds(broker.controller)
    assert (broker.transactions, broker.share_state, broker.shares, broker.telemetry) == (None, None, None, None)
    assert broker.share_partitions() is broker.share_partitions() is broker.shares
    assert broker.share_coordinator() is broker.share_coordinator() is broker.share_state
    assert broker.transaction_coordinator() is broker.transaction_coordinator() is broker.transactions
    assert broker.client_telemetry() is broker.client_telemetry() is broker.telemetry
    assert broker.flusher() is broker.flusher() is broker.flushing


def test_telemetry_goes_by_the_broker_s_settings() -> None:
    assert MemoryBroker({}, {"telemetry.max.bytes": "1000"}).context.client_telemetry().max_bytes == 1000


def test_nothing_of_the_parts_is_loaded_before_somebody_asks() -> None:
    program = """
import sys
from ottla.server.broker import parts
rooms = ("txn", "share", "share_state", "telemetry", "partitions")
print([name for name in sys.modules if name.startswith("ottla.server.") and name.split(".")[2] in rooms])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"

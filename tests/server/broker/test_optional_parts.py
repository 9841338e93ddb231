"""Parts that are made with the first who asks: once, out of the broker's own."""

from __future__ import annotations

import subprocess
import sys

from ottla.server.txn.producer_ids import ProducerIds
from tests.fakes import MemoryBroker


def test_each_part_is_made_once() -> None:
    broker = MemoryBroker({}).context
    broker.existing_flushing, broker.producer_ids = None, ProducerIds(broker.controller)
    coordinators = (broker.existing_transaction_coordinator, broker.existing_share_coordinator)
    assert (*coordinators, broker.existing_share_partitions, broker.existing_client_telemetry) == (None, None, None, None)
    assert broker.share_partitions() is broker.share_partitions() is broker.existing_share_partitions
    assert broker.share_coordinator() is broker.share_coordinator() is broker.existing_share_coordinator
    assert broker.transaction_coordinator() is broker.transaction_coordinator() is broker.existing_transaction_coordinator
    assert broker.client_telemetry() is broker.client_telemetry() is broker.existing_client_telemetry
    assert broker.flushing() is broker.flushing() is broker.existing_flushing


def test_telemetry_goes_by_the_broker_s_settings() -> None:
    assert MemoryBroker({}, {"telemetry.max.bytes": "1000"}).context.client_telemetry().max_bytes == 1000


def test_nothing_of_the_parts_is_loaded_before_somebody_asks() -> None:
    program = """
import sys
from ottla.server.broker import optional_parts
rooms = ("txn", "share", "share_state", "telemetry", "partitions")
print([name for name in sys.modules if name.startswith("ottla.server.") and name.split(".")[2] in rooms])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"

"""A transactional writer for the soak: two batches a transaction, most committed, some aborted, and those that
a kill cuts off left open.

Its requests are those of KIP-890: Produce v12 adds the partition, EndTxn v5 answers with the next epoch.
"""

from __future__ import annotations

from typing import Final

from ottla.wire.messages import end_txn, find_coordinator, init_producer_id, produce
from ottla.wire.records import Record, build_batch
from scripts.soak.client import Client
from scripts.soak.promises import Transactions, now_ms

WRITERS: Final = 20
"""After so many transactions the writer takes another transactional id; an id that is used again meets what it left open."""
_TIMEOUT_MS: Final = 30_000


class Transacting:
    """The writer, and what it was promised."""

    def __init__(self, promises: Transactions) -> None:
        self.promises = promises
        self._count = 0

    def run(self, client: Client, commit: bool) -> None:
        """Runs one transaction. Raises OSError when the broker goes away, and then nobody knows how it ended; Refused."""
        self._count += 1
        name, began = f"t{self._count}", now_ms()
        transactional_id = f"writer-{self._count // WRITERS}"
        client.sure(find_coordinator.FindCoordinatorRequest(transactional_id, 1), 2)
        answer = client.sure(init_producer_id.InitProducerIdRequest(transactional_id, _TIMEOUT_MS), 4)
        producer_id, producer_epoch = answer.producer_id, answer.producer_epoch
        self.promises.ended[name] = None, began
        for part in range(self.promises.parts):
            value = f"{name} {part}".encode()
            batch = build_batch(
                [Record(0, now_ms(), None, value)],
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=part,
                transactional=True,
            )
            data = produce.TopicProduceData(name=self.promises.topic, partition_data=[produce.PartitionProduceData(0, batch)])
            client.sure(produce.ProduceRequest(transactional_id, -1, _TIMEOUT_MS, [data]), 12)
        client.sure(end_txn.EndTxnRequest(transactional_id, producer_id, producer_epoch, commit), 5)
        self.promises.ended[name] = commit, began

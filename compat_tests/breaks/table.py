"""The breaks: each changes one place of the broker, and names the tests of the suite that must fail because of it.

`old` is in `file` exactly once; `new` takes its place. `test` is a node id of pytest below compat_tests, with parameters where
one case is enough. Each break is a mistake that somebody could make, in a promise that clients build on.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Break(NamedTuple):
    name: str
    promise: str
    file: str
    old: str
    new: str
    test: str


_WIRE_DIFF: Final = "compat_tests/wire_diff/"

BREAKS: Final = (
    Break(
        "a retried batch is written again",
        "a batch that an idempotent producer sends twice is stored once, and both times answered with its first offset",
        "log/producers.py",
        "            if duplicate is not None:\n                return duplicate\n",
        "",
        _WIRE_DIFF + "test_idempotence.py::test_duplicates_are_answered_with_their_first_offset",
    ),
    Break(
        "sequences are not checked",
        "a gap in a producer's sequence numbers is refused, because a batch was lost on the way",
        "log/producers.py",
        "            _check_sequence(header, state)\n",
        "            pass\n",
        _WIRE_DIFF + "test_idempotence.py::test_gaps_and_overlaps_are_out_of_order",
    ),
    Break(
        "an old producer is not fenced",
        "a producer whose epoch was replaced can no longer write",
        "log/producers.py",
        "        if header.producer_epoch < state.producer_epoch:\n            raise",
        "        if False:\n            raise",
        _WIRE_DIFF + "test_idempotence.py::test_epochs",
    ),
    Break(
        "a wrong error code",
        "an offset beyond the log's end is answered OFFSET_OUT_OF_RANGE, which makes consumers reset theirs",
        "server/base/errors.py",
        "log.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE",
        "log.OffsetOutOfRange: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION",
        _WIRE_DIFF + "test_fetch.py::test_offsets_out_of_range",
    ),
    Break(
        "the last stable offset is too early to move",
        "read_committed consumers stop where the oldest open transaction begins",
        "log/partition.py",
        "return high_watermark if first is None or first > high_watermark else max(first, self.log_start_offset)",
        "return high_watermark",
        _WIRE_DIFF + "test_transactions.py::test_list_offsets_while_a_transaction_is_open",
    ),
    Break(
        "a fetch lists no aborted transactions",
        "the answer to a read_committed fetch lists the aborted transactions whose records it contains",
        "server/partitions/fetch_answers.py",
        "for entry in aborted_in_read(log, fetch_offset, records)]",
        "for entry in ()]",
        _WIRE_DIFF + "test_transactions.py::test_every_version_of_fetch_lists_the_aborted[11]",
    ),
    Break(
        "a fetch session's epoch is not checked",
        "a request that is out of order in its fetch session is refused, so that nothing is silently left out",
        "server/partitions/fetch_sessions.py",
        "        if session.epoch != epoch:\n",
        "        if False:\n",
        _WIRE_DIFF + "test_fetch.py::test_wrong_session_epochs",
    ),
    Break(
        "a fetch does not wait for min_bytes",
        "a fetch that finds fewer bytes than it asked for is answered when there are enough, or when its time is up",
        "server/handlers/fetch.py",
        "or attempt.found >= self._min_bytes",
        "or attempt.found > 0",
        _WIRE_DIFF + "test_fetch.py::test_a_waiting_fetch_waits_for_min_bytes",
    ),
    Break(
        "a damaged batch is stored",
        "a batch whose CRC does not match is answered CORRUPT_MESSAGE and does not get into the log",
        "log/validate.py",
        "    if crc32c(_behind(buf, CRC_START, size)) != header.crc:",
        "    if False:",
        _WIRE_DIFF + "test_produce.py::test_broken_batches",
    ),
    Break(
        "the end of a transaction keeps the epoch",
        "from EndTxn version 5 on (KIP-890), every end of a transaction raises the producer's epoch, which fences late batches",
        "server/txn/state.py",
        'changes["producer_epoch"] = min(transaction.producer_epoch + 1, LAST_EPOCH)',
        'changes["producer_epoch"] = transaction.producer_epoch',
        _WIRE_DIFF + "test_transaction_coordinator.py::test_ends_at_every_version",
    ),
    Break(
        "two producers of one transactional id",
        "a producer that takes over a transactional id fences the previous one",
        "server/txn/state.py",
        "    if expected is None:\n        epoch, last = epoch + 1, NO_EPOCH",
        "    if expected is None:\n        epoch, last = max(epoch, 0), NO_EPOCH",
        _WIRE_DIFF + "test_transaction_coordinator.py::test_who_takes_over_fences",
    ),
    Break(
        "offsets of an open transaction count",
        "a fetch of stable offsets is answered UNSTABLE_OFFSET_COMMIT while a transaction may still change them",
        "server/group/offsets.py",
        "        return any(partition in topics.get(topic, {})",
        "        return False and any(partition in topics.get(topic, {})",
        _WIRE_DIFF + "test_transaction_coordinator.py::test_offsets_in_a_transaction",
    ),
    Break(
        "a static member is not fenced",
        "only one member has an instance id: the previous one is answered FENCED_INSTANCE_ID",
        "server/group/classic/group.py",
        "            if current != member_id:\n                raise GroupError(ErrorCode.FENCED_INSTANCE_ID)\n        member = ",
        "        member = ",
        _WIRE_DIFF + "test_groups.py::test_static_members",
    ),
    Break(
        "compaction takes tombstones at once",
        "a tombstone is kept for delete.retention.ms, so that slow consumers see the deletion",
        "log/compaction/filtered_batch.py",
        "        self.horizon_ms = min(job.now_ms + job.delete_retention_ms, MAX_INT64)",
        "        self.horizon_ms = job.now_ms",
        "compat_tests/test_compaction.py::test_the_same_bytes_are_left",
    ),
    Break(
        "a timestamp is looked up one record late",
        "ListOffsets by timestamp finds the first record that is not earlier",
        "log/timestamps.py",
        "        matches = batch.max_timestamp >= target_ms and",
        "        matches = batch.max_timestamp > target_ms and",
        _WIRE_DIFF + "test_fetch.py::test_list_offsets_by_timestamp",
    ),
)

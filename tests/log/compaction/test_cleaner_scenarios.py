"""Kafka's own cases of compaction, and the tests here that restate them: LogCleanerTest, LogCleanerManagerTest, OffsetMapTest.

The tests are in tests/log/compaction: test_cleaner.py (records, batches, producers) with _bounds and _segments,
test_transactions.py, test_plan.py, test_cleaner_manager.py, test_swap.py, test_process.py and test_offset_map.py; and in
tests/server/partitions/test_cleaning.py. Beside them stand a model test of any history (test_cleaner_model.py), power cuts at
every change (test_swap.py), and the comparison with Kafka byte for byte (compat_tests/test_compaction.py).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).resolve().parents[2]

LOG_CLEANER: Final[dict[str, str]] = {
    "testRemoveMetricsOnClose": "",
    "testMetricsActiveAfterReconfiguration": "test_every_metric_is_exported_with_its_kind_labels_and_text",
    "testCleanSegments": "test_the_last_record_of_every_key_stays_where_it_is",
    "testCleanSegmentsWithConcurrentSegmentDeletion": "test_retention_leaves_a_log_in_cleaning_alone",
    "testSizeTrimmedForPreallocatedAndCompactedTopic": "test_groups_and_then_what_was_done",
    "testDuplicateCheckAfterCleaning": "test_a_producer_goes_on_after_cleaning_and_restart",
    "testMultiPassSegmentCleaningWithAbortedTransactions": "test_an_abort_over_several_turns",
    "testBasicTransactionAwareCleaning": "test_records_of_aborted_transactions_go_and_those_of_committed_ones_count",
    "testCleanWithTransactionsSpanningSegments": "test_nothing_is_cleaned_from_the_first_open_transaction_on",
    "testCommitMarkerRemoval": "test_a_commit_marker_goes_when_nothing_is_left_of_its_transaction_and_its_time_is_over",
    "testDeletedBatchesWithNoMessagesRead": "test_only_the_last_of_a_producers_empty_batches_stays",
    "testCommitMarkerRetentionWithEmptyBatch": "test_the_commit_marker_stays_with_the_empty_batch_of_its_producer",
    "testCleanEmptyControlBatch": "test_the_epoch_of_a_producer_that_only_has_a_marker",
    "testCommittedTransactionSpanningSegments": "test_a_transaction_over_several_segments",
    "testAbortedTransactionSpanningSegments": "test_a_transaction_over_several_segments",
    "testAbortMarkerRemoval": "test_an_abort_marker_goes_likewise_and_with_it_its_place_in_the_index",
    "testEmptyBatchRemovalWithSequenceReuse": "test_a_sequence_that_is_used_again_after_the_producer_was_forgotten",
    "testAbortMarkerRetentionWithEmptyBatch": "test_the_abort_marker_stays_with_the_empty_batch_of_its_producer",
    "testLargeMessage": "test_a_batch_larger_than_the_buffers",
    "testMessageLargerThanMaxMessageSize": "test_a_batch_larger_than_the_topic_takes_now",
    "testMessageLargerThanMaxMessageSizeWithCorruptHeader": "test_a_damaged_batch_header_ends_the_cleaning",
    "testCorruptMessageSizeLargerThanBytesAvailable": "test_a_damaged_batch_header_ends_the_cleaning",
    "testCleaningWithDeletes": "test_a_tombstone_after_its_horizon_goes_with_its_key_everywhere",
    "testLogCleanerStats": "test_figures",
    "testLogCleanerRetainsProducerLastSequence": "test_the_last_batch_of_a_producer_stays_without_its_records",
    "testLogCleanerRetainsLastSequenceEvenIfTransactionAborted": (
        "test_the_abort_marker_stays_with_the_empty_batch_of_its_producer"
    ),
    "testCleaningWithKeysConflictingWithTxnMarkerKeys": "test_a_key_that_looks_like_a_markers_key",
    "testPartialSegmentClean": "test_what_finds_no_room_in_the_map_waits_for_the_next_turn",
    "testCleaningWithUncleanableSection": "test_records_younger_than_min_compaction_lag",
    "testLogToClean": "test_the_ratio_is_of_clean_and_cleanable_bytes",
    "testLogToCleanWithUncleanableSection": "test_the_ratio_is_of_clean_and_cleanable_bytes",
    "testCleaningWithUnkeyedMessages": "test_records_without_key_from_before_the_topic_was_compacted_go",
    "testCleanSegmentsWithAbort": "test_a_cleaning_that_is_called_off_leaves_no_files",
    "testCleanSegmentsRetainingLastEmptyBatch": "test_the_last_offset_of_what_is_cleaned_is_kept",
    "testSegmentGrouping": "test_a_group_is_no_larger_than_a_segment",
    "testSegmentGroupingWithSparseOffsetsAndEmptySegments": "test_sparse_offsets_stay_within_what_an_index_can_name",
    "testSegmentGroupingWithSparseOffsets": "test_sparse_offsets_stay_within_what_an_index_can_name",
    "testSegmentGroupingFollowingLoadOfZeroIndex": "test_sparse_offsets_stay_within_what_an_index_can_name",
    "testBuildOffsetMap": "test_keys_of_a_batch",
    "testSegmentWithOffsetOverflow": "test_an_offset_that_no_index_can_name_ends_the_cleaning",
    "testRecoveryAfterCrash": "test_kill_at_any_change_to_the_disk",
    "testBuildOffsetMapFakeLarge": "test_offsets_that_are_missing_at_a_segments_end_count_as_cleaned",
    "testBuildPartialOffsetMap": "test_what_finds_no_room_in_the_map_waits_for_the_next_turn",
    "testCleanCorruptMessageSet": "",
    "testClientHandlingOfCorruptMessageSet": "",
    "testCleanTombstone": "test_the_time_runs_from_the_first_cleaning_not_from_the_write",
    "testCleaningBeyondMissingOffsets": "test_offsets_that_are_missing_at_a_segments_end_count_as_cleaned",
    "testMaxCleanTimeSecs": "test_every_metric_is_exported_with_its_kind_labels_and_text",
    "testReconfigureLogCleanerIoMaxBytesPerSecond": "test_settings_count_from_the_next_pass_on",
}
"""Kafka's case -> ours. Empty: it does not apply.

- testRemoveMetricsOnClose: our metrics are read from the cleaner, nothing is registered anywhere.
- testCleanCorruptMessageSet, testClientHandlingOfCorruptMessageSet: batches of formats before version 2, which we do not read.

testSegmentWithOffsetOverflow is half ours: Kafka's cleaner splits such a segment, ours leaves the log alone until the next start,
whose recovery splits it.
"""

MANAGER: Final[dict[str, str]] = {
    "testGrabFilthiestCompactedLogThrowsException": "test_a_log_whose_plan_fails_is_left_alone_and_others_go_on",
    "testGrabFilthiestCompactedLogReturnsLogWithDirtiestRatio": "test_the_dirtiest_goes_first",
    "testGrabFilthiestCompactedLogIgnoresUncleanablePartitions": "test_logs_that_are_left_alone_are_passed_over",
    "testGrabFilthiestCompactedLogIgnoresInProgressPartitions": "test_the_dirtiest_goes_first",
    "testGrabFilthiestCompactedLogIgnoresBothInProgressPartitionsAndUncleanablePartitions": (
        "test_logs_that_are_left_alone_are_passed_over"
    ),
    "testDirtyOffsetResetIfLargerThanEndOffset": "test_a_checkpoint_beyond_the_logs_end",
    "testDirtyOffsetResetIfSmallerThanStartOffset": "test_a_checkpoint_below_the_logs_start",
    "testLogStartOffsetLargerThanActiveSegmentBaseOffset": "test_a_log_that_begins_in_its_active_segment",
    "testDirtyOffsetLargerThanActiveSegmentBaseOffset": "test_a_checkpoint_in_the_active_segment",
    "testLogsWithSegmentsToDeleteShouldNotConsiderCleanupPolicyDeleteLogs": (
        "test_delete_old_is_for_compacted_logs_that_nobody_cleans"
    ),
    "testLogsWithSegmentsToDeleteShouldConsiderCleanupPolicyCompactDeleteLogs": (
        "test_delete_old_is_for_compacted_logs_that_nobody_cleans"
    ),
    "testLogsWithSegmentsToDeleteShouldConsiderCleanupPolicyCompactLogs": (
        "test_delete_old_is_for_compacted_logs_that_nobody_cleans"
    ),
    "testLogsUnderCleanupIneligibleForCompaction": "test_delete_old_is_for_compacted_logs_that_nobody_cleans",
    "testUpdateCheckpointsShouldAddOffsetToPartition": ("test_where_a_cleaning_ended_is_written_down_and_read_at_the_next_start"),
    "testUpdateCheckpointsShouldRemovePartitionData": "test_a_deleted_partition_leaves_the_checkpoint",
    "testHandleLogDirFailureShouldRemoveDirAndData": "test_logs_in_a_directory_that_failed_are_passed_over",
    "testMaybeTruncateCheckpointShouldTruncateData": "test_the_checkpoint_follows_a_cut",
    "testAlterCheckpointDirShouldRemoveDataInSrcDirAndAddInNewDir": "test_a_log_that_moves_is_not_compacted_meanwhile",
    "testConcurrentLogCleanupAndLogTruncation": "test_work_that_nobody_wants_any_more_ends",
    "testConcurrentLogCleanupAndTopicDeletion": "test_work_that_nobody_wants_any_more_ends",
    "testLogsWithSegmentsToDeleteShouldNotConsiderUncleanablePartitions": ("test_a_log_that_cannot_be_compacted_is_left_alone"),
    "testCleanableOffsetsForNone": "test_without_a_checkpoint_everything_is_dirty",
    "testCleanableOffsetsActiveSegment": "test_the_active_segment_is_never_cleanable",
    "testCleanableOffsetsForTime": "test_records_younger_than_min_compaction_lag",
    "testCleanableOffsetsForShortTime": "test_records_younger_than_min_compaction_lag",
    "testCleanableOffsetsNeedsCheckpointReset": "test_a_checkpoint_beyond_the_logs_end",
    "testUndecidedTransactionalDataNotCleanable": "test_the_segment_with_the_last_stable_offset_is_not_cleanable",
    "testDoneCleaning": "test_a_cleaning_that_is_given_up_moves_nothing",
    "testDoneDeleting": "test_delete_old_is_for_compacted_logs_that_nobody_cleans",
    "testCheckpointUpdatedForInvalidOffsetNoCleaning": "test_a_wrong_checkpoint_is_written_anew_although_nothing_is_cleaned",
    "testCheckpointUpdatedForInvalidOffsetNotSelected": "test_a_wrong_checkpoint_is_written_anew_although_nothing_is_cleaned",
}

OFFSET_MAP: Final[dict[str, str]] = {
    "testBasicValidation": "test_what_was_put_is_found_and_nothing_else",
    "testClear": "test_cleared",
    "testGetWhenFull": "test_a_full_map_finds_what_is_in_it_and_ends_its_search_for_what_is_not",
    "testUpdateLatestOffset": "test_cleared",
    "testLatestOffset": "test_the_last_offset_put_is_the_one",
    "testUtilization": "test_no_more_keys_than_the_load_factor_allows",
}


@pytest.mark.parametrize(("cases", "count"), [(LOG_CLEANER, 49), (MANAGER, 31), (OFFSET_MAP, 6)])
def test_every_case_is_restated_by_a_test_that_is_there(cases: dict[str, str], count: int) -> None:
    files = [
        *(TESTS / "log").rglob("test_*.py"),
        TESTS / "server" / "partitions" / "test_cleaning.py",
        TESTS / "server" / "metrics" / "test_names.py",
    ]
    there = set(re.findall(r"^def (test_\w+)", "".join(path.read_text() for path in files), re.MULTILINE))
    assert len(cases) == count
    assert {ours for ours in cases.values() if ours} <= there

"""Which tests compare which row of docs/kafka-behaviour.md, and which rows no test can ask.

TESTS has, for each test, the ids of the rows whose request it sends to both brokers; scripts/wire_diff_complete.py fails if one
of these tests did not pass in the run, and test_edge_cases.py if one does not exist or if a row of that page is in no table.
NOT_ASKED has the rows that cannot be tested on a single node with PLAINTEXT listeners, each with the reason. A row without an
id is named by the beginning of its text.

NO_SUCCESS and NO_ERROR have the versions of an API for which no success or no error can occur here, each with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.server.handlers import BROKER, CONTROLLER, served
from ottla.wire.api import Api

TESTS: Final[dict[str, str]] = {
    "test_framing.py::test_api_versions": "AV2",
    "test_every_version.py::test_api_versions_whole": "AV0 AV3",
    "test_every_version.py::test_api_versions_refused": "AVname2",
    "test_every_version.py::test_telemetry_whole": "TELE",
    "test_every_version.py::test_offsets_that_are_not_stable": "T21",
    "test_framing.py::test_a_too_new_api_versions_gets_a_version_0_body": "AVmax",
    "test_framing.py::test_client_software_name": "AVname",
    "test_framing.py::test_api_versions_checks_cluster_and_node": "AVcl2 AVcl3 AVcl4",
    "test_framing.py::test_what_cannot_be_read": "UNKKEY2 BADVER BADVER2 IPID6 CTRL TRUNC",
    "test_framing.py::test_what_is_not_a_frame": "SIZE0 SIZENEG SIZEBIG",
    "test_framing.py::test_unknown_tagged_fields_are_skipped": "TAGS",
    "test_framing.py::test_pipelined_requests_are_answered_in_order": "PIPE",
    "test_framing.py::test_a_long_poll_holds_back_the_requests_behind_it": "ORD",
    "test_framing.py::test_requests_before_any_api_versions": "NOAV",
    "test_framing.py::test_invalid_utf8_in_a_topic_name": "UTF",
    "test_security.py::test_sasl_authenticate": "SASLPT2",
    "test_metadata.py::test_an_unknown_topic_without_auto_creation": "MD1",
    "test_metadata.py::test_auto_creation_answers_unknown_first_and_the_topic_soon": "MD2",
    "test_metadata.py::test_names_that_are_no_topic_names": ("MDn-dot MDn-dotdot MDn-250_chars MDn-space MDn-slash MDn-unicode"),
    "test_metadata.py::test_no_topics_and_all_topics": "MDnone MDv0",
    "test_metadata.py::test_version_0_has_no_null_array": "MDv0n",
    "test_metadata.py::test_by_topic_id": "MDid2",
    "test_metadata.py::test_by_topic_id_below_version_12": "MDid10",
    "test_metadata.py::test_neither_name_nor_id": "MDzero",
    "test_metadata.py::test_authorized_operations": "MDauth",
    "test_metadata.py::test_the_same_topic_twice": "MDdup",
    "test_metadata.py::test_every_version_of_a_known_and_an_unknown_topic": "MDmix",
    "test_cluster.py::test_limits_of_a_page": "DTP2",
    "test_cluster.py::test_cursors": "DTP3",
    "test_cluster.py::test_all_topics": "DTP4",
    "test_cluster.py::test_endpoints_of_other_types": "DC2 DC3",
    "test_topics.py::test_create_every_version": "CT1 CT18",
    "test_topics.py::test_create_with_the_brokers_defaults": "CT6",
    "test_topics.py::test_create_validate_only": "CT3 CT3b",
    "test_topics.py::test_create_bad_topics": "CT4 CT7 CT8 CT10 CT11 CT12 CT14 CT20",
    "test_topics.py::test_create_with_settings": "CT19",
    "test_topics.py::test_create_the_same_name_twice_in_a_request": "CT15",
    "test_topics.py::test_create_names_whose_metrics_collide": "CT16",
    "test_topics.py::test_create_partitions": "CP2 CP3 CP4 CP6",
    "test_topics.py::test_delete_every_version": "DT1",
    "test_topics.py::test_delete_by_id": "DT2 DT4",
    "test_topics.py::test_delete_twice_and_by_both": "DT5 DT6",
    "test_topics.py::test_delete_records": "DR2 DR3 DR4 DR6 DR7",
    "test_topics.py::test_delete_records_of_a_compacted_topic": "DR8",
    "test_configs.py::test_describe_a_topic": "DCF1 DCF10",
    "test_configs.py::test_describe_single_keys": "DCF2",
    "test_configs.py::test_describe_what_is_not_there": "DCF3",
    "test_configs.py::test_describe_the_broker": "DCF5",
    "test_edge_rows.py::test_settings_of_other_resources": "DCF6 DCF7",
    "test_settings.py::test_loggers": "DCF9",
    "test_configs.py::test_set_and_delete": "IAC1",
    "test_configs.py::test_append_and_subtract": "IAC4 IAC5",
    "test_configs.py::test_refused_changes": "IAC3 IAC7 IAC9",
    "test_restart.py::test_an_unknown_config_operation": "IAC8",
    "test_configs.py::test_read_only_broker_settings": "IAC11",
    "test_configs.py::test_validate_only_changes_nothing": "IAC12",
    "test_alter_configs.py::test_all_settings_at_once": "AC1",
    "test_elections.py::test_elect_leaders": "EL2",
    "test_elections.py::test_alter_partition_reassignments": "APR1 APR2",
    "test_elections.py::test_list_partition_reassignments": "LPR1",
    "test_log_dirs.py::test_partitions_and_sizes": "LD1",
    "test_security.py::test_create_delegation_token": "DTK1",
    "test_cluster_changes.py::test_credentials_that_are_refused": "SC1 SC2 SC3",
    "test_security.py::test_scram_credentials": "SC5",
    "test_cluster_changes.py::test_other_features": "UF1",
    "test_security.py::test_client_quotas": "Q1",
    "test_client_quotas.py::test_what_is_set_is_described": "Q3",
    "test_client_quotas.py::test_entities": "Q4",
    "../test_quotas.py::test_a_consumer_over_its_rate_is_answered_nothing": "Q5",
    "test_cluster_changes.py::test_add_raft_voter": "RC",
    "test_produce.py::test_every_version": "P1 P2 P42",
    "test_produce.py::test_acks_0_is_not_answered": "P4",
    "test_produce.py::test_acks_0_and_an_error_closes_the_connection": "P5",
    "test_produce.py::test_broken_batches": "P6 P7b P8 P11 P11b P12 P14 P15 P21 P22 P23 P29",
    "test_produce.py::test_null_records": "P9",
    "test_produce.py::test_unknown_topics_and_partitions": "P16",
    "test_produce.py::test_by_topic_id": "P18 P19 P43",
    "test_produce.py::test_a_compacted_topic_wants_keys": "P24b",
    "test_produce.py::test_log_append_time_is_the_brokers": "P25 P25b",
    "test_produce.py::test_timestamps_out_of_range": "P26b P26c",
    "test_produce.py::test_internal_topics_are_refused": "P27",
    "test_transaction_coordinator.py::test_produce_verifies_or_adds": "P30 T10b T12 T12c T32 T38",
    "test_produce.py::test_acks": "P31",
    "test_produce.py::test_empty_topic_data_and_a_partition_twice": "P32b P33",
    "test_produce.py::test_more_in_sync_replicas_than_there_are": "P34 P41",
    "test_produce.py::test_null_and_empty_values_and_headers": "P40",
    "test_idempotence.py::test_duplicates_are_answered_with_their_first_offset": "I2 I3 I7 I8",
    "test_idempotence.py::test_gaps_and_overlaps_are_out_of_order": "I4 I6",
    "test_idempotence.py::test_epochs": "I10 I11",
    "test_idempotence.py::test_an_unknown_producer_may_start_anywhere": "I12",
    "test_idempotence.py::test_half_a_producer_identity": "I14 I15",
    "test_idempotence.py::test_sequences_wrap": "I16",
    "test_idempotence.py::test_init_producer_id_with_odd_fields": "I18",
    "test_transaction_coordinator.py::test_init_at_every_version": "I19 I20 T1 T2 T34 T36",
    "test_producers.py::test_producers_and_their_last_sequence": "I22",
    "test_fetch.py::test_every_version": "F1 F4 F4b",
    "test_fetch.py::test_unknown_topics_and_partitions": "F2 F3b",
    "test_fetch.py::test_offsets_out_of_range": "F6 F7",
    "test_fetch.py::test_empty_answers": "F8 F27 F29",
    "test_fetch.py::test_min_bytes_not_reached": "F9b",
    "test_fetch.py::test_a_waiting_fetch_is_woken_by_a_produce": "WAKE",
    "test_fetch.py::test_byte_limits": "F11 F12 F13",
    "test_fetch.py::test_only_the_first_partition_may_exceed_the_limit": "F15",
    "test_fetch.py::test_a_session_from_its_start_to_its_end": "F16",
    "test_fetch.py::test_sessions_that_are_not": "F17",
    "test_edge_rows.py::test_sessions_of_nothing": "F19 F30",
    "test_fetch.py::test_a_session_made_with_ids_and_continued_with_names": "F33",
    "test_fetch.py::test_leader_epochs": "F20 F21 F23",
    "test_edge_rows.py::test_epochs_after_a_restart_and_a_transaction_out_of_time": "R0 R3 R4 R5b R6 R6b T33",
    "test_fetch.py::test_zstd_for_old_fetches": "F25",
    "test_fetch.py::test_a_stranger_that_calls_itself_a_follower": "F26",
    "test_fetch.py::test_rack_and_cluster_ids": "F31",
    "test_fetch.py::test_the_same_partition_twice": "F32",
    "test_fetch.py::test_list_offsets_every_version_and_special_timestamp": "LO-1 LO-3 LO-4 LO-5 LO-7 LOe LOf LOk",
    "test_fetch.py::test_list_offsets_by_timestamp": "LOa LOb LOd",
    "test_fetch.py::test_list_offsets_of_what_is_not_there": "LOh LOi LOl LOm",
    "test_edge_rows.py::test_ends_of_epochs": "OLE2 OLE3",
    "test_groups.py::test_find_coordinator": "FC1 FC3 FC4 FC7 FC8",
    "test_edge_rows.py::test_coordinators_of_share_partitions": "FC5",
    "test_groups.py::test_join_sync_heartbeat_leave_at_every_version": "J1 J8 H1",
    "test_groups.py::test_bad_joins": "J3 J4 J5 J7 J7b",
    "test_groups.py::test_bad_syncs_and_heartbeats": "J10 J11 J12 H2 H3",
    "test_groups.py::test_a_second_member_that_does_not_fit": "J13 J14",
    "test_groups.py::test_a_rebalance_of_two_members": "J15",
    "test_groups.py::test_static_members": "ST1",
    "test_groups.py::test_leave": "LG2",
    "test_groups.py::test_describe_groups": "DG1 DG2",
    "test_groups.py::test_list_groups": "LS1 LS2 LS3",
    "test_offsets.py::test_commit_every_version": "OC1 OC11 OC13",
    "test_offsets.py::test_commits_into_groups_that_are_not": "OC2 OC3 OC5 OC6 OC15",
    "test_offsets.py::test_odd_commits": "OC7 OC9 OC10",
    "test_edge_rows.py::test_offsets_that_no_log_has": "OC14",
    "test_offsets.py::test_fetch_every_version": "OF2 OF3 OF4 OF6 OF7 OF8",
    "test_offsets.py::test_offsets_go_with_their_topic": "OF10",
    "test_restart.py::test_what_survives": "R1 R2 R2b R7 R9",
    "test_offset_delete.py::test_offsets_that_exist_and_that_do_not": "OD3",
    "test_offset_delete.py::test_groups_that_are_refused_whole": "OD2",
    "test_offset_delete.py::test_a_consumer_group_keeps_what_it_reads": "OD1",
    "test_consumer_groups.py::test_a_member_comes_and_goes": "K1 K2 K25 K26",
    "test_consumer_groups.py::test_bad_first_heartbeats": "K3 K9 K10 K11 K13 K14",
    "test_consumer_groups.py::test_bad_epochs": "K5 K6 K7",
    "test_consumer_group_records.py::test_a_classic_member_joins_a_consumer_group": "K15",
    "test_consumer_groups.py::test_groups_of_one_kind_as_another": "K17 K27 K30",
    "test_consumer_groups.py::test_offsets_of_members": "K18 K18b K19 K19b K20 K21 K22 K23",
    "test_consumer_groups.py::test_two_members_share": "K29",
    "test_share_groups.py::test_share_groups": "S1 S3",
    "test_share_fetch.py::test_sessions_that_are_not_there": "S4",
    "test_share_fetch.py::test_who_asks": "S5",
    "test_transaction_coordinator.py::test_who_takes_over_fences": "T3 T4 T4b",
    "test_transaction_coordinator.py::test_ends_at_every_version": "T5 T25 T26",
    "test_transaction_coordinator.py::test_ends_of_nothing_raise_the_epoch": "T7",
    "test_transaction_coordinator.py::test_partitions_at_every_version": "T8 T9 T11",
    "test_transaction_coordinator.py::test_listing": "T16",
    "test_transaction_coordinator.py::test_offsets_in_a_transaction": "T17 T18 T20 T22 T24",
    "test_transactions.py::test_every_version_of_fetch_lists_the_aborted": "T13 T28 T29 T30",
    "test_transactions.py::test_list_offsets_while_a_transaction_is_open": "T14",
    "test_transactions.py::test_every_version_of_the_markers": "T37",
    "test_security.py::test_describe_acls": "ACL1",
    "test_security.py::test_create_acls": "ACL2",
    "../test_settings_effects.py::test_topics_stay": "delete.topic.enable=false",
    "../test_settings_effects.py::test_connections_of_one_address": "max.connections",
}

_NO_LOGIN: Final = "ottla's listeners are PLAINTEXT, so nobody logs in"
_NO_RULES: Final = "there is no authorizer, so everybody may do everything"
_ONE_NODE: Final = "needs a second broker; ottla's nodes do not replicate"
_LOGINS: Final = "SA1 SA2 SA3b SA4 SA5 SA7 SA8 SA9 SA11 SA12 SA13"
_RULES: Final = "Z1 Z3 Z4 Z5 Z7 Z8 Z9 Z11 Z12 Z13 Z15 Z16 Z17 Z18b Z18c Z18d Z19 Z20 Z21"
NOT_ASKED: Final[dict[str, str]] = {
    "FC0": "a new cluster's very first request races with the creation of the offsets topic; every warm-up waits for that",
    **dict.fromkeys(_LOGINS.split(), _NO_LOGIN),
    **dict.fromkeys(_RULES.split(), _NO_RULES),
    "SASL re-authentication": _NO_LOGIN,
    "Produce acks=-1 with ISR": _ONE_NODE,
    "Produce/Fetch to a broker": _ONE_NODE,
    "Group request to a non-coordinator": _ONE_NODE,
    "Fetch from a follower": _ONE_NODE,
    "OFFSET_NOT_AVAILABLE 78": _ONE_NODE,
    "Fetch of an offset now only in tiered": "tiered storage needs a plug-in for Kafka",
    "Disk failure on append": "compat_tests/test_faults.py compares both brokers on disks that fail",
    "Idle connection": "it takes ten minutes; tests/server tests it with a clock of its own",
}

_REFUSED_ONLY: Final = "its errors come from a coordinator that is still loading or from missing rights; neither exists here"
_OLD_FETCH: Final = "what is not there is answered with -1; errors come with required stability (v7) and members (v9)"
NO_ERROR: Final[dict[str, tuple[range, str]]] = {
    "offset_fetch": (range(1, 7), _OLD_FETCH),
    "find_coordinator": (range(1), "any name is a group's, and there is no other type yet"),
    "describe_groups": (range(6), "a group that does not exist is Dead, without an error"),
    "list_groups": (range(6), _REFUSED_ONLY),
    "api_versions": (range(3), "an empty request; the error of a version that is too new is in version 0 (row AVmax)"),
    "describe_log_dirs": (range(1, 6), "its error is a directory that went offline (compat_tests/test_faults.py)"),
    "list_partition_reassignments": (range(1), _REFUSED_ONLY),
    "list_transactions": (range(2), _REFUSED_ONLY),
    "describe_share_group_offsets": (range(2), "a group or topic that does not exist has no offsets, without an error"),
    "list_config_resources": (range(1), "it names no types, so none of them can be wrong"),
}
_NO_TOKENS: Final = "tokens need a login, and ottla's listeners are PLAINTEXT"
_LAST_NODE: Final = "the only node of a cluster cannot leave it, and there is no other that could join"
NO_SUCCESS: Final[dict[str, tuple[range, str]]] = {
    "sasl_handshake": (range(2), _NO_LOGIN),
    "sasl_authenticate": (range(3), _NO_LOGIN),
    "describe_acls": (range(1, 4), _NO_RULES),
    "create_delegation_token": (range(1, 4), _NO_TOKENS),
    "renew_delegation_token": (range(1, 3), _NO_TOKENS),
    "expire_delegation_token": (range(1, 3), _NO_TOKENS),
    "describe_delegation_token": (range(1, 4), _NO_TOKENS),
    "unregister_broker": (range(1), _LAST_NODE),
    "unregister_controller": (range(1), _LAST_NODE),
    "add_raft_voter": (range(2), _LAST_NODE),
    "remove_raft_voter": (range(1), _LAST_NODE),
    "push_telemetry": (
        range(1),
        "a push needs a subscription, and a plug-in in the broker, which Kafka does not have by default",
    ),
    "streams_group_topology_description_update": (range(1), "descriptions are kept by a plug-in, which neither broker has"),
}


def all_served() -> dict[int, Api]:
    """Returns the APIs that ottla serves, be it at the brokers' listeners or only at the controllers', by key."""
    return served(BROKER) | served(CONTROLLER)


def rows() -> dict[str, list[str]]:
    """Returns the tests of each row, as pytest names them from compat_tests/ on. Underscores in ids stand for spaces."""
    found: dict[str, list[str]] = {}
    for test, ids in TESTS.items():
        name = test.removeprefix("../") if test.startswith("../") else f"wire_diff/{test}"
        for row in ids.split():
            found.setdefault(row.replace("_", " ") if row.startswith("MDn") else row, []).append(name)
    return found


def excused(table: dict[str, tuple[range, str]]) -> Iterator[tuple[str, int]]:
    """Yields the APIs and versions that a table names."""
    for module, (versions, _) in table.items():
        yield from ((module, version) for version in versions)

"""The scenarios, as data: each is a row of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from compat_tests.behaviours.cell import TOPIC, Cell
from compat_tests.behaviours.clients import KAFKAJS
from compat_tests.behaviours.consume import Reads, fetch, out_of_range
from compat_tests.behaviours.group import Commits, Joins, Stays, black_hole, expire, leaves, of_group
from compat_tests.behaviours.produce import Produces, broker_dies, first_choices, produce
from compat_tests.behaviours.transact import NAME, Transacts, fenced, reads_aborted, timed_out


class Scenario(NamedTuple):
    """One row: what is done to a client, in words and as a function that says what it does then."""

    key: str
    title: str
    run: Callable[[Cell], str]
    partitions: int = 1
    without: tuple[str, ...] = ()
    """The clients that do not have what it is about."""


IDEMPOTENT: Final = {"idempotent": True}
PLAIN: Final = {"idempotent": False}
SHORT: Final = {"idempotent": True, "request_ms": 2000, "delivery_ms": 12000}
LOST: Final = produce(disconnect="reset", act="after")


def error(*names: str, **given: Any) -> dict[str, Any]:
    return {"error": list(names), **given}


PRODUCERS: Final = (
    Scenario("choices", "Its defaults", first_choices),
    Scenario(
        "retries",
        "NOT_LEADER_OR_FOLLOWER, then REQUEST_TIMED_OUT after the append; idempotent",
        Produces((produce(**error("NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT")),), IDEMPOTENT),
    ),
    Scenario(
        "timed-out",
        "REQUEST_TIMED_OUT after the append; not idempotent",
        Produces((produce(**error("REQUEST_TIMED_OUT")),), PLAIN),
    ),
    Scenario("lost-idempotent", "The answer is lost; idempotent", Produces((LOST,), IDEMPOTENT)),
    Scenario("lost-plain", "The answer is lost; not idempotent", Produces((LOST,), PLAIN)),
    Scenario("lost-default", "The answer is lost; with its defaults", Produces((LOST,))),
    Scenario(
        "replicas",
        "NOT_ENOUGH_REPLICAS twice",
        Produces((produce(**error("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS")),)),
    ),
    Scenario(
        "unknown-topic",
        "UNKNOWN_TOPIC_OR_PARTITION twice, for a topic that it knows",
        Produces((produce(**error("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION")),)),
    ),
    Scenario("storage", "KAFKA_STORAGE_ERROR", Produces((produce(**error("KAFKA_STORAGE_ERROR")),))),
    Scenario("corrupt", "CORRUPT_MESSAGE", Produces((produce(**error("CORRUPT_MESSAGE")),))),
    Scenario("server-error", "UNKNOWN_SERVER_ERROR", Produces((produce(**error("UNKNOWN_SERVER_ERROR")),))),
    Scenario("too-large", "MESSAGE_TOO_LARGE", Produces((produce(**error("MESSAGE_TOO_LARGE")),))),
    Scenario("denied", "TOPIC_AUTHORIZATION_FAILED", Produces((produce(**error("TOPIC_AUTHORIZATION_FAILED")),))),
    Scenario(
        "sequence",
        "OUT_OF_ORDER_SEQUENCE_NUMBER; idempotent",
        Produces((produce(**error("OUT_OF_ORDER_SEQUENCE_NUMBER")),), IDEMPOTENT, again=True),
    ),
    Scenario(
        "for-ever",
        "NOT_LEADER_OR_FOLLOWER for ever; 5 s for the delivery where that can be set",
        Produces(
            (produce(error="NOT_LEADER_OR_FOLLOWER", times=-1),), {"delivery_ms": 5000, "request_ms": 4000}, counts="", again=True
        ),
    ),
    Scenario(
        "black-hole",
        "A request is not answered; 2 s for an answer, idempotent",
        Produces((produce(blackhole=True),), SHORT),
    ),
    Scenario("half", "Half an answer, then a reset; idempotent", Produces((produce(cut_after=10),), IDEMPOTENT)),
    Scenario(
        "correlation",
        "An answer with another correlation id; 2 s for an answer, idempotent",
        Produces((produce(corrupt="correlation_id"),), SHORT),
    ),
    Scenario(
        "length",
        "An answer shorter than it says; 2 s for an answer, idempotent",
        Produces((produce(corrupt="length"),), SHORT),
    ),
    Scenario("dies", "The broker dies with the request and starts again; idempotent", broker_dies),
    Scenario(
        "metadata",
        "LEADER_NOT_AVAILABLE twice in Metadata, at the start",
        Produces(({"api": "Metadata", **error("LEADER_NOT_AVAILABLE", "LEADER_NOT_AVAILABLE")},), warm=False, counts=""),
    ),
    Scenario(
        "versions",
        "UNSUPPORTED_VERSION for its first ApiVersions",
        Produces(({"api": "ApiVersions", "version": ">=1", **error("UNSUPPORTED_VERSION")},), warm=False, counts=""),
    ),
    Scenario(
        "identity",
        "COORDINATOR_LOAD_IN_PROGRESS twice for InitProducerId; idempotent",
        Produces(
            ({"api": "InitProducerId", **error("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_LOAD_IN_PROGRESS")},),
            IDEMPOTENT,
            warm=False,
            counts="InitProducerId",
        ),
    ),
)


def end_of(**given: Any) -> dict[str, Any]:
    return {"api": "EndTxn", "transactional_id": NAME, **given}


TRANSACTIONS: Final = (
    Scenario("commit-lost", "The answer to a commit is lost", Transacts((end_of(disconnect="close", act="after"),))),
    Scenario(
        "commit-concurrent",
        "CONCURRENT_TRANSACTIONS twice for a commit",
        Transacts((end_of(**error("CONCURRENT_TRANSACTIONS", "CONCURRENT_TRANSACTIONS")),)),
    ),
    Scenario("commit-moved", "NOT_COORDINATOR for a commit", Transacts((end_of(**error("NOT_COORDINATOR")),))),
    Scenario(
        "add-concurrent",
        "CONCURRENT_TRANSACTIONS twice for AddPartitionsToTxn",
        Transacts(({"api": "AddPartitionsToTxn", **error("CONCURRENT_TRANSACTIONS", "CONCURRENT_TRANSACTIONS")},)),
    ),
    Scenario(
        "epoch",
        "INVALID_PRODUCER_EPOCH for a record",
        Transacts((produce(**error("INVALID_PRODUCER_EPOCH")),)),
    ),
    Scenario(
        "txn-sequence",
        "OUT_OF_ORDER_SEQUENCE_NUMBER for a record",
        Transacts((produce(**error("OUT_OF_ORDER_SEQUENCE_NUMBER")),)),
    ),
    Scenario("fenced", "Another producer takes its transactional id; it commits", fenced),
    Scenario("txn-timeout", "The transaction takes too long, and the broker aborts it; it commits", timed_out),
)
CONSUMERS: Final = (
    Scenario("aborted", "A record of an aborted transaction; a consumer with its defaults", reads_aborted),
    Scenario(
        "crc",
        "Records whose checksum is wrong, for ever; with its defaults",
        Reads((fetch(corrupt="crc", times=-1),), for_ever=True),
    ),
    Scenario(
        "crc-checked",
        "Records whose checksum is wrong, for ever; checking switched on",
        Reads((fetch(corrupt="crc", times=-1),), {"check_crcs": True}, for_ever=True),
        without=(KAFKAJS,),
    ),
    Scenario(
        "crc-once",
        "Records whose checksum is wrong, once; checking switched on",
        Reads((fetch(corrupt="crc"),), {"check_crcs": True}),
        without=(KAFKAJS,),
    ),
    Scenario(
        "fetch-leader",
        "NOT_LEADER_OR_FOLLOWER twice for a fetch",
        Reads((fetch(**error("NOT_LEADER_OR_FOLLOWER", "NOT_LEADER_OR_FOLLOWER")),)),
    ),
    Scenario("fetch-server", "UNKNOWN_SERVER_ERROR for a fetch", Reads((fetch(**error("UNKNOWN_SERVER_ERROR")),))),
    Scenario(
        "fetch-denied", "TOPIC_AUTHORIZATION_FAILED for a fetch, once", Reads((fetch(**error("TOPIC_AUTHORIZATION_FAILED")),))
    ),
    Scenario("out-of-range", "OFFSET_OUT_OF_RANGE at offset 0; what to do then not set", out_of_range),
    Scenario("fetch-half", "Half an answer to a fetch, then a reset", Reads((fetch(cut_after=100),))),
    Scenario(
        "fetch-black-hole",
        "A fetch is not answered; 2 s for an answer",
        Reads((fetch(blackhole=True),), {"request_ms": 2000}),
    ),
    Scenario(
        "fetch-session",
        "FETCH_SESSION_ID_NOT_FOUND for a fetch",
        Reads(({"api": "Fetch", "top_level": True, **error("FETCH_SESSION_ID_NOT_FOUND")},)),
    ),
)


GROUPS: Final = (
    Scenario(
        "find",
        "COORDINATOR_NOT_AVAILABLE twice for FindCoordinator",
        Joins((of_group("FindCoordinator", **error("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_NOT_AVAILABLE")),)),
    ),
    Scenario(
        "group-denied",
        "GROUP_AUTHORIZATION_FAILED for FindCoordinator, for ever",
        Joins((of_group("FindCoordinator", error="GROUP_AUTHORIZATION_FAILED", times=-1),), for_ever=True),
    ),
    Scenario(
        "join-loading",
        "COORDINATOR_LOAD_IN_PROGRESS twice for JoinGroup",
        Joins((of_group("JoinGroup", **error("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_LOAD_IN_PROGRESS")),)),
    ),
    Scenario("full", "GROUP_MAX_SIZE_REACHED for JoinGroup", Joins((of_group("JoinGroup", **error("GROUP_MAX_SIZE_REACHED")),))),
    Scenario(
        "sync-rebalance",
        "REBALANCE_IN_PROGRESS for SyncGroup",
        Joins((of_group("SyncGroup", **error("REBALANCE_IN_PROGRESS")),)),
    ),
    Scenario(
        "unstable",
        "UNSTABLE_OFFSET_COMMIT twice for OffsetFetch",
        Joins((of_group("OffsetFetch", topic=TOPIC, **error("UNSTABLE_OFFSET_COMMIT", "UNSTABLE_OFFSET_COMMIT")),)),
    ),
    Scenario(
        "beat-rebalance", "REBALANCE_IN_PROGRESS for a heartbeat", Stays(of_group("Heartbeat", **error("REBALANCE_IN_PROGRESS")))
    ),
    Scenario(
        "expired",
        "Its session ends, since the broker's clock jumps",
        Stays(of_group("Heartbeat", observe=True), before=expire),
    ),
    Scenario(
        "beat-generation", "ILLEGAL_GENERATION for a heartbeat", Stays(of_group("Heartbeat", **error("ILLEGAL_GENERATION")))
    ),
    Scenario("beat-moved", "NOT_COORDINATOR for a heartbeat", Stays(of_group("Heartbeat", **error("NOT_COORDINATOR")))),
    Scenario(
        "beat-fenced",
        "FENCED_INSTANCE_ID for a heartbeat of a static member",
        Stays(of_group("Heartbeat", **error("FENCED_INSTANCE_ID")), {"instance_id": "static"}),
        without=(KAFKAJS,),
    ),
    Scenario(
        "commit-coordinator",
        "COORDINATOR_NOT_AVAILABLE twice for a commit of three",
        Commits(of_group("OffsetCommit", **error("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_NOT_AVAILABLE"))),
    ),
    Scenario(
        "commit-generation",
        "ILLEGAL_GENERATION for a commit of three",
        Commits(of_group("OffsetCommit", **error("ILLEGAL_GENERATION"))),
    ),
    Scenario(
        "commit-rebalance",
        "REBALANCE_IN_PROGRESS for a commit of three",
        Commits(of_group("OffsetCommit", **error("REBALANCE_IN_PROGRESS"))),
    ),
    Scenario(
        "silent",
        "One of two members falls silent (session 6 s), and is expelled; then it answers again",
        black_hole,
        partitions=2,
    ),
    Scenario("leaves", "It is closed, with its default commits", leaves),
)
SECTIONS: Final = {
    "Producers": PRODUCERS,
    "Transactions": TRANSACTIONS,
    "Consumers": CONSUMERS,
    "Groups": GROUPS,
}
SCENARIOS: Final = tuple(scenario for section in SECTIONS.values() for scenario in section)

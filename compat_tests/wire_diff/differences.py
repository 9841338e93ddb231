"""The answers that differ from Apache Kafka 4.4.0's on purpose, mostly because of bugs there. The keys are rows of
docs/kafka-behaviour.md, or requests of test_bad_input.py. The tests check each entry, and fail if its difference no longer
occurs."""

from __future__ import annotations

from typing import Any, NamedTuple

from compat_tests.wire import SILENT


class Difference(NamedTuple):
    """`field` is the last name in the path of what differs; "" is the whole answer."""

    field: str
    kafka: Any
    ottla: Any
    why: str


class Failure(NamedTuple):
    """`ottla` has the error codes of our answer."""

    ottla: set[int]
    why: str


NO_ISOLATION = Failure({0}, "an undefined isolation level makes Kafka fail; ottla treats it as read_uncommitted")
NO_SHARD = "a session id outside all shards of the cache makes Kafka fail"
KAFKA_FAILS: dict[str, Failure] = {
    **{f"fetch isolation_level {value}": NO_ISOLATION for value in ("lowest", "-1", "2", "highest")},
    **{f"list_offsets isolation_level {value}": NO_ISOLATION for value in ("lowest", "-1", "2", "highest")},
    "list_offsets all lowest": Failure({35}, NO_ISOLATION.why),
    "list_offsets all highest": Failure({3}, NO_ISOLATION.why),
    "fetch all lowest": Failure({70}, NO_SHARD),
    "fetch all highest": Failure({70}, NO_SHARD),
    "fetch session_id lowest": Failure({0}, NO_SHARD),
    "fetch session_id highest": Failure({0}, NO_SHARD),
    "metadata topics.name null": Failure({0, 42}, "MDzero"),
    **{f"write_txn_markers markers.{field} -1": Failure({42}, "T-impossible") for field in ("producer_id", "producer_epoch")},
    "create_delegation_token owner_principal_type null": Failure({64}, "DTnull"),
    "describe_share_group_offsets groups.group_id empty": Failure({0}, "S6"),
    "describe_share_group_offsets groups.topics.partitions none": Failure({0}, "S6"),
    **{
        f"alter_share_group_offsets topics.partitions.partition_index {value}": Failure({0, 3}, "S6")
        for value in ("lowest", "-1")
    },
    "describe_topic_partitions all defaults": Failure({17}, "DTPempty"),
    "describe_topic_partitions topics.name empty": Failure({17}, "DTPempty"),
}
"""Bad input (test_bad_input.py) on which Kafka fails internally and answers everything with -1 UNKNOWN_SERVER_ERROR."""

DELIBERATE: dict[str, Difference] = {
    "MDzero": Difference("", -1, 42, "Kafka leaks UNKNOWN_SERVER_ERROR for a topic with neither name nor id"),
    "IAC8": Difference("", -1, 42, "an unknown operation makes Kafka's controller fail and give up its leadership"),
    "AC6": Difference(
        "", SILENT, {42}, "a resource that AlterConfigs names twice makes Kafka fail while it counts the errors in its answer"
    ),
    "AClong": Difference("", -1, 40, "Kafka's error message quotes the name, which makes it too long for the answer"),
    "CLCbroker": Difference("", 0, 42, "Kafka's controller accepts any broker setting unchecked, and brokers cannot use it"),
    "ACspelling": Difference("", 0, 42, "Kafka accepts settings for a broker '01' or '+1', which no broker ever reads"),
    "DTPempty": Difference("", -1, 17, "a topic without a name makes Kafka 4.4 answer -1 for every topic of the request"),
    "DTPhuge": Difference("", False, True, "a cursor near 2**31 overflows in Kafka: the next cursor has a negative partition"),
    "SCempty": Difference("", -1, 93, "an empty salted password makes Kafka's controller fail"),
    "Z21any": Difference("", -1, 42, "Kafka has no way to say that a rule has ANY or MATCH, and answers -1 for every rule"),
    "OCbig": Difference("", -1, 28, "Kafka does not say that the offsets are more than a batch of its topic may hold"),
    "S5c": Difference("error_code", -1, 78, "a member that fetches before its group has begun makes Kafka fail internally"),
    "CGnull": Difference("error_code", -1, 25, "an OffsetFetch with an epoch and no member makes Kafka's consumer groups fail"),
    "P9": Difference("", SILENT, 87, "null records kill Kafka's request handler, and the client waits for ever"),
    "P22": Difference("error_code", -1, 87, "to ottla, a batch with an undefined codec is an invalid record"),
    "P23": Difference("error_code", -1, 87, "to ottla, records that cannot be decompressed are invalid records"),
    "P44": Difference(
        "", 0, 10, "ottla bounds what all records of a batch take once decompressed; Java's producer then splits the batch"
    ),
    "P13": Difference("", 0, 87, "Kafka stores offset deltas that do not count up, and consumers then stumble over them"),
    "P13c": Difference("", -1, 87, "the same in a compressed batch: Kafka tries to repair the deltas, and fails"),
    "F13b": Difference("", -1, 0, "ottla treats a negative limit of a partition as 0, and answers with the first batch"),
    "R1b": Difference("", 45, 0, "after kill -9 Kafka knows only a producer's last batch; ottla finds the last five in the log"),
    "I14b": Difference("", 0, 47, "ottla refuses a producer id without an epoch, even if the partition never saw the producer"),
    "S6": Difference("", -1, 0, "an empty group id, no partition or a negative one makes Kafka fail"),
    "S7": Difference("", SILENT, 0, "Kafka asks for a missing partition over and over"),
    "S8": Difference("error_code", -1, 42, "a batch that ends before it begins makes Kafka fail internally"),
    "J-twice": Difference(
        "", SILENT, 0, "Kafka never answers a member that names a protocol twice, and its group never becomes stable"
    ),
    "T-impossible": Difference(
        "error_code", -1, 42, "a marker with a negative producer id, epoch or version makes Kafka fail internally"
    ),
    "write_txn_markers markers.producer_id lowest": Difference("error_code", 0, 42, "row T-impossible; Kafka writes the marker"),
    "write_txn_markers markers.producer_epoch lowest": Difference(
        "error_code", 47, 42, "row T-impossible; Kafka finds the epoch too small"
    ),
    "write_txn_markers markers.transaction_version -1": Difference(
        "error_code", 47, 42, "row T-impossible; Kafka expects a greater epoch"
    ),
    "TC-none": Difference("", SILENT, 0, "Kafka never answers an AddPartitionsToTxn without any transaction"),
    "T-twice": Difference("", SILENT, 0, "Kafka never answers a marker that names a partition twice"),
    "T-leftover": Difference(
        "",
        45,
        0,
        "in Kafka, a batch that the coordinator refuses leaves its sequence behind, and the next batch is out of order",
    ),
    "T-deleted": Difference(
        "last_stable_offset", 0, 2, "Kafka's last stable offset falls back to the start of the batch in which the log now starts"
    ),
    "DTnull": Difference("", -1, 64, "a token's owner without a type makes Kafka fail before it checks who is asking"),
    "URown": Difference(
        "",
        0,
        42,
        "a running Kafka broker that is unregistered serves nobody until it restarts; ottla does not unregister itself",
    ),
    "SG21": Difference("", False, True, "Kafka's filter spells the state with an underscore, unlike everything else"),
    "SG22": Difference("", -1, 0, "a member with an endpoint makes Kafka fail while its source topics are missing"),
    "SG23": Difference("", -1, 130, "a topology that contradicts itself makes Kafka fail internally; ottla calls it invalid"),
    "DCF5own": Difference("", [4], [4, 5], "Kafka must be given node.id and process.roles, which have defaults in ottla"),
}

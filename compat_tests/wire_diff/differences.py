"""Where ottla answers otherwise than Apache Kafka 4.4.0 on purpose: mostly its bugs. One row each, checked by the tests: a row
whose difference is no longer seen fails."""

from __future__ import annotations

from typing import Any, NamedTuple

from compat_tests.wire import SILENT


class Difference(NamedTuple):
    """`field`: the last name in the path of what differs ("" = the whole answer)."""

    field: str
    kafka: Any
    ottla: Any
    why: str


class Failure(NamedTuple):
    """`ottla`: the error codes of our answer."""

    ottla: set[int]
    why: str


NO_ISOLATION = Failure({0}, "an undefined isolation level makes Kafka fail; ottla reads as for read_uncommitted")
NO_SHARD = "a session id that lies in none of the cache's shards makes Kafka fail"
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
    "describe_share_group_offsets groups.group_id empty": Failure({0}, "SG-impossible_offsets"),
    "describe_share_group_offsets groups.topics.partitions none": Failure({0}, "SG-impossible_offsets"),
    **{
        f"alter_share_group_offsets topics.partitions.partition_index {value}": Failure({0, 3}, "SG-impossible_offsets")
        for value in ("lowest", "-1")
    },
    "describe_topic_partitions all defaults": Failure({17}, "DTPempty"),
    "describe_topic_partitions topics.name empty": Failure({17}, "DTPempty"),
}
"""Bad input (test_bad_input.py) at which Kafka fails inside and answers -1 UNKNOWN_SERVER_ERROR, for all that was asked."""

DELIBERATE: dict[str, Difference] = {
    "MDzero": Difference("", -1, 42, "Kafka leaks UNKNOWN_SERVER_ERROR for a topic with neither name nor id"),
    "IAC8": Difference("", -1, 42, "an unknown operation makes Kafka's controller fail and give up its leadership"),
    "AC6": Difference(
        "", SILENT, {42}, "a resource twice in AlterConfigs makes Kafka fail while it counts the errors of its answer"
    ),
    "AClong": Difference("", -1, 40, "Kafka's message quotes the name, and is then too long for its answer"),
    "CLCbroker": Difference("", 0, 42, "Kafka's controller takes any setting of brokers unread, which then cannot use it"),
    "ACspelling": Difference("", 0, 42, "Kafka takes settings for a broker '01' or '+1', which then nobody reads"),
    "DTPempty": Difference("", -1, 17, "a topic without a name makes Kafka 4.4 answer -1 for every topic of the request"),
    "DTPhuge": Difference("", False, True, "a cursor near 2**31 overflows in Kafka, and its next one has a negative partition"),
    "CGnull": Difference("error_code", -1, 25, "an OffsetFetch with an epoch and no member makes Kafka's consumer groups fail"),
    "P9": Difference("", SILENT, 87, "null records kill Kafka's request handler: the client waits for ever"),
    "P22": Difference("error_code", -1, 87, "a batch of an undefined codec is an invalid one, not an unknown server error"),
    "P23": Difference("error_code", -1, 87, "records that do not decompress are invalid ones, not an unknown server error"),
    "P13": Difference("", 0, 87, "offset deltas that do not count up are stored by Kafka, for consumers to stumble over"),
    "P13c": Difference("", -1, 87, "the same in a compressed batch: Kafka means to repair them, and fails"),
    "F13b": Difference("", -1, 0, "a negative limit of a partition counts as none; the first batch comes"),
    "R1b": Difference("", 45, 0, "after kill -9 Kafka knows a producer's last batch only, ottla the last five, from the log"),
    "I14b": Difference("", 0, 47, "a producer id without an epoch is refused, also from a producer the partition never saw"),
    "SG-impossible_offsets": Difference("", -1, 0, "what the share coordinator cannot be asked makes Kafka fail"),
    "SG-offsets_of_no_partition": Difference("", SILENT, 0, "Kafka asks its share coordinator for such a partition for ever"),
    "SH-impossible_batches": Difference("error_code", -1, 42, "a batch that ends before it begins makes Kafka fail inside"),
    "J-twice": Difference(
        "", SILENT, 0, "a member that names a protocol twice gets no answer, and its group never becomes stable"
    ),
    "T-impossible": Difference(
        "error_code", -1, 42, "a marker with a producer id, epoch or version below 0 makes Kafka fail inside"
    ),
    "write_txn_markers markers.producer_id lowest": Difference("error_code", 0, 42, "T-impossible: Kafka writes it"),
    "write_txn_markers markers.producer_epoch lowest": Difference("error_code", 47, 42, "T-impossible: a smaller epoch to Kafka"),
    "write_txn_markers markers.transaction_version -1": Difference("error_code", 47, 42, "T-impossible: no epoch above to Kafka"),
    "TC-none": Difference("", SILENT, 0, "AddPartitionsToTxn without any transaction is never answered by Kafka"),
    "T-twice": Difference("", SILENT, 0, "a marker that names a partition twice is never answered by Kafka"),
    "T-leftover": Difference(
        "", 45, 0, "a batch that the coordinator refuses leaves its sequence behind: the producer's next is out of order to Kafka"
    ),
    "T-deleted": Difference(
        "last_stable_offset", 0, 2, "Kafka's last stable offset falls to the start of the batch that the log now starts in"
    ),
    "DTnull": Difference("", -1, 64, "a token's owner without a type makes Kafka fail before it looks who asks"),
    "URown": Difference(
        "", 0, 42, "a broker that is unregistered while it runs serves nobody until its next start; ours refuses for itself"
    ),
    "SG21": Difference("", False, True, "Kafka spells the state with an underscore where it filters, as nobody else does"),
    "SG22": Difference("", -1, 0, "a member with an endpoint makes Kafka fail as long as its source topics are missing"),
    "SG23": Difference("", -1, 130, "a topology that contradicts itself makes Kafka fail inside; it is an invalid one"),
    "DCF5own": Difference("", [4], [4, 5], "Kafka must be told node.id and process.roles; ours have defaults"),
}

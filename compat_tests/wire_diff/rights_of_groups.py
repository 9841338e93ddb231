"""Cases of the APIs about groups, their members and their offsets. rights_cases.py says what they are for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from compat_tests.wire_diff.rights import (
    ACTION,
    DESCRIBE,
    DOOMED,
    MEMBER,
    MISSING,
    UNKNOWN_ID,
    Case,
    D,
    G,
    R,
    S,
    T,
    U,
    X,
    case,
    cluster,
    group,
    topic,
    transaction,
)
from ottla.wire.messages import (
    alter_share_group_offsets,
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    delete_share_group_offsets,
    delete_share_group_state,
    describe_groups,
    describe_share_group_offsets,
    find_coordinator,
    heartbeat,
    initialize_share_group_state,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    read_share_group_state,
    read_share_group_state_summary,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    streams_group_topology_description_update,
    sync_group,
    write_share_group_state,
)


def _offsets(*names: str) -> list[offset_commit.OffsetCommitRequestTopic]:
    return [
        offset_commit.OffsetCommitRequestTopic(name, partitions=[offset_commit.OffsetCommitRequestPartition(0, 1)])
        for name in names
    ]


def _topology() -> streams_group_heartbeat.Topology:
    changelog = streams_group_heartbeat.TopicInfo(f"{S}-changelog")
    return streams_group_heartbeat.Topology(
        1, [streams_group_heartbeat.Subtopology("0", [T], state_changelog_topics=[changelog], repartition_sink_topics=[U])]
    )


def _groups() -> Iterator[Case]:
    finds = find_coordinator.FindCoordinatorRequest
    yield case("find_coordinator", finds("", 0, [G, "rights-h"]), group(DESCRIBE), group(DESCRIBE, "rights-h"))
    for version in (0, 3):
        yield case(f"find_coordinator in v{version}", finds(G, 0), group(DESCRIBE), version=version)
    yield case("find_coordinator of a transaction", finds("", 1, [X]), transaction(DESCRIBE))
    yield case("find_coordinator of a share partition", finds("", 2, [f"{S}:{MEMBER}:0"]), cluster(ACTION))
    protocols = [join_group.JoinGroupRequestProtocol("range", b"")]
    yield case("join_group", join_group.JoinGroupRequest(G, 0, 60_000, "", None, "consumer", protocols), group(R))
    yield case(
        "join_group in v6", join_group.JoinGroupRequest(G, 0, 60_000, "", None, "consumer", protocols), group(R), version=6
    )
    yield case("sync_group", sync_group.SyncGroupRequest(G, 1, "m", None, "consumer", "range", []), group(R))
    yield case("heartbeat", heartbeat.HeartbeatRequest(G, 1, "m"), group(R))
    yield case("leave_group", leave_group.LeaveGroupRequest(G, members=[leave_group.MemberIdentity("m", None)]), group(R))
    yield case("leave_group in v2", leave_group.LeaveGroupRequest(G, "m"), group(R), version=2)
    yield case("list_groups", list_groups.ListGroupsRequest(), group(DESCRIBE, code=0))
    yield case("list_groups of the cluster", list_groups.ListGroupsRequest(), cluster(DESCRIBE, 0))
    described = describe_groups.DescribeGroupsRequest
    for version in range(6):
        yield case(f"describe_groups in v{version}", described([G]), group(DESCRIBE), version=version)
    yield case(
        "describe_groups",
        described([G, "rights-h"], True),
        group(DESCRIBE, code=0),
        group(D, code=0),
        group(DESCRIBE, "rights-h"),
    )
    yield case(
        "consumer_group_describe",
        consumer_group_describe.ConsumerGroupDescribeRequest([G, "rights-c"], True),
        group(DESCRIBE),
        group(DESCRIBE, "rights-c"),
    )
    yield case("share_group_describe", share_group_describe.ShareGroupDescribeRequest([S], True), group(DESCRIBE, S))
    yield case("streams_group_describe", streams_group_describe.StreamsGroupDescribeRequest([S], True), group(DESCRIBE, S))
    gone = ["rights-gone", "rights-gone-2"]
    yield case("delete_groups", delete_groups.DeleteGroupsRequest(gone), *(group(D, each) for each in gone))


def _members() -> Iterator[Case]:
    yield case(
        "consumer_group_heartbeat",
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest("rights-c", MEMBER, 7, None, None, -1, [T, MISSING]),
        group(R, "rights-c"),
        topic(DESCRIBE),
        topic(DESCRIBE, MISSING),
    )
    yield case(
        "share_group_heartbeat",
        share_group_heartbeat.ShareGroupHeartbeatRequest("rights-r", MEMBER, 7, None, [T, MISSING]),
        group(R, "rights-r"),
        topic(DESCRIBE),
        topic(DESCRIBE, MISSING),
    )
    yield case(
        "streams_group_heartbeat",
        streams_group_heartbeat.StreamsGroupHeartbeatRequest("rights-n", MEMBER, 7, 0, topology=_topology()),
        group(R, "rights-n"),
        topic(DESCRIBE),
        topic(DESCRIBE, U),
        topic(DESCRIBE, f"{S}-changelog"),
    )
    update = streams_group_topology_description_update
    yield case(
        "streams_group_topology_description_update",
        update.StreamsGroupTopologyDescriptionUpdateRequest(G, MEMBER, 1, update.TopologyDescription()),
        group(R),
    )


def _share_groups() -> Iterator[Case]:
    def acknowledged(topic_id: Callable[[str], bytes]) -> Any:
        topics = [
            share_acknowledge.AcknowledgeTopic(each, [share_acknowledge.AcknowledgePartition(0, [])])
            for each in (topic_id(T), UNKNOWN_ID)
        ]
        return share_acknowledge.ShareAcknowledgeRequest(S, MEMBER, 5, topics=topics)

    yield case("share_fetch", share_fetch.ShareFetchRequest(S, MEMBER, 5, 0, 0, 1, 1, 1), group(R, S))
    yield case("share_acknowledge", acknowledged, group(R, S))
    described = describe_share_group_offsets
    asked = [described.DescribeShareGroupOffsetsRequestTopic(each, [0]) for each in (T, MISSING)]
    for version in (0, 1):
        yield case(
            f"describe_share_group_offsets in v{version}",
            described.DescribeShareGroupOffsetsRequest([described.DescribeShareGroupOffsetsRequestGroup(S, asked)]),
            group(DESCRIBE, S),
            topic(DESCRIBE),
            topic(DESCRIBE, MISSING),
            version=version,
        )
    altered = alter_share_group_offsets
    wanted = [altered.AlterShareGroupOffsetsRequestTopic(MISSING, [altered.AlterShareGroupOffsetsRequestPartition(0, 0)])]
    yield case("alter_share_group_offsets", altered.AlterShareGroupOffsetsRequest(S, wanted), group(R, S), topic(R, MISSING))
    deleted = delete_share_group_offsets
    gone = [deleted.DeleteShareGroupOffsetsRequestTopic(MISSING)]
    yield case(
        "delete_share_group_offsets",
        deleted.DeleteShareGroupOffsetsRequest("rights-q", gone),
        group(D, "rights-q"),
        topic(R, MISSING, 0),
    )
    for name, module, part in (
        ("InitializeShareGroupState", initialize_share_group_state, ("InitializeStateData", (0, 0))),
        ("ReadShareGroupState", read_share_group_state, ("ReadStateData", (0, 0))),
        ("ReadShareGroupStateSummary", read_share_group_state_summary, ("ReadStateSummaryData", (0, 0))),
        ("WriteShareGroupState", write_share_group_state, ("WriteStateData", (0, 0, 0))),
        ("DeleteShareGroupState", delete_share_group_state, ("DeleteStateData", (0,))),
    ):
        data = getattr(module, part[0])(UNKNOWN_ID, [module.PartitionData(*part[1])])
        yield case(module.__name__.rpartition(".")[2], getattr(module, f"{name}Request")("rights-z", [data]), cluster(ACTION))


def _offsets_of_groups() -> Iterator[Case]:
    commits = offset_commit.OffsetCommitRequest
    yield case("offset_commit", commits(G, -1, "", None, -1, _offsets(T, U)), group(R), topic(R), topic(R, U), version=9)
    yield case(
        "offset_commit by id",
        lambda topic_id: commits(
            G,
            -1,
            "",
            None,
            -1,
            [
                offset_commit.OffsetCommitRequestTopic("", each, [offset_commit.OffsetCommitRequestPartition(0, 1)])
                for each in (topic_id(T), UNKNOWN_ID)
            ],
        ),
        group(R),
        topic(R),
    )
    gone = [
        offset_delete.OffsetDeleteRequestTopic(each, [offset_delete.OffsetDeleteRequestPartition(0)])
        for each in (DOOMED, MISSING)
    ]
    yield case("offset_delete", offset_delete.OffsetDeleteRequest(G, gone), group(D), topic(R, DOOMED), topic(R, MISSING))


def _fetched_offsets() -> Iterator[Case]:
    topics = [offset_fetch.OffsetFetchRequestTopic(each, [0]) for each in (T, MISSING)]
    for version in range(1, 8):
        yield case(
            f"offset_fetch in v{version}",
            offset_fetch.OffsetFetchRequest(G, topics),
            group(DESCRIBE),
            topic(DESCRIBE),
            topic(DESCRIBE, MISSING),
            version=version,
        )
    several = [offset_fetch.OffsetFetchRequestTopics(each, partition_indexes=[0]) for each in (T, MISSING)]
    request = offset_fetch.OffsetFetchRequestGroup
    yield case(
        "offset_fetch",
        lambda _: offset_fetch.OffsetFetchRequest(
            groups=[request(G, topics=list(several)), request("rights-h", topics=list(several))]
        ),
        group(DESCRIBE),
        group(DESCRIBE, "rights-h"),
        topic(DESCRIBE),
        topic(DESCRIBE, MISSING),
        version=9,
    )
    yield case(
        "offset_fetch of all",
        lambda _: offset_fetch.OffsetFetchRequest(groups=[request(G, topics=None)]),
        group(DESCRIBE),
        topic(DESCRIBE, T, 0),
        topic(DESCRIBE, U, 0),
        version=9,
    )
    yield case(
        "offset_fetch by id",
        lambda topic_id: offset_fetch.OffsetFetchRequest(
            groups=[
                request(G, topics=[offset_fetch.OffsetFetchRequestTopics("", each, [0]) for each in (topic_id(T), UNKNOWN_ID)])
            ]
        ),
        group(DESCRIBE),
        topic(DESCRIBE),
    )


def cases() -> list[Case]:
    return [each for make in (_groups, _members, _share_groups, _offsets_of_groups, _fetched_offsets) for each in make()]

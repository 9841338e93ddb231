"""The attacks of the stall bench: for each attack, what a broker has to hold before, and the requests of a stranger.

An attack is as large as the limits of a broker's defaults admit, or as the sizes in issue trackers and reports that are named
beside it; the same bytes go to each broker. Where an attack needs state (topics, groups), that is made by ordinary requests.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for
from compat_tests.wire import Connection, batch, encode
from ottla.wire.batch import HEADER_SIZE
from ottla.wire.compression import GZIP, LZ4, ZSTD, compress
from ottla.wire.messages import (
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_producers,
    fetch,
    find_coordinator,
    initialize_share_group_state,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    share_fetch,
)
from ottla.wire.primitives import uuid_to_text
from ottla.wire.records import Record, build_batch

MIB: Final = 1 << 20
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
LAST_MS: Final = TODAY_MS + 119
"""The time of the last record in a batch of 120 records; whoever looks for it has to unfold the whole batch."""
LOT: Final = 500
"""The number of requests that are sent before their answers are read, or of things that are made by one request."""
SETTLE_S: Final = 60.0
"""The time that a broker has, before an attack begins, for what the attack needs."""
GROUP: Final = 0
"""The kinds of coordinators."""
TRANSACTION: Final = 1
SHARE: Final = 2
MEMBER: Final = uuid_to_text(bytes(range(16)))
Frames = Callable[[Connection], Iterator[bytes]]
"""Makes the frames of one connection, without their sizes; the connection is for what has to be asked first."""


@dataclass(frozen=True)
class Attack:
    """One attack. `connections` of a stranger each send all frames, and read the answers unless they are `left_open`."""

    name: str
    frames: Frames
    prepare: Callable[[Connection], object] | None = None
    connections: int = 1
    left_open: bool = False
    """The frames are never finished: the last ones are cut, and no answer comes."""
    settings: dict[str, str] = field(default_factory=dict)
    held: str = ""
    """The name of what `prepare` makes, if other attacks need the same; they can use the same broker then."""
    uses_up: bool = False
    """The next attack needs a fresh broker."""

    @property
    def holds(self) -> str:
        """Returns what the broker has to hold."""
        return self.held or ("nothing" if self.prepare is None else self.name)


def framed(request: Any, version: int, number: int = 1) -> bytes:
    return encode(request, version, number)


# What attacks stand on


def answered(connection: Connection, frames: list[bytes]) -> None:
    """Sends the frames at once, and reads an answer to each."""
    connection.send_raw(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
    for _ in frames:
        answer = connection.receive(SETTLE_S)
        assert not isinstance(answer, str), answer


def coordinated(connection: Connection, key_type: int, key: str) -> None:
    """Waits until the coordinator of a key is there."""
    asked = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    wait_for(lambda: connection.call(asked, 6, SETTLE_S).coordinators[0].error_code == 0, "no coordinator", SETTLE_S)


def create(name: str, partitions: int = 1, **configs: str) -> Callable[[Connection], object]:
    settings = [create_topics.CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    topic = create_topics.CreatableTopic(name, partitions, 1, [], settings)

    def make(connection: Connection) -> None:
        answer = connection.call(create_topics.CreateTopicsRequest([topic], 60_000), 7, SETTLE_S)
        assert answer.topics[0].error_code == 0, answer

    return make


def many_topics(count: int, prefix: str = "many") -> create_topics.CreateTopicsRequest:
    topics = [create_topics.CreatableTopic(f"{prefix}-{number}", 1, 1, [], []) for number in range(count)]
    return create_topics.CreateTopicsRequest(topics, 60_000)


def created(count: int) -> Callable[[Connection], object]:
    def make(connection: Connection) -> None:
        answer = connection.call(many_topics(count), 7, SETTLE_S)
        assert not any(topic.error_code for topic in answer.topics)

    return make


def stored(topic: str, records: Callable[[], bytes]) -> Callable[[Connection], object]:
    def make(connection: Connection) -> None:
        create(topic)(connection)
        answer = connection.call(produced({(topic, 0): records()}), 9, SETTLE_S)
        assert answer.responses[0].partition_responses[0].error_code in {0, 10, 87}, answer  # a broker may refuse to hold it

    return make


INDEXED: Final = 240_000
"""As many batches as a GiB of batches of 4 kB has, of which each has an entry in both indexes."""


def indexed(connection: Connection) -> None:
    """Fills a segment of INDEXED small batches, one millisecond after the other; the next batch begins a new segment."""
    size = len(batch(b"v"))
    create("t", index_interval_bytes="0", segment_bytes=str(INDEXED * size + size // 2))(connection)
    for first in range(0, INDEXED, LOT):
        records = (build_batch([Record(0, TODAY_MS + number, None, b"v", [])]) for number in range(first, first + LOT))
        answered(connection, [framed(produced({("t", 0): each}), 9) for each in records])


def ended_segment(connection: Connection) -> Iterator[bytes]:
    """Ends that segment, and reads in its middle by offset and by time."""
    yield framed(produced({("t", 0): batch(b"v")}), 9)
    middle = fetch.FetchTopic("t", partitions=[fetch.FetchPartition(0, fetch_offset=INDEXED // 2, partition_max_bytes=MIB)])
    yield framed(fetch.FetchRequest(max_wait_ms=0, session_epoch=-1, topics=[middle]), 12)
    partition = list_offsets.ListOffsetsPartition(0, -1, TODAY_MS + INDEXED // 3)
    yield framed(list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic("t", [partition])]), 8)


def produced(batches: dict[tuple[str, int], bytes]) -> produce.ProduceRequest:
    topics: dict[str, list[produce.PartitionProduceData]] = {}
    for (topic, index), records in batches.items():
        topics.setdefault(topic, []).append(produce.PartitionProduceData(index, records))
    data = [produce.TopicProduceData(name, partition_data=partitions) for name, partitions in topics.items()]
    return produce.ProduceRequest(None, -1, 30_000, data)


def bomb(unfolded_mib: int) -> bytes:
    """Returns a zstd batch of a few kB whose one record unfolds to so many MiB of zeros."""
    return build_batch([Record(0, LAST_MS, b"k", bytes(unfolded_mib * MIB), [])], codec=ZSTD)


def honest_json(compressed_bytes: int, codec: int = GZIP) -> bytes:
    """Returns a batch of events as applications write them, of about so many bytes."""
    draw = random.Random(16)
    records: list[Record] = []
    while len(records) < compressed_bytes // 60:
        event = {"id": draw.getrandbits(64), "user": f"user-{draw.randrange(10**6)}", "page": draw.choice(["/", "/cart", "/buy"])}
        event |= {"took_ms": draw.random() * 100, "at": TODAY_MS + len(records), "agent": "Mozilla/5.0 (X11; Linux x86_64)"}
        records.append(Record(0, TODAY_MS, str(draw.randrange(1000)).encode(), json.dumps(event).encode(), []))
    return build_batch(records, codec=codec)


def of_many_members(size: int, codec: int) -> bytes:
    """Returns a batch whose records section is preceded by empty gzip members or lz4 frames, `size` bytes of them."""
    plain = build_batch([Record(0, TODAY_MS, b"k", b"v", [])])
    empty = gzip.compress(b"", mtime=0) if codec == GZIP else compress(LZ4, b"")
    section = empty * (size // len(empty)) + compress(codec, plain[HEADER_SIZE:])
    attributes = struct.pack(">h", codec)
    return sealed(plain[:21] + attributes + plain[23:HEADER_SIZE] + section)


def sealed(data: bytes) -> bytes:
    """Returns the batch with the right length and CRC."""
    from crc32c import crc32c

    changed = bytearray(data)
    struct.pack_into(">i", changed, 8, len(data) - 12)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def pipelined(make: Callable[[], Any], version: int, times: int = 1) -> Frames:
    """Returns the frames of one request, sent so many times; `make` makes it when the attack's turn comes."""

    def frames(connection: Connection) -> Iterator[bytes]:
        request = make()
        for number in range(times):
            yield framed(request, version, number)

    return frames


# The attacks


def by_time(topic: str) -> list_offsets.ListOffsetsRequest:
    partition = list_offsets.ListOffsetsPartition(0, -1, LAST_MS)
    return list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(topic, [partition])])


def group_of(offsets: int) -> Callable[[Connection], object]:
    """Commits `offsets` offsets for a group without members."""

    def make(connection: Connection) -> None:
        create("committed", offsets)(connection)
        coordinated(connection, GROUP, "g")
        partitions = [offset_commit.OffsetCommitRequestPartition(index, index, -1, "m" * 10) for index in range(offsets)]
        topics = [offset_commit.OffsetCommitRequestTopic("committed", partitions=partitions)]
        request = offset_commit.OffsetCommitRequest("g", -1, "", topics=topics)
        wait_for(
            lambda: connection.call(request, 8, SETTLE_S).topics[0].partitions[0].error_code == 0,
            "no coordinator",
            SETTLE_S,
        )

    return make


def unknown_fetches(connection: Connection) -> Iterator[bytes]:
    partitions = [fetch.FetchPartition(index, fetch_offset=0, partition_max_bytes=MIB) for index in range(20_000)]
    yield framed(
        fetch.FetchRequest(max_wait_ms=0, session_id=0, session_epoch=0, topics=[fetch.FetchTopic("no", partitions=partitions)]),
        12,
    )


def share_group_of(partitions: int) -> Callable[[Connection], object]:
    """Has a share group begin in so many partitions of a topic."""

    def make(connection: Connection) -> None:
        create("shared", partitions)(connection)
        topic_id = id_of("shared", connection)
        coordinated(connection, SHARE, f"g:{uuid_to_text(topic_id)}:0")
        for first in range(0, partitions, LOT):
            indexes = range(first, min(partitions, first + LOT))
            states = [initialize_share_group_state.PartitionData(index, 1, 0) for index in indexes]
            begun = initialize_share_group_state.InitializeShareGroupStateRequest(
                "g", [initialize_share_group_state.InitializeStateData(topic_id, states)]
            )
            wait_for(partial(has_begun, connection, begun), "the group does not begin", SETTLE_S)

    return make


def has_begun(connection: Connection, request: initialize_share_group_state.InitializeShareGroupStateRequest) -> bool:
    """Asks for a share group's state to begin; returns whether it has."""
    answer = connection.call(request, 0, SETTLE_S)
    return not any(each.error_code for result in answer.results for each in result.partitions)


def id_of(topic: str, connection: Connection) -> bytes:
    asked = metadata.MetadataRequest([metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    topic_id: bytes = connection.call(asked, 12, SETTLE_S).topics[0].topic_id
    return topic_id


def shared(topic_id: bytes, partitions: int, epoch: int = 0) -> share_fetch.ShareFetchRequest:
    names = [share_fetch.FetchPartition(index, 0, []) for index in range(partitions)]
    topics = [share_fetch.FetchTopic(topic_id, names)] if names else []
    return share_fetch.ShareFetchRequest("g", MEMBER, epoch, 0, 1, MIB, 500, 500, topics=topics, forgotten_topics_data=[])


def session_of(partitions: int, times: int) -> Frames:
    """Returns the frames that open a share session of so many partitions, and fetch in it so often without naming any."""

    def frames(connection: Connection) -> Iterator[bytes]:
        yield framed(shared(id_of("shared", connection), partitions), 1)
        for epoch in range(1, times + 1):
            yield framed(shared(b"", 0, epoch), 1, epoch)

    return frames


def unfinished(connection: Connection) -> Iterator[bytes]:
    yield bytes(3 * MIB)


def deletions(count: int) -> delete_topics.DeleteTopicsRequest:
    names = [delete_topics.DeleteTopicState(f"many-{number}") for number in range(count)]
    return delete_topics.DeleteTopicsRequest(names, timeout_ms=60_000)


def asked_names(count: int, name: str = "", *, create_them: bool = False) -> metadata.MetadataRequest:
    topics = [metadata.MetadataRequestTopic(name=f"{name}{number}" if name else "") for number in range(count)]
    return metadata.MetadataRequest(topics, allow_auto_topic_creation=create_them)


def described_broker(times: int) -> describe_configs.DescribeConfigsRequest:
    return describe_configs.DescribeConfigsRequest([describe_configs.DescribeConfigsResource(BROKER_RESOURCE, "1")] * times)


def described_producers(times: int) -> describe_producers.DescribeProducersRequest:
    return describe_producers.DescribeProducersRequest([describe_producers.TopicRequest("t", [0] * times)])


def group_asked(times: int) -> offset_fetch.OffsetFetchRequest:
    return offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup("g", topics=None)] * times)


def produced_to_each(partitions: int, records: bytes) -> produce.ProduceRequest:
    return produced({("t", index): records for index in range(partitions)})


def deleted_records(partitions: int) -> delete_records.DeleteRecordsRequest:
    asked = [delete_records.DeleteRecordsPartition(index, 0) for index in range(partitions)]
    return delete_records.DeleteRecordsRequest([delete_records.DeleteRecordsTopic("t", asked)], 30_000)


def times_of(partitions: int) -> list_offsets.ListOffsetsRequest:
    asked = [list_offsets.ListOffsetsPartition(index, -1, TODAY_MS) for index in range(partitions)]
    return list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic("t", asked)])


def named(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def wide_topic(partitions: int) -> create_topics.CreateTopicsRequest:
    return create_topics.CreateTopicsRequest([create_topics.CreatableTopic("wide", partitions, 1, [], [])], 60_000)


THOUSAND: Final = 1_000
MOST: Final = 49 * THOUSAND
"""About as many things as a request may name by default (ottla.request.max.items)."""


def attacks() -> list[Attack]:
    """Returns all attacks; each needs a broker of its own."""
    return [Attack("nothing", lambda connection: iter(())), *with_batches(), *with_names(), *with_memory_or_topics()]


def with_batches() -> list[Attack]:
    return [
        Attack(
            "ListOffsets by time x 100, one 8 kB batch of 250 MiB",
            pipelined(lambda: by_time("t"), 8, 100),
            stored("t", lambda: bomb(250)),
        ),
        Attack(
            "ListOffsets by time x 100, one 2 kB batch of 60 MiB, which ottla's defaults admit",
            pipelined(lambda: by_time("t"), 8, 100),
            stored("t", lambda: batch(*[bytes(MIB // 2)] * 120, codec=ZSTD)),
        ),
        Attack("ListOffsets by time of 9,990 partitions", pipelined(lambda: times_of(9_990), 8), create("t", 9_990)),
        Attack(
            "Produce of 200 partitions, each 8 kB that unfold to 250 MiB",
            pipelined(lambda: produced_to_each(200, bomb(250)), 9),
            create("t", 200),
        ),
        Attack(
            "Produce of 40 partitions, 8 kB of zstd each that unfold to 250 MiB in 2,500 records",
            pipelined(lambda: produced_to_each(40, batch(*[bytes(MIB // 10)] * 2_500, codec=ZSTD)), 9),
            create("t", 40),
        ),
        Attack(
            "Produce of 40 partitions, 2 kB of zstd each that unfold to 60 MiB in 600 records",
            pipelined(lambda: produced_to_each(40, batch(*[bytes(MIB // 10)] * 600, codec=ZSTD)), 9),
            create("t", 40),
        ),
        Attack(
            "Produce of 0.9 MB of JSON in gzip x 5",
            pipelined(lambda: produced_to_each(1, honest_json(900_000)), 9, 5),
            create("t"),
        ),
        Attack(
            "Produce of 1 MB of empty gzip members",
            pipelined(lambda: produced_to_each(1, of_many_members(MIB - 500, GZIP)), 9),
            create("t"),
        ),
        Attack(
            "Produce of 1 MB of empty lz4 frames",
            pipelined(lambda: produced_to_each(1, of_many_members(MIB - 500, LZ4)), 9),
            create("t"),
        ),
        Attack(
            "Produce of 90 MB to 90 partitions",
            pipelined(lambda: produced_to_each(90, batch(bytes(1_000_000))), 9),
            create("t", 90),
        ),
        Attack(f"End of a segment of {INDEXED:,} index entries, and reads in its middle", ended_segment, indexed),
        Attack(
            "Produce of one record to each of 9,990",
            pipelined(lambda: produced_to_each(9_990, batch(b"v")), 9),
            create("t", 9_990),
        ),
    ]


def with_names() -> list[Attack]:
    return [
        Attack("DeleteRecords of 9,990 partitions", pipelined(lambda: deleted_records(9_990), 2), create("t", 9_990)),
        Attack("DescribeConfigs of one broker 2,000 times", pipelined(lambda: described_broker(2 * THOUSAND), 4)),
        Attack("DescribeConfigs of one broker 49,000 times", pipelined(lambda: described_broker(MOST), 4)),
        Attack(
            "DescribeProducers of one partition 500,000 times",
            pipelined(lambda: described_producers(500 * THOUSAND), 0),
            create("t"),
        ),
        Attack("DescribeProducers of one partition 49,000 times", pipelined(lambda: described_producers(MOST), 0), create("t")),
        Attack("OffsetFetch of one group of 9,990 offsets 200 times", pipelined(lambda: group_asked(200), 9), group_of(9_990)),
        Attack(
            "DescribeGroups of a million empty names",
            pipelined(lambda: describe_groups.DescribeGroupsRequest([""] * THOUSAND * THOUSAND), 5),
        ),
        Attack("DescribeGroups of 49,000 names", pipelined(lambda: describe_groups.DescribeGroupsRequest(named(MOST)), 5)),
        Attack(
            "FindCoordinator of 49,000 groups",
            pipelined(lambda: find_coordinator.FindCoordinatorRequest(coordinator_keys=named(MOST)), 4),
        ),
        Attack("Metadata of 900,000 empty names", pipelined(lambda: asked_names(900 * THOUSAND), 12)),
        Attack("Metadata of 900,000 unknown names", pipelined(lambda: asked_names(900 * THOUSAND, "n"), 12)),
        Attack("Metadata of 49,000 unknown names", pipelined(lambda: asked_names(MOST, "n"), 12)),
    ]


def with_memory_or_topics() -> list[Attack]:
    return [
        Attack("200 unfinished frames of 100 MB, 3 MB of each", unfinished, connections=200, left_open=True, uses_up=True),
        Attack("300 fetch sessions of 20,000 unknown partitions", unknown_fetches, connections=300, uses_up=True),
        Attack(
            "ShareFetch of 20,000 unknown partitions",
            pipelined(lambda: shared(bytes(range(16)), 20_000), 1),
            lambda connection: connection.call(shared(bytes(range(16)), 1), 1, SETTLE_S),
        ),
        Attack("ShareFetch x 10 in a session of 9,990 partitions", session_of(9_990, 10), share_group_of(9_990), uses_up=True),
        Attack("CreateTopics of 5,000", pipelined(lambda: many_topics(5 * THOUSAND), 7), uses_up=True),
        Attack("CreateTopics of one topic of 9,990 partitions", pipelined(lambda: wide_topic(9_990), 7), uses_up=True),
        Attack("DeleteTopics of 5,000", pipelined(lambda: deletions(5 * THOUSAND), 6), created(5 * THOUSAND)),
        Attack(
            "Metadata that creates 4,000 topics",
            pipelined(lambda: asked_names(4 * THOUSAND, "auto", create_them=True), 12),
            uses_up=True,
        ),
    ]

"""Recorded requests as JSON has them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ottla.server.inspect.messages import text_or_base64
from ottla.server.requests.session import Session
from ottla.server.testkit.recording.recorded import show, show_frames
from ottla.server.testkit.recording.recording import Entry
from ottla.wire.messages import api_versions, create_topics, fetch, join_group, metadata, produce
from ottla.wire.primitives import uuid_to_text
from ottla.wire.records import Record, build_batch
from tests.in_loop import in_loop
from tests.server.testkit.under_test import UnderTest, frame_of, under_test

TIME_MS = 1_700_000_000_000


def batch(codec: int = 0) -> bytes:
    record = Record(0, TIME_MS, b"k\xff", b"value", [("h", b"x"), ("none", None)])
    return build_batch([record, Record(0, TIME_MS + 1, None, None)], codec=codec)


async def prepared(tested: UnderTest) -> Any:
    await tested.ask(create_topics, 7, create_topics.CreateTopicsRequest([create_topics.CreatableTopic("t", 1, 1)]))
    return tested.kit._frames[0]


async def produced_and_fetched(tested: UnderTest, *, records: bool) -> list[dict[str, Any]]:
    frames = await prepared(tested)
    recorder = tested.kit.record(100, records=records)
    data = [produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(0, batch())])]
    asked = fetch.FetchRequest(max_bytes=1 << 20, session_epoch=-1)
    asked.topics = [fetch.FetchTopic("t", partitions=[fetch.FetchPartition(0, partition_max_bytes=1 << 20)])]
    for frame in (
        frame_of(produce, 9, produce.ProduceRequest(None, -1, 1000, data), "app"),
        frame_of(fetch, 12, asked, "app"),
    ):
        frames.serve(memoryview(frame), tested.session)
    return [json.loads(json.dumps(show(entry, records=records))) for entry in recorder]


@in_loop
async def test_the_fields_of_a_request() -> None:
    async with under_test() as tested:
        frames = await prepared(tested)
        recorder = tested.kit.record(100, records=False)
        versions = api_versions.ApiVersionsRequest("my-client", "1.2")
        frames.serve(memoryview(frame_of(api_versions, 3, versions, "app")), tested.session)
        (entry,) = recorder
        shown = show(entry, records=False)
        assert list(shown) == [
            *("seq", "at_ms", "node", "connection", "client_id", "software", "host", "api", "version", "correlation_id"),
            *("outcome", "took_us", "fault", "request_bytes", "response_bytes", "request", "response"),
        ]
        assert (shown["software"], shown["host"], shown["client_id"]) == ("my-client 1.2", "127.0.0.1", "app")
        assert (shown["api"], shown["version"], shown["correlation_id"]) == ("ApiVersions", 3, 7)
        assert shown["request"] == {"client_software_name": "my-client", "client_software_version": "1.2"} | shown["request"]
        assert shown["response"]["error_code"] == 0
        assert {"api_key": 0, "min_version": 0, "max_version": 13} in shown["response"]["api_keys"]


@in_loop
async def test_uuids_are_as_kafka_writes_them() -> None:
    async with under_test() as tested:
        frames = await prepared(tested)
        recorder = tested.kit.record(100, records=False)
        topic_id = tested.context.metadata.topics["t"].topic_id
        asked = metadata.MetadataRequest([metadata.MetadataRequestTopic(topic_id, None)])
        frames.serve(memoryview(frame_of(metadata, 12, asked, "app")), tested.session)
        (entry,) = recorder
        shown = show(entry, records=False)
        assert shown["request"]["topics"] == [{"topic_id": uuid_to_text(topic_id), "name": None}]
        assert shown["response"]["topics"][0]["topic_id"] == uuid_to_text(topic_id)


@in_loop
async def test_batches_have_their_headers_and_with_records_also_these() -> None:
    async with under_test() as tested:
        shown, fetched = await produced_and_fetched(tested, records=False)
        (sent,) = shown["request"]["topic_data"][0]["partition_data"]
        (header,) = sent["records"]
        assert header["count"] == 2
        assert header["compression"] == "none"
        assert header["max_timestamp"] == TIME_MS + 1
        assert "records" not in header
        (partition,) = fetched["response"]["responses"][0]["partitions"]
        assert partition["records"] == {"bytes": len(batch())}
        assert partition["high_watermark"] == 2
    async with under_test() as tested:
        shown, fetched = await produced_and_fetched(tested, records=True)
        wanted = [
            {
                "offset": 0,
                "timestamp": TIME_MS,
                "key": {"base64": base64.b64encode(b"k\xff").decode()},
                "value": "value",
                "headers": [["h", "x"], ["none", None]],
            },
            {"offset": 1, "timestamp": TIME_MS + 1, "key": None, "value": None, "headers": []},
        ]
        assert shown["request"]["topic_data"][0]["partition_data"][0]["records"][0]["records"] == wanted
        assert fetched["response"]["responses"][0]["partitions"][0]["records"][0]["records"] == wanted


@in_loop
async def test_frames_are_as_on_the_wire() -> None:
    async with under_test() as tested:
        frames = await prepared(tested)
        recorder = tested.kit.record(100, records=False)
        frame = frame_of(metadata, 12, metadata.MetadataRequest([]), "app")
        answer = frames.serve(memoryview(frame), tested.session)
        (entry,) = recorder
        shown = show_frames(entry)
        assert base64.b64decode(shown["request"]) == len(frame).to_bytes(4, "big") + frame
        assert base64.b64decode(shown["response"]) == answer
        assert (shown["api"], shown["version"], shown["outcome"]) == ("Metadata", 12, "answered")


@in_loop
async def test_frames_without_their_records_are_none() -> None:
    async with under_test() as tested:
        await produced_and_fetched(tested, records=False)
        assert tested.kit.recorder is not None
        shown = [show_frames(entry) for entry in tested.kit.recorder]
        assert [each["response"] is None for each in shown] == [False, True]


def entry_of(frame: bytes, **values: Any) -> Entry:
    entry = Entry(1, 0, 1, 1, Session("PLAINTEXT", "127.0.0.1"), frame, len(frame))
    for name, value in values.items():
        setattr(entry, name, value)
    return entry


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\xff\xff",
        b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff",
        b"\x00\x03\x00\x63\x00\x00\x00\x01\xff\xff\0\0",
    ],
    ids=["too short", "an unknown API", "an unknown version"],
)
def test_what_does_not_decode_is_shown_by_its_header(frame: bytes) -> None:
    shown = show(entry_of(frame, answer=(b"\0\0\0\1\0",)), records=True)
    assert (shown["correlation_id"], shown["client_id"], shown["software"]) == (1, None, None)
    assert (shown["request"], shown["response"]) == (None, None)
    assert shown["api"] in {"Metadata", "999"}


def test_records_that_are_no_batch() -> None:
    data = [produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(0, b"x" * 100)])]
    shown = show(entry_of(frame_of(produce, 9, produce.ProduceRequest(None, -1, 1000, data), "app")), records=True)
    (bad,) = shown["request"]["topic_data"][0]["partition_data"][0]["records"]
    assert "magic" in bad["bad"]


def test_a_batch_that_does_not_decompress() -> None:
    broken = bytearray(batch(codec=1))
    broken[-20:] = b"\xff" * 20
    data = [produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(0, bytes(broken))])]
    shown = show(entry_of(frame_of(produce, 9, produce.ProduceRequest(None, -1, 1000, data), "app")), records=True)
    assert "bad" in shown["request"]["topic_data"][0]["partition_data"][0]["records"][-1]


def test_bytes_that_are_no_text() -> None:
    protocol = join_group.JoinGroupRequestProtocol("range", b"\0\1\0\0")
    asked = join_group.JoinGroupRequest("g", 1, 1, "", None, "consumer", [protocol])
    shown = show(entry_of(frame_of(join_group, 5, asked, "app")), records=False)
    assert shown["request"]["protocols"] == [{"name": "range", "metadata": {"base64": "AAEAAA=="}}]
    assert [text_or_base64(data) for data in (None, b"", "ü\n".encode(), b"\x1b")] == [None, "", "ü\n", {"base64": "Gw=="}]

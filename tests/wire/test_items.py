"""The number of elements in a request, counted without decoding it: the decoded request has as many, whatever the API."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from compat_tests.reference.definitions import Struct
from ottla.server.handlers import served
from ottla.wire import items
from ottla.wire.frame import MALFORMED
from ottla.wire.items import Layout, TooManyItems, count_items, has_more_items, layout_of
from ottla.wire.messages import api_versions, create_topics, metadata, produce
from ottla.wire.shapes import SHAPES
from tests.uncompiled import uncompiled
from tests.wire.layouts import all_layouts

METADATA, PRODUCE, DESCRIBE_GROUPS, CREATE_TOPICS, API_VERSIONS = 3, 0, 15, 19, 18
MANY = 1 << 30


def elements_of(message: Any, struct: Struct, version: int) -> int:
    """Returns the number of elements in all lists of a decoded struct, and of its tagged fields."""
    plain, tagged = struct.layout(version)
    default = type(message)()
    found: int = sum(getattr(message, f.name) != getattr(default, f.name) for f in tagged)
    for f in plain:
        value = getattr(message, f.name)
        if value is None or not (f.array or f.struct):
            continue
        inside = value if f.array else [value]
        found += len(value) if f.array else 0
        found += sum(elements_of(each, f.struct, version) for each in inside) if f.struct else 0
    return found


def encoded(encode: Any, message: Any) -> bytes:
    parts: list[Any] = []
    encode(message, parts)
    return b"".join(parts)


def layout(api_key: int, version: int) -> Layout:
    found = layout_of(api_key, version)
    assert found is not None
    return found


def test_every_element_of_every_request_is_counted() -> None:
    counted = 0
    for each in all_layouts():
        key = each.message.api_key
        shape = layout_of(key, each.version) if each.message.kind == "request" and key is not None else None
        if shape is None:
            continue
        for seed in range(3):
            message = each.draw(f"items {seed}")
            raw = each.bytes(message)
            there = elements_of(message, each.message.root, each.version)
            assert count_items(shape, b"\0\0\0" + raw, 3, MANY) == (there, len(raw) + 3), each.name
            assert count_items(shape, memoryview(raw), 0, there) == (there, len(raw)), each.name
            if there:
                with pytest.raises(TooManyItems):
                    count_items(shape, raw, 0, there - 1)
            counted += there
    assert counted > 10_000


def test_every_request_that_is_served_has_a_shape() -> None:
    assert not [key for key in served() if key not in SHAPES]


def test_an_element_takes_at_least_the_bytes_that_its_layout_says() -> None:
    assert layout(METADATA, 1).least_bytes == 2  # the length of a name
    assert layout(METADATA, 13).least_bytes == 16 + 1 + 1
    assert layout(DESCRIBE_GROUPS, 6).least_bytes == 1
    assert layout(PRODUCE, 9).least_bytes == 3  # a topic without partitions
    assert layout(PRODUCE, 13).least_bytes == 4 + 1 + 1  # a partition without records
    assert layout(CREATE_TOPICS, 7).least_bytes == 3  # a setting without name and value
    assert layout(API_VERSIONS, 3).least_bytes == 1  # it has no list
    assert layout_of(9999, 0) is None


def test_short_requests_are_not_looked_at() -> None:
    no_request = b"\xff" * 500
    assert has_more_items(DESCRIBE_GROUPS, 6, no_request, 0, 1000, 500) is False
    with pytest.raises(MALFORMED):
        has_more_items(DESCRIBE_GROUPS, 6, no_request, 0, 1000, 499)


def test_too_many_are_refused_before_they_are_walked() -> None:
    """The bytes of the elements are not even there."""
    claimed = b"\xc1\x84\x3d"  # 1,000,000 and 1, as a compact length
    with pytest.raises(TooManyItems):
        count_items(layout(DESCRIBE_GROUPS, 6), claimed, 0, 999_999)
    with pytest.raises(MALFORMED):
        count_items(layout(DESCRIBE_GROUPS, 6), claimed, 0, 1_000_000)


def test_a_request_is_walked_no_further_than_needed() -> None:
    """Behind the sixth topic, bytes are missing."""
    topics = [create_topics.CreatableTopic("t", 1, 1, configs=[create_topics.CreatableTopicConfig("a", "b")] * 9)] * 10
    raw = encoded(create_topics.ENCODE_REQUEST[7], create_topics.CreateTopicsRequest(topics))[:340]
    assert has_more_items(CREATE_TOPICS, 7, raw, 0, 100, 50)
    with pytest.raises(MALFORMED):
        has_more_items(CREATE_TOPICS, 7, raw, 0, 100, 70)
    with pytest.raises(TooManyItems):
        has_more_items(CREATE_TOPICS, 7, raw, 0, 20, 20)


def test_lists_in_lists_count_together() -> None:
    topics = [create_topics.CreatableTopic("t", 1, 1, configs=[create_topics.CreatableTopicConfig("a", "b")] * 9)] * 10
    for version in (2, 7):
        raw = encoded(create_topics.ENCODE_REQUEST[version], create_topics.CreateTopicsRequest(topics))
        assert count_items(layout(CREATE_TOPICS, version), raw, 0, 100) == (100, len(raw))
        with pytest.raises(TooManyItems):
            count_items(layout(CREATE_TOPICS, version), raw, 0, 99)


def test_records_are_no_elements() -> None:
    data = [produce.PartitionProduceData(0, bytes(1 << 20))]
    raw = encoded(
        produce.ENCODE_REQUEST[9], produce.ProduceRequest(None, -1, 1, [produce.TopicProduceData("t", bytes(16), data)])
    )
    assert has_more_items(PRODUCE, 9, raw, 0, 2, 0)
    assert not has_more_items(PRODUCE, 9, raw, 0, 2, 2)
    with pytest.raises(TooManyItems):
        has_more_items(PRODUCE, 9, raw, 0, 1, 1)


@pytest.mark.parametrize("length", [126, 127, 128, 32_767, 32_768, 3_000_000])
def test_a_string_is_no_longer_than_kafka_reads(length: int) -> None:
    raw = encoded(api_versions.ENCODE_REQUEST[3], api_versions.ApiVersionsRequest("n" * length, "1"))
    if length <= 32_767:
        assert count_items(layout(API_VERSIONS, 3), raw, 0, 1) == (0, len(raw))
        return
    with pytest.raises(ValueError, match=f"a string of {length} bytes"):
        has_more_items(API_VERSIONS, 3, raw, 0, 1000, 1000)
    assert has_more_items(API_VERSIONS, 3, raw, 0, len(raw), len(raw)) is False


def test_unknown_tagged_fields_count() -> None:
    raw = encoded(metadata.ENCODE_REQUEST[13], metadata.MetadataRequest([metadata.MetadataRequestTopic(name="t")]))
    assert raw.endswith(b"\0")
    tags = b"\x82\x01" + b"".join(bytes((tag & 0x7F | 0x80, tag >> 7, 1, 7)) for tag in range(130))
    assert count_items(layout(METADATA, 13), raw[:-1] + tags, 0, MANY) == (131, len(raw) - 1 + len(tags))
    with pytest.raises(TooManyItems):
        count_items(layout(METADATA, 13), raw[:-1] + tags, 0, 130)


def test_hostile_bytes_give_the_same_answer_compiled_and_uncompiled() -> None:
    seeded, plain = Random(16), uncompiled(items)

    def outcome(module: Any, key: int, version: int, data: bytes | memoryview, most: int) -> object:
        try:
            return module.count_items(module.layout_of(key, version), data, 0, most)
        except module.TooManyItems:
            return module.TooManyItems.__name__
        except MALFORMED as error:
            return type(error)

    kinds = set()
    for each in all_layouts():
        key = each.message.api_key
        if each.message.kind != "request" or key not in SHAPES:
            continue
        assert layout_of(key, each.version) == plain.layout_of(key, each.version)
        raw = each.bytes(each.draw("hostile"))
        for _ in range(20):
            data = bytearray(raw or b"\0")
            for _ in range(seeded.randrange(4)):
                data[seeded.randrange(len(data))] = seeded.choice((0, 1, 127, 128, 255, seeded.randrange(256)))
            damaged = bytes(data[: seeded.randrange(len(data) + 1)] if seeded.random() < 0.3 else data)
            most = seeded.choice((0, 1, 100, MANY))
            answer = outcome(items, key, each.version, damaged, most)
            assert answer == outcome(plain, key, each.version, memoryview(damaged), most)
            kinds.add("counted" if isinstance(answer, tuple) else answer)
    assert kinds > {"counted", "TooManyItems", ValueError, IndexError}

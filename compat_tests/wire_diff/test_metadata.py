"""Metadata: names, ids, auto-creation, versions (docs/kafka-behaviour.md)."""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.wire import CLOSED, Wire
from compat_tests.wire_diff.same import check, same_answer
from ottla.wire.messages import metadata
from ottla.wire.primitives import ZERO_UUID

Topic = metadata.MetadataRequestTopic
NAMES = {"dot": ".", "dotdot": "..", "250 chars": "x" * 250, "space": "a b", "slash": "a/b", "unicode": "é", "empty": ""}


@pytest.mark.parametrize("version", range(14))
def test_every_version_of_a_known_and_an_unknown_topic(wires: dict[str, Wire], version: int) -> None:
    """The flag against auto-creation exists from version 4 on: below, asking makes the topic."""

    def scenario(wire: Wire) -> Any:
        known = wire.create("known", 2)
        return wire.metadata(known, wire.name("unknown"), version=version)

    check(wires, "MDmix", scenario)


@same_answer("MD1")
def test_an_unknown_topic_without_auto_creation(wire: Wire) -> Any:
    return wire.metadata(wire.name("nope"))


@same_answer("MD2")
def test_auto_creation_answers_unknown_first_and_the_topic_soon(wire: Wire) -> Any:
    name = wire.name("auto")
    first = wire.metadata(name, create=True)
    wire.wait_for_topic(name)
    return first.topics[0].error_code, wire.metadata(name, create=True)


@pytest.mark.parametrize("which", NAMES)
def test_names_that_are_no_topic_names(wires: dict[str, Wire], which: str) -> None:
    check(
        wires,
        "names that are no topic names",
        lambda wire: [wire.metadata(NAMES[which], version=9, create=create).topics for create in (False, True)],
    )


@same_answer("MDnone")
def test_no_topics_and_all_topics(wire: Wire) -> Any:
    mine = wire.create("mine")
    none = wire.call(metadata.MetadataRequest([]), 1)
    every = [wire.call(metadata.MetadataRequest([] if v == 0 else None), v) for v in (0, 1, 12)]
    return none, [[t for t in answer.topics if t.name == mine] for answer in every]


@same_answer("MDv0n")
def test_version_0_has_no_null_array(wire: Wire) -> Any:
    answer = wire.connect()
    answer.send_frame(bytes.fromhex("00030000 00000001 ffff ffffffff"))
    assert answer.receive() == CLOSED
    return CLOSED


@same_answer("MDid2")
def test_by_topic_id(wire: Wire) -> Any:
    name = wire.create("t", 2)
    found = wire.call(metadata.MetadataRequest([Topic(wire.topic_ids[name], None)], False), 12)
    unknown = wire.call(metadata.MetadataRequest([Topic(b"0123456789abcdef", None)], False), 12)
    both = wire.call(metadata.MetadataRequest([Topic(wire.topic_ids[name], "other-name")], False), 12)
    return found, unknown, both


@same_answer("MDid10")
def test_by_topic_id_below_version_12(wire: Wire) -> Any:
    name = wire.create("t")
    return wire.call(metadata.MetadataRequest([Topic(wire.topic_ids[name], None)], False), 10)


@same_answer("MDzero")
def test_neither_name_nor_id(wire: Wire) -> Any:
    return [t.error_code for t in wire.call(metadata.MetadataRequest([Topic(ZERO_UUID, None)], False), 12).topics]


@same_answer("MDauth")
def test_authorized_operations(wire: Wire) -> Any:
    name = wire.create("t")
    return wire.call(metadata.MetadataRequest([Topic(name=name)], False, True, True), 8)


@same_answer("MDdup")
def test_the_same_topic_twice(wire: Wire) -> Any:
    name = wire.create("t", 2)
    return wire.metadata(name, name, version=9), wire.metadata(wire.name("zz"), name, version=9)


@same_answer("internal topics in Metadata")
def test_internal_topics_are_marked(wire: Wire) -> Any:
    return [(t.name, t.is_internal, len(t.partitions)) for t in wire.metadata("__consumer_offsets").topics]

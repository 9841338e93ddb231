"""Records of Kafka's own topics as JSON, or in hex with the reason."""

from __future__ import annotations

import json

from ottla.console.records.decoding import MAX_DECODED_BYTES, decode_of
from ottla.console.rendering.text import Raw, beginning, preview, shown

KEY = b"\x00\x01" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x02"


def test_a_committed_offset() -> None:
    decode = decode_of("__consumer_offsets")
    assert decode is not None
    key, value, problem = decode(KEY, None)
    assert json.loads(key or b"") == {"OffsetCommitKey": {"group": "g", "topic": "t", "partition": 2}}
    assert (value, problem) == (None, "")


def test_what_is_not_known_is_hex_with_the_reason() -> None:
    decode = decode_of("__consumer_offsets")
    assert decode is not None
    found = decode(b"\x00\x63abc", b"text")
    assert found.problem == "key type 99 is not known"
    assert (preview(found.value).kind, preview(found.value).text, shown(found.value).kind) == ("hex", "74 65 78 74", "hex")
    assert decode(KEY, b"\x00\x63").problem == "version 99 of offset_commit_value is not known"
    assert decode(None, b"").problem == "it has no key"
    assert decode(KEY, bytes(MAX_DECODED_BYTES)).problem == "larger than 1 MiB"
    long = preview(beginning(Raw(b"t" * 5000)))
    assert (long.kind, long.size) == ("hex", 5000)


def test_other_topics_are_left_alone() -> None:
    assert decode_of("orders") is None
    assert all(decode_of(name) for name in ("__transaction_state", "__share_group_state", "__cluster_metadata"))

"""Call: what goes over the wire, and that its promise is kept or broken once."""

from __future__ import annotations

import pytest

from ottla.server.peers.call import Call, next_correlation_id
from ottla.server.peers.outcomes import Disconnected, TimedOut
from ottla.wire.header import decode_request_header
from ottla.wire.messages import envelope, fetch, metadata
from tests.fakes import ManualClock


@pytest.mark.parametrize("version", [0, 9, 13])
def test_a_frame_has_its_size_header_and_request(version: int) -> None:
    call = Call(metadata.MetadataRequest([metadata.MetadataRequestTopic(name="t")]))
    frame = call.encode(version, 7, "broker-1")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, pos = decode_request_header(frame, 4)
    assert header == (metadata.API_KEY, version, 7, "broker-1")
    body, end = metadata.DECODE_REQUEST[version](frame, pos)
    assert [topic.name for topic in body.topics or ()] == ["t"]
    assert end == len(frame)
    assert (call.version, call.correlation_id) == (version, 7)


def test_codecs_come_from_the_module_of_the_request_compiled_or_not() -> None:
    for call, key in ((Call(fetch.FetchRequest()), fetch.API_KEY), (Call(envelope.EnvelopeRequest()), envelope.API_KEY)):
        assert call.codecs.api.key == key
    assert Call(fetch.FetchRequest()).codecs[1:] == (fetch.ENCODE_REQUEST, fetch.DECODE_RESPONSE)


def test_the_oldest_version_that_would_do_is_one_that_exists() -> None:
    assert Call(fetch.FetchRequest()).min_version == fetch.MIN_VERSION
    assert Call(fetch.FetchRequest(), 13).min_version == 13


def test_an_outcome_ends_the_timer_and_what_comes_after_it_changes_nothing() -> None:
    clock = ManualClock()
    call, broken = Call(metadata.MetadataRequest()), Call(metadata.MetadataRequest())
    for each in (call, broken):
        each.timer = clock.call_later(1, lambda: None)
    call.succeed("answer")
    broken.fail(TimedOut("late"))
    assert clock.waiting == 0
    for each in (call, broken):
        each.succeed("another")
        each.fail(Disconnected("gone"))
    assert call.answer.result() == "answer"
    with pytest.raises(TimedOut):
        broken.answer.result()


def test_who_no_longer_waits_is_not_answered() -> None:
    call = Call(metadata.MetadataRequest())
    call.answer.cancel()
    call.succeed("answer")
    call.fail(Disconnected("gone"))
    assert call.answer.cancelled()


def test_correlation_ids_begin_anew_before_they_would_be_negative() -> None:
    assert [next_correlation_id(last) for last in (-1, 0, 2**31 - 2, 2**31 - 1)] == [0, 1, 2**31 - 1, 0]

"""Tests of what the other files leave out of "every API at every version, with a success and an error, whole answers compared":
found by the ledger (compat_tests/seen.py, scripts/wire_diff_complete.py), and what the random walk found that is no script of its
own.
"""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.wire import Wire
from compat_tests.wire_diff.members import stable
from compat_tests.wire_diff.same import check, same_answer
from compat_tests.wire_diff.test_transaction_coordinator import Client
from ottla.wire.messages import api_versions, describe_share_group_offsets, offset_fetch
from ottla.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.wire.messages.push_telemetry import PushTelemetryRequest


@pytest.mark.parametrize("version", range(6))
def test_api_versions_whole(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        answer = wire.call(api_versions.ApiVersionsRequest("compat", "1.0"), version)
        answer.finalized_features_epoch = min(answer.finalized_features_epoch, 0)  # an offset of the broker's metadata log
        return answer

    check(wires, "AV0", scenario)


@pytest.mark.parametrize("version", range(3, 6))
def test_api_versions_refused(wires: dict[str, Wire], version: int) -> None:
    check(wires, "AVname2", lambda wire: wire.call(api_versions.ApiVersionsRequest("bad name!", "1.0"), version))


@same_answer("TELE")
def test_telemetry_whole(wire: Wire) -> Any:
    new = wire.call(GetTelemetrySubscriptionsRequest(bytes(16)), 0)
    wire.label(new.client_instance_id, "chosen")
    given = new.client_instance_id, new.subscription_id
    new.subscription_id = 0  # made from the id that was chosen
    wrong = wire.call(PushTelemetryRequest(given[0], given[1] ^ 1, False, 0, b"abc"), 0)
    again = wire.call(GetTelemetrySubscriptionsRequest(given[0]), 0)
    again.subscription_id = 0
    return new, wrong, again, wire.call(PushTelemetryRequest(given[0], given[1], False, 0, b""), 0)


@pytest.mark.parametrize("version", [7, 8])
def test_offsets_that_are_not_stable(wires: dict[str, Wire], version: int) -> None:
    """One that a transaction has under way; required since version 7."""

    def scenario(wire: Wire) -> Any:
        client = Client(wire)
        producer = client.begin()
        client.commit_offset(producer)
        names = [client.topic], [0]
        if version == 7:
            topics = [offset_fetch.OffsetFetchRequestTopic(names[0][0], names[1])]
            return wire.call(offset_fetch.OffsetFetchRequest(client.group, topics, require_stable=True), version)
        of_group = [offset_fetch.OffsetFetchRequestTopics(names[0][0], partition_indexes=names[1])]
        group = offset_fetch.OffsetFetchRequestGroup(client.group, topics=of_group)
        return wire.call(offset_fetch.OffsetFetchRequest(groups=[group], require_stable=True), version)

    check(wires, "T21", scenario)


@pytest.mark.parametrize("version", [0, 1])
def test_share_offsets_of_a_group_of_another_type(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic, group = wire.create("t"), wire.name("g")
        stable(wire, group)
        kind = describe_share_group_offsets
        topics = [kind.DescribeShareGroupOffsetsRequestTopic(topic, [0])]
        asked = [kind.DescribeShareGroupOffsetsRequestGroup(each, topics) for each in (group, wire.name("nobody"))]
        return wire.call(kind.DescribeShareGroupOffsetsRequest(asked), version)

    check(wires, "share offsets of a group of another type", scenario)


@same_answer("T-leftover")
def test_a_refused_batch_leaves_nothing_behind(wire: Wire) -> Any:
    """A batch of an epoch that the coordinator does not know is refused; the producer of the right one goes on."""
    client = Client(wire)
    producer = client.begin()
    first = client.send(producer, 0, 0, version=12).responses[0].partition_responses[0].error_code
    wrong = client.send(producer.moved(1), 0, 0, version=12).responses[0].partition_responses[0].error_code
    assert (first, bool(wrong)) == (0, True)
    return client.send(producer, 0, 1, version=12).responses[0].partition_responses[0].error_code

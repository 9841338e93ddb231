"""Offsets of a group in a topic are deleted by the request of its kind, and the first refusal is said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.commands.clients.direct import Refused
from ottla.commands.groups.kinds import Listed
from ottla.commands.groups.offsets import delete_offsets
from ottla.commands.output import Failure
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import delete_share_group_offsets as of_share
from ottla.wire.messages import offset_delete


def asked(kind: str, answer: Any, broker: int | None = 2) -> Any:
    """Returns what broker 2 is asked about a group of this kind, and answers so."""
    requests: list[Any] = []

    def call(request: Any) -> Any:
        requests.append(request)
        return answer

    brokers: Any = SimpleNamespace(at={2: SimpleNamespace(call=call)}.__getitem__)
    delete_offsets(brokers, Listed("g", "Empty", kind, broker), "t", [3, 1])
    return requests[0]


def of_partitions(*codes: int) -> offset_delete.OffsetDeleteResponse:
    partitions = [offset_delete.OffsetDeleteResponsePartition(number, code) for number, code in enumerate(codes)]
    return offset_delete.OffsetDeleteResponse(topics=[offset_delete.OffsetDeleteResponseTopic("t", partitions)])


def test_each_kind_has_its_request() -> None:
    request = asked("consumer", of_partitions(0, 0))
    assert (request.group_id, request.topics[0].name) == ("g", "t")
    assert [one.partition_index for one in request.topics[0].partitions] == [3, 1]
    request = asked("share", of_share.DeleteShareGroupOffsetsResponse())
    assert (request.group_id, [topic.topic_name for topic in request.topics]) == ("g", ["t"])


def test_a_refusal_is_said() -> None:
    with pytest.raises(Failure, match=r"t \[1\]: the group is reading the topic"):
        asked("classic", of_partitions(0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
    with pytest.raises(Refused):
        asked("classic", offset_delete.OffsetDeleteResponse(ErrorCode.NON_EMPTY_GROUP))
    topic = of_share.DeleteShareGroupOffsetsResponseTopic("t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for answer in (
        of_share.DeleteShareGroupOffsetsResponse(responses=[topic]),
        of_share.DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NON_EMPTY_GROUP),
    ):
        with pytest.raises(Refused):
            asked("share", answer)
    with pytest.raises(Failure, match="its coordinator is not known"):
        asked("classic", of_partitions(), None)

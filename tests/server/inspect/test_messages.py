"""Messages that are shown shortened: whoever sends them decides how long they are."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.inspect import messages
from ottla.server.inspect.messages import LONGEST, MOST_STRUCTS, fields_of
from ottla.wire.batch import iter_batches
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.log.support import batch


def test_long_texts_and_bytes_are_cut_and_short_ones_whole() -> None:
    sent = SyncGroupRequest("g" * (LONGEST + 1), assignments=[SyncGroupRequestAssignment("m" * LONGEST, b"x" * (LONGEST + 1))])
    shown = fields_of(sent, records=False, batches=True, most=20)
    assert shown["group_id"] == "g" * LONGEST + "…"
    (assignment,) = shown["assignments"]
    assert (assignment["member_id"], assignment["assignment"]) == ("m" * LONGEST, {"bytes": LONGEST + 1})
    whole = fields_of(sent, records=False, batches=True)
    assert (whole["group_id"], whole["assignments"][0]["assignment"]) == ("g" * (LONGEST + 1), "x" * (LONGEST + 1))


def test_only_so_many_structs_are_shown_in_all() -> None:
    data = [PartitionProduceData(number, batch() * 20) for number in range(20)]
    sent = ProduceRequest(topic_data=[TopicProduceData(f"t{number}", partition_data=data) for number in range(20)])
    shown = fields_of(sent, records=False, batches=True, most=20)
    partitions = [each for topic in shown["topic_data"] for each in topic["partition_data"]]
    structs = len(shown["topic_data"]) + len(partitions) + sum(len(each["records"]) for each in partitions)
    assert structs == MOST_STRUCTS
    whole = fields_of(sent, records=False, batches=True)
    assert len(whole["topic_data"][19]["partition_data"][19]["records"]) == 20


def test_no_more_batches_are_looked_at_than_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0

    def count(data: Any) -> Any:
        nonlocal looked_at
        for each in iter_batches(data):
            looked_at += 1
            yield each

    monkeypatch.setattr(messages, "iter_batches", count)
    shown = fields_of(PartitionProduceData(0, batch() * 1000), records=False, batches=True, most=20)
    assert len(shown["records"]) == looked_at == 20

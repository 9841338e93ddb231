"""Recorded requests as Python objects."""

from __future__ import annotations

import asyncio
import json

import pytest

from ottla.server.testkit.python.seen_requests import Seen
from ottla.testing import Broker
from ottla.wire.messages import describe_groups, list_groups
from tests.asking import ask


async def ask_both(broker: Broker) -> None:
    await ask(broker.port, list_groups, 2, list_groups.ListGroupsRequest())
    await ask(broker.port, describe_groups, 4, describe_groups.DescribeGroupsRequest(["g", "h"]))


def test_fields_are_attributes_and_items() -> None:
    seen = Seen({"keys": [{"values": {"base64": "AP8="}}], "name": "x", "none": None})
    assert seen.keys[0].values == b"\0\xff"
    assert (seen["name"], seen.none, list(seen), "name" in seen) == ("x", None, ["keys", "name", "none"], True)
    assert seen == Seen({"keys": [{"values": {"base64": "AP8="}}], "name": "x", "none": None})
    assert seen != Seen({"name": "x"})
    assert repr(Seen({"a": [{"b": 1}]})) == "<a=[<b=1>]>"
    with pytest.raises(AttributeError, match="there is no nam here; there are keys, name, none"):
        _ = seen.nam
    with pytest.raises(KeyError):
        _ = seen["nam"]


def test_a_broker_lists_what_it_was_asked() -> None:
    with Broker() as broker:
        with pytest.raises(ValueError, match="nothing is recorded yet"):
            broker.requests()
        broker.record()
        asyncio.run(ask_both(broker))
        assert [each.api for each in broker.requests()] == ["ListGroups", "DescribeGroups"]
        (described,) = broker.requests(api="DescribeGroups")
        assert described.request.groups == ["g", "h"]
        assert [group.group_id for group in described.response.groups] == ["g", "h"]
        with pytest.raises(ValueError, match="did you mean ListGroups"):
            broker.requests(api="ListGruops")
        (saved,) = json.loads(broker.frames(api="ListGroups"))
        assert (saved["seq"], saved["api"]) == (1, "ListGroups")
        report = broker.report()
        assert "DescribeGroups v4  answered after" in report
        broker.reset()
        assert broker.requests() == []
        asyncio.run(ask_both(broker))
        assert [each.seq for each in broker.requests()] == [3, 4]
        assert broker.report(**broker.begin_report()) == ""
        assert broker.forget_requests() == 2
        broker.record(0)
        asyncio.run(ask_both(broker))
        assert broker.requests() == []


def test_the_same_calls_awaited() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            await broker.aio.record(5)
            await ask_both(broker)
            assert [each.api for each in await broker.aio.requests(limit=1)] == ["DescribeGroups"]
            assert await broker.aio.forget_requests() == 2
            broker.record(1)
            await ask_both(broker)
            assert len(broker.requests()) == 1

    asyncio.run(scenario())


def test_a_recording_goes_on_over_a_restart() -> None:
    with Broker() as broker:
        broker.record()
        asyncio.run(ask_both(broker))
        broker.restart("kill")
        asyncio.run(ask_both(broker))
        assert [each.seq for each in broker.requests(api="DescribeGroups")] == [2, 4]

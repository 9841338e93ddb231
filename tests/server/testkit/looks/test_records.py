"""Records that a test appends and reads without a client."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.testkit.fields import Refused
from ottla.wire.messages import init_producer_id
from tests.log.support import batch
from tests.server.testkit.calls.test_look_calls import begin, end
from tests.server.testkit.lives_rig import Client, Rig, fetch_of_orders, living, run
from tests.server.testkit.members import connect, until_taken


async def read(rig: Rig, **fields: Any) -> list[Any]:
    found: list[Any] = (await rig.call("GET", "/v1/records/orders", fields or None))["records"]
    return found


async def append(rig: Rig, records: Any) -> Any:
    return await rig.call("POST", "/v1/records/orders", records)


def test_what_is_appended_is_read_as_it_was_sent() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders", {"partitions": 2})
            sent = {"key": "k", "value": {"base64": "/w=="}, "headers": [["h", "v"], ["h", None]], "timestamp": 5, "partition": 1}
            assert await append(rig, sent) == {"partition": 1, "offset": 0, "timestamp": 5}
            found = await read(rig)
            assert [(each["partition"], each["offset"], each["timestamp"], each["timestamp_type"]) for each in found] == [
                (1, 0, 5, "CreateTime")
            ]
            assert {name: found[0][name] for name in ("key", "value", "headers", "control")} == {
                "key": "k",
                "value": {"base64": "/w=="},
                "headers": [["h", "v"], ["h", None]],
                "control": None,
            }

    run(scenario)


def test_a_list_is_placed_by_keys_and_answered_in_its_order() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders", {"partitions": 3})
            sent = [{"key": "k"}, {"value": "first"}, {"key": "k", "value": "v"}, {"value": "p", "partition": 1}]
            placed = await append(rig, sent)
            assert [(each["partition"], each["offset"]) for each in placed] == [(2, 0), (0, 0), (2, 1), (1, 0)]
            assert [each["value"] for each in await read(rig)] == ["first", "p", None, "v"]
            assert [each["value"] for each in await read(rig, partition=2)] == [None, "v"]
            assert [each["offset"] for each in await read(rig, **{"from": 1})] == [1]
            assert await rig.call("GET", "/v1/records/orders", {"limit": 4}) == {"records": await read(rig), "more": False}
            assert (await rig.call("GET", "/v1/records/orders", {"limit": 3}))["more"]

    run(scenario)


def test_many_records_are_as_many_batches_as_the_topic_needs() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders", {"configs": {"max.message.bytes": 1000}})
            placed = await append(rig, [{"value": "v" * 200}] * 20)
            assert [each["offset"] for each in placed] == list(range(20))
            with pytest.raises(Refused, match=r"^orders-0 does not take the records: MESSAGE_TOO_LARGE"):
                await append(rig, {"value": "v" * 2000})

    run(scenario)


def test_the_log_notes_when_it_appends_where_the_topic_says_so() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders", {"configs": {"message.timestamp.type": "LogAppendTime"}})
            now_ms = (await rig.call("POST", "/v1/clock/freeze"))["now_ms"]
            assert (await append(rig, {"value": "v", "timestamp": 1}))["timestamp"] == now_ms
            found = await read(rig)
            assert (found[0]["timestamp"], found[0]["timestamp_type"]) == (now_ms, "LogAppendTime")

    run(scenario)


def test_a_fetch_that_waits_is_answered() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            client = await Client("app").connect(rig.port)
            fetching = await rig.park_fetch(client, fetch_of_orders())
            await append(rig, {"value": "wakes"})
            assert b"wakes" in bytes((await fetching).responses[0].partitions[0].records)
            await client.close()

    run(scenario)


def test_markers_are_named_and_aborted_records_are_read_only_uncommitted() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            client = await connect(rig, "app", "t-1", 1)
            producer = await begin(client, "t-1")
            await rig.produce("orders", value=b"gone", producer=(producer.producer_id, producer.producer_epoch, 0))
            await end(client, "t-1", producer, commit=False)
            await append(rig, {"value": "kept"})
            found = await read(rig)
            assert [(each["value"], each["control"]) for each in found] == [("gone", None), (None, "ABORT"), ("kept", None)]
            assert (found[0]["producer_id"], found[0]["transactional"]) == (producer.producer_id, False)
            await client.close()

    run(scenario)


def test_what_a_transaction_wrote_is_committed_with_it() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            client = await connect(rig, "app", "t-1", 1)
            for number, commit in enumerate((False, True)):
                producer = await begin(client, "t-1")
                await produce_in(rig, producer, f"{number}".encode())
                await end(client, "t-1", producer, commit=commit)
            producer = await begin(client, "t-1")
            await produce_in(rig, producer, b"open")
            assert [each["value"] for each in await read(rig, isolation="read_committed")] == ["1"]
            assert [each["control"] for each in await read(rig)] == [None, "ABORT", None, "COMMIT", None]
            await client.close()

    async def produce_in(rig: Rig, producer: Any, value: bytes) -> None:
        """Appends a batch of the transaction to the log."""
        replica = rig.replica("orders")
        replica.append(batch(value=value, producer=(producer.producer_id, producer.producer_epoch, 0), transactional=True))

    run(scenario)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ({"value": 7}, 'value must be a text, {"base64": "..."} or null, not 7'),
        ({"value": {"base64": "?"}}, "value.base64: "),
        ({"value": "\ud800"}, "value has half of a surrogate pair"),
        ({"valu": "v"}, "valu is no field here; did you mean value?"),
        ({"partition": 1}, "partition: orders has 1 partitions, 0 to 0, and no 1"),
        ({"headers": "h"}, "headers must be an object, or a list of names and values, not 'h'"),
        ({"headers": ["h"]}, "headers: each must be a name and a value, not 'h'"),
        ({"headers": {"h": 1}}, "headers.h must be a text"),
        ({"timestamp": -1}, "timestamp must be between 0 and"),
        ([{"value": "v"}, "v"], "the body must be an object, not 'v'"),
    ],
)
def test_what_is_wrong_with_a_record_is_said_and_nothing_is_appended(sent: Any, told: str) -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            with pytest.raises(Refused) as refused:
                await append(rig, sent)
            assert str(refused.value).startswith(told)
            assert refused.value.status == 400
            assert await read(rig) == []

    run(scenario)


def test_what_is_wrong_with_a_reading_is_said() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            with pytest.raises(Refused, match=r"^isolation: there is no 'committed'; did you mean read_committed\?"):
                await read(rig, isolation="committed")
            with pytest.raises(Refused, match=r"^partition: orders has 1 partitions, and no 3"):
                await read(rig, partition=3)
            client = await connect(rig, "app", "t-1", 1)
            await until_taken(client, init_producer_id, 2, init_producer_id.InitProducerIdRequest("t-1", 1000))
            with pytest.raises(Refused, match=r"^__transaction_state-0 does not take the records: INVALID_TOPIC_EXCEPTION"):
                await rig.call("POST", "/v1/records/__transaction_state", {"value": "v", "partition": 0})
            await client.close()

    run(scenario)

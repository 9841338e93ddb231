"""Topics, transactions, connections and producers, as a test sees them."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.testkit.fields import Refused
from ottla.server.testkit.parked import Parked
from ottla.wire.messages import add_partitions_to_txn, end_txn, fetch, init_producer_id
from tests.server.testkit.lives_rig import Client, Rig, fetch_of_orders, living, run
from tests.server.testkit.members import connect, until_taken


async def begin(client: Client, transactional_id: str) -> Any:
    """Begins a transaction in partition 0 of `orders`; its producer."""
    producer = await until_taken(client, init_producer_id, 2, init_producer_id.InitProducerIdRequest(transactional_id, 900_000))
    body = add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic("orders", [0])],
    )
    await client.ask(add_partitions_to_txn, 3, body)
    return producer


async def end(client: Client, transactional_id: str, producer: Any, *, commit: bool = True) -> None:
    body = end_txn.EndTxnRequest(transactional_id, producer.producer_id, producer.producer_epoch, commit)
    assert (await client.ask(end_txn, 1, body)).error_code == 0


async def look(rig: Rig, path: str, **fields: Any) -> Any:
    return await rig.call("GET", path, fields or None)


def test_a_topic_has_settings_and_offsets() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders", {"partitions": 2, "configs": {"retention.ms": 1000}})
            await rig.call("POST", "/v1/records/orders", [{"value": "a"}, {"value": "b"}])
            topic = await look(rig, "/v1/topics/orders")
            assert (topic["records"], topic["configs"], topic["internal"]) == (2, {"retention.ms": "1000"}, False)
            first = topic["partitions"][0]
            assert (first["start_offset"], first["end_offset"], first["last_stable_offset"], first["leader"]) == (0, 2, 2, 1)
            assert len(topic["topic_id"]) == 22
            await rig.call("PUT", "/v1/topics/audit")
            listed = await look(rig, "/v1/topics", limit=1)
            assert listed["topics"] == [{"topic": "audit", "partitions": 1, "records": 0, "internal": False}]
            assert listed["left_off"] == 1
            for method, path in (("GET", "/v1/topics/order"), ("DELETE", "/v1/topics/order"), ("GET", "/v1/records/order")):
                with pytest.raises(Refused, match=r"^there is no topic 'order'; did you mean orders\?$") as refused:
                    await rig.call(method, path)
                assert refused.value.status == 404
            await rig.call("DELETE", "/v1/topics/orders")
            assert await rig.topics() == ["audit"]
            await rig.call("PUT", "/v1/topics/orders")
            assert (await look(rig, "/v1/topics/orders"))["records"] == 0

    run(scenario)


def test_a_transaction_is_seen_from_its_begin_to_its_end() -> None:
    async def scenario() -> None:
        async with living() as rig:
            assert (await look(rig, "/v1/transactions"))["transactions"] == []
            await rig.call("PUT", "/v1/topics/orders")
            client = await connect(rig, "app", "t-1", 1)
            await rig.call("POST", "/v1/clock/freeze")
            producer = await begin(client, "t-1")
            found = await look(rig, "/v1/transactions/t-1")
            assert (found["state"], found["producer_id"]) == ("Ongoing", producer.producer_id)
            assert found["partitions"] == [{"topic": "orders", "partition": 0}]
            assert found["times_out_in_ms"] == 900_000
            await end(client, "t-1", producer)
            found = (await look(rig, "/v1/transactions"))["transactions"][0]
            assert (found["state"], found["times_out_in_ms"], found["partitions"]) == ("CompleteCommit", None, [])
            with pytest.raises(Refused, match=r"^there is no transactional id 't'; there are t-1$") as refused:
                await look(rig, "/v1/transactions/t")
            assert refused.value.status == 404
            await client.close()

    run(scenario)


def test_partitions_remember_their_producers() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            await rig.call("PUT", "/v1/topics/audit")
            await rig.produce("orders", count=3, producer=(7, 1, 0))
            await rig.produce("audit", producer=(8, 0, 0))
            found = (await look(rig, "/v1/producers", topic="orders"))["producers"]
            assert [(each["producer_id"], each["producer_epoch"], each["last_sequence"]) for each in found] == [(7, 1, 2)]
            assert found[0]["transaction_start_offset"] is None
            assert [each["topic"] for each in (await look(rig, "/v1/producers"))["producers"]] == ["audit", "orders"]
            with pytest.raises(Refused, match=r"did you mean orders\?"):
                await look(rig, "/v1/producers", topic="order")

    run(scenario)


def test_a_connection_shows_what_waits_and_how_long_it_is_muted() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders")
            client = await Client("app-1").connect(rig.port)
            fetching = await rig.park_fetch(client, fetch_of_orders())
            found = (await look(rig, "/v1/connections"))["connections"][0]
            assert (found["client_id"], found["host"], found["listener"]) == ("app-1", "127.0.0.1", "PLAINTEXT")
            assert (found["parked"]["api"], found["muted_for_ms"]) == ("Fetch", None)
            (session,) = (connection.session for connection in rig.kit.broker.listeners[0].connections)
            parked = rig.kit.parked.get(session)
            assert isinstance(parked, Parked)
            assert parked.request.client_id == "app-1"
            await rig.call("POST", "/v1/records/orders", {"value": "one"})
            assert (await fetching).responses[0].partitions[0].records
            assert (await look(rig, "/v1/connections"))["connections"][0]["parked"] is None
            await rig.call("POST", "/v1/clock/freeze")
            await rig.call("POST", "/v1/faults", {"on": {"api": "Fetch"}, "do": {"throttle_ms": 60_000}})
            await client.ask(fetch, 4, fetch_of_orders())
            assert (await look(rig, "/v1/connections"))["connections"][0]["muted_for_ms"] == 60_000
            await client.close()
            await rig.call("POST", "/v1/clock/advance", {"ms": 60_000})  # nobody reads that the client has gone before
            await rig.wait(connections=0)
            assert (await look(rig, "/v1/connections"))["connections"] == []

    run(scenario)


def test_the_state_is_all_of_it_in_short() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("PUT", "/v1/topics/orders", {"partitions": 2})
            await rig.call("POST", "/v1/clock/freeze")
            await rig.call("POST", "/v1/faults", {"do": {"observe": True}})
            client = await connect(rig, "app", "t-1", 1)
            await begin(client, "t-1")
            state = await look(rig, "/v1/state")
            assert (state["node_id"], state["clock"]["frozen"], state["faults"], state["left_off"]) == (1, True, 1, 0)
            assert [each["topic"] for each in state["topics"]] == ["__transaction_state", "orders"]
            assert state["transactions"] == [{"transactional_id": "t-1", "state": "Ongoing"}]
            assert state["connections"] == [{"client_id": "app"}]
            assert state["groups"] == []
            assert (await look(rig, "/v1/state", limit=1))["left_off"] == 1
            await client.close()

    run(scenario)

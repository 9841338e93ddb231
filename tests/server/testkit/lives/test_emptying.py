"""A reset by which no connection is lost: what is gone, and what members of groups learn."""

from __future__ import annotations

import pytest

from ottla.server.testkit.fields import Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import (
    heartbeat,
    init_producer_id,
    join_group,
    list_groups,
    list_transactions,
    metadata,
)
from tests.server.testkit.lives_rig import Client, living, run
from tests.server.testkit.members import until_coordinated, until_taken

PROTOCOLS = [join_group.JoinGroupRequestProtocol("range", b"")]


async def join(client: Client, member_id: str = "") -> join_group.JoinGroupResponse:
    body = join_group.JoinGroupRequest("billing", 10_000, 10_000, member_id, None, "consumer", PROTOCOLS)
    answer: join_group.JoinGroupResponse = await client.ask(join_group, 3, body)
    return answer


def test_everything_is_gone_and_the_connection_is_not() -> None:
    async def scenario() -> None:
        async with living() as rig:
            client = await Client("app").connect(rig.port)
            await rig.call("PUT", "/v1/topics/orders", {"partitions": 3})
            await rig.produce("orders", count=3)
            for key, kind in (("billing", 0), ("t", 1)):
                await until_coordinated(client, key, kind)
            member_id = (await join(client)).member_id
            assert member_id
            begin = init_producer_id.InitProducerIdRequest("t", 60_000)
            assert (await until_taken(client, init_producer_id, 1, begin)).error_code == ErrorCode.NONE
            broker = rig.lives.broker

            await rig.call("POST", "/v1/disk", {"fail": "enospc", "path": "other-*"})
            await rig.call("POST", "/v1/reset", {"connections": "keep"})
            assert rig.lives.broker is broker
            assert await rig.call("GET", "/v1/disk") == []
            assert (await client.ask(metadata, 5, metadata.MetadataRequest(topics=None))).topics == []
            assert (await client.ask(list_groups, 2, list_groups.ListGroupsRequest())).groups == []
            listed = await client.ask(list_transactions, 0, list_transactions.ListTransactionsRequest())
            assert listed.transaction_states == []

            beat = heartbeat.HeartbeatRequest("billing", 1, member_id)
            assert (await client.ask(heartbeat, 2, beat)).error_code in (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            )
            await until_coordinated(client, "billing")
            assert (await client.ask(heartbeat, 2, beat)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            assert (await join(client)).error_code == ErrorCode.NONE
            await rig.call("PUT", "/v1/topics/orders", {"partitions": 1})
            assert await rig.produce("orders") == 0
            await client.close()

    run(scenario)


def test_an_empty_broker_can_be_emptied_and_a_wrong_word_is_refused() -> None:
    async def scenario() -> None:
        async with living() as rig:
            await rig.call("POST", "/v1/reset", {"connections": "keep"})
            with pytest.raises(Refused, match="connections: there is no 'kept'; did you mean keep"):
                await rig.call("POST", "/v1/reset", {"connections": "kept"})

    run(scenario)

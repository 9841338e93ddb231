"""Tests of what a test may not ask of the nodes of a simulated cluster."""

from __future__ import annotations

import pytest

from ottla.server.testkit.fields import Refused
from tests.server.testkit.lives_rig import living, run
from tests.server.testkit.nodes_rig import refused, three


def test_what_cannot_be_is_refused_by_name() -> None:
    async def scenario() -> None:
        async with three(default_replication_factor="1") as rig:
            await rig.create("orders", leader=2)
            path = "/v1/partitions/orders/0"
            assert await refused(rig, "POST", path, {"leader": 9}) == (404, "there is no node 9; there are 1, 2, 3")
            assert (await refused(rig, "POST", path, {"isr": []}))[0] == 400
            assert "no replica" in (await refused(rig, "POST", path, {"isr": [1, 2]}))[1]
            assert "leader or isr" in (await refused(rig, "POST", path))[1]
            assert (await refused(rig, "POST", "/v1/partitions/none/0", {"leader": 1}))[0] == 404
            assert (await refused(rig, "POST", "/v1/partitions/orders/x", {"leader": 1}))[0] == 404
            assert (await refused(rig, "POST", f"/v1/partitions/orders/{'1' * 5000}", {"leader": 1}))[0] == 404
            assert (await refused(rig, "GET", f"/v1/nodes/{'1' * 5000}"))[0] == 404
            await rig.node(3, state="down")
            assert await refused(rig, "POST", path, {"leader": 3}) == (409, "leader: node 3 is not up, so it cannot lead")
            assert "did you mean down" in (await refused(rig, "POST", "/v1/nodes/3", {"state": "dwn"}))[1]
            assert (await refused(rig, "DELETE", "/v1/nodes/1"))[0] == 409

    run(scenario)


def test_one_broker_has_no_nodes_to_move() -> None:
    async def scenario() -> None:
        async with living() as rig:
            for method, path, body in (("GET", "/v1/nodes", None), ("POST", "/v1/partitions/orders/0", {"leader": 1})):
                with pytest.raises(Refused, match="start it with nodes=3") as caught:
                    await rig.call(method, path, body)
                assert caught.value.status == 409
            state = await rig.call("GET", "/v1/state")
            assert (state["simulated"], state["nodes"]) == (False, [1])

    run(scenario)


def test_there_are_not_more_nodes_than_the_setting_allows() -> None:
    async def scenario() -> None:
        async with three(ottla_test_nodes="100") as rig:
            assert await refused(rig, "POST", "/v1/nodes") == (409, "a broker simulates 100 nodes at most; remove one first")
            await rig.call("DELETE", "/v1/nodes/2")
            assert (await rig.call("POST", "/v1/nodes"))["id"] == 101

    run(scenario)

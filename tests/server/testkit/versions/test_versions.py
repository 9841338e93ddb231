"""The versions that a broker pretends to serve: what it tells, what it refuses, and what a test may not ask for."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.base.errors import CloseConnection
from ottla.server.testkit.fields import Refused
from ottla.server.testkit.versions.kafka_releases import RELEASES
from ottla.server.testkit.versions.versions import Versions
from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import api_versions, list_groups, metadata
from tests.server.testkit.lives_rig import Client, living, run
from tests.server.testkit.under_test import UnderTest, frame_of, under_test

ASKS = api_versions.ApiVersionsRequest("app", "1")


async def told(tested: UnderTest, version: int = 3) -> api_versions.ApiVersionsResponse:
    """Returns what ApiVersions says through the kit's own layer."""
    answer = serve(tested, api_versions, version, ASKS)
    response: api_versions.ApiVersionsResponse = api_versions.DECODE_RESPONSE[version](answer, 8)[0]
    return response


def serve(tested: UnderTest, module: Any, version: int, request: Any) -> bytes:
    """The frame of an answer, from the outermost layer."""
    answer = tested.kit._frames[0].serve(frame_of(module, version, request, "app"), tested.session)
    assert isinstance(answer, bytes)
    return answer


def ranges(answer: api_versions.ApiVersionsResponse) -> dict[str, tuple[int, int]]:
    return {APIS[each.api_key].name: (each.min_version, each.max_version) for each in answer.api_keys}


def test_what_is_told_is_narrowed_and_what_is_outside_closes_the_connection() -> None:
    async def scenario() -> None:
        async with under_test() as tested:
            before = ranges(await told(tested))
            tested.call("POST", "/v1/versions", {"Metadata": [1, 5], "ListGroups": None})
            now = ranges(await told(tested))
            assert now == {name: found for name, found in before.items() if name != "ListGroups"} | {"Metadata": (1, 5)}
            assert serve(tested, metadata, 5, metadata.MetadataRequest([]))
            for module, version, request in (
                (metadata, 6, metadata.MetadataRequest([])),
                (metadata, 0, metadata.MetadataRequest([])),
                (list_groups, 2, list_groups.ListGroupsRequest()),
            ):
                with pytest.raises(CloseConnection, match="a test pretends that this is not served"):
                    serve(tested, module, version, request)
            tested.call("DELETE", "/v1/versions")
            assert ranges(await told(tested)) == before
            assert serve(tested, list_groups, 2, list_groups.ListGroupsRequest())

    run(scenario)


def test_api_versions_that_is_too_new_is_answered_so_that_a_client_can_step_down() -> None:
    async def scenario() -> None:
        async with under_test() as tested:
            tested.call("POST", "/v1/versions", {"ApiVersions": [0, 2]})
            frame = serve(tested, api_versions, 3, ASKS)
            assert int.from_bytes(frame[:4], "big") == len(frame) - 4
            answer = api_versions.DECODE_RESPONSE[0](frame, 8)[0]
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert ranges(answer) == {"ApiVersions": (0, 2)}
            assert "Produce" in ranges(await told(tested, 2))

    run(scenario)


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_has_what_it_had_and_we_have(name: str) -> None:
    async def scenario() -> None:
        async with under_test() as tested:
            own = ranges(await told(tested))
            tested.call("POST", "/v1/versions", {"as": name})
            answer = await told(tested)
            now = ranges(answer)
            release = RELEASES[name].ranges
            assert {"Produce", "Fetch", "Metadata", "ApiVersions", "JoinGroup"} <= now.keys()
            assert now.keys() == {APIS[key].name for key in release if key in APIS} & own.keys()
            keys = {api.name: key for key, api in APIS.items()}
            for api, (low, high) in now.items():
                assert high == min(own[api][1], release[keys[api]][1])
                assert low in (own[api][0], release[keys[api]][0])
            for each in answer.finalized_features:
                assert each.max_version_level <= RELEASES[name].levels[each.name]

    run(scenario)


def test_the_first_transaction_protocol_goes_with_the_requests_that_have_no_other() -> None:
    async def scenario() -> None:
        async with under_test() as tested:
            levels = {each.name: each.max_version_level for each in (await told(tested)).finalized_features}
            assert levels["transaction.version"] == 2
            for narrowed in ({"Produce": [3, 11]}, {"EndTxn": [0, 4]}, {"EndTxn": None}):
                tested.call("POST", "/v1/versions", narrowed)
                found = {each.name: each.max_version_level for each in (await told(tested)).finalized_features}
                assert found == levels | {"transaction.version": 1}
            tested.call("POST", "/v1/versions", {"Produce": [3, 12]})
            assert {each.name: each.max_version_level for each in (await told(tested)).finalized_features} == levels

    run(scenario)


def test_single_apis_are_narrowed_further_than_their_release() -> None:
    described = Versions({"as": "3.5", "Produce": [3, 5], "Fetch": None}).describe()
    assert described["as"] == "3.5"
    assert described["versions"]["Produce"] == [3, 5]
    assert described["versions"]["Fetch"] is None
    assert described["versions"]["ConsumerGroupHeartbeat"] is None
    assert described["versions"]["JoinGroup"] == [0, 9]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({"as": "3.6"}, r"as: there are the releases 3\.3, .*, not '3.6'"),
        ({"as": 3.5}, "as: there are the releases"),
        ({"Prodce": [3, 9]}, "there is no API 'Prodce'; did you mean Produce?"),
        ({"Produce": [3, 99]}, "Produce: v3 to v13 are served, and that can only be narrowed"),
        ({"Produce": [0, 9]}, "can only be narrowed"),
        ({"Produce": [9, 3]}, "the lowest and the highest version, such as"),
        ({"Produce": 9}, "Produce must be null, or"),
        ({"Produce": [3, True]}, "Produce must be null, or"),
        ({"Produce": [3, 4, 5]}, "Produce must be null, or"),
        ({"ApiVersions": None}, "every broker serves it"),
        ({"ApiVersions": [1, 3]}, "every broker serves it"),
    ],
)
def test_what_is_refused(sent: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Versions(sent)


def test_what_is_pretended_outlasts_a_restart_and_ends_with_a_reset_unless_it_is_kept() -> None:
    async def scenario() -> None:
        async with living() as rig:

            async def found() -> int:
                client = await Client("app").connect(rig.port)
                answer = await client.ask(api_versions, 3, ASKS)
                await client.close()
                return ranges(answer)["Produce"][1]

            await rig.call("POST", "/v1/versions", {"Produce": [3, 7]})
            assert await found() == 7
            await rig.call("POST", "/v1/restart", {"how": "kill"})
            assert await found() == 7
            await rig.call("POST", "/v1/reset", {"keep": ["versions"]})
            assert await found() == 7
            await rig.call("POST", "/v1/reset", {"connections": "keep"})
            assert await found() == 13
            assert (await rig.call("GET", "/v1/versions"))["versions"]["Produce"] == [3, 13]

    run(scenario)

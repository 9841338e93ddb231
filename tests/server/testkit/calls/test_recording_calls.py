"""The calls about recorded requests: what they take, answer and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.testkit.fields import Refused
from ottla.wire.messages import list_groups, metadata
from tests.in_loop import in_loop
from tests.server.testkit.under_test import UnderTest, frame_of, under_test


def serve(tested: UnderTest, *client_ids: str) -> None:
    for client_id in client_ids:
        frame = frame_of(metadata, 12, metadata.MetadataRequest([]), client_id)
        tested.kit._frames[0].serve(memoryview(frame), tested.session)


def numbers(tested: UnderTest, **given: Any) -> list[int]:
    """The requests that are answered; what is given goes as a query if it is nothing but texts, and else as a body."""
    is_query = all(isinstance(value, str) for value in given.values())
    found = tested.call("GET", "/v1/requests", query=given) if is_query else tested.call("GET", "/v1/requests", given)
    return [each["seq"] for each in found]


@in_loop
async def test_the_recording_is_described() -> None:
    async with under_test() as tested:
        nothing = {"max": 0, "records": False, "requests": 0, "bytes": 0, "last_seq": 0}
        assert tested.call("GET", "/v1/recording") == nothing
        assert tested.call("POST", "/v1/recording", {}) == {**nothing, "max": 10_000}
        assert tested.call("POST", "/v1/recording", {"records": True, "max": 2}) == {**nothing, "max": 2, "records": True}
        serve(tested, "a", "b", "c")
        described = tested.call("GET", "/v1/recording")
        assert described.pop("bytes") > 1000
        assert described == {"max": 2, "records": True, "requests": 2, "last_seq": 3}
        assert tested.call("DELETE", "/v1/requests") == {"forgotten": 2}
        assert tested.call("GET", "/v1/requests") == []


@in_loop
async def test_which_requests_are_answered() -> None:
    async with under_test() as tested:
        tested.call("POST", "/v1/recording", {})
        serve(tested, "a", "b", "a", "b", "a")
        assert numbers(tested) == [1, 2, 3, 4, 5]
        assert numbers(tested, client_id="a") == [1, 3, 5]
        assert numbers(tested, client_id="a", since="1") == [3, 5]
        assert numbers(tested, since=3, limit=1) == [5]
        assert numbers(tested, limit="2") == [4, 5]
        assert numbers(tested, limit=0) == []
        assert numbers(tested, limit=99) == [1, 2, 3, 4, 5]
        tested.call("POST", "/v1/recording", {"max": 0})
        serve(tested, "a")
        assert numbers(tested) == []
        assert [set(each) for each in tested.call("GET", "/v1/requests", {"format": "frames"})] == []


@in_loop
async def test_those_that_a_fault_holds() -> None:
    async with under_test() as tested:
        tested.call("POST", "/v1/recording", {})
        serve(tested, "a")
        assert numbers(tested, held="1") == []
        fault = tested.fault({"api": "ListGroups"}, {"hold": True}, times=2)
        for client_id in ("x", "y"):
            frame = frame_of(list_groups, 2, list_groups.ListGroupsRequest(), client_id)
            tested.kit._frames[0].serve(memoryview(frame), tested.session)
        assert numbers(tested, held="1") == [2, 3]
        assert numbers(tested, held=True, client_id="y") == [3]
        assert numbers(tested, held="0") == [1, 2, 3]
        assert numbers(tested, held=1) == [2, 3]
        assert numbers(tested, held=0) == numbers(tested, held=False) == [1, 2, 3]
        tested.call("POST", f"/v1/faults/{fault['id']}/release")
        assert numbers(tested, held="true") == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"since": "x"}, "since must be a whole number, not 'x'"),
        ({"limit": -1}, "limit must be between 0 and"),
        ({"held": "maybe"}, "held must be 1 or 0, or true or false, not 'maybe'"),
        ({"held": 2}, "held must be 1 or 0, or true or false, not 2"),
        ({"held": [1]}, "held must be 1 or 0, or true or false, not [1]"),
        ({"format": "frame"}, "format: there is no 'frame'; did you mean frames?"),
        ({"apy": "Fetch"}, "apy is no field here; did you mean api?"),
        ({"api": "Fetsh"}, "did you mean Fetch?"),
    ],
)
@in_loop
async def test_what_is_wrong_is_refused(body: dict[str, Any], said: str) -> None:
    async with under_test() as tested:
        tested.call("POST", "/v1/recording", {})
        with pytest.raises(Refused) as refused:
            tested.call("GET", "/v1/requests", body)
        assert said in str(refused.value)


@in_loop
async def test_before_a_recording_there_is_nothing_to_ask() -> None:
    async with under_test() as tested:
        for method in ("GET", "DELETE"):
            with pytest.raises(Refused, match="nothing is recorded yet; begin with") as refused:
                tested.call(method, "/v1/requests")
            assert refused.value.status == 409
        with pytest.raises(Refused, match="max must be between 0 and 1000000"):
            tested.call("POST", "/v1/recording", {"max": -1})
        report = {"last_seq": 0, "last_fault": 0, "faults": [], "requests": []}
        assert tested.call("GET", "/v1/report") == report
        assert not tested.kit.has_faults


@in_loop
async def test_a_report_has_what_came_after_an_earlier_one() -> None:
    async with under_test() as tested:
        tested.call("POST", "/v1/recording", {})
        before = [tested.fault({"api": "Metadata", "client_id": "x"}, {"observe": True}) for _ in range(2)]
        tested.call("DELETE", f"/v1/faults/{before[0]['id']}")
        serve(tested, "x")
        first = tested.call("GET", "/v1/report", {"limit": 10})
        assert (first["last_seq"], first["last_fault"]) == (1, 2)
        assert [fault["id"] for fault in first["faults"]] == ["f1", "f2"]
        assert [request["seq"] for request in first["requests"]] == [1]
        removed = tested.fault({"api": "Metadata"}, {"observe": True})
        serve(tested, "x", "y", "z")
        tested.call("DELETE", f"/v1/faults/{removed['id']}")
        later = tested.call("GET", "/v1/report", query={"since": "1", "since_fault": "2", "limit": "2"})
        assert [(fault["id"], fault["hits"]) for fault in later["faults"]] == [("f2", 2), ("f3", 3)]
        assert [request["seq"] for request in later["requests"]] == [3, 4]

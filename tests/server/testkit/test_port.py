"""The test port: who may use it, and what it says to whom."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import Any

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.base.network import OsNetwork
from ottla.server.dispatch.chain import Place
from ottla.server.testkit.calls.control import CALLS
from ottla.server.testkit.port import TestPort
from ottla.testing import Broker
from ottla.wire.messages import list_groups
from tests.asking import ask
from tests.server.metrics.served import Answer, send
from tests.server.testkit.under_test import under_test

FAULT = {"on": {"api": "ListGroups"}, "do": {"error": "NOT_COORDINATOR"}}


async def call(url: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    text = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    return await send(url, request_of(method, path, text, **headers))


def request_of(method: str, path: str, text: bytes, **headers: str) -> bytes:
    sent = {"Host": "127.0.0.1:1", "Content-Type": "application/json", "Content-Length": str(len(text))}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + text


async def begin(url: str, path: str, body: Any = None) -> asyncio.StreamWriter:
    """Makes a POST whose answer is not read; its connection."""
    host, port = url.rpartition("/")[2].split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(request_of("POST", path, b"" if body is None else json.dumps(body).encode()))
    return writer


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection with a reset."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()


def error_of(answer: Answer) -> str:
    text: str = json.loads(answer.body)["error"]
    return text


def test_the_life_of_a_fault_by_http() -> None:
    async def scenario() -> None:
        async with Broker(test_port=0) as broker:
            url = str(broker.test_url)
            made = await call(url, "POST", "/v1/faults", FAULT)
            assert (made.status, made.fields["content-type"]) == (201, "application/json")
            fault = json.loads(made.body)
            waiting = asyncio.ensure_future(call(url, "POST", f"/v1/faults/{fault['id']}/wait", {"hits": 1}))
            answer = await ask(broker.port, list_groups, 2, list_groups.ListGroupsRequest())
            assert answer.error_code == 16
            assert json.loads((await waiting).body)["hits"] == 1
            assert json.loads((await call(url, "GET", "/v1/faults")).body)[0]["left"] == 0
            assert json.loads((await call(url, "GET", "/v1/faults/f1")).body)["last_hit"]["api"] == "ListGroups"
            assert (await call(url, "DELETE", "/v1/faults/f1")).status == 200
            assert json.loads((await call(url, "GET", "/v1/faults")).body) == []
            state = json.loads((await call(url, "GET", "/v1/state")).body)
            assert state["bootstrap"] == broker.bootstrap

    asyncio.run(scenario())


REFUSED = [
    ("POST", "/v1/faults", FAULT, {"Origin": "http://evil.example"}, 403, "web pages may not"),
    ("GET", "/v1/faults", None, {"Origin": "null"}, 403, "web pages may not"),
    ("GET", "/v1/faults", None, {"Host": "evil.example"}, 421, "is not evil.example; use 127.0.0.1"),
    ("GET", "/v1/faults", None, {"Host": "evil.example:80"}, 421, "is not evil.example"),
    ("POST", "/v1/faults", FAULT, {"Content_Type": "text/plain"}, 415, "must be application/json, not text/plain"),
    ("POST", "/v1/faults", FAULT, {"Content_Type": ""}, 415, "not of no type"),
    ("POST", "/v1/faults", b"{", {}, 400, "the body is not JSON"),
    ("POST", "/v1/faults", b"[" * 100_000, {}, 400, "the body is not JSON"),
    ("POST", "/v1/faults", {"do": {"error": "NON"}}, {}, 400, "did you mean NONE?"),
    ("POST", "/v1/faults", b" " * 2**20 + b"{}", {}, 413, "at most 1048576 bytes"),
    ("PUT", "/v1/faults", FAULT, {}, 405, "is for POST, GET, DELETE, not for PUT"),
    ("PATCH", "/v1/faults", FAULT, {}, 405, "are allowed"),
    ("GET", "/v1/fault", None, {}, 404, "there is no /v1/fault; did you mean /v1/faults?"),
    ("GET", "/v1/faults/f7", None, {}, 404, "there is no fault f7, nor any other"),
    ("POST", "/v1/faults/f7/wait", {}, {}, 404, "there is no fault f7"),
    ("GET", "/v1/state?x=1", None, {}, 400, "x is no field here"),
    ("GET", "/v1/topics?limit=many", None, {}, 400, "limit must be a whole number, not 'many'"),
    ("GET", f"/v1/topics?limit={'[' * 3000}", None, {}, 400, "limit must be a whole number, not '[["),
    ("GET", "/v1/groups/g", None, {}, 404, "there is no group 'g', nor any other"),
    ("POST", "/v1/wait", {"until": {"topic": "t"}, "timeout_ms": 1}, {}, 408, "after 1 ms: there is no topic t, nor any other"),
    ("POST", "/v1/wait", {}, {}, 400, "until is missing; it must be an object"),
]


def test_what_is_refused() -> None:
    async def scenario() -> None:
        async with Broker(test_port=0) as broker:
            for method, path, body, headers, status, said in REFUSED:
                answer = await call(str(broker.test_url), method, path, body, **headers)
                assert (answer.status, said in error_of(answer)) == (status, True), (path, headers, answer)
            assert json.loads((await call(str(broker.test_url), "GET", "/v1/faults", Host="localhost:1")).body) == []
            assert json.loads((await call(str(broker.test_url), "GET", "/v1/faults", Host="[::1]:1")).body) == []

    asyncio.run(scenario())


def test_a_query_may_have_numbers_and_texts_that_look_like_some() -> None:
    async def scenario() -> None:
        async with Broker(test_port=0) as broker:
            url = str(broker.test_url)
            assert (await call(url, "PUT", "/v1/topics/7", {"partitions": 2})).status == 201
            made = await call(url, "POST", "/v1/records/7", [{"value": "a", "partition": 1}, {"value": "b", "partition": 1}])
            assert made.status == 201
            answer = await call(url, "GET", "/v1/records/7?from=1&partition=1&limit=5&isolation=read_committed")
            assert [record["value"] for record in json.loads(answer.body)["records"]] == ["b"]
            assert json.loads((await call(url, "GET", "/v1/producers?topic=7&limit=2")).body) == {"producers": [], "left_off": 0}

    asyncio.run(scenario())


def test_a_client_that_goes_takes_its_wait_with_it() -> None:
    async def scenario() -> None:
        async with Broker(test_port=0) as broker:
            chain: Any = broker._running().chain
            changed = asyncio.Event()
            chain.subscribe(changed.set)
            writer = await begin(str(broker.test_url), "/v1/wait", {"until": {"request": {"api": "ListGroups"}}})
            await changed.wait()
            changed.clear()
            assert Place.WAITS in chain._links
            reset(writer)  # after a mere end it may still read
            await changed.wait()
            assert Place.WAITS not in chain._links

            fault = await broker.aio.fault(api="ListGroups", observe=True)
            assert broker._kit is not None
            installed = broker._kit.faults.get(fault.id)
            writer = await begin(str(broker.test_url), f"/v1/faults/{fault.id}/wait")
            while not installed._waiting:
                await call(str(broker.test_url), "GET", "/v1/faults")
            writer.close()
            while installed._waiting:
                await call(str(broker.test_url), "GET", "/v1/faults")

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_what_changes_something_is_done_even_if_its_client_goes() -> None:
    async def scenario() -> None:
        async with Broker(test_port=0) as broker:
            down = asyncio.Event()
            broker._lives().on_change = down.set
            writer = await begin(str(broker.test_url), "/v1/restart", {"how": "kill", "down_ms": 50})
            await down.wait()
            reset(writer)
            assert (await call(str(broker.test_url), "POST", "/v1/reset", {})).status == 200

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_wait_that_takes_too_long_is_answered_408() -> None:
    async def scenario() -> None:
        async with Broker(test_port=0) as broker:
            await call(str(broker.test_url), "POST", "/v1/faults", FAULT)
            answer = await call(str(broker.test_url), "POST", "/v1/faults/f1/wait", {"timeout_ms": 1})
            assert (answer.status, error_of(answer)) == (
                408,
                "after 1 ms: the fault f1 has 0 of 1 hits, and matched 0 requests",
            )

    asyncio.run(scenario())


def test_others_reach_it_only_with_a_token() -> None:
    with pytest.raises(ConfigError, match=r"^ottla.test.host: others reach the test port at 0.0.0.0; set ottla.test.token"):
        asyncio.run(opened("0.0.0.0", None))

    async def scenario() -> None:
        async with Broker(test_port=0, ottla_test_token="secret", ottla_test_host="0.0.0.0") as broker:
            url = str(broker.test_url).replace("0.0.0.0", "127.0.0.1")
            for token in ("", "Bearer wrong", "secret2", "Bearer säcret"):
                assert (await call(url, "GET", "/v1/faults", Authorization=token)).status == 401
            assert (await call(url, "GET", "/v1/faults", Host="broker:1", Authorization="Bearer secret")).status == 200

    asyncio.run(scenario())


async def opened(host: str, token: str | None, port: int = 0) -> None:
    async with under_test() as test:
        server = TestPort(test.kit, OsNetwork(), host, token)
        await server.open(port)
        server.close()


def test_an_address_that_cannot_be_bound_is_named() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            with pytest.raises(ConfigError, match=rf"^ottla.test.port: 127.0.0.1:{broker.port}: Address already in use; choose"):
                await opened("127.0.0.1", None, broker.port)

    asyncio.run(scenario())


def test_every_call_has_a_path_of_its_own_and_a_name() -> None:
    assert len({(call.method, call.path) for call in CALLS}) == len({call.name for call in CALLS}) == len(CALLS)


def test_names_may_have_any_characters() -> None:
    async def scenario() -> None:
        async with Broker(test_port=0) as broker:
            url = str(broker.test_url)
            half = b'{"on": {"topic": "\\ud800"}, "do": {"observe": true}}'  # of a pair, which UTF-8 does not have
            assert (await call(url, "POST", "/v1/faults", half)).status == 201
            assert json.loads((await call(url, "GET", "/v1/faults")).body)[0]["on"] == {"topic": "\ud800"}
            assert (await call(url, "POST", "/v1/snapshots", {"name": "a/b"})).status == 201
            assert (await call(url, "DELETE", "/v1/snapshots/a%2Fb")).status == 200

    asyncio.run(scenario())


def test_what_no_bytes_stand_for_and_what_is_too_long_is_refused() -> None:
    async def scenario() -> None:
        async with Broker(test_port=0) as broker:
            url = str(broker.test_url)
            half = await call(url, "POST", "/v1/snapshots", {"name": "\ud800"})
            assert (half.status, error_of(half)) == (400, "name has half of a surrogate pair, which no bytes stand for")
            for path, body in (
                ("/v1/faults", {"on": {"topic": "[!" * 10_000}, "do": {"observe": True}}),
                ("/v1/disk", {"fail": "eio", "path": "[!" * 1000}),
                ("/v1/disk", {"fail": "eio", "operations": [[1]]}),
                ("/v1/records/orders", {"key": {"base64": "é"}}),
            ):
                assert (await call(url, "POST", path, body)).status in (400, 404)

    asyncio.run(scenario())

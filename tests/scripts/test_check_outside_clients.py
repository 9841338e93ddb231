"""The client libraries of the checker outside (compat_tests/outside/), where they do not say what is wrong, or never return."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import NotCoordinatorForGroupError
from aiokafka.protocol.commit import OffsetFetchRequest, OffsetFetchResponse_v3
from confluent_kafka import KafkaError, KafkaException

from compat_tests.outside import aiokafka_clients, confluent_clients
from compat_tests.outside.clients import Abortable, ClientError, GivenUp, in_time


def system_error(cause: Exception | None) -> SystemError:
    """Returns what Python makes of an exception that was pending when librdkafka called its logger."""
    error = SystemError("<function Logger.log> returned a result with an exception set")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("call", ["commit", "turn"])
def test_what_a_client_of_librdkafka_says_through_its_logger_is_its_error(call: str) -> None:
    sender = object.__new__(confluent_clients._Sender)
    said = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
    fake: Any = SimpleNamespace(flush=raising(system_error(said)), poll=raising(system_error(said)))
    sender._producer = fake
    with pytest.raises(ClientError, match="fenced"):
        getattr(sender, call)(*[0] * (call == "turn"))
    fake.flush = fake.poll = raising(system_error(None))
    with pytest.raises(SystemError):
        getattr(sender, call)(*[0] * (call == "turn"))


def raising(error: Exception) -> Callable[..., None]:
    def call(*given: object) -> None:
        raise error

    return call


def test_a_call_that_does_not_end_is_given_up() -> None:
    ended = threading.Event()
    with pytest.raises(ClientError, match="no end"):
        in_time(ended.wait, 0.01)
    ended.set()
    assert in_time(lambda: 5) == 5
    with pytest.raises(Abortable, match="no"):
        in_time(raising(Abortable("no")))


def test_a_consumer_whose_commit_does_not_end_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, closed = threading.Event(), list[bool]()
    poller = confluent_clients.Confluent().poller("127.0.0.1:1", "g", committed=False)
    consumer: Any = SimpleNamespace(commit=lambda **given: ended.wait() and None, close=lambda: closed.append(True))
    poller._consumer = consumer
    monkeypatch.setattr(confluent_clients, "in_time", partial(in_time, longest_s=0.01))
    with pytest.raises(GivenUp):
        poller.commit({"q-0": 5})
    poller.close()
    assert not closed
    ended.set()
    monkeypatch.undo()
    poller = confluent_clients.Confluent().poller("127.0.0.1:1", "g", committed=False)
    poller._consumer = consumer
    poller.commit({"q-0": 5})
    poller.close()
    assert closed


@pytest.mark.parametrize("code", [0, 16])
def test_aiokafka_looks_at_the_error_of_a_whole_answer(code: int) -> None:
    dead: list[bool] = []
    response = OffsetFetchResponse_v3(0, [], code)

    async def send(request: object) -> object:
        return response

    consumer: Any = SimpleNamespace(_coordinator=SimpleNamespace(_send_req=send, coordinator_dead=lambda: dead.append(True)))
    aiokafka_clients._heed_errors(consumer)
    asked = consumer._coordinator._send_req(OffsetFetchRequest("g", []))
    if code:
        with pytest.raises(NotCoordinatorForGroupError):
            asyncio.run(asked)
    else:
        assert asyncio.run(asked) is response
    assert dead == [True] * (code != 0)
    assert asyncio.run(consumer._coordinator._send_req("another")) is response

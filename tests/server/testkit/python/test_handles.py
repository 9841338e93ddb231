"""Faults as Python objects: from another thread, from the broker's loop, and from another loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ottla.server.base import clock
from ottla.server.testkit.calls import fault_calls
from ottla.server.testkit.fault_fields import ACTIONS, RULES, SELECTORS
from ottla.server.testkit.python.handles import AsyncFault, Fault, fault_body
from ottla.testing import Broker
from ottla.wire.messages import list_groups
from tests.asking import ask


def code_of(broker: Broker) -> int:
    """The error that a client gets who asks in a loop of its own."""
    return int(asyncio.run(asked(broker)))


async def asked(broker: Broker) -> int:
    return int((await ask(broker.port, list_groups, 2, list_groups.ListGroupsRequest())).error_code)


def test_a_fault_is_in_force_while_its_block_lasts() -> None:
    with Broker() as broker:
        with broker.fault(api="ListGroups", error="NOT_COORDINATOR", times=-1) as fault:
            assert code_of(broker) == 16
            fault.wait(1)
            assert (fault.hits, fault.state["left"]) == (1, -1)
            assert "NOT_COORDINATOR" in repr(fault)
        assert code_of(broker) == 0
        with pytest.raises(ValueError, match="there is no fault f1"):
            _ = fault.hits


def test_a_fault_may_be_gone_before_its_block_ends() -> None:
    with Broker() as broker:
        with broker.fault(api="ListGroups", error="NOT_COORDINATOR", times=-1):
            broker.reset()
            assert code_of(broker) == 0

        async def scenario() -> None:
            async with await broker.aio.fault(api="ListGroups", error="NOT_COORDINATOR") as fault:
                await fault.remove()

        asyncio.run(scenario())


def test_what_is_wrong_is_said_where_it_was_written() -> None:
    with Broker() as broker:
        with pytest.raises(ValueError, match=r"eror is no keyword of a fault; did you mean error\?"):
            broker.fault(api="ListGroups", eror="NOT_COORDINATOR")
        with pytest.raises(ValueError, match="did you mean NOT_COORDINATOR"):
            broker.fault(api="ListGroups", error="NOT_COORDINATR")
        fault = broker.fault(api="ListGroups", error="NOT_COORDINATOR")
        with pytest.raises(TimeoutError, match="has 0 of 2 hits"):
            fault.wait(2, timeout=0.01)
    with pytest.raises(RuntimeError, match="is not running"):
        broker.fault(observe=True)


def test_a_held_request_is_released_from_another_thread() -> None:
    with Broker() as broker:
        fault = broker.fault(api="ListGroups", hold=True)
        answers: list[int] = []
        client = threading.Thread(target=lambda: answers.append(code_of(broker)))
        client.start()
        fault.wait()
        assert answers == []
        assert fault.release() == 1
        client.join()
        assert answers == [0]


def test_in_the_loop_of_the_broker_calls_are_made_at_once_or_awaited() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            fault = broker.fault(api="ListGroups", hold=True)
            with pytest.raises(RuntimeError, match="await it"):
                fault.wait()
            fault.remove()
            async with await broker.aio.fault(api="ListGroups", hold=True) as held:
                answer = asyncio.ensure_future(asked(broker))
                await held.wait()
                assert (await held.state())["held"] == 1
                assert await held.release() == 1
                assert await answer == 0
                with pytest.raises(TimeoutError):
                    await held.wait(2, timeout=0.01)

    asyncio.run(scenario())


def test_another_loop_awaits_what_is_done_in_the_thread_of_the_broker() -> None:
    async def scenario(broker: Broker) -> None:
        async with await broker.aio.fault(api="ListGroups", error="NOT_COORDINATOR") as fault:
            assert await asked(broker) == 16
            await fault.wait()

    with Broker() as broker:
        asyncio.run(scenario(broker))


@pytest.mark.parametrize("awaited", [False, True])
def test_who_waits_when_it_is_stopped_is_told_so(awaited: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    failures: list[BaseException] = []

    async def wait_at_most(*arguments: Any) -> bool:
        begun.set()
        return await clock.wait_at_most(*arguments)

    def wait(fault: Fault) -> None:
        try:
            if awaited:
                asyncio.run(AsyncFault(fault._controls, fault._installed).wait(2, timeout=600))
            else:
                fault.wait(2, timeout=600)
        except BaseException as failure:  # noqa: BLE001 - whatever a test would see
            failures.append(failure)

    monkeypatch.setattr(fault_calls, "wait_at_most", wait_at_most)
    with Broker() as broker:
        waiting = threading.Thread(target=wait, args=(broker.fault(api="ListGroups", hold=True),))
        waiting.start()
        assert begun.wait(30)
    waiting.join()
    assert [str(failure) for failure in failures] == ["the broker was stopped while the call waited"]
    assert isinstance(failures[0], RuntimeError)


def test_who_gives_up_a_call_is_cancelled() -> None:
    async def scenario(fault: Fault) -> None:
        waiting = asyncio.ensure_future(AsyncFault(fault._controls, fault._installed).wait(2, timeout=600))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    with Broker() as broker:
        asyncio.run(scenario(broker.fault(api="ListGroups", hold=True)))


def test_keywords_are_the_fields_of_http() -> None:
    assert fault_body({"api": "Fetch", "delay_ms": 1, "times": 2}) == {"on": {"api": "Fetch"}, "do": {"delay_ms": 1}, "times": 2}
    assert len({*SELECTORS, *ACTIONS, *RULES}) == len(SELECTORS) + len(ACTIONS) + len(RULES)
    assert fault_calls.MOST_WAIT_MS > 0


def test_brokers_of_the_same_seed_have_the_same_chances() -> None:
    def chances(seed: int | None) -> tuple[str, list[int]]:
        with Broker(seed=seed) as broker, broker.fault(api="ListGroups", error="NOT_COORDINATOR", times=-1, probability=0.5):
            return broker.cluster_id, [code_of(broker) for _ in range(12)]

    assert chances(3) == chances(3)
    assert chances(3) != chances(4)
    assert chances(None)[0] != chances(None)[0]

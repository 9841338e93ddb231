"""Tests of who has not got on after all was repaired, what is borne with, clients of aiokafka that end with an error of their
own, and a Kafka that ends.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from compat_tests.outside.aiokafka_clients import _close, _Loop
from compat_tests.outside.clients import GivenUp
from compat_tests.outside.late import behind
from compat_tests.outside.outcome import Outcome
from compat_tests.outside.transactions import Transactions
from compat_tests.outside.workers import Place, SharedRecorder
from compat_tests.reference.kafka import RealKafka
from tests.scripts.test_check_outside import FakeClient, FakeLibrary


def test_of_two_that_fence_each_other_one_has_to_get_on() -> None:
    class Client:
        """A worker as far as it is looked at."""

        wrong = None

        def __init__(self, done: int, contested: str | None) -> None:
            self.done, self.contested = done, contested

    def client(done: int, contested: str | None = None) -> Any:
        return Client(done, contested)

    alone, other, quick, slow = client(3, "a"), client(2, "b"), client(9, "shared"), client(0, "shared")
    reader = client(0)
    workers = [alone, other, quick, slow, reader]
    wanted = dict.fromkeys(workers, 3)
    assert behind(workers, wanted) == ([other, reader], [slow])
    quick.done = 2
    assert behind(workers, wanted) == ([other, quick, slow, reader], [])


def test_calls_that_were_given_up_are_counted() -> None:
    place = Place("nowhere:1", 1, SharedRecorder(), ["q-0", "t-0"], ["q-0"])

    class Closing(FakeClient):
        def close(self) -> None:
            super().close()
            if self.calls.count("close") == 2:
                place.stop.set()

    client = Closing({"init": [GivenUp("?"), None], "begin": [GivenUp("?")]})
    worker = Transactions(place, FakeLibrary(client), "t")
    worker._run()
    assert (worker.given_up, worker.replaced, worker.wrong) == (2, 1, None)


def test_what_is_borne_with_is_in_the_line_of_a_run() -> None:
    borne_with = ("confluent sends does not end", "2 calls given up")
    text = str(Outcome(3, [], [], Counter(), Counter(), 1, 0, 4, 1, borne_with))
    assert ", 4 clients replaced, confluent sends does not end, 2 calls given up; 0 sends" in text


def test_a_client_whose_own_task_was_cancelled_can_be_closed() -> None:
    loop = _Loop()

    async def stop() -> None:
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task

    _close(loop, stop)


def test_a_jvm_that_stops_in_order_has_no_error(tmp_path: Path) -> None:
    for code, told in ((143, 0), (0, 0), (1, 1), (-9, -9)):
        broker = RealKafka(tmp_path, port=1)
        broker.process = cast(Any, SimpleNamespace(send_signal=lambda how: None, wait=lambda timeout, code=code: code))
        assert broker.stop() == told

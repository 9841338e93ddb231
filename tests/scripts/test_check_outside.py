"""The checker outside (compat_tests/outside): what breaks is decided by the seed, and workers record what they know, no more. The
clients are invented here; `scripts/check_outside.py` has real ones.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compat_tests.anomalies.checker import check
from compat_tests.anomalies.history import Key, Operation, operations
from compat_tests.anomalies.records import Anomaly
from compat_tests.cluster.networks import TO
from compat_tests.outside.breaking import Breaking
from compat_tests.outside.clients import PATIENCE_S, Abortable, ClientError, Committed, Sent, decode, encode, place_of
from compat_tests.outside.clocks import Clocks
from compat_tests.outside.faults import FURTHEST_S, KINDS, LONGEST_OF_CLUSTERS_S, LONGEST_S, OF_CLUSTERS, Fault, plan
from compat_tests.outside.outcome import Outcome
from compat_tests.outside.stages import OneBroker
from compat_tests.outside.transactions import Transactions
from compat_tests.outside.workers import Place, Queue, Reading, Register, SharedRecorder
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.rooms import Room

# What breaks, and when


def test_a_seed_decides_what_breaks() -> None:
    assert plan(7, 100, ["kill", "pause"]) == plan(7, 100, ["pause", "kill"])
    assert plan(7, 100, ["kill", "pause"]) != plan(8, 100, ["kill", "pause"])
    assert plan(7, 100, []) == []


@pytest.mark.parametrize("seed", range(50))
def test_faults_follow_each_other_within_the_time_and_all_kinds_come_up(seed: int) -> None:
    planned = plan(seed, 100, KINDS)
    assert {fault.kind for fault in planned} == set(KINDS)
    assert all(fault.lasts_s <= LONGEST_S[fault.kind] for fault in planned)
    assert all(fault.at_s + fault.lasts_s < after.at_s for fault, after in pairwise(planned))
    assert planned[-1].at_s + planned[-1].lasts_s <= 100
    assert not any(fault.killed for fault in planned if fault.kind != "full")


@pytest.mark.parametrize("seed", range(20))
def test_in_a_cluster_other_faults_befall_one_broker_each(seed: int) -> None:
    planned = plan(seed, 200, OF_CLUSTERS, nodes=3)
    assert {fault.kind for fault in planned} == set(OF_CLUSTERS)
    assert all(fault.lasts_s <= LONGEST_OF_CLUSTERS_S[fault.kind] for fault in planned)
    assert all(fault.at_s + fault.lasts_s < after.at_s for fault, after in pairwise(planned))
    assert {fault.node for each in range(10) for fault in plan(each, 200, OF_CLUSTERS, nodes=3)} == {0, 1, 2}
    assert all((fault.kind == "clock") == (fault.moved_s != 0) for fault in planned)
    assert all(abs(fault.moved_s) <= FURTHEST_S for fault in planned)


def test_some_are_killed_while_their_disk_is_full() -> None:
    assert {fault.killed for seed in range(20) for fault in plan(seed, 100, ["full"])} == {True, False}


def test_there_are_no_other_faults() -> None:
    with pytest.raises(ValueError, match="fire"):
        plan(1, 100, ["kill", "fire"])
    with pytest.raises(ValueError, match="cut"):
        plan(1, 100, ["cut"])
    with pytest.raises(ValueError, match="full"):
        plan(1, 100, ["full"], nodes=3)


def test_no_pause_is_so_long_that_clients_give_up() -> None:
    assert LONGEST_S["pause"] < PATIENCE_S / 2
    assert LONGEST_OF_CLUSTERS_S["pause"] < PATIENCE_S / 2


class Fake(BrokerProcess):
    """A process that does nothing, and may end by itself."""

    kind = "fake"

    def command(self) -> list[str]:
        return [sys.executable, "-c", "import time; time.sleep(1000)"]

    def answers(self) -> bool:
        return True


def test_it_is_broken_as_planned_and_alive_after_it(tmp_path: Path) -> None:
    broker = Fake(tmp_path)
    broker.start()
    try:
        breaking = Breaking(OneBroker(broker))
        breaking.through([Fault(0, "kill", 0), Fault(0.05, "pause", 0.05), Fault(0.1, "kill", 0)], 0.2)
        assert (breaking.broken, breaking.lives, breaking.found) == (Counter(kill=2, pause=1), 3, [])
        assert broker.process is not None
        assert broker.process.poll() is None
    finally:
        broker.kill()


def test_a_broker_that_ends_by_itself_is_an_anomaly_and_is_started_again(tmp_path: Path) -> None:
    broker = Fake(tmp_path)
    broker.start()
    try:
        breaking = Breaking(OneBroker(broker))
        assert broker.process is not None
        broker.process.send_signal(signal.SIGTERM)
        broker.process.wait()
        breaking.through([], 0.01)
        assert [anomaly.name for anomaly in breaking.found] == ["ended"]
        assert (breaking.ended_by_itself, breaking.lives) == (1, 2)
        assert broker.process is not None
        assert broker.process.poll() is None
    finally:
        broker.kill()


class FakeRoom(Room):
    """The first time that it is taken, the broker ends."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.log: list[str] = []
        self._broker = broker

    def take(self) -> None:
        if not self.log:
            assert self._broker.process is not None
            self._broker.process.terminate()
            self._broker.process.wait()
        self.log.append("taken")

    def give_back(self) -> None:
        self.log.append("given back")


def test_what_a_full_disk_ends_is_no_anomaly(tmp_path: Path) -> None:
    broker = Fake(tmp_path)
    room = FakeRoom(broker)
    broker.start()
    try:
        breaking = Breaking(OneBroker(broker, room))
        breaking.through([Fault(0, "full", 0.01), Fault(0.05, "full", 0.01, killed=True)], 0.1)
        assert (breaking.found, breaking.ended_by_itself, breaking.lives) == ([], 1, 3)
        assert room.log == ["taken", "given back"] * 2
    finally:
        broker.kill()


class FakeStage(OneBroker):
    """Two brokers, and networks and clocks that only say what they are asked for."""

    def __init__(self, directory: Path) -> None:
        self.brokers = {7: Fake(directory / "a"), 8: Fake(directory / "b")}
        self.log: list[tuple[object, ...]] = []
        self.networks: Any = SimpleNamespace(cut=self._during("cut"))
        self.clocks: Any = SimpleNamespace(moved=self._during("moved"))

    def _during(self, name: str) -> Callable[..., AbstractContextManager[None]]:
        @contextmanager
        def during(*given: object) -> Iterator[None]:
            self.log.append((name, *given))
            yield
            self.log.append((f"{name} no more",))

        return during


def test_the_broker_that_the_plan_says_is_broken(tmp_path: Path) -> None:
    stage = FakeStage(tmp_path)
    for broker in stage.brokers.values():
        broker.start()
    try:
        first, second = (broker.process for broker in stage.brokers.values())
        breaking = Breaking(stage)
        faults = [Fault(0, "kill", 0, node=1), Fault(0, "cut-to", 0, node=0), Fault(0, "clock", 0, node=1, moved_s=-5)]
        breaking.through(faults, 0.01)
        assert stage.log == [("cut", 7, TO), ("cut no more",), ("moved", 8, -5), ("moved no more",)]
        assert stage.brokers[7].process is first
        assert stage.brokers[8].process is not second
        assert (breaking.lives, breaking.found) == (3, [])
        assert first is not None
        first.terminate()
        first.wait()
        breaking.watch_for(0.01)
        assert [(anomaly.name, anomaly.where) for anomaly in breaking.found] == [("ended", "a")]
        assert breaking.lives == 4
    finally:
        for broker in stage.brokers.values():
            broker.kill()


TELLS_TIMES: str = """
import sys, time
for _ in sys.stdin:
    print(time.time(), time.monotonic(), flush=True)
"""


def test_a_process_is_told_the_wrong_time_of_day_while_its_clock_is_moved(tmp_path: Path) -> None:
    clocks = Clocks(tmp_path, [1, 2])
    command = [*clocks.words(1), sys.executable, "-c", TELLS_TIMES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ahead_s() -> tuple[int, int]:
            """Returns by how much the process's clocks differ from those of this one: of the time of day, and monotonic."""
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("?\n")
            told = [float(word) for word in process.stdout.readline().split()]
            return round((told[0] - time.time()) / 100), round((told[1] - time.monotonic()) / 100)

        assert ahead_s() == (0, 0)
        with clocks.moved(1, 3000):
            assert ahead_s() == (30, 0)
        with clocks.moved(1, -2000), clocks.moved(2, 500):
            assert ahead_s() == (-20, 0)
        assert ahead_s() == (0, 0)
        process.stdin.close()


# What workers record


class FakeClient:
    """A sender and a poller that do what is in `script`: the name of a call -> the errors and answers of its calls, in turn."""

    def __init__(self, script: dict[str, list[object]] | None = None) -> None:
        self.script = script or {}
        self.calls: list[str] = []

    def _play(self, name: str) -> object:
        self.calls.append(name)
        answers = self.script.get(name)
        answer = answers.pop(0) if answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def send(self, key: Key, value: int, sent: Sent) -> None:
        offset = self._play("send")
        if offset != "never":
            sent(offset if isinstance(offset, int) else None if offset == "given up" else value)

    def turn(self, seconds: float) -> None:
        self._play("turn")

    def init(self) -> None:
        self._play("init")

    def begin(self) -> None:
        self._play("begin")

    def send_offsets(self, group: str, offsets: Committed) -> None:
        self._play("send_offsets")

    def commit(self, offsets: Committed | None = None) -> None:
        self._play("commit")

    def abort(self) -> None:
        self._play("abort")

    def close(self) -> None:
        self._play("close")

    def assign(self, positions: Mapping[Key, int]) -> None:
        self._play("assign")

    def poll(self, seconds: float) -> list[tuple[Key, int, int]]:
        found = self._play("poll")
        return list(found) if isinstance(found, list) else []

    def committed(self, keys: list[Key]) -> Committed:
        found = self._play("committed")
        return found if isinstance(found, dict) else dict.fromkeys(keys, -1)


class FakeLibrary:
    name = "fake"

    def __init__(self, client: FakeClient) -> None:
        self._client = client

    def sender(self, bootstrap: str, transactional_id: str | None = None) -> FakeClient:
        return self._client

    def poller(self, bootstrap: str, group: str, *, committed: bool) -> FakeClient:
        return self._client


@pytest.fixture
def place() -> Place:
    return Place("nowhere:1", 1, SharedRecorder(), ["q-0", "t-0"], ["q-0"])


def last(place: Place, f: str) -> Operation:
    return [each for each in operations(place.recorder.events) if each.f == f][-1]


def transactions(place: Place, *, commit: bool, **script: list[object]) -> tuple[Transactions, FakeClient]:
    """Returns a worker that has its transactional id, with a generator by which every transaction is committed, or aborted."""
    client = FakeClient(script)
    worker = Transactions(place, FakeLibrary(client), "x")
    worker.once()
    worker.random.random = lambda: 0.0 if commit else 0.99  # type: ignore[method-assign]  # one draw
    assert last(place, "init").ok
    return worker, client


def test_a_transaction_is_committed(place: Place) -> None:
    worker, client = transactions(place, commit=True, poll=[[("t-0", 4, 1)]])
    worker.once()
    done = last(place, "txn")
    assert done.ok
    assert (done.fields["group"], done.fields["offsets"]) == ("group of x", {"t-0": 5})
    assert [key for key, offset, _ in done.sends if offset is not None]
    assert list(done.polls) == [("t-0", [(4, 1)])]
    assert client.calls.index("send_offsets") < client.calls.index("commit")


def test_a_transaction_is_aborted(place: Place) -> None:
    worker, client = transactions(place, commit=False)
    worker.once()
    assert last(place, "txn").failed
    assert client.calls[-1] == "abort"
    assert "commit" not in client.calls


def test_a_commit_that_must_be_aborted_has_failed_once_it_is(place: Place) -> None:
    worker, client = transactions(place, commit=True)
    client.script["commit"] = [Abortable("no")]
    worker.once()
    assert last(place, "txn").failed


@pytest.mark.parametrize("errors", [{"commit": [ClientError("?")]}, {"commit": [Abortable("no")], "abort": [ClientError("?")]}])
def test_of_a_commit_whose_answer_is_lost_nobody_knows(place: Place, errors: dict[str, list[object]]) -> None:
    worker, client = transactions(place, commit=True)
    client.script |= errors
    with pytest.raises(ClientError):
        worker.once()
    assert last(place, "txn").outcome == "info"


@pytest.mark.parametrize("call", ["begin", "send", "send_offsets"])
def test_what_nobody_asked_to_commit_has_failed(place: Place, call: str) -> None:
    worker, client = transactions(place, commit=True, poll=[[("t-0", 4, 1)]])
    client.script[call] = [ClientError("?")]
    with pytest.raises(ClientError):
        worker.once()
    assert last(place, "txn").failed
    assert "commit" not in client.calls


def test_a_client_that_is_of_no_more_use_is_replaced_by_a_new_process(place: Place) -> None:
    worker, client = transactions(place, commit=True)
    before = worker.process
    worker.replace()
    assert worker.process != before
    assert last(place, "crash").process == before
    assert client.calls[-1] == "close"
    worker.once()
    assert last(place, "init").process == worker.process


def test_a_record_is_sent_given_up_or_never_heard_of(place: Place) -> None:
    client = FakeClient({"send": [3, "given up", "never", ClientError("full")]})
    worker = Queue(place, FakeLibrary(client))
    worker.random.randint = lambda *_: 4  # type: ignore[method-assign]  # one draw
    with pytest.raises(ClientError):
        worker.once()
    assert [each.outcome for each in operations(place.recorder.events)] == ["ok", "info", "info", "info"]
    assert worker.done == 1
    first = operations(place.recorder.events)[0]
    assert [offset for _, offset, _ in first.sends] == [3]


def test_reading_nothing_proves_nothing(place: Place) -> None:
    client = FakeClient({"poll": [[], [("q-0", 0, 1), ("t-0", 0, 2), ("q-0", 1, 3)], ClientError("?")]})
    worker = Reading(place, FakeLibrary(client), committed=True)
    worker.once()
    assert last(place, "poll").outcome == "info"
    worker.once()
    read = last(place, "poll")
    assert read.ok
    assert read.reads_committed
    assert list(read.polls) == [("q-0", [(0, 1), (1, 3)]), ("t-0", [(0, 2)])]
    assert last(place, "assign").fields["positions"] == {"q-0": 0, "t-0": 0}
    with pytest.raises(ClientError):
        worker.once()
    assert last(place, "poll").outcome == "info"
    assert worker.done == 1


def test_a_register_is_written_and_read(place: Place) -> None:
    worker = Register(place, FakeLibrary(FakeClient({"commit": [None, ClientError("?")], "committed": [{"q-0": 1}]})))
    worker.random.random = lambda: 0.0  # type: ignore[method-assign]  # one draw
    worker.once()
    written = last(place, "commit")
    assert written.ok
    worker.random.random = lambda: 0.9  # type: ignore[method-assign]  # one draw
    worker.once()
    assert last(place, "committed").fields["offsets"] == written.fields["offsets"] == {"q-0": 1}
    worker.random.random = lambda: 0.0  # type: ignore[method-assign]  # one draw
    with pytest.raises(ClientError):
        worker.once()
    assert last(place, "commit").outcome == "info"
    assert check(place.recorder.events) == []


def test_threads_share_a_recorder() -> None:
    recorder = SharedRecorder()
    values: list[int] = []

    def record() -> None:
        for _ in range(500):
            operation = recorder.invoke(recorder.process(), "send")
            values.append(recorder.value())
            operation.ok()

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event["i"] for event in recorder.events] == list(range(4000))
    assert len(set(values)) == len({each.number for each in operations(recorder.events)}) == 2000
    assert all(each.ok for each in operations(recorder.events))


def test_a_value_survives_its_record() -> None:
    assert [decode(encode(value)) for value in (1, 600, 123_456)] == [1, 600, 123_456]
    assert place_of("a-b-3") == ("a-b", 3)


def test_a_run_is_one_line() -> None:
    done = Counter({("send", "ok"): 5, ("send", "info"): 1, ("txn", "fail"): 2})
    outcome = Outcome(3, [Anomaly("lost-write", "q-0", "")], [], done, Counter(kill=2), 3, 0, 1, 100.4)
    assert str(outcome).startswith(
        "seed 3, 100 s: 2 kill; 3 lives, 1 clients replaced; 5 sends (0 not, 1 unknown), 0 transactions (2"
    )
    assert str(outcome).endswith("1 lost-write")
    assert outcome.names == {"lost-write"}
    assert outcome.counts == {"lives": 3, "sends": 5, "transactions": 0, "commits": 0, "polls": 0, "anomalies": 1}
    assert str(Outcome(3, [], [], done, Counter(), 1, 0, 0, 1)).endswith("0 anomalies")

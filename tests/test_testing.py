"""ottla.testing.Broker: entered it serves, left it leaves nothing behind; its settings are the broker's."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.log.config_def import ConfigError
from ottla.log.errors import LogDirLocked
from ottla.server.program import serve
from ottla.testing import QUICK, Broker
from ottla.wire.messages import create_topics, describe_configs, metadata
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.asking import ask


@pytest.fixture
def broker_threads() -> Callable[[], list[str]]:
    """Lists the names of brokers' threads that were started since: what other tests of this process run is theirs."""
    before = set(threading.enumerate())

    def since() -> list[str]:
        return [each.name for each in threading.enumerate() if each.name == "ottla-broker" and each not in before]

    return since


def create(broker: Broker, topic: str) -> Any:
    request = CreateTopicsRequest([CreatableTopic(topic, -1, -1)], 1000)
    return asyncio.run(ask(broker.port, create_topics, 4, request)).topics[0]


def topics(broker: Broker) -> list[str]:
    answer = asyncio.run(ask(broker.port, metadata, 5, metadata.MetadataRequest(topics=None)))
    return [topic.name for topic in answer.topics]


def setting(broker: Broker, name: str) -> str:
    wanted = describe_configs.DescribeConfigsResource(4, "1", [name])
    answer = asyncio.run(ask(broker.port, describe_configs, 1, describe_configs.DescribeConfigsRequest([wanted])))
    return str(answer.results[0].configs[0].value)


def test_in_a_thread_it_serves_when_entered_and_is_gone_when_left(broker_threads: Callable[[], list[str]]) -> None:
    with Broker() as broker:
        directory = broker.data_dir
        assert broker.bootstrap == f"127.0.0.1:{broker.port}"
        assert create(broker, "orders").error_code == 0
        assert (directory / "orders-0").is_dir()
        assert broker_threads() == ["ottla-broker"]
    assert not directory.exists()
    assert broker_threads() == []
    with pytest.raises(RuntimeError, match="is not running"):
        _ = broker.bootstrap


def test_in_the_running_loop_it_serves_when_entered_and_is_gone_when_left(broker_threads: Callable[[], list[str]]) -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            directory = broker.data_dir
            answer = await ask(broker.port, metadata, 5, metadata.MetadataRequest(topics=None))
            assert answer.cluster_id == broker.cluster_id
            assert broker_threads() == []
        assert not directory.exists()
        with pytest.raises(ConnectionRefusedError):
            await ask(answer.brokers[0].port, metadata, 5, metadata.MetadataRequest(topics=None))

    asyncio.run(scenario())


def test_several_run_side_by_side() -> None:
    with Broker() as one, Broker() as other:
        create(one, "here")
        create(other, "there")
        assert (topics(one), topics(other)) == (["here"], ["there"])
        assert one.cluster_id != other.cluster_id


def test_settings_are_keywords() -> None:
    with Broker(num_partitions=3, auto_create_topics_enable=False, log_cleanup_policy=["compact", "delete"]) as broker:
        create(broker, "wide")
        assert sorted(path.name for path in broker.data_dir.glob("wide-*")) == ["wide-0", "wide-1", "wide-2"]
        assert setting(broker, "auto.create.topics.enable") == "false"
        assert setting(broker, "log.cleanup.policy") == "compact,delete"


def test_settings_without_effect_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.testing")
    with Broker(num_io_threads=9, num_partitions=2):
        pass
    assert caplog.messages == ["these settings are accepted but have no effect in ottla: num.io.threads"]


def test_what_makes_a_first_consumer_wait_is_low_unless_it_is_asked_for() -> None:
    with Broker() as broker:
        assert {name: setting(broker, name) for name in QUICK} == QUICK
    with Broker(group_initial_rebalance_delay_ms=3000) as broker:
        assert setting(broker, "group.initial.rebalance.delay.ms") == "3000"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"num_partitoins": 3}, "did you mean num.partitions"), ({"num_partitions": "many"}, "num.partitions: 'many'")],
)
def test_a_wrong_setting_is_an_error_before_anything_starts(wrong: dict[str, Any], told: str) -> None:
    broker = Broker.__new__(Broker)
    with pytest.raises(ConfigError, match=told):
        broker.__init__(**wrong)  # type: ignore[misc]  # to see the repr of what it leaves
    assert repr(broker) == "<ottla.testing.Broker not running>"  # pytest shows it beside the error


def test_a_directory_that_is_given_is_kept_and_may_be_used_again(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        create(broker, "kept")
        cluster_id = broker.cluster_id
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with Broker(data_dir=tmp_path) as broker:
        assert topics(broker) == ["kept"]
        assert broker.cluster_id == cluster_id


def test_only_a_directory_that_is_given_is_synced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    synced: list[int] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, synced.append)
    with Broker() as broker:
        create(broker, "fleeting")
    assert synced == []
    with Broker(data_dir=tmp_path) as broker:
        create(broker, "kept")
    assert synced != []


def test_a_failed_start_raises_leaves_no_thread_and_may_be_tried_again(
    tmp_path: Path, broker_threads: Callable[[], list[str]]
) -> None:
    second = Broker(data_dir=tmp_path)
    with Broker(data_dir=tmp_path):
        with pytest.raises(LogDirLocked):
            second.start()
        assert broker_threads() == ["ottla-broker"]
    with second as broker:
        assert topics(broker) == []


def test_it_cannot_be_entered_twice_at_once_but_once_more_afterwards() -> None:
    broker = Broker()
    with broker, pytest.raises(RuntimeError, match="already running"):
        broker.start()
    broker.stop()  # nothing runs: no error
    with broker:
        assert topics(broker) == []


def test_a_port_that_is_taken_is_an_error_of_the_system() -> None:
    with Broker() as broker, pytest.raises(OSError, match="in use"):
        Broker(port=broker.port).start()


def test_metrics_are_there_where_a_port_is_given() -> None:
    with Broker(ottla_metrics_port=0) as broker:
        assert broker.metrics_url is not None
        with urllib.request.urlopen(f"{broker.metrics_url}/readyz") as answer:
            assert answer.status == 200
    with Broker() as broker:
        assert broker.metrics_url is None


INTERRUPTED = """
import _thread, sys, threading
import ottla.server.broker.broker, ottla.server.program.serve as serve
from ottla.testing import Broker

factory, at = serve.loop_factory, sys.argv[1]

def interrupting():
    if at == "before the loop":
        _thread.interrupt_main()
    return factory()

start = ottla.server.broker.broker.Broker.start

async def started(self):
    await start(self)
    if at == "in the start":
        _thread.interrupt_main()

serve.loop_factory, ottla.server.broker.broker.Broker.start = interrupting, started
broker = Broker()
try:
    broker.start()
except KeyboardInterrupt:
    print("interrupted", [each.name for each in threading.enumerate() if each.name != "ottla-remove"], broker)
"""


@pytest.mark.parametrize("moment", ["before the loop", "in the start"])
def test_an_interrupt_while_it_starts_ends_it(moment: str) -> None:
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED, moment], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout, ran.stderr) == ("interrupted ['MainThread'] <ottla.testing.Broker not running>\n", "")


INTERRUPTED_STOP = """
import pathlib, queue, signal
import ottla.server.broker.broker
from ottla.testing import Broker

drop, waits_again = ottla.server.broker.broker.Broker.drop, queue.SimpleQueue()

async def dropping(self):
    waits_again.get()  # otherwise it goes on, takes the directory away and ends
    await drop(self)
    print("stopped", pathlib.Path(self.config.log_dirs[0]).exists())

ottla.server.broker.broker.Broker.drop = dropping
broker = Broker().start()
directory, ended = broker.data_dir, broker._thread._ended
wait, waits = ended.wait, []

def interrupted_wait():
    waits.append("for the end")
    if len(waits) == 1:
        signal.raise_signal(signal.SIGINT)
    else:
        waits_again.put(None)
    wait()

ended.wait = interrupted_wait
try:
    broker.stop()
except KeyboardInterrupt:
    print("interrupted", directory.exists())
"""


def test_an_interrupt_while_it_stops_lets_it_end_before_its_directory_goes() -> None:
    command = [sys.executable, "-c", INTERRUPTED_STOP]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout, ran.stderr) == ("stopped True\ninterrupted False\n", "")


def test_what_fails_before_there_is_a_loop_is_raised_too(
    monkeypatch: pytest.MonkeyPatch, broker_threads: Callable[[], list[str]]
) -> None:
    def no_loop() -> Any:
        raise OSError("no more descriptors")

    monkeypatch.setattr(serve, "loop_factory", no_loop)
    with pytest.raises(OSError, match="no more descriptors"):
        Broker().start()
    assert broker_threads() == []


def test_a_forked_child_that_leaves_takes_nothing_away() -> None:
    with Broker() as broker:
        directory = broker.data_dir
        child = os.fork()
        if child == 0:
            try:
                broker.stop()
            finally:
                os._exit(0 if directory.exists() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert create(broker, "still-here").error_code == 0
    assert not directory.exists()

"""A pytest plugin in front of kafka-python's own integration tests, which are used as they are.

The source distribution lacks two modules of its harness: the package `test` itself (whose name the standard library has, too)
and `test.service`, which starts brokers. Both are made here. The broker is external, named by KAFKA_URI; KAFKA_VERSION tells the
tests which API versions to expect. KAFKA_ROOT must be a directory, nobody looks into it.

Three things are done for the library. A consumer that is given topics between its first request for metadata and the answer
forgets that it wants metadata of them, and sleeps for five minutes (kafka-python 3.0.12, any broker; its own log shows it). So
here topics wait until the answer has come, whichever way they are given: to `subscribe`, to `assign`, or when the consumer is
made. A group is joined for as long as that takes, as in compat_tests/kafka_python_consumers.py. And where a test gives a broker
half a second or one for what it is sure to do, it gets half a minute here.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import pytest

from compat_tests.kafka_python_consumers import join_to_the_end
from compat_tests.waiting import wait_for

PATIENCE_S: Final = 30


class ExternalService:
    """A broker that runs already."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def open(self) -> None:
        """Nothing to start."""

    def close(self) -> None:
        """Nothing to end."""


class SpawnedService:
    """Brokers are never started by these tests: one that tries is out of this suite."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("this harness runs against one broker that is there already")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Their conftest imports both."""
    package = types.ModuleType("test")
    package.__path__ = [str(early_config.rootpath / "test")]
    service: Any = types.ModuleType("test.service")
    service.ExternalService, service.SpawnedService = ExternalService, SpawnedService
    sys.modules |= {"test": package, "test.service": service}


def pytest_collection_finish(session: pytest.Session) -> None:
    """The library beside the tests is loaded by now."""
    consumer = sys.modules["kafka"].KafkaConsumer
    give_topics_late(consumer)
    consumer.bootstrap = _patient(consumer.bootstrap, "timeout_ms", PATIENCE_S * 1000)
    future = sys.modules["kafka.producer.future"].FutureRecordMetadata
    future.get = _patient(future.get, "timeout", PATIENCE_S)


def _patient(wait: Callable[..., Any], name: str, least: float) -> Callable[..., Any]:
    """Returns what waits as this does, but at least so long if it is given a time by name."""

    @wraps(wait)
    def patiently(self: Any, *arguments: Any, **named: Any) -> Any:
        if named.get(name) is not None:
            named[name] = max(named[name], least)
        return wait(self, *arguments, **named)

    return patiently


def give_topics_late(consumer: Any) -> None:
    """Has consumers of this class take topics only when they have metadata, and join groups to the end."""
    make = consumer.__init__

    @wraps(make)
    def make_without_topics(self: Any, *topics: str, **settings: Any) -> None:
        make(self, **settings)
        join_to_the_end(self)
        if topics:
            self.subscribe(topics)

    consumer.__init__ = make_without_topics
    for name in ("subscribe", "assign"):
        setattr(consumer, name, _later(getattr(consumer, name)))


def _later(take_topics: Callable[..., None]) -> Callable[..., None]:
    @wraps(take_topics)
    def take_them_later(self: Any, *arguments: Any, **named: Any) -> None:
        wait_for(lambda: self._manager.bootstrapped, "the consumer has metadata")
        take_topics(self, *arguments, **named)

    return take_them_later

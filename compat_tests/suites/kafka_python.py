"""A pytest plugin in front of kafka-python's own integration tests, which are used as they are.

The source distribution lacks two modules of its harness: the package `test` itself (whose name the standard library has, too)
and `test.service`, which starts brokers. Both are made here. The broker is external, named by KAFKA_URI; KAFKA_VERSION tells the
tests which API versions to expect. KAFKA_ROOT must be a directory, nobody looks into it.

One thing is done for the library. A consumer that subscribes between its first request for metadata and the answer forgets that
it wants metadata of its topics, and sleeps for five minutes (kafka-python 3.0.12, any broker; its own log shows it). So here a
subscription waits until the answer has come.
"""

from __future__ import annotations

import sys
import types
from functools import wraps
from typing import Any

import pytest

from compat_tests.waiting import wait_for


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
    subscribe = consumer.subscribe

    @wraps(subscribe)
    def subscribe_later(self: Any, *arguments: Any, **named: Any) -> None:
        wait_for(lambda: self._manager.bootstrapped, "the consumer has metadata")
        subscribe(self, *arguments, **named)

    consumer.subscribe = subscribe_later

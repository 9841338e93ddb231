"""A broker for the pages, and a browser that looks at it: both end with the package, so that no later test finds them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from ottla.commands.clients.client import Cluster
from ottla.console.cluster.source import Source
from tests.console.browser import Browser, browsing

Records = Callable[..., None]


@pytest.fixture(scope="package")
def broker() -> Iterator[ottla.testing.Broker]:
    with ottla.testing.Broker(auto_create_topics_enable=False) as running:
        yield running


@pytest.fixture(scope="package")
def guarded() -> Iterator[ottla.testing.Broker]:
    """A broker with an authorizer, where whoever has not logged in is a super user; and where transactions can hang."""
    with ottla.testing.Broker(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
        transaction_partition_verification_enable=False,
    ) as running:
        yield running


@pytest.fixture
def guarded_browser(guarded: ottla.testing.Broker) -> Iterator[Browser]:
    with browsing(Source(Cluster({"bootstrap.servers": guarded.bootstrap}))) as made:
        yield made


@pytest.fixture
def audited(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Returns the lines that the console's audit has got, without who did it and from where."""
    caplog.set_level(logging.INFO, "ottla.console.audit")
    return lambda: [line.rpartition(" (session ")[0] for line in caplog.messages]


@pytest.fixture(scope="package")
def source(broker: ottla.testing.Broker) -> Source:
    return Source(Cluster({"bootstrap.servers": broker.bootstrap}))


@pytest.fixture
def browser(source: Source) -> Iterator[Browser]:
    source.changed()  # what other tests have seen is forgotten
    with browsing(source) as made:
        yield made


@pytest.fixture(scope="package")
def admin(broker: ottla.testing.Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture(scope="package")
def topic(admin: AdminClient) -> Callable[..., str]:
    """`topic(name, partitions, **settings)` makes a topic."""

    def make(name: str, partitions: int = 1, **settings: str) -> str:
        config = {key.replace("_", "."): value for key, value in settings.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(30)
        return name

    return make


@pytest.fixture(scope="package")
def produced(broker: ottla.testing.Broker) -> Records:
    """`produced(topic, *values, partition=0, key=None)` writes records, a millisecond of timestamp apart."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "message.max.bytes": 4_000_000})

    def produce(topic: str, *values: bytes | None, partition: int = 0, key: bytes | None = None, begin_ms: int = 1000) -> None:
        for at, value in enumerate(values):
            producer.produce(topic, value, key, partition=partition, timestamp=begin_ms + at)
        assert producer.flush(30) == 0

    return produce

"""Four clients and what each makes of a connection over TLS: records that go there and back, or its class of error.

Each is a function of an address, a topic, `Trust` (the authority by which it knows the broker, and its own certificate), the
running Java program, and how long it tries.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from compat_tests.certificates import Holder
from compat_tests.java_client import Java, JavaError
from compat_tests.kafka_python_consumers import subscribe
from compat_tests.security.tls_files import Files
from compat_tests.waiting import wait_for

VALUES = [f"value {number}".encode() * 200 for number in range(30)]
PATIENCE_MS = 30_000
"""The time for which a client tries; where it is to fail, it gets less."""
OK = "works"


class Trust(NamedTuple):
    """The TLS settings of a client: files, the authority that it trusts, and its own certificate, if any. `protocol` is what it
    speaks."""

    files: Files
    authority: Holder
    own: Holder | None = None
    protocol: str = "SSL"

    def context(self) -> ssl.SSLContext:
        """For the clients that are written in Python."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.files.authority(self.authority))
        if self.own is not None:
            context.load_cert_chain(self.files.certificate(self.own), self.files.key(self.own))
        return context

    def librdkafka(self) -> dict[str, str]:
        found = {"security.protocol": self.protocol, "ssl.ca.location": self.files.authority(self.authority)}
        if self.own is not None:
            found |= {
                "ssl.certificate.location": self.files.certificate(self.own),
                "ssl.key.location": self.files.key(self.own),
            }
        return found

    def java(self) -> dict[str, str]:
        found = {
            "security.protocol": self.protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.files.authority(self.authority),
        }
        if self.own is not None:
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": self.own.chain_pem(),
                "ssl.keystore.key": self.own.key_pem(),
            }
        return found


def confluent(bootstrap: str, topic: str, trust: Trust, _: Java, patience_ms: int = PATIENCE_MS) -> str:
    """librdkafka tells of a failed handshake by its error callback; the call itself ends in a timeout or without a broker."""
    told: list[str] = []
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, **trust.librdkafka()}
    with_errors: dict[str, Any] = {**settings, "error_cb": lambda error: told.append(error.name())}
    admin = AdminClient(with_errors)
    try:
        admin.list_topics(timeout=patience_ms / 1000)
    except KafkaException:
        wait_for(lambda: bool(admin.poll(0.1) or told), "librdkafka says why it failed")
        return next((name for name in ("_SSL", "_TRANSPORT") if name in told), told[0])
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer({**settings, "group.id": f"{topic}-confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    with closing(consumer):
        got = consumer.consume(len(VALUES), timeout=30)
    assert [each.value() for each in got] == VALUES
    return OK


def kafka_python(bootstrap: str, topic: str, trust: Trust, _: Java, patience_ms: int = PATIENCE_MS) -> str:
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "security_protocol": trust.protocol}
    if trust.protocol == "SSL":
        settings["ssl_context"] = trust.context()
    try:
        with closing(KafkaProducer(**settings, max_block_ms=patience_ms, bootstrap_timeout_ms=patience_ms)) as producer:
            for sent in [producer.send(topic, value) for value in VALUES]:
                sent.get(30)
    except KafkaPythonError as error:
        return type(error).__name__
    with closing(KafkaConsumer(**settings, auto_offset_reset="earliest", consumer_timeout_ms=30_000)) as reader:
        subscribe(reader, topic)
        got = [next(reader).value for _ in VALUES]
    assert got == VALUES
    return OK


def aiokafka(bootstrap: str, topic: str, trust: Trust, _: Java, patience_ms: int = PATIENCE_MS) -> str:
    return asyncio.run(_aiokafka(bootstrap, topic, trust, patience_ms))


async def _aiokafka(bootstrap: str, topic: str, trust: Trust, patience_ms: int) -> str:
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "security_protocol": trust.protocol}
    if trust.protocol == "SSL":
        settings["ssl_context"] = trust.context()
    producer = AIOKafkaProducer(**settings, request_timeout_ms=patience_ms)
    try:
        await producer.start()
    except AioError as error:
        return type(error).__name__
    finally:
        if producer._sender.sender_task is None:
            await producer.stop()
    for sent in [await producer.send(topic, value) for value in VALUES]:
        await sent
    await producer.stop()
    consumer = AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest")
    await consumer.start()
    try:
        got = [(await consumer.getone()).value for _ in VALUES]
    finally:
        await consumer.stop()
    assert got == VALUES
    return OK


def java(bootstrap: str, topic: str, trust: Trust, program: Java, patience_ms: int = PATIENCE_MS) -> str:
    settings = trust.java()
    quick = {"request.timeout.ms": str(patience_ms), "default.api.timeout.ms": str(patience_ms)}
    try:
        program.call("connect", bootstrap=bootstrap, settings=settings | quick)
    except JavaError as error:
        return error.name
    records = [{"partition": 0, "value": value.decode()} for value in VALUES]
    program.call("produce", bootstrap=bootstrap, topic=topic, records=records, settings=settings)
    return OK


CLIENTS: dict[str, Callable[..., str]] = {
    "confluent": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "java": java,
}

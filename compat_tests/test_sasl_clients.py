"""Clients that log in at ottla and at Apache Kafka: by each mechanism, and each wrong way with the error of that client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from compat_tests.kafka_python_consumers import subscribe
from compat_tests.logging_in import PasswordBroker
from compat_tests.reference.kafka import HOST
from compat_tests.waiting import wait_for

USERS: Final = {
    "PLAIN": ("alice", "alice-secret"),
    "SCRAM-SHA-256": ("carol", "carol-secret"),
    "SCRAM-SHA-512": ("carol", "carol-512"),
}
WRONG: Final = {"a wrong password": "x", "another's password": "bob-secret"}


@pytest.fixture(scope="module")
def door(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PasswordBroker]:
    broker = PasswordBroker(kind, tmp_path_factory.mktemp(f"clients-{kind}"))
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


def address(door: PasswordBroker, port: int | None = None) -> str:
    return f"{HOST}:{port or door.login_port}"


def librdkafka(door: PasswordBroker, mechanism: str, name: str, password: str, port: int | None = None) -> dict[str, Any]:
    return {
        "bootstrap.servers": address(door, port),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
        "log_level": 0,
    }


def python_client(door: PasswordBroker, mechanism: str, name: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": address(door),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": name,
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", USERS)
def test_confluent_kafka(door: PasswordBroker, unique: Callable[[str], str], mechanism: str) -> None:
    topic = unique("login")
    errors: list[Any] = []
    settings = librdkafka(door, mechanism, *USERS[mechanism])
    producer = Producer({**settings, "error_cb": errors.append})
    producer.produce(topic, b"secured")
    assert producer.flush(30) == 0
    consumer = Consumer({**settings, "group.id": unique("login"), "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"secured"
    finally:
        consumer.close()
    assert not errors


@pytest.mark.parametrize("mechanism", USERS)
@pytest.mark.parametrize("wrong", WRONG)
def test_confluent_kafka_with_something_wrong(door: PasswordBroker, mechanism: str, wrong: str) -> None:
    errors: list[Any] = []
    settings = librdkafka(door, mechanism, USERS[mechanism][0], WRONG[wrong])
    producer = Producer({**settings, "error_cb": errors.append})

    def refused() -> bool:
        producer.poll(0.1)
        return any(error.name() == "_AUTHENTICATION" for error in errors)

    wait_for(refused, "the login is refused")


def test_a_session_of_confluent_kafka_outlives_its_login(door: PasswordBroker, unique: Callable[[str], str]) -> None:
    """librdkafka logs in again on the same connection (KIP-368)."""
    topic = unique("again")
    errors: list[Any] = []
    sent: list[Any] = []
    producer = Producer({**librdkafka(door, "PLAIN", *USERS["PLAIN"], door.reauth_port), "error_cb": errors.append})

    def two_lives() -> bool:
        producer.produce(topic, b"x", on_delivery=lambda error, message: sent.append(error))
        producer.flush(10)
        return len(sent) > 40

    wait_for(two_lives, "as many records as two logins last")
    assert not any(sent)


@pytest.mark.parametrize("mechanism", USERS)
def test_kafka_python(door: PasswordBroker, unique: Callable[[str], str], mechanism: str) -> None:
    topic, settings = unique("login"), python_client(door, mechanism, *USERS[mechanism])
    producer = KafkaProducer(**settings)
    producer.send(topic, b"secured").get(30)
    producer.close()
    consumer = subscribe(KafkaConsumer(auto_offset_reset="earliest", consumer_timeout_ms=30_000, **settings), topic)
    assert next(iter(consumer)).value == b"secured"
    consumer.close()


@pytest.mark.parametrize("mechanism", USERS)
def test_kafka_python_with_a_wrong_password(door: PasswordBroker, mechanism: str) -> None:
    settings = python_client(door, mechanism, USERS[mechanism][0], "x")
    with pytest.raises(KafkaError):
        KafkaConsumer(api_version_auto_timeout_ms=3000, **settings)


@pytest.mark.parametrize("mechanism", USERS)
def test_aiokafka(door: PasswordBroker, unique: Callable[[str], str], mechanism: str) -> None:
    async def scenario() -> None:
        producer = AIOKafkaProducer(**python_client(door, mechanism, *USERS[mechanism]))
        await producer.start()
        try:
            await producer.send_and_wait(unique("login"), b"secured")
        finally:
            await producer.stop()
        for user, password in (USERS[mechanism][0], "x"), ("eve", "x"):
            wrong = AIOKafkaProducer(**python_client(door, mechanism, user, password))
            with pytest.raises(KafkaConnectionError):  # its log says why
                await wrong.start()
            await wrong.stop()

    asyncio.run(scenario())

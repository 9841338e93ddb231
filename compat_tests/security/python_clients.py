"""The clients of Python, kafka-python and aiokafka, as they log in: each sends a record, and says whether that works."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioError
from kafka import KafkaProducer
from kafka.errors import KafkaError


def by_kafka_python(topic: str, **settings: Any) -> str:
    """Returns `works` or `refused`."""
    try:
        with closing(KafkaProducer(**settings)) as producer:
            producer.send(topic, b"secured").get(30)
    except KafkaError:
        return "refused"
    return "works"


def by_aiokafka(topic: str, **settings: Any) -> str:
    """Returns `works` or `refused`."""

    async def scenario() -> str:
        producer = AIOKafkaProducer(**settings)
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"secured")
        except AioError:
            return "refused"
        finally:
            await producer.stop()
        return "works"

    return asyncio.run(scenario())

"""Creates and deletes topics for a test that has no client at hand."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ottla.log.errors import StorageError
from ottla.server.base.answers import wait_for
from ottla.server.metadata.operation import Caller
from ottla.server.security.principals import ANONYMOUS
from ottla.server.testkit.fields import Refused
from ottla.server.testkit.looks.topics import find_topic
from ottla.server.testkit.moving import as_text
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

if TYPE_CHECKING:
    from ottla.server.testkit.given import Given
    from ottla.server.testkit.kit import Kit

TIMEOUT_MS: Final = 30_000
CALLER: Final = Caller(ANONYMOUS, "127.0.0.1", "ottla-testkit", 0)
"""The client that changes of the test kit come from."""


async def create_topic(kit: Kit, given: Given) -> dict[str, Any]:
    """Creates a topic with `partitions`, or num.partitions of them, and `configs`, its settings; it can be used when this is
    answered. Raises Refused with the controller's reason."""
    fields, name = given.fields, given.variables["topic"]
    partitions = fields.take_number("partitions", -1, low=1)
    settings = fields.take("configs", dict, {})
    fields.done()
    configs = [CreatableTopicConfig(str(key), None if value is None else as_text(value)) for key, value in settings.items()]
    context = kit.lives.broker.context
    assert context is not None
    topic = CreatableTopic(name, partitions, -1, configs=configs)
    try:
        answer = await context.controller.create_topics(CreateTopicsRequest([topic]), None)
    except StorageError as error:  # a test may have broken the disk
        raise Refused(f"topic {name}: {error}", HTTPStatus.CONFLICT) from error
    result = answer.topics[0]
    if result.error_code:
        raise Refused(f"topic {name}: {result.error_message or ErrorCode(result.error_code).name}")
    await wait_for(context.replicas.settled())
    return {"name": name, "partitions": result.num_partitions}


async def delete_topic(kit: Kit, given: Given) -> dict[str, Any]:
    """Deletes a topic with its records; it is gone when this is answered. Raises Refused, with 404 if there is none."""
    given.fields.done()
    context = kit.lives.broker.context
    assert context is not None
    topic = find_topic(context, given.variables["topic"])
    answer = await context.controller.delete_topics(
        DeleteTopicsRequest([DeleteTopicState(topic.name)], timeout_ms=TIMEOUT_MS), CALLER
    )
    result = answer.responses[0]
    if result.error_code:
        raise Refused(f"topic {topic.name}: {result.error_message or ErrorCode(result.error_code).name}")
    await wait_for(context.replicas.deleted())
    return {"name": topic.name, "partitions": len(topic.partitions)}

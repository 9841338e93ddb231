"""Creates and deletes topics for a test that has no client at hand."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ottla.log.errors import StorageError
from ottla.server.base.answers import wait_for
from ottla.server.testkit.fields import Refused
from ottla.server.testkit.given import as_text
from ottla.server.testkit.lives.emptying import delete_topics
from ottla.server.testkit.looks.finding import find_topic
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

if TYPE_CHECKING:
    from ottla.server.testkit.given import Given
    from ottla.server.testkit.kit import Kit


async def create_topic(kit: Kit, given: Given) -> dict[str, Any]:
    """Creates a topic with `partitions`, or num.partitions of them, and `configs`, its settings; it can be used when this is
    answered. Raises Refused with the controller's reason."""
    fields, name = given.fields, given.variables["topic"]
    partitions = fields.take_number("partitions", -1, low=1)
    settings = fields.take("configs", dict, {})
    fields.done()
    configs = [CreatableTopicConfig(str(key), None if value is None else as_text(value)) for key, value in settings.items()]
    context = kit.lives.context
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
    context = kit.lives.context
    topic = find_topic(context, given.variables["topic"])
    await delete_topics(context, [topic.name])
    return {"name": topic.name, "partitions": len(topic.partitions)}

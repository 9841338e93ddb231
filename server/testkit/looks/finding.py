"""Finds what a test names, or refuses the name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.inspect.groups import Found, all_groups, get_group
from ottla.server.testkit.looks.names import absent

if TYPE_CHECKING:
    from ottla.server.metadata.image import TopicImage
    from ottla.server.requests.context import BrokerContext


def find_topic(context: BrokerContext, name: str) -> TopicImage:
    """Returns a topic. Raises Refused, with 404, if there is none of this name."""
    topic = context.metadata.topics.get(name)
    if topic is None:
        raise absent("topic", name, context.metadata.topics)
    return topic


def find_group(context: BrokerContext, group_id: str) -> Found:
    """Returns a group. Raises Refused, with 404, if there is none of this id."""
    found = get_group(context, group_id)
    if found is None:
        raise absent("group", group_id, all_groups(context))
    return found

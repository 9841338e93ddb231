"""The pages, one a file: what is asked for in, a template and its values out. Here is which address leads to which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla.console.ask import Answer, Ask
from ottla.console.pages import (
    brokers,
    group,
    group_reset,
    groups,
    inside,
    messages,
    overview,
    produce,
    record,
    requests,
    topic,
    topic_changes,
    topics,
)

PAGES: Final[Mapping[str, Callable[[Ask], Answer]]] = {
    "/": overview.overview,
    "/topics": topics.topics,
    "/new-topic": topic_changes.new,
    "/topics/{topic}": topic.topic,
    "/topics/{topic}/settings": topic.settings,
    "/topics/{topic}/delete": topic_changes.ask_to_delete,
    "/topics/{topic}/messages": messages.messages,
    "/topics/{topic}/produce": produce.form,
    "/topics/{topic}/{partition}/{offset}": record.record,
    "/topics/{topic}/{partition}/{offset}/{part}": record.download,
    "/groups": groups.groups,
    "/group": group.group,
    "/group/reset": group_reset.form,
    "/inside": inside.inside,
    "/requests": requests.requests,
    "/brokers": brokers.brokers,
    "/brokers/{broker}": brokers.settings,
}
"""What GET shows."""

ACTIONS: Final[Mapping[str, Callable[[Ask], Answer]]] = {
    "/new-topic": topic_changes.create,
    "/topics/{topic}/delete": topic_changes.delete,
    "/topics/{topic}/produce": produce.send,
    "/group/reset": group_reset.reset,
    "/requests": requests.watch,
}
"""What POST changes."""

"""Creates and deletes topics. Whoever deletes one has to type its name."""

from __future__ import annotations

from typing import Any, Final

from ottla.commands.clients.client import is_text
from ottla.commands.output import Failure
from ottla.commands.topic import MAX_PARTITIONS, MAX_REPLICAS
from ottla.console.ask import Answer, Ask, Page, Redirect, whole
from ottla.console.cluster import changes
from ottla.console.cluster.source import Held, TopicSummary
from ottla.console.errors import BadInput
from ottla.console.pages.forms import is_typed
from ottla.console.rendering.templates import segment
from ottla.console.rendering.text import visible

_FIELDS: Final = ("name", "partitions", "replicas", "settings")


def new(ask: Ask) -> Answer:
    """Shows the form for a new topic."""
    return Page("topic_new.html", {"form": dict.fromkeys(_FIELDS, ""), "problem": None})


def create(ask: Ask) -> Answer:
    """Creates the topic of the form; if that cannot be, the form is shown again and says why."""
    form = {name: ask.form.get(name, "") for name in _FIELDS}
    name = form["name"].strip()
    try:
        if not name:
            raise BadInput("name is empty")
        if "\0" in name or not is_text(name):
            raise BadInput("name has to be text")
        partitions = whole(form["partitions"], "partitions", -1, 1, MAX_PARTITIONS)
        replicas = whole(form["replicas"], "replicas", -1, 1, MAX_REPLICAS)
        changes.create_topic(ask.source, name, partitions, replicas, _settings(form["settings"]))
    except (BadInput, Failure) as error:
        ask.audit(f"create topic {name!a}: {'refused' if isinstance(error, BadInput) else 'failed'}: {error}")
        values: dict[str, Any] = {"form": form, "problem": str(error)}
        return Page("topic_new.html", values, 400)
    ask.audit(f"create topic {name!a} partitions={partitions} replicas={replicas}: done")
    return Redirect(f"/topics/{segment(name)}")


def _settings(text: str) -> dict[str, str]:
    """Returns the settings of a text with one `key=value` a line. Raises BadInput."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if not line.strip():
            continue
        if not key.strip() or not equals or not is_text(line) or "\0" in line:
            raise BadInput(f"settings: {visible(line.strip()[:80])!r} is not key=value")
        found[key.strip()] = value.strip()
    return found


def ask_to_delete(ask: Ask) -> Answer:
    """Shows what would be deleted, and asks for the name."""
    return _delete_form(ask, ask.source.topic(ask.args["topic"]), None)


def delete(ask: Ask) -> Answer:
    """Deletes the topic if its name was typed."""
    topic = ask.source.topic(ask.args["topic"])
    if not is_typed(ask, topic.name):
        return _delete_form(ask, topic, f"Nothing was deleted: what was typed is not {topic.name}.", 400)
    changes.delete_topic(ask.source, topic.name)
    ask.audit(f"delete topic {topic.name!a}: done")
    return Redirect("/topics")


def _delete_form(ask: Ask, topic: TopicSummary, problem: str | None, status: int = 200) -> Page:
    held, notes = ask.source.held([topic.name])
    values: dict[str, Any] = {"topic": topic, "held": held.get(topic.name, Held(None, None)), "notes": notes, "problem": problem}
    return Page("topic_delete.html", values, status)

"""Adds partitions to a topic, and deletes records up to an offset."""

from __future__ import annotations

from ottla.commands.clients.partition import Partition
from ottla.commands.output import counted
from ottla.commands.positions import MAX_INT64
from ottla.commands.topic import MAX_PARTITIONS
from ottla.console.ask import Answer, Ask, whole
from ottla.console.cluster import changes
from ottla.console.cluster.source import TopicSummary
from ottla.console.errors import BadInput
from ottla.console.pages.forms import Field, Form, form_page, submit
from ottla.console.rendering.templates import segment


def ask_for_partitions(ask: Ask) -> Answer:
    """Shows the form for more partitions."""
    return form_page(ask, _partitions_form(ask.source.topic(ask.args["topic"])))


def add_partitions(ask: Ask) -> Answer:
    """Adds them."""
    topic = ask.source.topic(ask.args["topic"])

    def act() -> None:
        count = whole(ask.form.get("partitions", ""), "partitions", 0, topic.partitions + 1, MAX_PARTITIONS)
        if not count:
            raise BadInput("partitions is empty")
        changes.add_partitions(ask.source, topic.name, count)

    what = f"add partitions to topic {topic.name!a}, to have {ask.form.get('partitions', '').strip()[:20]!a}"
    return submit(ask, _partitions_form(topic), what, act, f"/topics/{segment(topic.name)}")


def _partitions_form(topic: TopicSummary) -> Form:
    text = [
        f"Topic {topic.name} has {counted(topic.partitions, 'partition')}. It may get more, but never fewer again; keys may then "
        "go to other partitions than before, so that the order of a key's records is not kept across the change."
    ]
    fields = [Field("partitions", "Partitions in all")]
    return Form(f"Add partitions to {topic.name}", text, "Add", f"/topics/{segment(topic.name)}", fields)


def ask_to_delete_records(ask: Ask) -> Answer:
    """Shows the form, with `?partition=` and `?offset=` filled in if they are given."""
    return form_page(ask, _records_form(ask, ask.source.topic(ask.args["topic"])))


def delete_records(ask: Ask) -> Answer:
    """Deletes them if the topic's name was typed."""
    topic = ask.source.topic(ask.args["topic"])
    given = {name: ask.form.get(name, "").strip() for name in ("partition", "offset")}
    form = _records_form(ask, topic)
    try:
        where, offset = _place(topic, given["partition"], given["offset"])
    except BadInput as error:
        ask.audit(f"delete records of topic {topic.name!a}: refused: {error}")
        return form_page(ask, form, str(error))
    what = f"delete records of {topic.name!a} [{where.number}] before offset {'the end' if offset < 0 else offset}"
    return submit(ask, form, what, lambda: changes.delete_records(ask.source, where, offset), form.back)


def _place(topic: TopicSummary, partition: str, offset: str) -> tuple[Partition, int]:
    """Returns the partition, and the offset before which its records go, -1 for its end. Raises BadInput."""
    if not partition:
        raise BadInput("partition is empty")
    number = whole(partition, "partition", 0, 0, topic.partitions - 1)
    if offset == "end":
        return Partition(topic.name, number), -1
    if not offset:
        raise BadInput("offset is empty")
    return Partition(topic.name, number), whole(offset, "offset", 0, 0, MAX_INT64)


def _records_form(ask: Ask, topic: TopicSummary) -> Form:
    text = [f"This deletes the oldest records of a partition of {topic.name}, for everybody. It cannot be undone."]
    fields = [
        Field("partition", f"Partition, 0 to {topic.partitions - 1}", ask.text("partition")),
        Field("offset", "The first offset that stays, or end for none", ask.text("offset")),
    ]
    back = f"/topics/{segment(topic.name)}"
    return Form(f"Delete records of {topic.name}", text, "Delete", back, fields, topic.name, "the topic's name")

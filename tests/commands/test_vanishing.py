"""Topics and groups that are deleted between the listing and the next request are errors only if the user named them in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

import ottla.testing
from ottla.commands import admin, group, topic
from ottla.commands.groups import states as group_states
from ottla.server.program.app import app


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.testing.Broker]:
    with ottla.testing.Broker() as running:
        yield running


@pytest.fixture
def client(broker: ottla.testing.Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


def make_topics(client: AdminClient, *names: str) -> None:
    for future in client.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        future.result(30)


def run(broker: ottla.testing.Broker, *arguments: str) -> tuple[int, str, list[str]]:
    """Returns the exit code, standard error, and the first column."""
    ran = CliRunner().invoke(app, [*arguments, "--bootstrap", broker.bootstrap])
    return ran.exit_code, ran.stderr, [line.split("\t")[0] for line in ran.stdout.splitlines()]


@pytest.mark.parametrize(
    ("names", "failure"),
    [
        (["vanish-*"], ""),
        (["--regex", "vanish-.*"], ""),
        (["vanish-*", "vanish-goes"], "ottla: topic vanish-goes: there is no such topic or partition\n"),
    ],
)
def test_a_topic(
    broker: ottla.testing.Broker, client: AdminClient, monkeypatch: pytest.MonkeyPatch, names: list[str], failure: str
) -> None:
    make_topics(client, "vanish-goes", "vanish-stays")
    states = topic.Reader.states

    def states_later(*arguments: Any) -> Any:
        client.delete_topics(["vanish-goes"])["vanish-goes"].result(30)
        return states(*arguments)

    monkeypatch.setattr(topic.Reader, "states", states_later)
    code, errors, shown = run(broker, "topic", "describe", *names)
    client.delete_topics(["vanish-stays"])["vanish-stays"].result(30)
    assert (code, errors) == (int(bool(failure)), failure)
    assert shown == ["vanish-stays"]


@pytest.mark.parametrize(("names", "failure"), [([], ""), (["goes", "stay*"], "ottla: group goes: there is no such group\n")])
def test_a_group(
    broker: ottla.testing.Broker, client: AdminClient, monkeypatch: pytest.MonkeyPatch, names: list[str], failure: str
) -> None:
    if "read" not in client.list_topics(timeout=30).topics:
        make_topics(client, "read")
    for name in ("goes", "stays"):
        member = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name, "log_level": 0})
        member.commit(offsets=[TopicPartition("read", 0, 0)], asynchronous=False)
        member.close()
    states_of = group_states.states_of

    def states_later(*arguments: Any) -> Any:
        client.delete_consumer_groups(["goes"])["goes"].result(30)
        return states_of(*arguments)

    monkeypatch.setattr(group, "states_of", states_later)
    code, errors, shown = run(broker, "group", "describe", *names)
    assert (code, errors) == (int(bool(failure)), failure)
    assert shown == ["stays"]


def test_what_is_no_error() -> None:
    errors = {"gone": "1", "asked": "2", "there": "3"}
    assert admin.not_gone(errors, ["asked"], ["there"], regex=False) == {"asked": "2", "there": "3"}
    assert admin.not_gone(errors, ["asked"], ["there"], regex=True) == {"there": "3"}

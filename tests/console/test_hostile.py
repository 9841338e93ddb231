"""Two hundred hostile values wherever a stranger can write: each page stays what its template made, and shows the value.

Keys, values and headers go through a real broker, ids of groups and clients through its protocol, and settings, addresses and
ids of clusters, which a broker checks, are what a fake says. `Browser.get` holds every page against the templates' tags and
attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import ottla.testing
from compat_tests.console.hostile import HOSTILE
from ottla.commands.clients import direct
from ottla.commands.clients.client import Cluster
from ottla.commands.clients.partition import Partition
from ottla.commands.config_rows import Entry
from ottla.commands.groups.rows import MemberState, OffsetState
from ottla.commands.output import Failure
from ottla.commands.program import AccessRule
from ottla.commands.reassignments import Moving
from ottla.commands.tokens import Token
from ottla.commands.why.facts import Awaited, GroupFacts, PartitionFacts
from ottla.console.cluster.lags import Furthest
from ottla.console.cluster.source import Source, Summary
from ottla.console.pages import record
from ottla.console.records.reading import Record
from ottla.console.rendering.folding import folded
from ottla.console.rendering.templates import segment
from ottla.console.rendering.text import shown, visible
from ottla.console.subjects import access, quorum, reassignments, settings, storage, tokens, transactions
from ottla.console.web.app import Beside
from ottla.wire.messages import consumer_group_heartbeat, offset_commit
from tests.console.browser import HOST, Browser, browsing, cells, check_page
from tests.console.fakes import FakeInside, FakeSource, group_state, topic_summary


def on_page(value: str) -> str:
    """Returns what a cell has of the value."""
    return visible(value).strip()


def test_keys_values_and_headers(browser: Browser, topic: Callable[..., str], broker: ottla.testing.Broker, admin: Any) -> None:
    name = topic("hostile")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for value in HOSTILE:
        header = value.replace("\0", "")  # where librdkafka would end it
        producer.produce(name, value.encode(), value.encode(), headers=[(header, value.encode())], partition=0)
    assert producer.flush(30) == 0
    page = browser.get(f"/topics/{name}/messages?from=beginning&n=500").text
    found = cells(page)[6:]
    assert len(found) == 6 * len(HOSTILE)
    for at, value in enumerate(HOSTILE):
        _, _, _, key, text, headers = found[6 * at : 6 * at + 6]
        beginning = on_page(value[:300])
        assert key.startswith(beginning)
        assert text == key
        assert headers.startswith(on_page(value.replace("\0", "")[:60]))
    answer = browser.get(f"/topics/{name}/0/0/value")
    assert answer.body == HOSTILE[0].encode()
    assert answer.headers["content-type"] == "application/octet-stream"


def test_a_record_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Record] = []
    monkeypatch.setattr(record, "_asked_record", lambda _: ("t", 0, 7, found[-1]))
    with browsing(FakeSource([topic_summary("t")])) as browser:
        for value in HOSTILE:
            data = value.encode()
            found.append(Record(0, 7, 0, False, data, data, [(value, data)]))
            texts = check_page(browser.get("/topics/t/0/7").text).texts
            whole = visible(shown(data).text).removeprefix("\n")
            if shown(data).kind == "json" and len(folded(shown(data).text)) > 1:
                assert "".join(whole.split()) in "".join("".join(texts).split()), value
                continue
            assert [text.removeprefix("\n") for text in texts].count(whole) >= 2, value
            assert on_page(value[:300]) in "".join(texts)


@pytest.fixture(scope="module")
def groups(broker: ottla.testing.Broker, source: Source, topic: Callable[..., str]) -> list[str]:
    """Groups that have committed something, each with a hostile name of up to 249 characters."""
    name = topic("hostile-groups")
    commit = offset_commit
    made = list(dict.fromkeys(value[:249] for value in HOSTILE))
    with Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "first"}) as consumer:  # waits until there is a coordinator
        consumer.commit(offsets=[TopicPartition(name, 0, 0)], asynchronous=False)
    with direct.connect(source.cluster, "127.0.0.1", broker.port) as connection:
        for group in made:
            topics = [commit.OffsetCommitRequestTopic(name, partitions=[commit.OffsetCommitRequestPartition(0, 0)])]
            answer = connection.call(commit.OffsetCommitRequest(group, topics=topics), 9)
            assert answer.topics[0].partitions[0].error_code == 0, group
    return made


def test_ids_of_groups(browser: Browser, groups: list[str]) -> None:
    found: list[str] = []
    for page in range(1, -(-len(groups) // 50) + 2):
        found += cells(browser.get(f"/groups?page={page}&kind=classic").text)[6::6]
    assert {on_page(group) for group in groups} <= set(found)
    for at, group in enumerate(groups):
        answer = browser.get(f"/group?id={segment(group)}")
        if "\0" in group:
            assert answer.status in {200, 502}
            continue
        assert answer.status == 200, group
        assert "hostile-groups" in cells(answer.text)
        if at % 10 == 0:
            twice = segment(segment(group))
            assert browser.get(f"/group/reset?name={twice}&to=beginning").status == 200, group


def test_a_hostile_name_does_not_hide_other_groups(browser: Browser, groups: list[str]) -> None:
    """librdkafka cannot ask about a name with a NUL in it."""
    page = browser.get("/groups?q=nul")
    assert page.status == 200
    assert on_page("nul\0inside") in cells(page.text)


def test_ids_of_clients_and_instances(
    browser: Browser, broker: ottla.testing.Broker, source: Source, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic("hostile-clients")
    with direct.connect(source.cluster, "127.0.0.1", broker.port) as connection:
        for at, value in enumerate(HOSTILE):
            monkeypatch.setattr(direct, "CLIENT_ID", value)
            request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                f"hostile-clients-{at % 2}",
                f"{value[:100]}{at}",
                0,
                instance_id=value[:100] + str(at),
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[name],
                topic_partitions=[],
            )
            answer = connection.call(request, 1)
            assert answer.error_code == 0, (value, answer)
    monkeypatch.undo()
    found: list[str] = []
    for group in ("hostile-clients-0", "hostile-clients-1"):
        answer = browser.get(f"/group?id={group}")
        assert answer.status == 200
        found += cells(answer.text)
    assert {on_page(value) for value in HOSTILE} <= set(found)


def test_settings_addresses_and_what_else_a_cluster_says() -> None:
    entries = [Entry(value, value, value, False, False) for value in HOSTILE]
    everything = "".join(HOSTILE)
    groups = []
    for value in HOSTILE:
        member = MemberState(value, value, value, value, (Partition("t", 0),), epoch=1, target=(Partition(value, 0),))
        state = group_state(value, "consumer", value, epoch=1, target_epoch=1)
        offset = OffsetState(Partition(value, 0), 1, 2, member)
        groups.append(replace(state, assignor=value, members=(member,), offsets=(offset,)))
    topics = [topic_summary("t"), *(topic_summary(value) for value in HOSTILE)]
    source = FakeSource(topics, groups, entries, notes=tuple(HOSTILE))
    source.cluster_id = source.host = source.bootstrap = everything
    source.furthest_of = {value: Furthest(value, 1, 2) for value in HOSTILE}
    source.directories_of = [storage.Directory(1, everything, everything, 1, 1, False, [])]
    with browsing(source) as browser:
        for path in (
            "/",
            "/brokers",
            "/brokers/1",
            "/topics/t/settings",
            "/topics/t/groups",
            *(f"/{of}s?page={n}" for of in ("topic", "group") for n in range(6)[1:]),
        ):
            answer = browser.get(path)
            assert answer.status == 200, path
            assert visible(everything) in "".join(check_page(answer.text).texts)  # where the cluster is
        for value in HOSTILE:
            assert browser.get(f"/group?id={segment(value)}").status == 200
            assert browser.get(f"/group/forget?id={segment(value)}").status == 200
        found = cells(browser.get("/topics/t/settings").text)
    assert {on_page(value) for value in HOSTILE} <= set(found)


def _say_hostile_things(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has everything that the pages of administration ask for be hostile values."""
    where = [Partition(value, 0) for value in HOSTILE]
    txn = [transactions.Transaction(value, value, 1, 1, 0, 1, 1, [Partition(value, 0)]) for value in HOSTILE]
    known = [transactions.Producer(one, 1, 2, 3, 4, 5, 6) for one in where]
    held = [transactions.HeldPartition(one, 1, 2, 3, 4) for one in where]
    detail = settings.Detail(
        Entry("key", HOSTILE[0], "topic", False, False),
        "",
        settings.without_markup("\n".join(HOSTILE)),
        [settings.Step(value, value, value) for value in HOSTILE],
    )
    replicas = [storage.Replica(one, 1, 2, True) for one in where]
    answers: dict[tuple[Any, str], Any] = {
        (transactions, "transactions"): txn,
        (transactions, "hanging"): known,
        (transactions, "producers"): known,
        (transactions, "held_back"): held,
        (access, "rules"): [AccessRule(2, value, 3, value, value, 3, 3) for value in HOSTILE],
        (access, "users"): [access.User(value, value, 1) for value in HOSTILE],
        (tokens, "tokens"): [Token(value, value, value, (value,), 1, 2, 3) for value in HOSTILE],
        (tokens, "create"): (Token(HOSTILE[0], HOSTILE[1], None, tuple(HOSTILE), 1, 2, 3), b"secret"),
        (access, "quotas"): [access.Quota({"user": value, "client-id": value}, value, 1.5) for value in HOSTILE],
        (storage, "directories"): (
            [storage.Directory(1, value, value, 1, 1, False, []) for value in HOSTILE],
            HOSTILE,
        ),
        (reassignments, "under_way"): [Moving(one, (1, 2), (2,), (1,)) for one in where],
        (reassignments, "copies"): ({one: [reassignments.Copy(2, False, 1, 2)] for one in where}, HOSTILE),
        (reassignments, "replicas"): {0: (1,)},
        (reassignments, "sizes"): ({0: 1}, HOSTILE),
        (quorum, "quorum"): quorum.Quorum(1, 1, 1, [quorum.Replica(1, True, True, 1, 0, 1, 1, tuple(HOSTILE))]),
        (quorum, "features"): [quorum.Feature(value, 1, 1, 1) for value in HOSTILE],
        (settings, "detail"): detail,
    }
    for (module, name), answer in answers.items():
        monkeypatch.setattr(module, name, lambda *_, answer=answer, **__: answer)
    behind = [transactions.Waiting(one.topic, one, 1) for one in where], HOSTILE
    monkeypatch.setattr(transactions, "groups_behind", lambda _, held: behind if held else ([], []))
    one = txn[0]._replace(state="Ongoing")
    monkeypatch.setattr(transactions, "transaction", lambda _, name: one if name == "open" else txn[HOSTILE.index(name)])
    whole = storage.Directory(1, "whole", None, 1, 1, False, replicas)
    answers[storage, "directories"][0].append(whole)


def test_what_the_pages_of_administration_show(monkeypatch: pytest.MonkeyPatch) -> None:
    _say_hostile_things(monkeypatch)
    with browsing(FakeSource([topic_summary("t")])) as browser:
        for path in (
            *("/transactions", "/transaction/hanging", "/topics/t/producers", "/access", "/access/users", "/access/tokens"),
            *("/access/quotas", "/broker/directories", "/broker/reassignments"),
        ):
            found: list[str] = []
            for page in (1, 2, 3):
                answer = browser.get(f"{path}?page={page}")
                assert answer.status == 200, path
                found += cells(answer.text)
            names = set(found) | {part.strip() for cell in found for part in cell.removeprefix("user ").split(", client id ")}
            assert path == "/topics/t/producers" or {on_page(value) for value in HOSTILE} <= names, path
        for path in ("/transaction?id=open", "/broker/directory?broker=1&path=whole"):
            found = cells(browser.get(path).text) + cells(browser.get(f"{path}&page=2").text)
            assert len({on_page(value) for value in HOSTILE} & set(found)) >= 200, path
        for path in ("/broker/quorum", "/setting?of=topic&name=t&key=key"):
            assert {on_page(value) for value in HOSTILE} <= set(cells(browser.get(path).text)), path
        for value in HOSTILE:
            said = segment(value)
            for path in (
                f"/transaction?id={said}",
                f"/transaction/abort?id={said}",
                f"/broker/directory?broker=1&path={said}",
                f"/access/users/new?name={said}",
                f"/access/users/remove?name={said}&mechanism=SCRAM-SHA-256",
                f"/access/quotas/remove?user={said}&key={said}",
                f"/broker/reassignments/cancel?topic={said}",
                f"/access/tokens/renew?id={said}",
                f"/access/tokens/expire?id={said}",
                f"/access/remove?rule=deny&principal={said}&host={said}&operation=all&resource=group&name={said}&pattern=literal",
                f"/setting?of={said}&name={said}&key={said}",
                f"/group/settings?id={said}",
            ):
                assert browser.get(path).status in {200, 400}, (path, value)
        for value in HOSTILE[::3]:
            for path in ("/access/new", "/access/users/new", "/access/quotas/new", "/access/tokens/new"):
                fields = (
                    "principal",
                    "host",
                    "name",
                    "value",
                    "user",
                    "client-id",
                    "iterations",
                    "owner",
                    "renewers",
                    "lifetime",
                )
                form = dict.fromkeys(fields, value) | {"lifetime": "x"}
                assert browser.post(path, operation="none", mechanism="none", key="none", **form).status == 400


def test_a_new_token_shows_what_the_cluster_answers_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    _say_hostile_things(monkeypatch)
    with browsing(FakeSource()) as browser:
        answer = browser.post("/access/tokens/new")
    texts = "".join(check_page(answer.text).texts)
    assert answer.status == 200
    assert all(visible(value) in texts for value in HOSTILE)


def test_verdicts_and_denials() -> None:
    source, inside = FakeSource(), FakeInside()
    with browsing(source, beside=Beside(inside=inside, without_inside="")) as browser:
        for value in HOSTILE:
            member = MemberState(value, value, value, value, (Partition(value, 0),))
            waits = GroupFacts(
                value,
                state="PreparingRebalance",
                state_before="PreparingRebalance",
                members=(member,),
                awaited=(Awaited(value, value, value, value, 1.0),),
                partitions=(PartitionFacts(Partition(value, 0), high_watermark=5, log_start=0, committed=1, member=member),),
                watched_s=3,
                notes=(value,),
            )
            for facts in (waits, replace(waits, members=(replace(member, partitions=()),), state="Stable", partitions=())):
                source.facts = facts
                answer = browser.get(f"/group/why?id={segment(value)}")
                assert answer.status == 200, value
                assert "".join(check_page(answer.text).texts).count(on_page(value)) >= 3
            told = {"principal": value, "host": value, "api": value, "operation": 3, "resource": 2, "name": value}
            rule = [2, value, 3, value, value, 3, 2]
            inside.answers = {
                "denials": {"enabled": True, "since_ms": 0, "denials": [told | {"times": 1, "last_ms": 0}]},
                "decision": {"allowed": False, "rule": rule, "without_rule": "", "considered": [rule]},
            }
            found = cells(browser.get(f"/denied?principal=User:x&operation=read&resource=topic&name={segment(value)}x").text)
            assert found.count(on_page(value)) >= 3 + 4


def test_what_is_in_the_address_or_a_field_comes_back_as_text() -> None:
    with browsing(FakeSource([topic_summary("t")])) as browser:
        for value in HOSTILE:
            said = segment(value)
            for path in (f"/topics?sort={said}", f"/topics?page={said}", f"/topics?x={said}&q={said}", f"/nothing?{said}"):
                assert browser.get(path).status in {200, 400, 404}, (path, value)
            if not set(value) & set("/\\") and value not in {"", ".", ".."}:
                assert browser.get(f"/topics/{said}").status == 404
                assert browser.get(f"/brokers/{said}").status in {200, 400, 404}
            form = {"name": value, "partitions": value, "replicas": value, "settings": value}
            assert browser.post("/new-topic", **form).status == 400
            form = {"partition": value, "key": value, "value": value, "headers": value}
            assert browser.post("/topics/t/produce", **(form | {"partition": "x"})).status == 400
            assert browser.ask("GET", f"/?token={said}", {"Host": HOST}).status == 401


def test_what_a_cluster_answers_with_is_text() -> None:
    class Failing(FakeSource):
        def summary(self) -> Summary:
            raise Failure(self.cluster_id)

    source = Failing()
    with browsing(source) as failing:
        for value in HOSTILE:
            source.cluster_id = value
            answer = failing.get("/")
            assert answer.status == 502
            assert on_page(value) in "".join(check_page(answer.text).texts)


def test_a_cluster_that_is_away_is_said_on_every_page() -> None:
    away = Source(Cluster({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=5))
    with browsing(away) as browser:
        for path in ("/", "/topics", "/topics/t", "/topics/t/messages", "/groups", "/brokers", "/transactions", "/access/users"):
            answer = browser.get(path)
            assert answer.status == 502
            assert "cannot reach 127.0.0.1:1: connection refused" in answer.text

"""The jobs that every client of programs.py does, against ottla and against Apache Kafka: test_go.py, test_node.py, test_rust.py
name the clients and what each can.

Administrative calls and their results (`topic`, `group`, `partition` and so on are arguments; null where nothing is said):

    create_topic      count, settings     null          list_groups                          names
    describe_topic                        partitions    describe_group                       {"state", "members"}
    list_topics                           names         commit_offsets    topic, offsets     null
    describe_configs  names               values        fetch_offsets     topic, partitions  offsets by partition
    alter_configs     settings            null          delete_offsets    topic, partition   null
    replace_configs   settings            null          delete_group                         null
    create_partitions count (in all)      null          log_dirs          topic              bytes by partition
    delete_records    partition, offset   null          describe_cluster                     {"cluster_id", "controller",
    delete_topic                          null                                               "brokers"}
    elect_leaders     partition           error code    list_reassignments partition             partitions on the move
    describe_producers partition          producers     describe_quotas                          entries
    list_offsets      partition, and at ("earliest", "latest") or timestamp_ms: an offset

`alter_configs` is IncrementalAlterConfigs, `replace_configs` the older AlterConfigs, which takes away what it does not name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import pytest
from confluent_kafka import Producer

from compat_tests.brokers import Address
from compat_tests.programs import Member, Program, wait_while_alive
from compat_tests.reference.kafka import CLUSTER_ID, NODE_ID
from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from ottla.wire.batch import CODEC_MASK, iter_batches

Unique = Callable[[str], str]
Test = TypeVar("Test", bound=Callable[..., None])
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")  # by their numbers in a batch
ELECTION_NOT_NEEDED = 84
PARTITIONS = [0, 1, 2, 3]


@pytest.fixture
def raw(broker: Address, unique: Unique) -> Any:
    wire = Wire(broker, unique("raw"))
    yield wire
    wire.close()


@pytest.fixture
def topic(raw: Wire) -> str:
    """Four partitions, all led."""
    return raw.create("jobs", len(PARTITIONS))


def record(value: str | None, n: int = 0, partition: int = 0, key: str | None = None, headers: Any = ()) -> dict[str, Any]:
    return {
        "partition": partition,
        "timestamp_ms": TODAY_MS + 1000 * n,
        "key": key,
        "value": value,
        "headers": [list(header) for header in headers],
    }


def sending(records: list[dict[str, Any]], codec: str = "none", acks: str = "all", idempotent: bool = False) -> dict[str, Any]:
    return {"codec": codec, "acks": acks, "idempotent": idempotent, "records": records}


def comparable(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without offsets, and with one spelling of "no headers"."""
    return [{**one, "offset": None, "headers": one["headers"] or []} for one in records]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"call": name, **arguments}


def values(records: list[dict[str, Any]]) -> list[str]:
    return [one["value"] for one in records]


def needs(name: str) -> Callable[[Test], Test]:
    """Marks a test that is not one of a client without this administrative call."""

    def mark(test: Test) -> Test:
        test.needs = name  # type: ignore[attr-defined]  # mypy knows no attributes of functions
        return test

    return mark


class ClientJobs:
    """The tests of one client. A subclass says which client and what it can; what it cannot is not tried."""

    program: ClassVar[Program]
    codecs: ClassVar[tuple[str, ...]] = CODECS
    idempotent: ClassVar[bool] = True
    acks: ClassVar[tuple[str, ...]] = ("none", "leader", "all")
    no_call: ClassVar[frozenset[str]] = frozenset()  # administrative calls it does not have
    reports_refused_settings: ClassVar[bool] = True
    transactions: ClassVar[bool] = True
    reads_committed: ClassVar[bool] = True
    offsets_in_transactions: ClassVar[bool] = True  # of a group that it is no member of
    null_header: ClassVar[bool] = True  # it can send a header without a value
    empty_reads_as: ClassVar[str | None] = ""  # its reader may not tell "" and null apart

    def __init_subclass__(cls) -> None:
        for name, test in vars(ClientJobs).items():
            if getattr(test, "needs", None) in cls.no_call:
                setattr(cls, name, None)  # not collected
        if not cls.transactions:
            cls.test_transactions = None  # type: ignore[assignment, method-assign]  # not collected, as above
        if not cls.reads_committed:
            cls.test_reads_what_is_committed = None  # type: ignore[assignment, method-assign]  # as above
        if not cls.no_call:
            cls.test_has_no_more_calls_than_are_tried = None  # type: ignore[assignment, method-assign]  # as above

    def can(self, *calls: str) -> bool:
        return not self.no_call & set(calls)

    def admin(self, bootstrap: str, *calls: dict[str, Any]) -> list[Any]:
        """The results; of the calls that the client does not have, None. An error fails."""
        able = [n for n, one in enumerate(calls) if self.can(one["call"])]
        results: list[Any] = [None] * len(calls)
        for n, line in zip(able, self.program.admin(bootstrap, *(calls[n] for n in able)), strict=True):
            assert "error" not in line, f"{calls[n]}: {line['error']}"
            results[n] = line["result"]
        return results

    def as_read(self, one: dict[str, Any]) -> dict[str, Any]:
        def read(text: str | None) -> str | None:
            return self.empty_reads_as if text == "" else text

        headers = [[name, read(value)] for name, value in one["headers"]]
        return {**one, "key": read(one["key"]), "value": read(one["value"]), "headers": headers}

    def test_a_record_comes_back_as_it_was_sent(self, bootstrap: str, topic: str) -> None:
        headers = [("origin", "test"), ("empty", "")] + ([("null", None)] if self.null_header else [])
        shapes = [("key", "value"), (None, "no key"), ("no value", None), ("", ""), (None, None), ("clé", "grüße 🎈")]
        ways = [{"acks": acks} for acks in self.acks] + ([{"acks": "all", "idempotent": True}] if self.idempotent else [])
        sent = [[record(v, n, p, k, headers) for n, (k, v) in enumerate(shapes)] for p in range(len(ways))]
        offsets = self.program.produce(bootstrap, topic, *(sending(s, **way) for s, way in zip(sent, ways, strict=True)))
        expected = [[-1] * len(shapes) if way["acks"] == "none" else list(range(len(shapes))) for way in ways]
        assert offsets == expected
        got = self.program.consume(bootstrap, topic, len(ways) * len(shapes), partitions=PARTITIONS[: len(ways)])
        assert comparable(got) == comparable([self.as_read(one) for records in sent for one in records])

    def test_every_codec(self, bootstrap: str, raw: Wire) -> None:
        """Codec by codec; the batches on the broker have that codec, and a producer id if idempotent."""
        topic = raw.create("codecs", len(CODECS))
        ways = [(codec, idempotent) for codec in self.codecs for idempotent in ([False, True] if self.idempotent else [False])]
        sends = [
            sending([record(f"{n}:" + "compressible " * 20, n, CODECS.index(codec)) for n in range(100)], codec, idempotent=i)
            for codec, i in ways
        ]
        self.program.produce(bootstrap, topic, *sends)
        numbers = [CODECS.index(codec) for codec in self.codecs]
        got = self.program.consume(bootstrap, topic, sum(len(one["records"]) for one in sends), partitions=numbers)
        assert comparable(got) == comparable([one for way in sends for one in way["records"]])
        for partition in numbers:
            answer = raw.fetch(topic, partition=partition).responses[0].partitions[0]
            headers = [header for header, _ in iter_batches(answer.records)]
            assert {header.attributes & CODEC_MASK for header in headers} == {partition}
            assert {header.producer_id >= 0 for header in headers} == ({False, True} if self.idempotent else {False})

    def test_transactions(self, bootstrap: str, raw: Wire, topic: str, unique: Unique) -> None:
        """One producer commits, aborts and commits; who reads only what is committed does not see the middle."""
        raw.warm_up()
        group = unique("txn-group")
        groups: list[dict[str, Any]] = [{}, {}, {}]
        if self.offsets_in_transactions:
            groups = [{"group": group, "offsets": {"0": 11}}, {"group": group, "offsets": {"0": 12, "1": 13}}, {}]
        rounds = [
            {
                "records": [record(f"{name}-{p}-{n}", n, p) for p in (0, 1) for n in range(3)],
                "commit": name != "aborted",
                **with_group,
            }
            for name, with_group in zip(("first", "aborted", "last"), groups, strict=True)
        ]
        offsets = self.program.transact(bootstrap, topic, unique("txn"), *rounds)
        assert offsets == [[start + n for _ in (0, 1) for n in range(3)] for start in (0, 4, 8)]  # a marker after each
        self.check_isolation(bootstrap, topic)
        if self.offsets_in_transactions:
            found = self.admin(bootstrap, call("fetch_offsets", group=group, topic=topic, partitions=PARTITIONS))[0]
            assert found == {"0": 11}

    def test_reads_what_is_committed(self, bootstrap: str, topic: str, unique: Unique) -> None:
        """Whoever wrote it: here librdkafka."""
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("txn")})
        producer.init_transactions(60)
        for name in ("first", "aborted", "last"):
            producer.begin_transaction()
            for p in (0, 1):
                for n in range(3):
                    producer.produce(topic, f"{name}-{p}-{n}", partition=p)
            producer.flush(60)  # or an abort would take back what was not sent yet
            (producer.abort_transaction if name == "aborted" else producer.commit_transaction)(60)
        self.check_isolation(bootstrap, topic)

    def check_isolation(self, bootstrap: str, topic: str) -> None:
        for committed, names in ((True, ("first", "last")), (False, ("first", "aborted", "last"))):
            expected = [f"{name}-{p}-{n}" for p in (0, 1) for name in names for n in range(3)]
            got = self.program.consume(bootstrap, topic, len(expected), partitions=[0, 1], committed=committed)
            assert values(got) == expected

    def test_consumes_from_the_start_an_offset_or_a_timestamp(self, bootstrap: str, topic: str) -> None:
        records = [record(f"p{p}-{n}", n, p) for p in (0, 2) for n in range(20)]
        self.program.produce(bootstrap, topic, sending(records))

        def read(count: int, **at: Any) -> list[str]:
            return values(self.program.consume(bootstrap, topic, count, partitions=[0, 2], **at))

        assert read(40) == [f"p{p}-{n}" for p in (0, 2) for n in range(20)]
        assert read(6, offset=17) == [f"p{p}-{n}" for p in (0, 2) for n in range(17, 20)]
        between = TODAY_MS + 1000 * 14 + 1  # after the record at 14: the next is the first
        assert read(10, timestamp_ms=between) == [f"p{p}-{n}" for p in (0, 2) for n in range(15, 20)]

    def test_two_members_of_a_group_share_and_hand_over(self, bootstrap: str, topic: str, unique: Unique) -> None:
        """A second member joins, partitions split, the first leaves: nothing is lost, and the commits stay."""
        group, round_size = unique("group"), 5

        def fill(rounds: int) -> list[str]:
            """One more round into every partition; the values of all rounds so far."""
            last = [record(f"p{p}-{rounds}-{n}", n, p) for p in PARTITIONS for n in range(round_size)]
            self.program.produce(bootstrap, topic, sending(last))
            return [f"p{p}-{r}-{n}" for p in PARTITIONS for r in range(rounds + 1) for n in range(round_size)]

        def all_seen(members: list[Member], expected: list[str]) -> bool:
            return {v for member in members for v in values(member.records)} == set(expected)

        expected = fill(0)
        with self.program.join(bootstrap, group, topic) as first:
            wait_while_alive([first], lambda: first.assigned == PARTITIONS, "the first member has all")
            wait_while_alive([first], lambda: all_seen([first], expected), "the first member reads all")
            with self.program.join(bootstrap, group, topic) as second:
                both = [first, second]
                split = lambda: len(first.assigned) == 2 and sorted(first.assigned + second.assigned) == PARTITIONS  # noqa: E731
                wait_while_alive(both, split, "two partitions each")
                before = len(second.records)
                expected = fill(1)
                wait_while_alive(both, lambda: all_seen(both, expected), "both read all")
                assert len(second.records) > before, "the second member reads its own"
                assert self.admin(bootstrap, call("describe_group", group=group)) == [{"state": "Stable", "members": 2}]
                first.leave()
                wait_while_alive([second], lambda: second.assigned == PARTITIONS, "the second member has all")
                expected = fill(2)
                wait_while_alive([second], lambda: all_seen(both, expected), "the second member reads the rest")
        committed = self.admin(bootstrap, call("fetch_offsets", group=group, topic=topic, partitions=PARTITIONS))
        assert committed == [{str(p): 3 * round_size for p in PARTITIONS}]
        expected = fill(3)
        with self.program.join(bootstrap, group, topic) as third:  # what was committed is not read again
            wait_while_alive([third], lambda: len(third.records) >= round_size * len(PARTITIONS), "the new round comes")
        assert sorted(values(third.records)) == sorted(v for v in expected if v.split("-")[1] == "3")

    def test_topics(self, bootstrap: str, unique: Unique, raw: Wire) -> None:
        name = unique("topics")
        self.admin(bootstrap, call("create_topic", topic=name, count=2, settings={"retention.ms": "86400000"}))
        raw.wait_for_topic(name, 2)
        partitions, names, configs = self.admin(
            bootstrap,
            call("describe_topic", topic=name),
            call("list_topics"),
            call("describe_configs", topic=name, names=["retention.ms", "cleanup.policy"]),
        )
        assert partitions == 2
        assert name in names
        assert configs == {"retention.ms": "86400000", "cleanup.policy": "delete"}
        again = self.program.admin(bootstrap, call("create_topic", topic=name, count=2, settings={}))
        assert "error" in again[0]
        self.admin(bootstrap, call("create_partitions", topic=name, count=3))
        raw.wait_for_topic(name, 3)
        assert self.admin(bootstrap, call("describe_topic", topic=name)) == [3]
        self.admin(bootstrap, call("delete_topic", topic=name))
        raw.wait_until_gone(name)

    @needs("alter_configs")
    def test_settings_change_one_by_one(self, bootstrap: str, topic: str) -> None:
        first, second = {"max.message.bytes": "2000000"}, {"retention.bytes": "3000000"}
        self.change_settings(bootstrap, topic, "alter_configs", (first, first), (second, first | second))

    @needs("replace_configs")
    def test_settings_replace_those_before(self, bootstrap: str, topic: str) -> None:
        first, second = {"max.message.bytes": "2000000"}, {"retention.bytes": "3000000"}
        default = {"max.message.bytes": "1048588"}
        self.change_settings(bootstrap, topic, "replace_configs", (first, first), (second, default | second))

    def change_settings(self, bootstrap: str, topic: str, how: str, *steps: tuple[dict[str, str], dict[str, str]]) -> None:
        """Make the changes, each of which must lead to the settings beside it; then one that is refused and changes nothing."""
        for change, after in steps:
            self.admin(bootstrap, call(how, topic=topic, settings=change))
            self.wait_for_settings(bootstrap, topic, after)
        refused = self.program.admin(bootstrap, call(how, topic=topic, settings={"max.message.bytes": "many"}))
        assert ("error" in refused[0]) == self.reports_refused_settings
        self.wait_for_settings(bootstrap, topic, steps[-1][1])

    def wait_for_settings(self, bootstrap: str, topic: str, settings: dict[str, str]) -> None:
        describe = call("describe_configs", topic=topic, names=list(settings))
        wait_for(lambda: self.admin(bootstrap, describe) == [settings], f"{topic} has {settings}")

    def test_offsets_and_records(self, bootstrap: str, topic: str) -> None:
        self.program.produce(bootstrap, topic, sending([record(f"v{n}", n, 1) for n in range(10)]))

        def offsets() -> list[Any]:
            where: list[dict[str, Any]] = [{"at": "earliest"}, {"at": "latest"}, {"timestamp_ms": TODAY_MS + 3001}]
            return self.admin(bootstrap, *(call("list_offsets", topic=topic, partition=1, **at) for at in where))

        assert offsets() == [0, 10, 4]
        if self.can("delete_records"):
            self.admin(bootstrap, call("delete_records", topic=topic, partition=1, offset=6))
            assert offsets() == [6, 10, 6]
            assert values(self.program.consume(bootstrap, topic, 4, partitions=[1])) == ["v6", "v7", "v8", "v9"]

    def test_offsets_of_a_group(self, bootstrap: str, topic: str, unique: Unique, raw: Wire) -> None:
        raw.warm_up()
        group = unique("admin-group")
        self.program.produce(bootstrap, topic, sending([record(f"v{n}", n, p) for n in range(9) for p in (0, 1)]))
        self.admin(bootstrap, call("commit_offsets", group=group, topic=topic, offsets={"0": 4, "1": 7}))
        fetch = call("fetch_offsets", group=group, topic=topic, partitions=PARTITIONS)
        names, described, offsets = self.admin(bootstrap, call("list_groups"), call("describe_group", group=group), fetch)
        assert group in names
        assert described == {"state": "Empty", "members": 0}
        assert offsets == {"0": 4, "1": 7}
        self.admin(bootstrap, call("delete_group", group=group))
        assert group not in self.admin(bootstrap, call("list_groups"))[0]

    def test_the_cluster(self, bootstrap: str) -> None:
        known = {"cluster_id": CLUSTER_ID, "controller": NODE_ID, "brokers": [NODE_ID]}
        found = self.admin(bootstrap, call("describe_cluster"))[0]
        assert "brokers" in found
        assert found == {name: known[name] for name in found}  # not every client tells all

    @needs("delete_offsets")
    def test_single_offsets_of_a_group_go(self, bootstrap: str, topic: str, unique: Unique, raw: Wire) -> None:
        raw.warm_up()
        group = unique("admin-group")
        self.admin(
            bootstrap,
            call("commit_offsets", group=group, topic=topic, offsets={"0": 4, "1": 7}),
            call("delete_offsets", group=group, topic=topic, partition=0),
        )
        found = self.admin(bootstrap, call("fetch_offsets", group=group, topic=topic, partitions=PARTITIONS))[0]
        assert found == {"1": 7}

    @needs("log_dirs")
    def test_bytes_in_the_log_directories(self, bootstrap: str, topic: str) -> None:
        self.program.produce(bootstrap, topic, sending([record("x" * 1000, n, 2) for n in range(3)]))
        sizes = self.admin(bootstrap, call("log_dirs", topic=topic))[0]
        assert sizes.keys() == {str(p) for p in PARTITIONS}
        assert sizes["0"] == 0
        assert 3000 < sizes["2"] < 3500

    def test_has_no_more_calls_than_are_tried(self, bootstrap: str) -> None:
        names = sorted(self.no_call)
        answers = self.program.admin(bootstrap, *(call(name, topic="unused", group="unused") for name in names))
        for name, answer in zip(names, answers, strict=True):
            assert f"no call for {name}" in answer.get("error", ""), answer

    def test_what_one_broker_has_little_to_say_of(self, bootstrap: str, topic: str) -> None:
        self.program.produce(bootstrap, topic, sending([record("x", 0, 3)], idempotent=self.idempotent))
        expected = {
            "elect_leaders": ELECTION_NOT_NEEDED,
            "list_reassignments": 0,
            "describe_producers": 1 if self.idempotent else 0,
            "describe_quotas": 0,
        }
        asked = {name: call(name, topic=topic, partition=3) for name in expected if self.can(name)}
        found = self.admin(bootstrap, *asked.values())
        assert dict(zip(asked, found, strict=True)) == {name: expected[name] for name in asked}

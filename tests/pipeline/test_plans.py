"""Tests of what archive, replay and audit make of their options, before there is Spark."""

from __future__ import annotations

import json
import pickle
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.pipeline import archive, audit, audit_job, compare, tables, values
from ottla.pipeline.audit import Audit, Finding, listed
from ottla.pipeline.cluster import KafkaCluster, java_properties
from ottla.pipeline.errors import PipelineError, UsageError
from ottla.pipeline.replay import Replay
from ottla.pipeline.run import RunOptions
from ottla.pipeline.sql.topic_sink import BatchWriter, TopicWriter

CLUSTER = KafkaCluster({"bootstrap.servers": "here:9092", "security.protocol": "ssl"})


def test_the_other_side_of_an_audit(tmp_path: Path) -> None:
    def other(against: str | None, match: str = "auto") -> audit_job.Directory | audit_job.Topic | None:
        return audit_job.other_side(CLUSTER, "t", against, match)

    assert other(None) is None
    assert other(str(tmp_path)) == audit_job.Directory(str(tmp_path), "auto")
    assert other("./no-such", "offset") == audit_job.Directory("no-such", "offset")
    assert other("s3a://bucket/t") == audit_job.Directory("s3a://bucket/t", "auto")
    assert other("copy") == audit_job.Topic(CLUSTER, "copy", "auto")
    there = CLUSTER.at("far:9092,off:9093")
    assert other("far:9092,off:9093") == audit_job.Topic(there, "t", "auto")
    assert other("far:9092,off:9093/copy") == audit_job.Topic(there, "copy", "auto")
    assert there.properties["security.protocol"] == "ssl"
    with pytest.raises(UsageError, match="is the topic itself"):
        other("t")
    with pytest.raises(UsageError, match="--match: x is not one of auto, offset, content"):
        other("copy", "x")


def test_the_first_findings_of_each_kind_are_listed_and_it_is_known_that_there_are_more() -> None:
    found = [Finding(kind, 0, at, at, 1, "why") for kind, count in (("gap", 3), ("extra", 2)) for at in range(count)]
    assert listed(found, 3) == (found, ())
    assert listed(found, 2) == ([*found[:2], *found[3:]], ("gap",))
    assert listed(found, 1) == ([found[0], found[3]], ("gap", "extra"))


def test_a_replays_group_follows_from_what_is_replayed() -> None:
    plan = Replay(CLUSTER, "dir", "t")
    assert plan.group == Replay(CLUSTER, "dir", "t", rate=3).group  # a rate changes nothing that is written
    others = [Replay(CLUSTER, "dir", "u"), Replay(CLUSTER, "dir", "t", since_ms=1), Replay(CLUSTER, "dir", "t", keys=("k",))]
    assert len({plan.group, *(other.group for other in others)}) == 4
    assert Replay(CLUSTER, "dir", "t", name="mine").group == "mine"
    assert pickle.loads(pickle.dumps(CLUSTER)) == CLUSTER


def test_librdkafkas_properties_in_javas_words(tmp_path: Path) -> None:
    plain = {"bootstrap.servers": "here:9092", "linger.ms": "5"}
    assert java_properties(plain) == {"bootstrap.servers": "here:9092", "security.protocol": "PLAINTEXT"}
    login = {"security.protocol": "sasl_ssl", "sasl.mechanisms": "scram-sha-256", "sasl.username": "u", "sasl.password": 'p"\\'}
    found = java_properties({**plain, **login, "ssl.ca.location": str(tmp_path / "ca.pem")})
    assert found["sasl.mechanism"] == "SCRAM-SHA-256"
    assert found["sasl.jaas.config"].endswith('ScramLoginModule required username="u" password="p\\"\\\\";')
    assert (found["ssl.truststore.type"], found["ssl.truststore.location"]) == ("PEM", str(tmp_path / "ca.pem"))
    with pytest.raises(PipelineError, match=r"Spark cannot log in with sasl\.mechanism=GSSAPI"):
        java_properties({**plain, "security.protocol": "sasl_plaintext", "sasl.mechanism": "GSSAPI"})
    with pytest.raises(PipelineError, match=r"no\.pem: No such file"):
        java_properties({**plain, "security.protocol": "ssl", "ssl.certificate.location": "no.pem"})
    (tmp_path / "cert.pem").write_text("both")
    found = java_properties({**plain, "security.protocol": "ssl", "ssl.certificate.location": str(tmp_path / "cert.pem")})
    assert found["ssl.keystore.certificate.chain"] == found["ssl.keystore.key"] == "both"


def test_certificates_as_pem_need_no_files() -> None:
    pem = {
        "ssl.ca.pem": "ca",
        "ssl.certificate.pem": "chain",
        "ssl.key.pem": "key",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert java_properties({"bootstrap.servers": "here:9092", "security.protocol": "SSL", **pem}) == {
        "bootstrap.servers": "here:9092",
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "ca",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "chain",
        "ssl.keystore.key": "key",
    }


def test_logins_by_token() -> None:
    login = {"bootstrap.servers": "here:9092", "security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}
    words = "principal=me scope=a,b lifeSeconds=60 extension_tenant=7"
    found = java_properties({**login, "enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": words})
    assert found["sasl.jaas.config"].endswith(
        'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="me" unsecuredLoginListClaim_scope=",a,b" '
        'unsecuredLoginLifetimeSeconds="60" unsecuredLoginExtension_tenant="7";'
    )
    server = {"method": "oidc", "token.endpoint.url": "https://t", "client.id": "me", "client.secret": "s", "extensions": "a=1"}
    found = java_properties({**login, **{f"sasl.oauthbearer.{name}": value for name, value in server.items()}})
    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://t"
    assert found["sasl.login.callback.handler.class"].endswith(".OAuthBearerLoginCallbackHandler")
    assert found["sasl.jaas.config"].endswith('OAuthBearerLoginModule required clientId="me" clientSecret="s" extension_a="1";')


def test_secrets_are_in_no_representation() -> None:
    secret = {"bootstrap.servers": "here:9092", "sasl.password": "secret"}
    assert "secret" not in repr(
        (KafkaCluster(secret), TopicWriter(secret, "t", "q", 1), BatchWriter(secret, "t", 1), RunOptions(secret))
    )


@pytest.mark.parametrize("protocol", ["plaintext", "SSL", "sasl_plaintext", "Sasl_Ssl"])
def test_a_protocol_has_a_login_and_certificates_or_not(tmp_path: Path, protocol: str) -> None:
    (tmp_path / "cert.pem").write_text("cert")
    (tmp_path / "key.pem").write_text("key")
    told = {"sasl.mechanism": "plain", "ssl.ca.location": "ca.pem", "ssl.certificate.location": str(tmp_path / "cert.pem")}
    told |= {"ssl.key.location": str(tmp_path / "key.pem"), "ssl.key.password": "secret", "client.id": "me"}
    found = java_properties({"bootstrap.servers": "here:9092", "security.protocol": protocol, **told})
    assert (found["security.protocol"], found["client.id"]) == (protocol.upper(), "me")
    assert ("sasl.mechanism" in found) == ("sasl" in protocol.lower())
    assert ("ssl.truststore.location" in found) == ("ssl" in protocol.lower())
    if "ssl" in protocol.lower():
        assert (found["ssl.keystore.key"], found["ssl.keystore.certificate.chain"]) == ("key", "cert")
        assert found["ssl.key.password"] == "secret"


def test_a_protocol_that_is_none() -> None:
    with pytest.raises(PipelineError, match=r"^tls is not a security\.protocol$"):
        java_properties({"bootstrap.servers": "here:9092", "security.protocol": "TLS"})


class Reader:
    """Stands for a session, its readers and what they read: a dictionary of the options."""

    def __init__(self) -> None:
        self.read = self.readStream = self
        self.told: dict[str, str] = {}

    def format(self, name: str) -> Reader:
        self.told = {"format": name}
        return self

    def options(self, **options: str) -> Reader:
        self.told |= options
        return self

    def load(self) -> Any:
        return self.told


def test_what_a_cluster_asks_of_sparks_connector() -> None:
    spark: Any = Reader()
    common = {
        "format": "kafka",
        "kafka.bootstrap.servers": "here:9092",
        "kafka.security.protocol": "SSL",
        "includeHeaders": "true",
    }
    committed, uncommitted = ({"kafka.isolation.level": f"read_{level}"} for level in ("committed", "uncommitted"))
    of_topic = {"subscribe": "t", "startingOffsets": "earliest"}
    asks: list[Any] = [CLUSTER.read, CLUSTER.read_stream]
    for ask in asks:
        assert ask(spark, "t", startingOffsets="earliest") == common | committed | of_topic
        assert ask(spark, "t", False, startingOffsets="earliest") == common | uncommitted | of_topic
    between: Any = CLUSTER.read_between(spark, "t", {1: 5, 0: 2}, {1: 9, 0: 2}, failOnDataLoss="false")
    assert json.loads(between.pop("assign")) == {"t": [0, 1]}
    assert json.loads(between.pop("startingOffsets")) == {"t": {"0": 2, "1": 5}}
    assert json.loads(between.pop("endingOffsets")) == {"t": {"0": 2, "1": 9}}
    assert between == common | committed | {"failOnDataLoss": "false"}


# An audit


class AuditedRows(list[str]):
    """The rows of one side, as names."""

    def persist(self) -> AuditedRows:
        self.append("persisted")
        return self

    def unpersist(self) -> None:
        self.append("unpersisted")

    def count(self) -> int:  # type: ignore[override]  # as a DataFrame's
        return 42


@pytest.mark.parametrize(
    ("other", "how"),
    [
        (None, None),
        (audit_job.Directory("dir", "auto"), "by_offset"),
        (audit_job.Directory("dir of u", "auto"), "by_content"),
        (audit_job.Directory("dir of u", "offset"), "by_offset"),
        (audit_job.Directory("dir", "content"), "by_content"),
        (audit_job.Topic(CLUSTER, "u", "auto", lambda: {0: (0, 7)}), "by_content"),
        (audit_job.Topic(CLUSTER, "u", "offset", lambda: {0: (0, 7)}), "by_offset"),
        (audit_job.Topic(CLUSTER, "u", "offset"), "by_offset"),
    ],
)
def test_how_an_audit_compares_its_sides(
    monkeypatch: pytest.MonkeyPatch, other: audit_job.Directory | audit_job.Topic | None, how: str | None
) -> None:
    read: list[tuple[str, Any]] = []
    topic = AuditedRows()
    asked: list[str] = []
    filled: list[Any] = []

    def of_topic(_spark: Any, _cluster: Any, name: str, bounds: Any) -> AuditedRows:
        read.append((name, bounds))
        return topic if name == "t" else AuditedRows()

    def alone(_spark: Any, _rows: Any, _plan: Any, bounds: Any, _explain: Any) -> list[Finding]:
        filled.append(bounds)
        return [Finding("gap", 0, 0, 0, 1, "")] * 2

    def compared(how: str, *_: Any) -> list[Finding]:
        asked.append(how)
        return [Finding("extra", 0, 0, 0, 1, "")]

    monkeypatch.setattr(audit, "of_topic", of_topic)
    monkeypatch.setattr(audit, "alone", alone)
    monkeypatch.setattr(audit, "canonical", lambda rows: rows)
    monkeypatch.setattr(archive, "read", lambda _spark, path: (AuditedRows(), {"topic": "u" if path.endswith("u") else "t"}))
    for name in ("by_offset", "by_content"):
        monkeypatch.setattr(compare, name, partial(compared, name))
    nothing: Any = None
    bounds = {0: (3, 9), 1: (5, 5), 2: (4, 5)}
    found = audit_job.run(nothing, CLUSTER, "t", lambda: bounds, other, Audit(limit=1), nothing)
    assert (asked, topic) == ([] if how is None else [how], ["persisted", "unpersisted"])
    assert filled == [{0: (3, 9), 2: (4, 5)}], "an empty partition has no gaps"
    far = {0: (0, 7)} if isinstance(other, audit_job.Topic) and other.look is not None else {}
    assert read == [("t", bounds), *([("u", far)] if isinstance(other, audit_job.Topic) else [])]
    kinds = ["gap"] if how is None else ["gap", "extra"]
    assert (found.records, [one.kind for one in found.findings], found.cut) == (42, kinds, ("gap",))


def test_an_audit_reads_what_lies_between_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    cluster: Any = SimpleNamespace(read_between=lambda _spark, *between: asked.append(between))
    monkeypatch.setattr(audit, "canonical", lambda rows: rows)
    nothing: Any = None
    audit.of_topic(nothing, cluster, "t", {0: (3, 9), 1: (5, 6)})
    assert asked == [("t", {0: 3, 1: 5}, {0: 9, 1: 6})]


def test_the_session_of_an_audit_is_that_of_the_archive_on_the_other_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "conf_of", lambda directory: {"for": directory})
    assert audit_job.conf(audit_job.Directory("dir", "auto")) == {"for": "dir"}
    assert audit_job.conf(audit_job.Topic(CLUSTER, "u", "auto")) == audit_job.conf(None) == {}


def test_schemas_that_are_none(tmp_path: Path) -> None:
    for kind, given, why in (
        ("xml", None, "--value: xml is not one of raw, json, avro, framed-avro"),
        ("raw", "id INT", "says nothing about raw values"),
        ("avro", None, "does not contain its schema"),
        ("avro", "{not json}", "is not an Avro schema"),
        ("framed-avro", '{"name": "x"}', "it has no type"),
        ("json", str(tmp_path / "no.ddl"), "No such file"),
    ):
        with pytest.raises(UsageError, match=why):
            values.check_given(kind, given)
    values.check_given("json", "id INT, name STRING")
    (tmp_path / "a.avsc").write_text('{"type": "long"}')
    values.check_given("avro", str(tmp_path / "a.avsc"))
    assert values.text_of(str(tmp_path / "a.avsc")) == '{"type": "long"}'


def test_what_a_table_format_needs_of_the_session(tmp_path: Path) -> None:
    plan = archive.Archive(CLUSTER, "t", str(tmp_path), table="delta")
    assert archive.conf(plan) == tables.DELTA_CONF
    assert archive.conf_of(str(tmp_path)) == {}
    (tmp_path / "_ottla").mkdir()
    for table, needed in (("delta", tables.DELTA_CONF), ("iceberg", {}), ("parquet", {})):
        (tmp_path / "_ottla" / "archive.json").write_text(f'{{"format": "{table}"}}')
        assert archive.conf_of(str(tmp_path)) == needed
    with pytest.raises(UsageError, match="--format: csv is not one of parquet, delta, iceberg"):
        archive.check(archive.Archive(CLUSTER, "t", "d", table="csv"))

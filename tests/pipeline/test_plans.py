"""What archive, replay and audit make of their options, before there is Spark."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from ottla.pipeline import archive, audit_job, tables, values
from ottla.pipeline.audit import Finding, listed
from ottla.pipeline.cluster import KafkaCluster, java_properties
from ottla.pipeline.errors import PipelineError, UsageError
from ottla.pipeline.replay import Replay

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

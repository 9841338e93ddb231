"""A Kafka cluster for Spark's connector: translates librdkafka's properties, which the commands use, into those of the Java
client.

| librdkafka | Java | |---|---| | sasl.mechanism(s), sasl.username, sasl.password | sasl.mechanism, sasl.jaas.config | |
ssl.ca.location | ssl.truststore.type PEM, ssl.truststore.location | | ssl.certificate.location, ssl.key.location,
ssl.key.password | ssl.keystore.type PEM, .certificate.chain, .key | | client.id, security.protocol,
ssl.endpoint.identification.algorithm | the same names |

Other properties concern only librdkafka and are not passed to Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SAME: Final = ("client.id", "security.protocol", "ssl.endpoint.identification.algorithm")
_LOGIN: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PROTOCOLS: Final = {"plaintext", "ssl", "sasl_plaintext", "sasl_ssl"}


@dataclass(frozen=True)
class KafkaCluster:
    """How a cluster is reached: `properties` are librdkafka's, bootstrap.servers among them. It can be pickled, because executors
    make producers from it."""

    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return self.properties["bootstrap.servers"]

    def at(self, bootstrap: str) -> KafkaCluster:
        """Returns another cluster, which is reached in the same way."""
        return KafkaCluster({**self.properties, "bootstrap.servers": bootstrap})

    def spark_options(self, *, committed: bool = True) -> dict[str, str]:
        """Returns the options of Spark's kafka source and sink. Raises PipelineError for a login or a file that cannot be
        translated."""
        java = java_properties(self.properties)
        java["isolation.level"] = "read_committed" if committed else "read_uncommitted"
        return {f"kafka.{key}": value for key, value in java.items()}

    def read(self, spark: SparkSession, topic: str, committed: bool = True, /, **options: str) -> DataFrame:
        """Returns a topic's records by a batch job, with their headers."""
        reader = spark.read.format("kafka").options(**self.spark_options(committed=committed))
        frame: DataFrame = reader.options(**self._source(topic), **options).load()
        return frame

    def read_between(
        self, spark: SparkSession, topic: str, starts: Mapping[int, int], ends: Mapping[int, int], /, **options: str
    ) -> DataFrame:
        """Returns the committed records of these partitions between the offsets, with their headers; each read gives the same."""
        reader = spark.read.format("kafka").options(**self.spark_options(), includeHeaders="true", **options)
        frame: DataFrame = reader.options(
            assign=json.dumps({topic: sorted(ends)}),
            startingOffsets=json.dumps({topic: starts}),
            endingOffsets=json.dumps({topic: ends}),
        ).load()
        return frame

    def read_stream(self, spark: SparkSession, topic: str, committed: bool = True, /, **options: str) -> DataFrame:
        """Returns a topic's records by a streaming job, with their headers."""
        reader = spark.readStream.format("kafka").options(**self.spark_options(committed=committed))
        frame: DataFrame = reader.options(**self._source(topic), **options).load()
        return frame

    @staticmethod
    def _source(topic: str) -> dict[str, str]:
        return {"subscribe": topic, "includeHeaders": "true"}


def java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns librdkafka's properties as properties of the Java client."""
    found = {key: properties[key] for key in _SAME if key in properties}
    found["bootstrap.servers"] = properties["bootstrap.servers"]
    protocol = properties.get("security.protocol", "plaintext").lower()
    if protocol not in _PROTOCOLS:
        raise PipelineError(f"{protocol} is not a security.protocol")
    found["security.protocol"] = protocol.upper()
    if protocol.startswith("sasl"):
        mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "")).upper()
        if mechanism not in _LOGIN:
            raise PipelineError(f"Spark cannot log in with sasl.mechanism={mechanism or '?'}; it can with {', '.join(_LOGIN)}")
        user, password = (_quoted(properties.get(key, "")) for key in ("sasl.username", "sasl.password"))
        found["sasl.mechanism"] = mechanism
        found["sasl.jaas.config"] = f'{_LOGIN[mechanism]} required username="{user}" password="{password}";'
    if protocol.endswith("ssl"):
        if authority := properties.get("ssl.ca.location"):
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(Path(authority).resolve())}
        if certificate := properties.get("ssl.certificate.location"):
            key = properties.get("ssl.key.location", certificate)
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": _text(certificate)}
            found["ssl.keystore.key"] = _text(key)
            if "ssl.key.password" in properties:
                found["ssl.key.password"] = properties["ssl.key.password"]
    return found


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}") from None

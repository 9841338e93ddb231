"""A Kafka cluster for Spark's connector: translates librdkafka's properties, which the commands use, into those of the Java
client.

| librdkafka | Java |
|---|---|
| sasl.mechanism(s), sasl.username, sasl.password | sasl.mechanism, sasl.jaas.config |
| sasl.oauthbearer.* | the same, with a sasl.jaas.config of its login module |
| ssl.ca.location | ssl.truststore.type PEM, ssl.truststore.location |
| ssl.ca.pem | ssl.truststore.type PEM, ssl.truststore.certificates |
| ssl.certificate.location, ssl.key.location, or .pem; ssl.key.password | ssl.keystore.type PEM, .certificate.chain, .key |
| client.id, security.protocol, ssl.endpoint.identification.algorithm | the same names |

Other properties concern only librdkafka and are not passed to Spark. With certificates as PEM, which the commands make of a
client.properties, executors need no files. Spark shows its options in plans and in its log; session.py keeps
passwords and keys out of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.pipeline.errors import PipelineError
from ottla.security.jaas import UNSECURED_OPTIONS, login_module

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SAME: Final = ("client.id", "security.protocol", "ssl.endpoint.identification.algorithm")
_BY_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OAUTH: Final = "OAUTHBEARER"
_OAUTH_HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
"""The class that gets tokens from a server, in the Java client that comes with Spark's connector."""
_PROTOCOLS: Final = {"plaintext", "ssl", "sasl_plaintext", "sasl_ssl"}


@dataclass(frozen=True)
class KafkaCluster:
    """A Kafka cluster, and the way to reach it: `properties` are librdkafka's, bootstrap.servers among them. It can be pickled,
    because executors make producers from it."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # there may be passwords in it

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
    if found.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    if protocol.startswith("sasl"):
        found |= _login(properties)
    if protocol.endswith("ssl"):
        found |= _certificates(properties)
    return found


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "")).upper()
    if mechanism == _OAUTH:
        return {"sasl.mechanism": mechanism, **_oauth(properties)}
    if mechanism not in _BY_PASSWORD:
        known = ", ".join((*_BY_PASSWORD, _OAUTH))
        raise PipelineError(f"Spark cannot log in with sasl.mechanism={mechanism or '?'}; it can with {known}")
    options = [(name, properties.get(f"sasl.{name}", "")) for name in ("username", "password")]
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login_module(mechanism, options)}


def _oauth(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns Java's properties of OAUTHBEARER: a token from a server, or one that nobody signs. The connector's Java client is
    older than the properties for id and secret, so they are options of the login module."""
    if properties.get("sasl.oauthbearer.method", "").lower() != "oidc":
        return {"sasl.jaas.config": login_module(_OAUTH, _unsecured(properties.get("sasl.oauthbearer.config", "")))}
    named = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
    given = {option: properties.get(f"sasl.oauthbearer.{name}", "") for option, name in named.items()}
    for word in filter(None, properties.get("sasl.oauthbearer.extensions", "").split(",")):
        name, _, value = word.partition("=")
        given[f"extension_{name}"] = value
    return {
        "sasl.oauthbearer.token.endpoint.url": properties.get("sasl.oauthbearer.token.endpoint.url", ""),
        "sasl.login.callback.handler.class": _OAUTH_HANDLER,
        "sasl.jaas.config": login_module(_OAUTH, [(option, value) for option, value in given.items() if value]),
    }


def _unsecured(config: str) -> Iterator[tuple[str, str]]:
    """Yields the options of Java's login module that mean the same as librdkafka's words."""
    for word in config.split():
        name, _, value = word.partition("=")
        if name == "scope":
            yield "unsecuredLoginListClaim_scope", f",{value}"
        elif name.startswith("extension_"):
            yield f"unsecuredLoginExtension_{name.removeprefix('extension_')}", value
        elif name in UNSECURED_OPTIONS:
            yield UNSECURED_OPTIONS[name], value


def _certificates(properties: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    if inline := properties.get("ssl.ca.pem"):
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": inline}
    elif authority := properties.get("ssl.ca.location"):
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(Path(authority).resolve())}
    if chain := properties.get("ssl.certificate.pem"):
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": chain,
            "ssl.keystore.key": properties.get("ssl.key.pem", chain),
        }
    elif certificate := properties.get("ssl.certificate.location"):
        key = properties.get("ssl.key.location", certificate)
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": _text(certificate)}
        found["ssl.keystore.key"] = _text(key)
    if "ssl.keystore.type" in found and "ssl.key.password" in properties:
        found["ssl.key.password"] = properties["ssl.key.password"]
    return found


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}") from None

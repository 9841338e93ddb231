"""The way to a cluster, the same for every command: four options, three kinds of client, and errors in words of our own.

A command asks for it with a parameter:

    @app.command("list")
    @client.command
    def list_topics(cluster: client.Cluster, as_json: output.Json = False) -> None:
        admin = cluster.admin()
        metadata = cluster.reach(admin)

`@client.command` replaces `cluster` with the options below, and makes the command end as output.py describes.

| option | |
|---|---|
| `--bootstrap`, `-b` | where the cluster is; else OTTLA_BOOTSTRAP, else KAFKA_BOOTSTRAP_SERVERS, else 127.0.0.1:9092 |
| `--property`, `-X` | any librdkafka property, key=value: security.protocol, sasl.username, ssl.ca.location, ... |
| `--command-config` | a client.properties as Apache Kafka's tools take it (properties.py), or with librdkafka's names |
| `--timeout` | seconds to wait for the cluster's answers |

The order of precedence is: -X, then --bootstrap and its variables, then what the command itself sets, then the file.

librdkafka reports problems in log lines and keeps trying, but a command has to end and to say why. So its log is off (`-X
log_level=7` or `-X debug=...` turns it on, to standard error), its error callback keeps the last reason, and `reach` gives up as
soon as every address has failed once.
"""

from __future__ import annotations

import functools
import inspect
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from ottla.commands import output
from ottla.commands.output import Failure

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._metadata import ClusterMetadata

T = TypeVar("T")

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
BOOTSTRAP_VARIABLES: Final = ["OTTLA_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS"]
DEFAULT_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.1  # how soon Ctrl-C and a refused connection are noticed
_LONGEST_S: Final = 3.2  # the same while a cluster is slow

_DETAIL: Final = re.compile(
    r"^(?:(?:sasl_)?(?:ssl|plaintext)://)?(?P<address>\S+?)/(?:bootstrap|\d+): (?P<what>.*?)(?: \(after .*)?$"
)
_REFUSED: Final = re.compile(r"^Connect to \S+ failed: (.*)$")

WORDS: Final = {
    "_TRANSPORT": "no connection to a broker",
    "_ALL_BROKERS_DOWN": "no connection to a broker",
    "_RESOLVE": "the host name is not known",
    "_TIMED_OUT": "no answer in time",
    "_TIMED_OUT_QUEUE": "no answer in time",
    "_MSG_TIMED_OUT": "not delivered in time",
    "_AUTHENTICATION": "the broker refused the login",
    "_SSL": "TLS failed",
    "_UNKNOWN_TOPIC": "there is no such topic",
    "_UNKNOWN_PARTITION": "there is no such partition",
    "_UNKNOWN_GROUP": "there is no such group",
    "_UNSUPPORTED_FEATURE": "the cluster cannot do that",
    "_WAIT_COORD": "the group has no coordinator at the moment",
    "_NO_OFFSET": "no offset is committed",
    "_MAX_POLL_EXCEEDED": "the group took the partitions away: nothing was read for max.poll.interval.ms",
    "_AUTO_OFFSET_RESET": "there is no such offset any more",
    "UNKNOWN_TOPIC_OR_PART": "there is no such topic or partition",
    "UNKNOWN_TOPIC_ID": "there is no such topic",
    "TOPIC_ALREADY_EXISTS": "the topic exists already",
    "TOPIC_EXCEPTION": "the topic's name is not allowed",
    "INVALID_PARTITIONS": "that number of partitions is not possible",
    "INVALID_REPLICATION_FACTOR": "that replication factor is not possible with these brokers",
    "INVALID_CONFIG": "the setting is not allowed",
    "POLICY_VIOLATION": "a policy of the cluster forbids it",
    "MSG_SIZE_TOO_LARGE": "larger than the topic allows (max.message.bytes)",
    "RECORD_LIST_TOO_LARGE": "larger than a segment of the topic",
    "INVALID_RECORD": "the topic refused the record (a compacted topic needs a key)",
    "INVALID_TIMESTAMP": "the topic does not take that timestamp",
    "OFFSET_OUT_OF_RANGE": "the offset is outside the partition",
    "NOT_ENOUGH_REPLICAS": "too few replicas are in sync",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "too few replicas are in sync",
    "LEADER_NOT_AVAILABLE": "the partition has no leader now",
    "NOT_LEADER_FOR_PARTITION": "the partition's leader is moving",
    "COORDINATOR_NOT_AVAILABLE": "the group has no coordinator at the moment",
    "COORDINATOR_LOAD_IN_PROGRESS": "the group's coordinator is starting",
    "NON_EMPTY_GROUP": "the group has members; stop them first",
    "GROUP_ID_NOT_FOUND": "there is no such group",
    "INVALID_GROUP_ID": "the group's name is not allowed",
    "GROUP_SUBSCRIBED_TO_TOPIC": "the group is reading the topic; stop its members first",
    "GROUP_MAX_SIZE_REACHED": "the group is full",
    "FENCED_INSTANCE_ID": "another member took this group.instance.id",
    "INCONSISTENT_GROUP_PROTOCOL": "the group's members assign partitions in another way (partition.assignment.strategy)",
    "REBALANCE_IN_PROGRESS": "the group is rebalancing; try again",
    "UNKNOWN_MEMBER_ID": "the group has removed this member",
    "ILLEGAL_GENERATION": "the group has gone on without this member",
    "TOPIC_AUTHORIZATION_FAILED": "not allowed for this user (topic)",
    "GROUP_AUTHORIZATION_FAILED": "not allowed for this user (group)",
    "CLUSTER_AUTHORIZATION_FAILED": "not allowed for this user (cluster)",
    "TOPIC_DELETION_DISABLED": "the cluster does not delete topics (delete.topic.enable)",
    "SASL_AUTHENTICATION_FAILED": "the broker refused the login",
    "UNSUPPORTED_SASL_MECHANISM": "the broker does not offer that sasl.mechanism",
    "UNSUPPORTED_VERSION": "the cluster is too old, or too new, for that",
    "UNSUPPORTED_COMPRESSION_TYPE": "the broker does not take that codec",
    "ELECTION_NOT_NEEDED": "the partition has the wanted leader already",
    "KAFKA_STORAGE_ERROR": "the broker's disk failed",
}
"""The meanings of librdkafka's named errors to a user. Other errors are reported by name, with the text that came with them."""


def explain(error: KafkaError) -> str:
    """Returns the error in words: ours where there are some, with any detail from the broker or the network."""
    name, text = error.name(), error.str()
    detail = _DETAIL.match(text)
    if detail:  # an error of a connection: the address, and what the operating system reported
        what = _REFUSED.sub(lambda found: found[1], detail["what"])
        begins_word = what[1:2].islower()  # not an acronym
        return f"{detail['address']}: {what[:1].lower() if begins_word else what[:1]}{what[1:]}"
    words = WORDS.get(name)
    if words is None:
        return f"{text} ({name})"
    generic = ("Local: ", "Broker: ", "Failed to get metadata: Local: ", "Failed to query partition offsets: Local: ")
    return words if not text or text.startswith(generic) or text.lower() == words else f"{words}: {text}"


class Cluster:
    """The cluster that the user named, and the way to reach it. All clients made here share its properties and its record of
    errors."""

    def __init__(
        self, properties: Mapping[str, str], *, file: Mapping[str, str] | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ):
        self.properties = dict(properties)
        self.file = {"bootstrap.servers": DEFAULT_BOOTSTRAP, **(file or {})}
        self.is_named = "bootstrap.servers" in {**self.properties, **(file or {})}
        """True if the user said where the cluster is, even if that is the default address."""
        self.timeout_s = timeout_s
        self.last_error: KafkaError | None = None
        self.down_since: float | None = None  # when all addresses had failed, on the monotonic clock

    @property
    def bootstrap(self) -> str:
        return self.properties.get("bootstrap.servers", self.file["bootstrap.servers"])

    def admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return self._make(AdminClient, {})

    def consumer(self, own: Mapping[str, Any]) -> Consumer:
        """Returns a consumer. `own`: the properties that this command sets; the user's take precedence over them."""
        from confluent_kafka import Consumer

        return self._make(Consumer, own)

    def producer(self, own: Mapping[str, Any]) -> Producer:
        from confluent_kafka import Producer

        return self._make(Producer, own)

    def _make(self, kind: Callable[[dict[str, Any]], T], own: Mapping[str, Any]) -> T:
        from confluent_kafka import KafkaException

        quiet = {} if "debug" in self.properties or "debug" in self.file else {"log_level": 0}
        merged = {"client.id": "ottla", **quiet, **self.file, **own, **self.properties}
        for key, value in merged.items():  # the C code underneath would end the process
            if not (is_text(key) and is_text(str(value))):
                raise typer.BadParameter(f"{key!r} is not UTF-8", param_hint="--property")
        if merged.get("group.id") == "":
            raise typer.BadParameter("group.id is empty", param_hint="--property")
        try:
            return kind({**merged, "error_cb": self._on_error})
        except KafkaException as error:  # an unknown property, or a value that librdkafka refuses
            text = str(error.args[0].str())
            of_file = any(f'"{name}"' in text for name in self.file.keys() - self.properties.keys())
            raise typer.BadParameter(text, param_hint="--command-config" if of_file else "--property") from None

    def _on_error(self, error: KafkaError) -> None:
        if error.name() == "_ALL_BROKERS_DOWN":
            self.down_since = self.down_since or time.monotonic()
        else:
            self.last_error = error

    def reason(self, otherwise: str) -> str:
        """Returns the last error that librdkafka reported, in words, or else `otherwise`."""
        return explain(self.last_error) if self.last_error is not None else otherwise

    def reach(
        self, client: AdminClient | Consumer | Producer, topic: str | None = None, *, patient: output.Interrupt | None = None
    ) -> ClusterMetadata:
        """Returns the metadata of the cluster, or of one topic. A producer that asks for a topic may make the broker create it.

        Raises Failure if the cluster does not answer: as soon as every address has failed once, or with `patient` when the
        timeout is over. Commands that handle Ctrl-C with a flag pass it as `patient`; once it is set, KeyboardInterrupt is
        raised.
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self.timeout_s
        longest_s = _POLL_S
        while True:
            left_s = deadline - time.monotonic()
            try:
                # Short calls, since librdkafka does not notice Ctrl-C and keeps trying addresses that refuse connections; but
                # longer ones each time, since a call that ends forgets the answer, and a cluster may be large or far away.
                wait_s = max(0.001, min(longest_s, left_s))
                found = client.list_topics(timeout=wait_s) if topic is None else client.list_topics(topic, timeout=wait_s)
            except KafkaException as error:
                if patient is None:
                    client.poll(0)  # calls _on_error; not for a consumer that is reading, since it would take a record
                code: KafkaError = error.args[0]
                if code.name() not in {"_TRANSPORT", "_TIMED_OUT"}:
                    raise
                if patient is not None and patient.came:
                    raise KeyboardInterrupt from None
                longest_s = min(2 * longest_s, _LONGEST_S)
                # librdkafka also reports all brokers down when one closes an idle connection, but then with no other error.
                refused = self.down_since is not None and self.last_error is not None
                if (refused and patient is None) or left_s <= _POLL_S:
                    why = self.reason(f"no answer within {self.timeout_s:g} s")
                    raise Failure(f"cannot reach {self.bootstrap}: {why.removeprefix(f'{self.bootstrap}: ')}") from None
            else:
                self.down_since = None
                return found

    def result(self, future: Future[T]) -> T:
        """Returns the result of an admin operation. Raises KafkaException for the cluster's errors, Failure for no answer."""
        try:
            return future.result(self.timeout_s + 1)  # the operation's own timeout comes first, with a reason
        except FutureTimeoutError:
            raise Failure(f"no answer from {self.bootstrap} within {self.timeout_s:g} s") from None


# The options


def _option(annotation: Any, default: Any, name: str) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


OPTIONS: Final = (
    _option(
        Annotated[
            str | None,
            typer.Option(
                "--bootstrap",
                "-b",
                envvar=BOOTSTRAP_VARIABLES,
                metavar="HOST:PORT,...",
                help=f"Where the cluster is. Default: {DEFAULT_BOOTSTRAP}",
                rich_help_panel="Cluster",
            ),
        ],
        None,
        "bootstrap",
    ),
    _option(
        Annotated[
            list[str] | None,
            typer.Option(
                "--property",
                "-X",
                metavar="KEY=VALUE",
                help="A property of librdkafka, such as security.protocol=SSL. May be repeated.",
                rich_help_panel="Cluster",
            ),
        ],
        None,
        "client_property",
    ),
    _option(
        Annotated[
            Path | None,
            typer.Option(
                "--command-config",
                "--client-config",
                metavar="FILE",
                help="A client.properties, as Apache Kafka's tools take it.",
                rich_help_panel="Cluster",
            ),
        ],
        None,
        "command_config",
    ),
    _option(
        Annotated[
            float,
            typer.Option(
                min=0.001, max=3600, metavar="SECONDS", help="How long to wait for an answer.", rich_help_panel="Cluster"
            ),
        ],
        DEFAULT_TIMEOUT_S,
        "timeout",
    ),
)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Returns a command whose parameter `cluster` comes from the four options, and which puts librdkafka's errors into words."""

    @functools.wraps(function)
    def run(
        *,
        bootstrap: str | None,
        client_property: list[str] | None,
        command_config: Path | None,
        timeout: float,
        **own: Any,
    ) -> None:
        cluster = cluster_of(bootstrap, client_property or (), command_config, timeout)
        from confluent_kafka import KafkaException

        try:
            function(cluster=cluster, **own)
        except KafkaException as error:
            raise Failure(explain(error.args[0])) from None

    output.with_resolved_types(run, function, cluster=OPTIONS)
    return output.guarded(run)


def cluster_of(
    bootstrap: str | None, pairs: list[str] | tuple[str, ...], file: Path | None, timeout_s: float = DEFAULT_TIMEOUT_S
) -> Cluster:
    """Returns the cluster that the options name. Raises BadParameter for invalid options."""
    if bootstrap is not None and not bootstrap.strip():
        raise typer.BadParameter("is empty; write host:port", param_hint="--bootstrap")
    properties = {} if bootstrap is None else {"bootstrap.servers": bootstrap}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{pair!r} is not key=value", param_hint="--property")
        properties[key.strip()] = value
    return Cluster(properties, file={} if file is None else _client_properties(file, properties), timeout_s=timeout_s)


def _client_properties(file: Path, nearer: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties in the file of --command-config, as librdkafka's. `nearer` are those of other options, which count
    more. Raises BadParameter if it cannot be read or translated."""
    from ottla.commands.clients.properties import translate
    from ottla.log.config_def import ConfigError
    from ottla.log.properties import parse_properties

    protocol = {name: text for name, text in nearer.items() if name == "security.protocol"}
    try:
        given = {key: value for key, value, _ in parse_properties(file.read_bytes())}
        found = translate({**given, **protocol}, lambda path: Path(path).read_bytes(), time.time_ns() // 1_000_000)
        return {name: text for name, text in found.items() if name.replace(".pem", ".location") not in nearer}
    except OSError as error:
        problem = f"{file}: {error.strerror or error}; name a .properties file that can be read"
    except ConfigError as error:
        problem = f"{file}, {error}"
    raise typer.BadParameter(problem, param_hint="--command-config")


def is_text(text: str) -> bool:
    """Returns whether the text can be encoded as UTF-8: surrogates, from undecodable arguments or from JSON, cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def message_error(message: Message) -> KafkaError | None:
    """Returns a message's error, typed: librdkafka's stub leaves the type open."""
    error: KafkaError | None = message.error()
    return error

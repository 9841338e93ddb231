"""The table of the broker's settings: every name that Kafka 4.4 knows, and ottla's own, as Settings by name.

The rows are in server/settings/table/ by subject, each with its text; what a row has no column for (choices, checks, settings
that are the same in several units) is here. tests/server/settings/test_table.py compares all of it with Kafka's own ConfigDef.
Unlike Kafka, ottla starts without a configuration; OWN_DEFAULTS are the defaults that make this possible.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ottla.log.config import (
    CLEANUP_POLICIES,
    COMPRESSION_TYPES,
    MAX_ARRAY_BYTES,
    MAX_BATCH_BYTES,
    TIMESTAMP_TYPES,
    TOPIC_SETTINGS,
    check_gzip_level,
)
from ottla.log.config_def import ConfigType, Setting, Update, Value
from ottla.server.settings.group_settings import GROUP_SETTINGS
from ottla.server.settings.listeners import MAX_CREATION_RATE
from ottla.server.settings.table import coordinators, logs, network, nodes, security
from ottla.wire.compression import MAX_DECOMPRESSED_BYTES

OWN_DEFAULTS: Final = frozenset({"node.id", "process.roles", "controller.listener.names", "listeners", "log.dir"})
"""The settings whose default is not Kafka's."""

MOST_TEST_NODES: Final = 100
"""So many nodes a broker under test simulates at most."""

CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "compression.type": COMPRESSION_TYPES,
    "group.coordinator.rebalance.protocols": ("consumer", "classic", "share", "streams"),
    "log.cleanup.policy": CLEANUP_POLICIES,
    "log.message.timestamp.type": TIMESTAMP_TYPES,
    "process.roles": ("broker", "controller"),
    "security.inter.broker.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "ssl.client.auth": ("required", "requested", "none"),
}

CHOICES_IN_ANY_CASE: Final[dict[str, tuple[str, ...]]] = {
    "group.consumer.migration.policy": ("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
    "sasl.oauthbearer.assertion.algorithm": ("ES256", "RS256"),
}
REQUIRED: Final = frozenset(
    {
        "advertised.listeners",
        "controller.listener.names",
        "group.consumer.assignors",
        "group.coordinator.rebalance.protocols",
        "group.share.assignors",
        "group.streams.assignors",
        "listeners",
        "log.dir",
        "log.dirs",
        "process.roles",
    }
    | {f"remote.log.metadata.manager.{what}" for what in ("class.name", "impl.prefix", "listener.name")}
    | {f"remote.log.storage.manager.{what}" for what in ("class.name", "impl.prefix")}
)
"""The settings that must not be empty."""

FIXED_HERE: Final = frozenset(("listeners", "listener.security.protocol.map"))
"""The settings that Kafka can change while it runs and ottla cannot: a change is refused, because success would be a promise."""

OF_ONE_LISTENER: Final = frozenset((MAX_CREATION_RATE, "max.connections", "num.network.threads"))
"""The settings that also count for a single listener, `listener.name.<name>.<setting>`, besides those of TLS and SASL. A broker
with any other of its settings there does not start; Kafka ignores these."""

LISTENER_PREFIX: Final = "listener.name."
"""The beginning of the name of a listener's own setting. The listener's name follows, in lower case."""

OF_ONE_MECHANISM: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
    *(
        f"sasl.oauthbearer.{what}"
        for what in (
            "allow.unverified.audience",
            "allow.unverified.issuer",
            "clock.skew.seconds",
            "expected.audience",
            "expected.issuer",
            "jwks.endpoint.refresh.ms",
            "jwks.endpoint.retry.backoff.max.ms",
            "jwks.endpoint.retry.backoff.ms",
            "jwks.endpoint.url",
            "jwt.validator.class",
            "scope.claim.name",
            "sub.claim.name",
        )
    ),
)
"""The settings that a listener may have once for each SASL mechanism: `listener.name.<name>.<mechanism>.<setting>`."""

SAME_IN_OTHER_UNITS: Final = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.roll.ms", "log.roll.hours"),
)
"""Settings with the same meaning, of which the first that is set counts."""

REMOVED: Final[dict[str, str]] = {
    "broker.id.generation.enable": "Kafka has not generated ids since 4.0; set node.id",
    "control.plane.listener.name": "Kafka 4.0 removed it along with ZooKeeper; see controller.listener.names",
    "delegation.token.master.key": "Kafka 4.0 renamed it to delegation.token.secret.key",
    "inter.broker.protocol.version": "Kafka 4.0 replaced it with the feature level metadata.version",
    "log.message.downconversion.enable": "Kafka 4.0 removed the old record formats",
    "log.message.format.version": "Kafka 4.0 and later have only one record format",
    "log.message.timestamp.difference.max.ms": (
        "Kafka 4.0 split it into log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "offsets.commit.required.acks": "Kafka 4.0 removed it; commits always wait for all replicas",
    "reserved.broker.max.id": "Kafka has not generated ids since 4.0",
    "zookeeper": "Kafka 4.0 removed ZooKeeper",
    "password.encoder": "Kafka 4.0 removed it along with ZooKeeper",
}
"""Names, and first words of names, that older versions of Kafka knew, with what became of them."""

_SYNONYMS: Final = {name: family for family in SAME_IN_OTHER_UNITS for name in family} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}


def _in_any_case(choices: tuple[str, ...]) -> Callable[[Value], str | None]:
    def check(value: Value) -> str | None:
        if isinstance(value, str) and value.upper() in choices:
            return None
        return f"is not one of {', '.join(choices)}, in capitals or not"

    return check


def _all_match(pattern: str, form: str) -> Callable[[Value], str | None]:
    """Returns a check that every element of a list matches `pattern`; `form` says in words what it must be."""
    compiled = re.compile(pattern)

    def check(value: Value) -> str | None:
        wrong = [each for each in value if not compiled.fullmatch(each)] if isinstance(value, tuple) else []
        return f"has the element '{wrong[0]}', which is not {form}" if wrong else None

    return check


_CHECKS: Final[dict[str, Callable[[Value], str | None]]] = {
    "compression.gzip.level": check_gzip_level,
    "controller.quorum.bootstrap.servers": _all_match(r".+:\d{1,5}", "host:port"),
    "controller.quorum.voters": _all_match(r"\d+@.+:\d{1,5}", "id@host:port"),
    **{name: _in_any_case(choices) for name, choices in CHOICES_IN_ANY_CASE.items()},
}


def _setting(
    name: str, text: str, kind: str, default: Value, low: float | None = None, high: float | None = None, flags: str = ""
) -> Setting:
    return Setting(
        name,
        ConfigType[kind],
        default,
        low,
        high,
        choices=CHOICES.get(name, ()),
        synonyms=_SYNONYMS.get(name, (name,)),
        doc=text,
        update=Update.CLUSTER_WIDE if "c" in flags else Update.PER_BROKER if "b" in flags else Update.READ_ONLY,
        effective="e" in flags,
        internal="i" in flags,
        unique=kind == "LIST",
        required=name in REQUIRED,
        check=_CHECKS.get(name),
    )


BROKER_SETTINGS: Final[dict[str, Setting]] = {
    str(row[0]): _setting(*row)  # type: ignore[arg-type]  # row.py says what stands where
    for rows in (nodes.ROWS, network.ROWS, security.ROWS, logs.ROWS, coordinators.ROWS)
    for row in rows
}
"""Every broker setting of Kafka 4.4 by name, internal ones included."""

OWN_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting(
            "ottla.damaged.files.max.bytes",
            ConfigType.LONG,
            10 * 1024**3,
            0,
            doc="How many bytes a start may set aside in `.damaged` files, in all of a log directory, when it has to cut damaged "
            "logs. A partition for which that is not enough stays offline, and nothing of it is cut.",
        ),
        Setting(
            "ottla.metrics.port",
            ConfigType.INT,
            None,
            0,
            65535,
            doc="The port on which /metrics, /healthz and /readyz are served over HTTP; 0 is a free port. If it is not set, they "
            "are not served.",
        ),
        Setting(
            "ottla.metrics.host",
            ConfigType.STRING,
            "127.0.0.1",
            doc="The address on which /metrics, /healthz and /readyz are served; empty means every interface. Whoever can reach "
            "it can read them.",
        ),
        Setting(
            "ottla.console.port",
            ConfigType.INT,
            None,
            0,
            65535,
            doc="The port of the broker's own console, for browsers on this machine (docs/console.md); 0 is a free port. Its "
            "process starts with the first request, and ends when nobody has looked for 15 minutes. If it is not set, there "
            "is none.",
        ),
        Setting(
            "ottla.console.host",
            ConfigType.STRING,
            "127.0.0.1",
            doc="The address of that port. One that other machines reach takes TLS and ottla.console.users (docs/console.md).",
        ),
        Setting(
            "ottla.console.token",
            ConfigType.PASSWORD,
            None,
            doc="What lets a browser into the console. If it is not set, each start makes a new one and prints it.",
        ),
        Setting(
            "ottla.console.users",
            ConfigType.STRING,
            None,
            doc="A file of who may log in to the console, a line each, as `ottla console --new-user NAME` prints it.",
        ),
        Setting(
            "ottla.console.no.token",
            ConfigType.BOOLEAN,
            False,
            doc="Whether everybody on this machine is let into the console, which a container may be for. With an authorizer, "
            "the console then shows nothing of the broker's inside and files, which no access rule covers.",
        ),
        Setting(
            "ottla.console.read.only",
            ConfigType.BOOLEAN,
            False,
            doc="Whether the console changes nothing: it then has no form that writes.",
        ),
        Setting(
            "ottla.console.command.config",
            ConfigType.STRING,
            None,
            doc="A client.properties by which the console logs in. A broker without a PLAINTEXT listener needs it for a console.",
        ),
        Setting(
            "ottla.test.port",
            ConfigType.INT,
            None,
            0,
            65535,
            doc="The port where a test controls this broker over HTTP, and breaks it on purpose (docs/testkit.md); 0 is a free "
            "port. Only a directory that is empty or a test's can be served with it.",
        ),
        Setting(
            "ottla.test.host",
            ConfigType.STRING,
            "127.0.0.1",
            doc="The address of that port. At any other than loopback, `ottla.test.token` has to be set.",
        ),
        Setting(
            "ottla.test.nodes",
            ConfigType.INT,
            1,
            1,
            MOST_TEST_NODES,
            doc="How many nodes a broker with a test port simulates. They have ids and ports of their own, and are one broker "
            "with one copy of each partition; its cluster id says SIMULATED.",
        ),
        Setting(
            "ottla.test.seed",
            ConfigType.LONG,
            None,
            0,
            2**63 - 1,
            doc="With the same seed, whatever a broker with a test port leaves to chance comes out the same. If it is not set, a "
            "seed is drawn, and logged.",
        ),
        Setting(
            "ottla.test.token",
            ConfigType.PASSWORD,
            None,
            doc="What a test has to send with each request, as `Authorization: Bearer TOKEN`. If it is not set, nothing.",
        ),
        Setting(
            "ottla.test.disk",
            ConfigType.STRING,
            "files",
            choices=("files", "memory"),
            doc="Where a broker with a test port has its data. `memory` is gone with the process, and a test can cut its power.",
        ),
        Setting(
            "ottla.max.partitions",
            ConfigType.INT,
            20_000,
            1,
            doc="The most partitions that the broker holds. More are refused with POLICY_VIOLATION. Internal topics count, but "
            "are never refused. In a cluster it does not count: Apache Kafka's controllers decide how many a broker gets.",
        ),
        Setting(
            "ottla.client.metrics",
            ConfigType.BOOLEAN,
            False,
            doc="Whether clients are asked for the metrics that kafka-client-metrics subscribes to (KIP-714), which /metrics "
            "then shows. Otherwise subscriptions are only kept and described, and what a client pushes unasked is dropped.",
        ),
        Setting(
            "ottla.client.memory.bytes",
            ConfigType.LONG,
            268_435_456,
            -1,
            doc="How many bytes the broker may hold for clients in all. Half of it is for requests that have arrived in part, "
            "requests that wait for the answer to an earlier one or take long, sessionless fetches that wait, and answers not "
            "read by clients; a quarter each is for the partitions of fetch and share sessions, the latter at most half of "
            "that, and for the producer ids that partitions remember. When connections use up their half, the oldest fetches "
            "that wait are answered early, and requests that grow are not read on; one of `socket.request.max.bytes` may go "
            "beyond it. If that does not help for 5 s, those are closed that held the most for the longest. -1 is no limit.",
        ),
        Setting(
            "ottla.producer.ids.per.partition",
            ConfigType.INT,
            20_000,
            1,
            doc="How many producer ids a partition remembers, with half a kilobyte each, to recognise batches that are sent "
            "again. Beyond it, the ones that have been silent the longest are forgotten before `producer.id.expiration.ms`, but "
            "none with an open transaction.",
        ),
        Setting(
            "ottla.login.timeout.ms",
            ConfigType.INT,
            10_000,
            1,
            doc="How long a client may take to log in on a listener with SASL. Then its connection is closed.",
        ),
        Setting(
            "ottla.login.failures.per.minute",
            ConfigType.INT,
            20,
            0,
            doc="From how many failed logins in a minute on an address waits longer for each further answer: twice as long each "
            "time, up to 5 seconds. 0 means that all wait `connection.failed.authentication.delay.ms`.",
        ),
        Setting(
            "java.security.auth.login.config",
            ConfigType.STRING,
            "",
            doc="The JAAS file with the login modules of listeners that have none in their settings. The broker also takes it "
            "from the environment, where Kafka has it: `KAFKA_OPTS=-Djava.security.auth.login.config=/etc/kafka/jaas.conf`.",
        ),
        Setting(
            "java.security.krb5.conf",
            ConfigType.STRING,
            "",
            doc="Kerberos's configuration, for logins by GSSAPI; by default the system's (`/etc/krb5.conf`). The broker also "
            "takes it from the environment, where Kafka has it: `KAFKA_OPTS=-Djava.security.krb5.conf=/etc/kafka/krb5.conf`.",
        ),
        Setting(
            "org.apache.kafka.sasl.oauthbearer.allowed.urls",
            ConfigType.LIST,
            (),
            doc="The URLs from which keys for signed tokens may be taken (`sasl.oauthbearer.jwks.endpoint.url`), exactly as they "
            "are written there. The broker also takes it from the environment, where Kafka has it: `KAFKA_OPTS=-D...=URL,URL`.",
        ),
        Setting(
            "ottla.request.max.items",
            ConfigType.INT,
            50_000,
            1000,
            doc="The most things that one request may name: the elements of all its lists together. A request with more closes "
            "its connection before it is decoded, with a line in the log.",
        ),
        Setting(
            "ottla.response.max.bytes",
            ConfigType.INT,
            64 * 1024 * 1024,
            1024 * 1024,
            doc="The size of the longest answer to a request that may name a thing many times, such as DescribeConfigs, or to "
            "ListTransactions, whose ids clients make as long as they like. A longer one is abandoned while it is made, and the "
            "connection is closed, with a line in the log. Fetch has `fetch.max.bytes`.",
        ),
        Setting(
            MAX_BATCH_BYTES,
            ConfigType.INT,
            MAX_DECOMPRESSED_BYTES,
            1,
            MAX_ARRAY_BYTES,
            doc="The most bytes that the records of one compressed batch may take once they are decompressed. A produced batch "
            "with more is refused as too large, on which Java's producer splits it. One that is stored already is still given to "
            "consumers as it is, but its partition is no longer compacted, and a look-up by time ends at its first offset.",
        ),
    )
}
"""Settings of ottla that Kafka does not have. They are read from the same places and not shown to clients."""


def documentation(setting: Setting) -> str:
    """Returns what a setting is for. If a broker's setting is the default of a topic's or a group's, it has the text of that
    one."""
    if setting.doc:
        return setting.doc
    of, heir = next(
        (of, heir)
        for of, table in (("topics", TOPIC_SETTINGS), ("groups", GROUP_SETTINGS))
        for heir in table.values()
        if setting.name in heir.synonyms
    )
    unit = setting.name.rpartition(".")[2]
    in_unit = f", in {unit}" if unit in ("hours", "minutes") else ""
    return f"The value of `{heir.name}` for {of} that do not set it{in_unit}. {heir.doc}"


def base_name(name: str) -> str:
    """Returns the setting that a listener's own overrides: `ssl.keystore.type` for `listener.name.internal.ssl.keystore.type`,
    and `sasl.jaas.config` for `listener.name.internal.plain.sasl.jaas.config`, which is that of one mechanism."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    rest = name.split(".", 3)
    if len(rest) < 4:
        return name
    return next((key for key in OF_ONE_MECHANISM if rest[3].endswith(f".{key}")), rest[3])


def is_of_listener(setting: str) -> bool:
    """Returns whether a listener may have this setting for itself, in Kafka as here."""
    return setting in OF_ONE_LISTENER or setting in OF_ONE_MECHANISM or setting.startswith(("ssl.", "sasl.", "principal."))


def is_idle(name: str) -> bool:
    """Returns whether a broker's setting is known to Kafka and does nothing here, by itself or for a single listener."""
    base = base_name(name)
    setting = BROKER_SETTINGS.get(base)
    if setting is None:
        return False
    return not setting.effective or (base != name and not is_of_listener(base))


def is_hidden(name: str) -> bool:
    """Returns whether the value of a broker's setting is never shown, because it is a password or the name is unknown."""
    setting = BROKER_SETTINGS.get(base_name(name))
    return setting is None or setting.sensitive


def advice(name: str) -> str:
    """Returns one line that says what to do about a name that is not in BROKER_SETTINGS."""
    for old, reason in REMOVED.items():
        if name == old or name.startswith(f"{old}."):
            return f"{name} has no effect: {reason}; remove it"
    from difflib import get_close_matches

    nearest = get_close_matches(name, [*BROKER_SETTINGS, *OWN_SETTINGS], n=1, cutoff=0.75)
    hint = f"did you mean {nearest[0]}?" if nearest else "it has no effect; remove it"
    return f"{name} is not a broker setting of Kafka 4.4: {hint}"

"""Topics, their settings, offsets and records."""

from __future__ import annotations

from compat_tests.tools_diff.masks import Mask
from compat_tests.tools_diff.script import IMPATIENT, File, Run, Script, made

LEADERS = r"(?s)Leader: 1.*"
SIZES = Mask(
    r'"size":[1-9]\d*',
    '"size":BYTES',
    "how well a batch compresses or is split is the client's affair",
    '{"size":123,"offsetLag":0}, {"size":0}',
    '{"size":BYTES,"offsetLag":0}, {"size":0}',
)

TOPICS = Script(
    "topics",
    (
        Run("topics --create --topic plain-1 --partitions 3 --config retention.ms=60000 --config cleanup.policy=compact,delete"),
        Run("get-offsets --topic plain-1", until=r"(?s)(plain-1.*){3}"),
        Run("topics --describe --topic plain-1"),
        Run("topics --create --topic plain-1", code=1),
        Run("topics --create --topic plain-1 --if-not-exists"),
        Run("topics --create --topic plain.1"),
        Run("topics --create --topic plain-2 --partitions 0", code=1),
        Run("topics --create --topic plain-2 --partitions -3", code=1),
        Run("topics --create --topic plain-2 --replication-factor 2", code=1),
        Run("topics --create --topic plain-2 --replication-factor 0", code=1),
        Run("topics --create --topic no/slash", code=1),
        Run("topics --create --topic plain-2 --config no.such=1", code=1),
        Run("topics --create --topic plain-2 --config retention.ms=soon", code=1),
        Run("topics --create --topic plain-2 --config min.insync.replicas=0", code=1),
        Run("topics --create --topic plain-2 --replica-assignment 1,1"),
        Run("topics --create --topic plain-3 --replica-assignment 7", code=1),
        Run("topics --create --topic plain-3 --replica-assignment 1:1", code=1),
        Run("topics --create", code=1),
        Run("topics --list --exclude-internal"),
        Run("topics --alter --topic plain-1 --partitions 5"),
        Run("topics --describe --topic plain-1", until="PartitionCount: 5"),
        Run("topics --alter --topic plain-1 --partitions 5", code=1),
        Run("topics --alter --topic plain-1 --partitions 2", code=1),
        Run("topics --alter --topic no-such --partitions 2", code=1),
        Run("topics --alter --topic no-such --partitions 2 --if-exists"),
        Run("topics --describe --topic no-such", code=1),
        Run("topics --describe --topic no-such --if-exists"),
        Run("topics --describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ", code=1),
        Run("topics --describe --topic plain-1 --under-replicated-partitions"),
        Run("topics --describe --topic plain-1 --unavailable-partitions"),
        Run("topics --describe --topic plain-1 --under-min-isr-partitions"),
        Run("topics --describe --topic plain-1 --at-min-isr-partitions"),
        Run("topics --describe --topics-with-overrides"),
        Run("topics --delete --topic plain-2"),
        Run("topics --list --exclude-internal", until=r"^(?!(?s:.*)plain-2)"),
        Run("topics --delete --topic plain-2", code=1),
        Run("topics --delete --topic plain-2 --if-exists"),
        Run("topics --delete --topic __cluster_metadata", code=1),
        Run("topics --delete --topic plain.*", code=0),
        Run("topics --list", until=r"^(?!(?s:.*)plain)"),
        Run("topics", code=1),
        Run("topics --list --describe", code=1),
    ),
)

CONFIGS_OF_TOPICS = Script(
    "configs-topics",
    (
        *made("settings-1"),
        Run("configs --alter --topic settings-1 --add-config retention.ms=1234567,cleanup.policy=[compact,delete]"),
        Run("configs --describe --topic settings-1", until="retention.ms=1234567"),
        Run("configs --describe --topic settings-1 --all"),
        Run("configs --alter --topic settings-1 --delete-config cleanup.policy"),
        Run("configs --describe --entity-type topics --entity-name settings-1", until=r"^(?!(?s:.*)cleanup)"),
        Run("configs --alter --topic settings-1 --delete-config cleanup.policy"),
        Run("configs --alter --topic settings-1 --add-config retention.ms=soon", code=1),
        Run("configs --alter --topic settings-1 --add-config no.such=1", code=1),
        Run("configs --alter --topic settings-1 --add-config compression.type=best", code=1),
        Run("configs --alter --topic settings-1 --add-config retention.ms=-5", code=1),
        Run("configs --alter --topic settings-1 --add-config retention", code=1),
        Run("configs --alter --topic no-such --add-config retention.ms=1", code=1),
        Run("configs --describe --topic no-such"),
        Run("configs --describe --entity-type topics"),
        Run("configs --describe", code=1),
        Run("configs --alter --topic settings-1", code=1),
        Run("topics --delete --topic settings-1"),
    ),
)

CONFIGS_OF_THE_REST = Script(
    "configs-brokers-groups-quotas",
    (
        Run("configs --alter --broker 1 --add-config log.cleaner.threads=2"),
        Run("configs --describe --broker 1", until="log.cleaner.threads=2 sensitive"),
        Run("configs --alter --broker 1 --delete-config log.cleaner.threads"),
        Run("configs --describe --broker 1", until=r"^(?!(?s:.*)cleaner)"),
        Run("configs --alter --broker-defaults --add-config log.retention.ms=86400000"),
        Run("configs --describe --broker-defaults", until="log.retention.ms"),
        Run("configs --alter --broker-defaults --delete-config log.retention.ms"),
        Run("configs --describe --broker-defaults", until=r"^(?!(?s:.*)retention)"),
        Run("configs --alter --broker 1 --add-config node.id=2", code=1),
        Run("configs --alter --broker 1 --add-config log.cleaner.threads=none", code=1),
        Run("configs --alter --broker 1 --add-config num.io.threads=1000", code=1),
        IMPATIENT,
        Run("configs --describe --broker 7 --all --command-config {dir}/impatient.properties", code=1),
        Run("configs --alter --group settings-g --add-config consumer.session.timeout.ms=50000,share.auto.offset.reset=earliest"),
        Run("configs --describe --group settings-g", until="50000"),
        Run("configs --describe --group settings-g --all"),
        Run("configs --alter --group settings-g --add-config consumer.session.timeout.ms=1", code=1),
        Run("configs --alter --group settings-g --add-config no.such=1", code=1),
        Run("configs --alter --group settings-g --delete-config consumer.session.timeout.ms,share.auto.offset.reset"),
        Run("configs --describe --group settings-g", until=r"^(?!(?s:.*)50000)"),
        Run("configs --alter --user ann --add-config producer_byte_rate=1024,consumer_byte_rate=2048"),
        Run("configs --describe --user ann", until="byte_rate"),
        Run("configs --alter --user ann --client app --add-config request_percentage=200"),
        Run("configs --describe --user ann --client app", until="percentage"),
        Run("configs --alter --client-defaults --add-config controller_mutation_rate=10"),
        Run("configs --describe --client-defaults", until="mutation"),
        Run("configs --alter --ip 10.0.0.1 --add-config connection_creation_rate=5"),
        Run("configs --describe --ip 10.0.0.1", until="creation"),
        Run("configs --alter --ip not-an-address --add-config connection_creation_rate=5", code=1),
        Run("configs --alter --user ann --add-config no_such=5", code=1),
        Run("configs --alter --user ann --delete-config no_such", code=1),
        Run("configs --describe --entity-type users"),
        Run("configs --alter --user ann --delete-config producer_byte_rate,consumer_byte_rate"),
        Run("configs --alter --user ann --client app --delete-config request_percentage"),
        Run("configs --alter --client-defaults --delete-config controller_mutation_rate"),
        Run("configs --alter --ip 10.0.0.1 --delete-config connection_creation_rate"),
        Run("configs --describe --user ann", until=r"^(?!(?s:.*)byte_rate)"),
    ),
)

EITHER = Mask(
    r"(SCRAM-SHA-512=\S+), (SCRAM-SHA-256=\S+)",
    r"\2, \1",
    "mechanisms come in the order of a hash map",
    "SCRAM-SHA-512=iterations=4096, SCRAM-SHA-256=iterations=8192",
    "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096",
)

SCRAM = Script(
    "configs-scram",
    (
        Run("configs --alter --user bob --add-config SCRAM-SHA-256=[iterations=8192,password=secret]"),
        Run("configs --alter --user bob --add-config SCRAM-SHA-512=[password=secret]"),
        Run("configs --describe --user bob", until="(?s)256.*512|512.*256", hide=(EITHER,)),
        Run("configs --alter --user bob --add-config SCRAM-SHA-256=[iterations=1,password=secret]", code=1),
        Run("configs --alter --user bob --delete-config SCRAM-SHA-256"),
        Run("configs --describe --user bob", until=r"^(?!(?s:.*)256)"),
        Run("configs --alter --user bob --delete-config SCRAM-SHA-256", code=1),
        Run("configs --describe --entity-type users"),
        Run("configs --alter --user bob --delete-config SCRAM-SHA-512"),
        Run("configs --describe --user bob", until=r"^(?!(?s:.*)512)"),
    ),
)

OFFSETS = Script(
    "get-offsets",
    (
        *made("ends-1", 2, *(f"k{number}:v{number}" for number in range(20))),
        *(
            Run(f"get-offsets --topic ends-1 --time {time}")
            for time in ("earliest", "-2", "latest", "-1", "earliest-local", "-4", "latest-tiered", "-5")
        ),
        *made("ends-2", 1, "k:v"),
        Run("get-offsets --topic ends-2 --time max-timestamp"),
        Run("get-offsets --topic ends-2 --time -3"),
        Run("get-offsets --topic ends-1 --time 0"),
        Run("get-offsets --topic ends-1 --time 4102444800000"),
        Run("get-offsets --topic ends-1 --time noon", code=1),
        Run("get-offsets --topic ends-1 --partitions 1"),
        Run("get-offsets --topic ends-1 --partitions 7", code=1),
        Run("get-offsets --topic-partitions ends-1:0,ends-1:1-5"),
        Run("get-offsets --topic no-such", code=1),
        Run("get-offsets --topic-partitions :x", code=1),
        File("cut.json", '{"version": 1, "partitions": [{"topic": "ends-1", "partition": 0, "offset": 3}]}'),
        Run("delete-records --offset-json-file {dir}/cut.json"),
        Run("get-offsets --topic ends-1 --time earliest"),
        Run("topics --delete --topic ends-1,ends-2"),
    ),
)

DELETE_RECORDS = Script(
    "delete-records",
    (
        *made("cut-1", 1, "a:1", "b:2", "c:3"),
        *made("cut-2"),
        File(
            "cut.json",
            '{"version": 1, "partitions": [{"topic": "cut-1", "partition": 0, "offset": 2},'
            '{"topic": "cut-2", "partition": 0, "offset": -1}]}',
        ),
        Run("delete-records --offset-json-file {dir}/cut.json", unordered="results come in the order of a hash map"),
        Run("console-consumer --topic cut-1 --group cut-g --from-beginning --max-messages 1 --timeout-ms 20000"),
        File("far.json", '{"version": 1, "partitions": [{"topic": "cut-1", "partition": 0, "offset": 99}]}'),
        Run("delete-records --offset-json-file {dir}/far.json"),
        File("strange.json", '{"version": 1, "partitions": [{"topic": "cut-1", "partition": 4, "offset": 1}]}'),
        Run("delete-records --offset-json-file {dir}/strange.json --command-config {dir}/impatient.properties", code=1),
        IMPATIENT,
        Run("delete-records --offset-json-file {dir}/strange.json --command-config {dir}/impatient.properties"),
        File(
            "twice.json",
            '{"partitions": [{"topic": "a", "partition": 0, "offset": 1}, {"topic": "a", "partition": 0, "offset": 2}]}',
        ),
        Run("delete-records --offset-json-file {dir}/twice.json", code=1),
        File("old.json", '{"version": 2, "partitions": []}'),
        Run("delete-records --offset-json-file {dir}/old.json", code=1),
        Run("delete-records", code=1),
        Run("topics --delete --topic cut-1,cut-2"),
    ),
)

LOG_DIRS = Script(
    "log-dirs",
    (
        *made("dirs-1", 2, *(f"k{number}:v{number}" for number in range(20))),
        Run("log-dirs --describe --topic-list dirs-1", unordered="one line of JSON", hide=(SIZES,)),
        Run("log-dirs --describe --topic-list no-such --broker-list 1"),
        Run("log-dirs --describe --broker-list 1,7", code=1),
        Run("log-dirs", code=1),
        Run("topics --delete --topic dirs-1"),
    ),
)

LEADERS_AND_PLACES = Script(
    "leaders-and-places",
    (
        *made("places-1", 2),
        Run("leader-election --election-type preferred --topic places-1 --partition 0"),
        Run("leader-election --election-type unclean --topic places-1 --partition 1"),
        Run("leader-election --election-type preferred --topic no-such --partition 0", code=1),
        Run("leader-election --election-type preferred --topic places-1 --partition 9", code=1),
        File("elect.json", '{"partitions": [{"topic": "places-1", "partition": 0}, {"topic": "no-such", "partition": 1}]}'),
        Run("leader-election --election-type preferred --path-to-json-file {dir}/elect.json", code=1),
        Run("leader-election --election-type preferred", code=1),
        File("topics.json", '{"version": 1, "topics": [{"topic": "places-1"}]}'),
        Run("reassign-partitions --generate --topics-to-move-json-file {dir}/topics.json --broker-list 1"),
        Run("reassign-partitions --generate --topics-to-move-json-file {dir}/topics.json --broker-list 7", code=1),
        File("move.json", '{"version": 1, "partitions": [{"topic": "places-1", "partition": 0, "replicas": [1]}]}'),
        Run("reassign-partitions --execute --reassignment-json-file {dir}/move.json"),
        Run("reassign-partitions --verify --reassignment-json-file {dir}/move.json"),
        Run("reassign-partitions --list"),
        Run("reassign-partitions --cancel --reassignment-json-file {dir}/move.json"),
        File("away.json", '{"version": 1, "partitions": [{"topic": "places-1", "partition": 0, "replicas": [7]}]}'),
        Run("reassign-partitions --execute --reassignment-json-file {dir}/away.json", code=1),
        File("lost.json", '{"version": 1, "partitions": [{"topic": "no-such", "partition": 0, "replicas": [1]}]}'),
        Run("reassign-partitions --execute --reassignment-json-file {dir}/lost.json", code=1),
        Run("reassign-partitions --verify --reassignment-json-file {dir}/lost.json", code=1),
        Run("topics --delete --topic places-1"),
    ),
)

ALL = (
    TOPICS,
    CONFIGS_OF_TOPICS,
    CONFIGS_OF_THE_REST,
    SCRAM,
    OFFSETS,
    DELETE_RECORDS,
    LOG_DIRS,
    LEADERS_AND_PLACES,
)

"""The cluster itself: its brokers, quorum, features, rules of access, tokens, metrics' subscriptions, and what lies on disk."""

from __future__ import annotations

from compat_tests.tools_diff.masks import Mask
from compat_tests.tools_diff.script import File, Hold, Run, Script, made

QUORUM = (
    Mask(
        r"(?m)^(LeaderEpoch|HighWatermark|MaxFollowerLagTimeMs):(\s+)\d+$",
        r"\1:\2N",
        "grows with every record and start",
        "LeaderEpoch:   1",
    ),
    Mask(
        r"(?m)^(1\s+\S+\s+)\d+\s+(0\s+)(?:\d+|TIME-MS)(\s+)(?:\d+|TIME-MS)",
        r"\1N \2TIME\3TIME",
        "the end of the metadata log, and when it was seen",
        "1  a  123  0  1795251600000  1795251600000",
    ),
    Mask(r"\d+\s+(0\s+)\d+ ms ago\s+\d+ ms ago\s+", r"N \1N ms ago N ms ago ", "likewise", "152\t0\t1 ms ago\t1 ms ago"),
    Mask(r"\d+ ms ago", "N ms ago", "how long the answer took", "12 ms ago"),
)
EPOCH = Mask(r"Epoch: \d+", "Epoch: N", "the end of the metadata log", "Epoch: 31")

CLUSTER = Script(
    "cluster",
    (
        Run("cluster cluster-id --bootstrap-server {bootstrap}"),
        Run("cluster list-endpoints --bootstrap-server {bootstrap}"),
        Run("cluster list-endpoints --bootstrap-server {bootstrap} --include-fenced-brokers"),
        Run("cluster unregister --bootstrap-server {bootstrap} --id 7", code=1),
        Run("broker-api-versions"),
    ),
)

QUORUM_STATUS = Script(
    "metadata-quorum",
    (
        Run("metadata-quorum describe --status", hide=QUORUM),
        Run("metadata-quorum describe --replication", hide=QUORUM),
        Run("metadata-quorum describe --replication --human-readable", hide=QUORUM),
        Run("metadata-quorum describe", code=1),
        Run("metadata-quorum describe --status --human-readable", code=1),
        Run("metadata-quorum remove-controller --controller-id 7 --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ", code=1),
        Run("metadata-quorum remove-controller --controller-id 7 --controller-directory-id none", code=1),
    ),
)

FEATURES = Script(
    "features",
    (
        Run("features describe", hide=(EPOCH,)),
        Run("features upgrade --feature share.version=7", code=1),
        Run("features upgrade --feature no.such=1", code=1),
        Run("features upgrade --feature share.version", code=1),
        Run("features downgrade --feature group.version=0 --dry-run"),
        Run("features downgrade --feature transaction.version=1"),
        Run("features describe", until=r"transaction.version\s.*FinalizedVersionLevel: 1", hide=(EPOCH,)),
        Run("features downgrade --feature transaction.version=2", code=1),
        Run("features upgrade --feature transaction.version=2"),
        Run("features describe", until=r"transaction.version\s.*FinalizedVersionLevel: 2", hide=(EPOCH,)),
        Run("features upgrade --release-version 4.3", code=1),
        Run("features upgrade --release-version 1.0", code=1),
        Run("features disable --feature no.such", code=1),
        Run("features version-mapping --release-version 4.3"),
        Run("features feature-dependencies --feature transaction.version=2"),
        Run("features", code=1),
    ),
)

SET = "the tool prints sets, whose order each JVM draws"
SETS = (Mask(r"(?<=only supports operations )\[.*\]", "[...]", SET, "only supports operations [READ, WRITE]"),)

ACLS = Script(
    "acls",
    (
        Run("acls --list", code=1),
        Run("acls --add --allow-principal User:ann --operation read --topic plain", code=1),
        Run("acls --remove --force --topic plain", code=1),
        Run("acls --add --allow-principal User:ann --producer", code=1, unordered=SET),
        Run("acls --add --operation fly --allow-principal User:ann --topic plain", code=1, unordered=SET, hide=SETS),
        Run("acls", code=1, unordered=SET),
    ),
)

TOKENS = Script(
    "delegation-tokens",
    (
        File("empty.properties", ""),
        Run("delegation-tokens --create --max-life-time-period -1 --command-config {dir}/empty.properties", code=1),
        Run("delegation-tokens --describe --command-config {dir}/empty.properties", code=1),
        Run("delegation-tokens --renew --renew-time-period -1 --hmac AAAA --command-config {dir}/empty.properties", code=1),
        Run("delegation-tokens --expire --expiry-time-period -1 --hmac AAAA --command-config {dir}/empty.properties", code=1),
        Run("delegation-tokens --describe", code=1),
    ),
)

METRICS = Script(
    "client-metrics",
    (
        Run("client-metrics --list"),
        Run("client-metrics --alter --name often --metrics org.apache.kafka.consumer. --interval 1000 --match client_id=app.*"),
        Run("client-metrics --describe --name often", until="interval.ms=1000"),
        Run("client-metrics --alter --name rarely --metrics org.apache.kafka.producer. --interval 60000"),
        Run("client-metrics --describe", until="(?s)often.*rarely|rarely.*often"),
        Run("client-metrics --list", unordered="the names come in the order of a hash map"),
        Run("client-metrics --alter --name often --interval 1", code=1),
        Run("client-metrics --alter --name often --match colour=red", code=1),
        Run("client-metrics --alter --name often"),
        Run("client-metrics --describe --name no-such"),
        Run("client-metrics --delete --name often"),
        Run("client-metrics --delete --name rarely"),
        Run("client-metrics --list", until=r"^(?!(?s:.*)(often|rarely))"),
        Run("client-metrics --delete --name no-such"),
        Run("client-metrics", code=1),
    ),
)

SNAPSHOT = Mask(r"(?m)^(Log starting offset|Starting offset): \d+", r"\1: N", "of the file's name", "Log starting offset: 0")

DUMPED = (
    Mask(r"\bCreateTime: \d+|\btimestamp: (?:\d+|TIME-MS)", "TIME", "when the producer sent it", "CreateTime: 1795251600000"),
    Mask(r"\bcrc: \d+", "crc: CRC", "it covers the times", "crc: 12345"),
    Mask(
        r"\blastTimestamp: (?:-?\d+|TIME-MS)", "lastTimestamp: TIME", "when the producer sent it", "lastTimestamp: 1795251600000"
    ),
    Mask(r"\bproducerId: \d+", "producerId: ID", "blocks of ids begin where the starts before ended", "producerId: 1000"),
)

INDEXED = (
    Run("topics --create --topic dumped-2 --partitions 1 --config segment.bytes=1048576"),
    Run("get-offsets --topic dumped-2", until="dumped-2:0:0"),
    Run("console-producer --topic dumped-2 --sync", stdin=f"{'x' * 100_000}\n" * 12),
)
"""Its first segment is full, so that its indexes have no room for more: that of the last one is each broker's own affair."""

DUMP = Script(
    "dump-log",
    (
        *made("dumped-1", 1, *(f"k{number}:v{number}" for number in range(5))),
        Run(
            "dump-log --files {data}/dumped-1-0/00000000000000000000.log --print-data-log --deep-iteration",
            hide=DUMPED,
        ),
        Run("dump-log --files {data}/dumped-1-0/00000000000000000000.log --skip-record-metadata", hide=DUMPED),
        *INDEXED,
        Run("dump-log --files {data}/dumped-2-0/00000000000000000000.index"),
        Run("dump-log --files {data}/dumped-2-0/00000000000000000000.index --index-sanity-check"),
        Run("dump-log --files {data}/dumped-2-0/00000000000000000000.timeindex --verify-index-only", hide=DUMPED),
        Run("dump-log --files {data}/dumped-1-0/no-such.log", code=1),
        Run("dump-log --files {data}/dumped-1-0/00000000000000000000.txt"),
        Hold("m", "consumer", ("dumped-1",), {"group.id": "dumped-g", "group.protocol": "classic", "client.id": "reader"}),
        Run("consumer-groups --describe --group dumped-g --state", until="Stable"),
        Run("dump-log --files {data}/__transaction_state-0/no-such.log --transaction-log-decoder", code=1),
        Run("dump-log", code=1),
        Run("storage info -c {properties}"),
        Run("storage version-mapping --release-version 4.3"),
        Run("storage feature-dependencies --feature group.version=1"),
    ),
)

ALL = (CLUSTER, QUORUM_STATUS, FEATURES, ACLS, TOKENS, METRICS, DUMP)

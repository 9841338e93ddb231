"""The cluster itself: its brokers, quorum, features, rules of access, tokens, metrics' subscriptions, and what lies on disk."""

from __future__ import annotations

from compat_tests.tools_diff.masks import A_SET, FIGURES, Mask, in_order
from compat_tests.tools_diff.script import File, Run, Script, made

QUORUM = (
    Mask(
        r"(?m)^(LeaderEpoch|HighWatermark|MaxFollowerLagTimeMs):(\s+)\d+$",
        r"\1:\2N",
        "grows with every record and start",
        "LeaderId:   1\nLeaderEpoch:   7",
        "LeaderId:   1\nLeaderEpoch:   N",
    ),
    Mask(
        r"(?m)^(1\s+\S+\s+)\d+\s+(?=0\s+1\d{12}\s+1\d{12}\s)",
        r"\1N ",
        "the end of the metadata log; that it was seen in the run is compared",
        "1  a  123  0  1795251600000  1795251600000  Leader",
        "1  a  N 0  1795251600000  1795251600000  Leader",
    ),
    Mask(
        r"\d+\s+(0\s+)\d+ ms ago\s+\d+ ms ago\s+",
        r"N \1N ms ago N ms ago ",
        "the end of the metadata log, and how long ago it was seen",
        "152\t0\t1 ms ago\t1 ms ago\tLeader",
        "N 0\tN ms ago N ms ago Leader",
    ),
    Mask(r"\d+ ms ago", "N ms ago", "how long the answer took", "12 ms ago", "N ms ago"),
)
EPOCH = Mask(r"Epoch: \d+", "Epoch: N", "the end of the metadata log", "Level: 2 Epoch: 31", "Level: 2 Epoch: N")

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

SETS = (
    Mask(
        r"(?<=only supports operations )\[.*\]",
        in_order,
        A_SET,
        "only supports operations [WRITE, READ].",
        "only supports operations READ WRITE.",
    ),
)

ACLS = Script(
    "acls",
    (
        Run("acls --list", code=1),
        Run("acls --add --allow-principal User:ann --operation read --topic plain", code=1),
        Run("acls --remove --force --topic plain", code=1),
        Run("acls --add --allow-principal User:ann --producer", code=1, unordered=A_SET),
        Run("acls --add --operation fly --allow-principal User:ann --topic plain", code=1, unordered=A_SET, hide=SETS),
        Run("acls", code=1, unordered=A_SET),
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

DUMPED = (
    Mask(r"\bcrc: \d+", "crc: CRC", "it covers the times", "size: 73 crc: 12345", "size: 73 crc: CRC"),
    Mask(
        r"\bproducerId: \d+",
        "producerId: ID",
        "blocks of ids begin where the starts before ended",
        "producerId: 1000 producerEpoch: 0",
        "producerId: ID producerEpoch: 0",
    ),
)

INDEXED = (
    Run("topics --create --topic dumped-2 --partitions 1 --config segment.bytes=1048576"),
    Run("get-offsets --topic dumped-2", until="dumped-2:0:0"),
    Run("console-producer --topic dumped-2 --sync", stdin=f"{'x' * 100_000}\n" * 12),
)
"""Its first segment is full, so that its indexes have no room for more: that of the last one is each broker's own affair."""

FIRST = "00000000000000000000.log"
SENT = "--topic dumped-1 --num-records 5 --record-size 10 --throughput -1"
GROUP_AT = 3
ID_AT = 2
"""Partitions of the internal topics, by the names' hashes."""


def lines_with(name: str) -> Mask:
    """Hides the lines of other groups or ids."""
    why = "what is there of others, and how it is batched, hangs on when it came"
    return Mask(rf"(?m)^(?!.*{name}).*\n?", "", why, f"x\n{name} y\nz", f"{name} y\n")


def of(name: str) -> tuple[Mask, ...]:
    """Returns masks that leave only what a dump of an internal topic says of one group or id."""
    return (
        lines_with(name),
        Mask(r"(?<=offset: )\d+", "N", "other groups and ids have records before it", "| offset: 7 size", "| offset: N size"),
        Mask(
            r'"((?:previousP|p)roducerId)":\d+',
            r'"\1":ID',
            "ids are given to who comes first",
            '{"producerId":2,"previousProducerId":-1}',
            '{"producerId":ID,"previousProducerId":-1}',
        ),
    )


OWN_ID = Mask(
    r"(?<=\t)\d+(?= +\tCompleteCommit)",
    "ID",
    "ids are given to who comes first",
    "tx\t1\t7 \tCompleteCommit",
    "tx\t1\tID \tCompleteCommit",
)
DUMP = Script(
    "dump-log",
    (
        *made("dumped-1"),
        Run(
            "console-producer --topic dumped-1 --sync --reader-property parse.key=true --reader-property key.separator=:",
            stdin="a:1\nb:2\nc:3\n",
        ),
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
        Run("consumer-groups --reset-offsets --group dumped-g --topic dumped-1 --to-offset 3 --execute"),
        Run("consumer-groups --delete --group dumped-g"),
        Run(f"dump-log --files {{data}}/__consumer_offsets-{GROUP_AT}/{FIRST} --offsets-decoder", hide=of("dumped-g")),
        Run(f"producer-perf-test {SENT} --transactional-id dumped-tx", hide=FIGURES),
        Run("transactions list", until="dumped-tx .*CompleteCommit", hide=(lines_with("dumped-tx"), OWN_ID)),
        Run(f"dump-log --files {{data}}/__transaction_state-{ID_AT}/{FIRST} --transaction-log-decoder", hide=of("dumped-tx")),
        Run("dump-log", code=1),
        Run("storage info -c {properties}"),
        Run("storage version-mapping --release-version 4.3"),
        Run("storage feature-dependencies --feature group.version=1"),
    ),
)

ALL = (CLUSTER, QUORUM_STATUS, FEATURES, ACLS, TOKENS, METRICS, DUMP)

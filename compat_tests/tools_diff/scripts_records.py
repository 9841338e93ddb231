"""Tools that write and read records, those that measure, the system tests' drivers, and transactions."""

from __future__ import annotations

from compat_tests.tools_diff.masks import A_SET, FIGURES, Mask, in_order
from compat_tests.tools_diff.script import IMPATIENT, Run, Script, made

TWENTY = tuple(f"k{number}:v{number}" for number in range(20))
READ = "console-consumer --from-beginning --timeout-ms 20000"

CONSOLE = Script(
    "console",
    (
        Run("topics --create --topic said-1 --partitions 1"),
        Run(
            "console-producer --topic said-1 --reader-property parse.headers=true --reader-property parse.key=true"
            " --reader-property null.marker=NULL --compression-codec zstd",
            stdin="h:1\tk1\tvalue 1\nh:2,i:3\tk2\tNULL\nh:4\tNULL\tvalue 3\n",
        ),
        Run("console-producer --topic said-1 --sync", stdin="plain\n\nlast\n"),
        Run(f"{READ} --group said-a --topic said-1 --max-messages 6"),
        Run(
            f"{READ} --group said-b --topic said-1 --max-messages 3 --formatter-property print.key=true"
            " --formatter-property print.headers=true --formatter-property print.offset=true"
            " --formatter-property print.partition=true --formatter-property print.epoch=true"
            " --formatter-property print.timestamp=true --formatter-property null.literal=NOTHING"
        ),
        Run("console-consumer --topic said-1 --partition 0 --offset 4 --max-messages 2 --timeout-ms 20000"),
        Run("console-consumer --topic said-1 --partition 0 --offset latest --timeout-ms 300"),
        Run("console-consumer --topic said-1 --partition 9 --offset 0 --timeout-ms 300", code=0),
        Run("console-consumer --topic said-1 --partition 0 --offset noon", code=1),
        Run(f"{READ} --topic said-1 --isolation-level read_committed --max-messages 6 --group said-g"),
        Run("consumer-groups --describe --group said-g"),
        Run(f"{READ} --group said-c --include said-.* --max-messages 6"),
        Run(f"{READ} --group said-d --topic no/slash --max-messages 6"),
        Run("console-consumer", code=1),
        Run("console-producer --topic said-1 --reader-property parse.key=true", stdin="no key here\n", code=1),
        Run("console-producer --topic no/slash", stdin="lost\n"),
        Run("console-producer", code=1),
        Run("consumer-groups --delete --group said-g"),
        Run("topics --delete --topic said-1"),
    ),
)

OTHERS = (
    Mask(
        r"(?<=}}})(?={)",
        "\n",
        "the tool puts no line's end between records",
        '{"a":{"b":{}}}{"a":{"b":{}}}',
        '{"a":{"b":{}}}\n{"a":{"b":{}}}',
    ),
    Mask(
        r"(?m)^(?!.*\"inner-g\").*\n?",
        "",
        "other scripts' groups are in these topics, too",
        '{"group":"x"}\n{"group":"inner-g"}\n',
        '{"group":"inner-g"}\n',
    ),
)

FORMATTERS = Script(
    "internal-topics",
    (
        *made("inner-1", 1, "a:1", "b:2"),
        Run("consumer-groups --reset-offsets --group inner-g --topic inner-1 --to-offset 1 --execute"),
        Run("consumer-groups --delete-offsets --group inner-g --topic inner-1"),
        *(
            Run(
                f"console-consumer --group inner-{formatter[:2]} --topic __consumer_offsets --from-beginning --timeout-ms 3000"
                f" --formatter org.apache.kafka.tools.consumer.{formatter}",
                hide=OTHERS,
            )
            for formatter in ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter")
        ),
        Run("topics --delete --topic inner-1"),
    ),
)

PERFORMANCE = Script(
    "performance",
    (
        *made("perf-1", 2),
        Run("producer-perf-test --topic perf-1 --num-records 500 --record-size 100 --throughput -1", hide=FIGURES),
        Run(
            "producer-perf-test --topic perf-1 --num-records 500 --record-size 100 --throughput -1 --command-property"
            " acks=1 compression.type=lz4",
            hide=FIGURES,
        ),
        Run(
            "producer-perf-test --topic perf-1 --num-records 500 --record-size 100 --throughput -1 --transactional-id perf-tx"
            " --transaction-duration-ms 100",
            hide=FIGURES,
        ),
        Run(
            "get-offsets --topic perf-1",
            hide=(Mask(r"(?m):\d+$", ":N", "the producer sticks to a partition as long as it likes", "a:0:17", "a:0:N"),),
        ),
        Run("consumer-perf-test --group perf-a --topic perf-1 --num-records 1500 --timeout 20000", hide=FIGURES),
        Run(
            "consumer-perf-test --group perf-b --topic perf-1 --num-records 1500 --timeout 20000 --show-detailed-stats"
            " --hide-header",
            hide=FIGURES,
        ),
        Run("consumer-perf-test --topic perf-1", code=1),
        Run("producer-perf-test --topic perf-1", code=1),
        *made("latency-1"),
        Run(
            "e2e-latency --bootstrap-server {bootstrap} --topic latency-1 --num-records 20 --producer-acks 1 --record-size 100",
            hide=FIGURES,
        ),
        Run(
            "e2e-latency --bootstrap-server {bootstrap} --topic latency-1 --num-records 20 --producer-acks 0 --record-size 100",
            code=1,
            hide=FIGURES,
        ),
        Run("topics --delete --topic perf-1,latency-1"),
    ),
)

ACKNOWLEDGED = Mask(
    r'(?<="offsets":)\[[\d,]+\]',
    in_order,
    A_SET,
    '"name":"offsets_acknowledged","count":2,"offsets":[1,0]',
    '"name":"offsets_acknowledged","count":2,"offsets":0 1',
)

SHARED_RECORDS = Script(
    "share-consumers",
    (
        *made("spread-1", 1, *TWENTY),
        Run("configs --alter --group spread-g --add-config share.auto.offset.reset=earliest"),
        Run("configs --describe --group spread-g", until="earliest"),
        Run("console-share-consumer --topic spread-1 --group spread-g --max-messages 5 --timeout-ms 20000 --release"),
        Run("console-share-consumer --topic spread-1 --group spread-g --max-messages 20 --timeout-ms 20000"),
        Run("console-share-consumer --topic spread-1 --group spread-g --timeout-ms 1000 --reject"),
        Run("console-share-consumer --topic spread-1 --release --reject", code=1),
        Run("share-groups --describe --group spread-g"),
        Run("configs --alter --group spread-p --add-config share.auto.offset.reset=earliest"),
        Run("configs --describe --group spread-p", until="earliest"),
        Run("share-consumer-perf-test --topic spread-1 --group spread-p --num-records 20 --timeout 20000", hide=FIGURES),
        Run(
            "verifiable-share-consumer --topic spread-1 --group-id spread-v --max-messages 20 --offset-reset-strategy earliest",
            hide=(ACKNOWLEDGED,),
        ),
        Run("share-groups --delete --group spread-g --group spread-p --group spread-v", unordered="in the order of a hash map"),
        Run("configs --alter --group spread-g --delete-config share.auto.offset.reset"),
        Run("configs --alter --group spread-p --delete-config share.auto.offset.reset"),
        Run("topics --delete --topic spread-1"),
    ),
)

NOTHING_YET = Mask(
    r'(?m)^.*"partitions_assigned","partitions":\[\]}\n',
    "",
    "a heartbeat may be answered before there is an assignment",
    '{"name":"partitions_assigned","partitions":[]}\n{"name":"partitions_assigned","partitions":[{}]}\n',
    '{"name":"partitions_assigned","partitions":[{}]}\n',
)

VERIFIABLE = Script(
    "verifiable",
    (
        *made("verified-1"),
        Run(
            "verifiable-producer --topic verified-1 --max-messages 30 --acks -1 --value-prefix 7 --repeating-keys 5",
            alone=True,
            hide=(
                Mask(r'(?<="avg_throughput":)[\d.]+', "N", "how fast it went", '"avg_throughput":12.3}', '"avg_throughput":N}'),
            ),
        ),
        *(
            Run(
                f"verifiable-consumer --topic verified-1 --group-id verified-{protocol} --max-messages 30 --reset-policy earliest"
                f" --group-protocol {protocol} --verbose",
                hide=(NOTHING_YET,),
            )
            for protocol in ("classic", "consumer")
        ),
        Run("consumer-groups --describe --group verified-classic"),
        Run("consumer-groups --describe --group verified-consumer"),
        Run(
            "consumer-groups --delete --group verified-classic --group verified-consumer", unordered="in the order of a hash map"
        ),
        Run("topics --delete --topic verified-1"),
    ),
)

IDS = Mask(
    r"(?m)(?<=\t)\d+(?= +\tCompleteCommit)|(?<=tx-a           \t)\d+|^\d+(?= +\t1 +\t0 )",
    "ID",
    "how many producers asked for an id before is no promise",
    "20        \t1            \t0                     \t-1",
    "ID        \t1            \t0                     \t-1",
)
LASTED = Mask(r"(?m)(1\d{12}\s+)\d+\s*$", r"\1N", "how long ago it began", "1795251600000  \t214 ", "1795251600000  \tN")

TRANSACTIONS = Script(
    "transactions",
    (
        *made("tx-1"),
        Run(
            "producer-perf-test --topic tx-1 --num-records 5 --record-size 10 --throughput -1 --transactional-id tx-a",
            hide=FIGURES,
        ),
        Run("transactions list", until="tx-a .*CompleteCommit", hide=(IDS,)),
        Run("transactions list --duration-filter 100000", hide=(IDS,)),
        Run("transactions list --transactional-id-pattern no-such.*"),
        Run("transactions list --transactional-id-pattern (", code=1),
        Run("transactions describe --transactional-id tx-a", hide=(IDS, LASTED)),
        Run("transactions describe --transactional-id no-such", code=1),
        Run("transactions describe-producers --topic tx-1 --partition 0", hide=(IDS,)),
        IMPATIENT,
        *(
            Run(f"transactions --command-config {{dir}}/impatient.properties describe-producers {where}", code=1)
            for where in (
                "--topic tx-1 --partition 9",
                "--topic no-such --partition 0",
                "--topic tx-1 --partition 0 --broker-id 7",
            )
        ),
        Run("transactions find-hanging --broker-id 1"),
        Run("transactions find-hanging --topic tx-1"),
        Run("transactions find-hanging", code=1),
        Run("transactions abort --topic tx-1 --partition 0 --start-offset 0", code=1),
        Run("transactions abort --topic tx-1 --partition 0", code=1),
        Run("transactions forceTerminateTransaction --transactionalId tx-a"),
        Run("transactions forceTerminateTransaction --transactionalId no-such"),
        Run("transactions", code=1),
        Run("topics --delete --topic tx-1"),
    ),
)

ALL = (CONSOLE, FORMATTERS, PERFORMANCE, SHARED_RECORDS, VERIFIABLE, TRANSACTIONS)

"""Groups of every kind, with members and without, and their offsets."""

from __future__ import annotations

from compat_tests.tools_diff.masks import A_SET, Mask, in_order
from compat_tests.tools_diff.script import File, Hold, Release, Run, Script, made

TWENTY = tuple(f"k{number}:v{number}" for number in range(20))
ANY_ORDER = "groups, members and partitions come in the order of hash maps"

STATES = Mask(
    r"(?<=Valid states are: ).*", in_order, A_SET, "Valid states are: Empty, Dead\nx y", "Valid states are: Dead Empty\nx y"
)
WAYS = Mask(
    r"(?<=following scenarios: ).*",
    in_order,
    A_SET,
    "one of the following scenarios: [[to-offset], [by-duration]]\nx y",
    "one of the following scenarios: by-duration to-offset\nx y",
)
ONE_OF = Mask(
    r"(?<=takes one of these options: ).*",
    in_order,
    A_SET,
    "takes one of these options: [b], [a]",
    "takes one of these options: a b",
)
ASSIGNED = Mask(
    r"(?<=topicPartitions=)[^)]*", in_order, A_SET, "(topicPartitions=a-1,a-0) of 2", "(topicPartitions=a-0 a-1) of 2"
)


def member(group: str, protocol: str, **more: str) -> dict[str, str]:
    """Settings of a consumer whose name in tables is always as wide."""
    own = {"group.id": group, "group.protocol": protocol, "client.id": "reader", "auto.offset.reset": "earliest"}
    return own | {"auto.commit.interval.ms": "100"} | {name.replace("_", "."): value for name, value in more.items()}


def all_read(topic: str) -> str:
    """Both partitions are, and that is committed."""
    return "(?s)" + "".join(rf"(?=.*{topic} +{number} +(\d+) +\{number + 1} +0 )" for number in range(2))


def described(tool: str, group: str, *, until: str = "") -> tuple[Run, ...]:
    return (
        Run(f"{tool} --describe --group {group}", until=until, unordered=ANY_ORDER),
        Run(f"{tool} --describe --group {group} --verbose", unordered=ANY_ORDER),
        Run(f"{tool} --describe --group {group} --members", unordered=ANY_ORDER),
        Run(f"{tool} --describe --group {group} --members --verbose", unordered=ANY_ORDER),
        Run(f"{tool} --describe --group {group} --state"),
        Run(f"{tool} --describe --group {group} --state --verbose"),
    )


RESETS = Script(
    "consumer-groups-resets",
    (
        *made("resets-1", 2, *TWENTY),
        *made("resets-2"),
        Run("consumer-groups --reset-offsets --group resets-g --topic resets-1 --to-latest --dry-run", unordered=ANY_ORDER),
        Run("consumer-groups --describe --group resets-g"),
        Run("consumer-groups --reset-offsets --group resets-g --topic resets-1 --to-latest --execute", unordered=ANY_ORDER),
        *(
            Run(f"consumer-groups --reset-offsets --group resets-g --topic resets-1 {how} --execute", unordered=ANY_ORDER)
            for how in (
                "--shift-by -2",
                "--to-offset 3",
                "--to-offset 1000000",
                "--by-duration P1D",
                "--to-datetime 2100-01-01T00:00:00.000",
                "--to-datetime 2000-01-01T00:00:00.000",
                "--to-earliest",
                "--to-current",
                "--shift-by -100",
            )
        ),
        Run("consumer-groups --reset-offsets --group resets-g --topic resets-1:1 --to-offset 5 --execute"),
        Run(
            "consumer-groups --reset-offsets --group resets-g --topic resets-1:0,1 --to-current --export --dry-run",
            unordered=ANY_ORDER,
        ),
        File("plan.csv", "resets-1,0,4\nresets-1,1,6\n"),
        Run("consumer-groups --reset-offsets --group resets-g --from-file {dir}/plan.csv --execute", unordered=ANY_ORDER),
        File("broken.csv", "resets-1,none\n"),
        Run("consumer-groups --reset-offsets --group resets-g --from-file {dir}/broken.csv --execute"),
        Run("consumer-groups --reset-offsets --group resets-g --all-topics --to-latest --dry-run", unordered=ANY_ORDER),
        Run("consumer-groups --reset-offsets --group resets-g --topic no-such --to-latest --execute"),
        Run("consumer-groups --reset-offsets --group resets-g --topic resets-1:9 --to-latest --execute"),
        Run("consumer-groups --reset-offsets --group resets-g --topic resets-1 --to-datetime yesterday --execute"),
        Run("consumer-groups --reset-offsets --group resets-g --topic resets-1", code=1, hide=(WAYS,)),
        *described("consumer-groups", "resets-g"),
        Run("consumer-groups --list --state", unordered=ANY_ORDER),
        Run("consumer-groups --list --state Empty", unordered=ANY_ORDER),
        Run("consumer-groups --list --state Flying", code=1, hide=(STATES,)),
        Run("consumer-groups --list --type classic", unordered=ANY_ORDER),
        Run("consumer-groups --list --type odd", code=1),
        Run("consumer-groups --delete-offsets --group resets-g --topic resets-1:0"),
        Run("consumer-groups --delete-offsets --group resets-g --topic resets-2"),
        Run("consumer-groups --delete-offsets --group resets-g --topic no-such"),
        Run("consumer-groups --delete-offsets --group no-such --topic resets-1"),
        Run("consumer-groups --describe --group resets-g"),
        Run("consumer-groups --delete --group resets-g --group no-such", unordered=ANY_ORDER),
        Run("consumer-groups --delete --group resets-g"),
        Run("consumer-groups --describe --all-groups", unordered=ANY_ORDER),
        Run("consumer-groups --describe", code=1, hide=(ONE_OF,)),
        Run("consumer-groups", code=1),
        Run("topics --delete --topic resets-1,resets-2"),
    ),
)

CLASSIC = Script(
    "consumer-groups-classic",
    (
        *made("classic-1", 2, *TWENTY),
        Hold("m", "consumer", ("classic-1",), member("classic-g", "classic")),
        *described("consumer-groups", "classic-g", until=all_read("classic-1")),
        Run("groups --list", unordered=ANY_ORDER),
        Run("consumer-groups --delete --group classic-g"),
        Run("consumer-groups --delete-offsets --group classic-g --topic classic-1", unordered=ANY_ORDER),
        Run("consumer-groups --reset-offsets --group classic-g --topic classic-1 --to-earliest --execute", unordered=ANY_ORDER),
        Run("share-groups --describe --group classic-g"),
        Run("share-groups --delete --group classic-g"),
        Release("m"),
        Run("consumer-groups --describe --group classic-g --state", until="Empty"),
        Run("consumer-groups --describe --group classic-g --members"),
        Run("consumer-groups --describe --group classic-g", unordered=ANY_ORDER),
        Hold("s", "consumer", ("classic-1",), member("classic-g", "classic", group_instance_id="static-1")),
        Run("consumer-groups --describe --group classic-g --members --verbose", until=r"static-1.* 2 .*classic-1"),
        Release("s"),
        Run("consumer-groups --describe --group classic-g --members"),
        Run("streams-application-reset --application-id classic-g --input-topics classic-1", code=1, hide=(ASSIGNED,)),
        Run("streams-application-reset --application-id classic-g --input-topics classic-1 --force", unordered=ANY_ORDER),
        Run("consumer-groups --describe --group classic-g", unordered=ANY_ORDER),
        Run("consumer-groups --delete --group classic-g"),
        Run("topics --delete --topic classic-1"),
    ),
)

RESETTER = Script(
    "streams-application-reset",
    (
        *made("app-in", 2, *TWENTY),
        *made("app-store-changelog"),
        Run("streams-application-reset --application-id app --input-topics app-in --dry-run", unordered=ANY_ORDER),
        Run("streams-application-reset --application-id app --input-topics app-in", unordered=ANY_ORDER),
        Run("streams-application-reset --application-id app --input-topics no-such", code=1),
        Run("streams-application-reset --application-id app --input-topics app-in --to-offset 3", unordered=ANY_ORDER),
        Run("consumer-groups --describe --group app", unordered=ANY_ORDER),
        Run("streams-application-reset", code=1),
        Run("topics --list --exclude-internal", until=r"^(?!(?s:.*)changelog)"),
        Run("consumer-groups --delete --group app"),
        Run("topics --delete --topic app-in"),
    ),
)

CONSUMER = Script(
    "consumer-groups-consumer",
    (
        *made("modern-1", 2, *TWENTY),
        Hold("m", "consumer", ("modern-1",), member("modern-g", "consumer")),
        *described("consumer-groups", "modern-g", until=all_read("modern-1")),
        Run("consumer-groups --list --state", unordered=ANY_ORDER),
        Run("consumer-groups --list --type consumer", unordered=ANY_ORDER),
        Run("consumer-groups --list --type classic", unordered=ANY_ORDER),
        Run("groups --list", unordered=ANY_ORDER),
        Run("groups --list --consumer", unordered=ANY_ORDER),
        Run("groups --list --group-type consumer", unordered=ANY_ORDER),
        Run("groups --list --protocol consumer", unordered=ANY_ORDER),
        Run("groups --list --share --protocol consumer", code=1),
        Run("consumer-groups --delete --group modern-g"),
        Run("consumer-groups --delete-offsets --group modern-g --topic modern-1", unordered=ANY_ORDER),
        Run("consumer-groups --reset-offsets --group modern-g --topic modern-1 --to-earliest --execute", unordered=ANY_ORDER),
        Run("share-groups --describe --group modern-g"),
        Run("share-groups --delete --group modern-g"),
        Release("m"),
        Run("consumer-groups --describe --group modern-g --state", until="Empty"),
        Run("consumer-groups --describe --group modern-g --members"),
        Run("consumer-groups --describe --group modern-g", unordered=ANY_ORDER),
        Run("consumer-groups --reset-offsets --group modern-g --topic modern-1 --to-earliest --execute", unordered=ANY_ORDER),
        Run("consumer-groups --delete --group modern-g"),
        Run("consumer-groups --describe --group modern-g"),
        Run("topics --delete --topic modern-1"),
    ),
)

SHARE = Script(
    "share-groups",
    (
        *made("shared-1", 2, *TWENTY),
        Run("share-groups --list"),
        Run("share-groups --describe --group no-such"),
        Run("share-groups --delete --group no-such"),
        Hold("m", "share", ("shared-1",), {"group.id": "shared-g", "client.id": "sharer"}),
        Run("share-groups --describe --group shared-g --members", until="sharer.* 2 *shared-1"),
        *described("share-groups", "shared-g"),
        Run("share-groups --list --state", unordered=ANY_ORDER),
        Run("share-groups --list --state Stable", unordered=ANY_ORDER),
        Run("groups --list --share", unordered=ANY_ORDER),
        Run("share-groups --delete --group shared-g"),
        Run("share-groups --delete-offsets --group shared-g --topic shared-1"),
        Run("share-groups --reset-offsets --group shared-g --topic shared-1 --to-earliest --execute", code=1),
        Run("consumer-groups --describe --group shared-g"),
        Release("m"),
        Run("share-groups --describe --group shared-g --state", until="Empty"),
        Run("share-groups --describe --group shared-g --members"),
        Run("share-groups --reset-offsets --group shared-g --topic shared-1 --to-earliest --dry-run", unordered=ANY_ORDER),
        Run("share-groups --reset-offsets --group shared-g --topic shared-1 --to-earliest --execute", unordered=ANY_ORDER),
        Run("share-groups --describe --group shared-g", unordered=ANY_ORDER),
        Run("share-groups --reset-offsets --group shared-g --all-topics --to-latest --execute", unordered=ANY_ORDER),
        Run("share-groups --describe --group shared-g", unordered=ANY_ORDER),
        Run("share-groups --reset-offsets --group shared-g --topic no-such --to-latest --execute"),
        Run("share-groups --reset-offsets --group shared-g --to-latest --execute", code=1),
        Run("share-groups --delete-offsets --group shared-g --topic shared-1"),
        Run("share-groups --delete-offsets --group shared-g --topic no-such"),
        Run("share-groups --describe --group shared-g"),
        Run("share-groups --delete --group shared-g"),
        Run("share-groups --list"),
        Run("share-groups", code=1),
        Run("topics --delete --topic shared-1"),
    ),
)

STREAMS = Script(
    "streams-groups",
    (
        *made("flow-1", 2, *TWENTY),
        Run("streams-groups --list"),
        Run("streams-groups --describe --group no-such", code=1),
        Run("streams-groups --delete --group no-such"),
        Hold("m", "streams", ("flow-1",), {"group.id": "flow-g"}),
        *described("streams-groups", "flow-g"),
        Run("streams-groups --describe --group flow-g --offsets", unordered=ANY_ORDER),
        Run("streams-groups --list --state", unordered=ANY_ORDER),
        Run("groups --list --streams", unordered=ANY_ORDER),
        Run("streams-groups --delete --group flow-g"),
        Run("streams-groups --reset-offsets --group flow-g --all-input-topics --to-earliest --execute"),
        Run("consumer-groups --describe --group flow-g"),
        Release("m"),
        Run("streams-groups --describe --group flow-g --state", until="Empty"),
        Run("streams-groups --describe --group flow-g --members"),
        Run("streams-groups --reset-offsets --group flow-g --input-topic flow-1 --to-latest --dry-run", unordered=ANY_ORDER),
        Run("streams-groups --reset-offsets --group flow-g --input-topic flow-1 --to-latest --execute", unordered=ANY_ORDER),
        Run("streams-groups --describe --group flow-g", unordered=ANY_ORDER),
        Run("streams-groups --delete-offsets --group flow-g --input-topic flow-1", unordered=ANY_ORDER),
        Run("streams-groups --delete --group flow-g"),
        Run("streams-groups --list"),
        Run("streams-groups", code=1),
        Run("topics --delete --topic flow-1"),
    ),
)

ALL = (RESETS, CLASSIC, RESETTER, CONSUMER, SHARE, STREAMS)

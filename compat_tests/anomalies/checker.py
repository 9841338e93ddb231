"""Finds anomalies in a history (`history.py`): what no client may see of a Kafka, whatever was broken meanwhile.

The rules follow the definitions of Jepsen's test of Kafka; the words and the code are ours. What Kafka allows is not reported:
writes of transactions that overlap in any order (G0), records of an open transaction for who reads uncommitted, gaps in offsets,
duplicates of producers that are not idempotent.

The module knows nothing of any broker and reads nothing but the history, so the same rules judge ottla in the simulation
(tests/sim) and any Kafka through real clients. As a command it checks a history of JSON lines:

    python -m compat_tests.anomalies.checker HISTORY
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from compat_tests.anomalies.history import Event, Key, operations, read_lines
from compat_tests.anomalies.log_checks import check_log
from compat_tests.anomalies.order_checks import check_order
from compat_tests.anomalies.records import Anomaly, Records
from compat_tests.anomalies.share_checks import check_shares
from compat_tests.anomalies.state_checks import check_state

STUCK_NS: Final = 60 * 1_000_000_000
"""The time for which a client may achieve nothing after everything was repaired."""


def check(events: Iterable[Event], *, compacted: Mapping[Key, int] | None = None, stuck_ns: int = STUCK_NS) -> list[Anomaly]:
    """Returns all anomalies of a history. `compacted` names the keys that are compacted, each with the modulus that makes a
    record's key of its value.
    """
    done = operations(events)
    records = Records(done, compacted or {})
    return [*check_log(records), *check_order(records), *check_shares(records), *check_state(done, stuck_ns)]


def main() -> int:
    """Checks the history in a file; the exit code is 1 if there are anomalies."""
    found = check(read_lines(Path(sys.argv[1]).read_text().splitlines()))
    for anomaly in found:
        print(anomaly)
    print(f"{len(found)} anomalies")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

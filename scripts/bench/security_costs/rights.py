"""The bench of what access rules cost: small Produce requests at a broker without them and at one with them, in turn.

A request has one record of 100 bytes, and five are in flight. Nobody is a super user, so each request is decided about. Both
brokers are ottla's: the question is what rules add. A pair of runs gives one ratio of CPU time and one of requests a second.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from scripts.bench.compare import SETTINGS, Ottla, kload
from scripts.bench.security_costs.table import Figures, Row, in_turn

AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:nobody",
}
ROWS: Final = (
    Row("small Produce with access rules: CPU", "rules", "us", "us", "without", at_most=1.05),
    Row("the same: requests", "rules", "per_s", "/s", "without", at_least=0.95),
)


def measure(directory: Path, pairs: int, seconds: float) -> Figures:
    """Returns the figures of ROWS without and with access rules; the broker that begins changes from pair to pair."""
    found: Figures = defaultdict(list)
    with ExitStack() as stack:
        brokers = {
            "without": Ottla(directory / "without", SETTINGS),
            "rules": Ottla(directory / "with", SETTINGS | AUTHORIZER),
        }
        for broker in brokers.values():
            stack.callback(broker.stop)
            broker.start()
            _produce(broker, 1)
        for number in range(pairs):
            for name in in_turn(list(brokers), number):
                figures = _produce(brokers[name], seconds)
                found[name, "us"].append(figures["broker_cpu_us_per_request"])
                found[name, "per_s"].append(figures["requests_per_s"])
    return found


def _produce(broker: Ottla, seconds: float) -> dict[str, Any]:
    assert broker.process is not None
    return kload(broker.bootstrap, broker.process.pid, "produce", "--seconds", str(seconds))

"""Makes rows for server/metrics/table.py from the metrics that clients have pushed (KIP-714).

server/telemetry/subscriptions.py keeps these.

Every client names its metrics and their attributes as it likes, so here the names are values of labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.server.metrics.rows import Row
from ottla.server.metrics.sources import Sources


def _instance_row(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
    telemetry = sources.context.existing_client_telemetry
    yield (), len(telemetry) if telemetry is not None else 0


def _number_rows(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
    telemetry = sources.context.existing_client_telemetry
    for instance, (name, attributes), number in telemetry.numbers() if telemetry is not None else ():
        client = instance.attributes
        text = ",".join(f"{key}={value}" for key, value in attributes)
        yield (client["client_id"] or "", client["client_instance_id"] or "", name, text), number


CLIENT_ROWS: Final[tuple[Row, ...]] = (
    ("ottla_client_instances", "gauge", (), "Clients that have recently asked for their telemetry subscriptions.", _instance_row),
    (
        "ottla_client_metric",
        "gauge",
        ("client_id", "client_instance_id", "metric", "attributes"),
        "The values that clients pushed last, if ottla.client.metrics is true; deltas are summed.",
        _number_rows,
    ),
)

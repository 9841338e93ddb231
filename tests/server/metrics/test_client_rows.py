"""Tests of what the rows of the metrics that clients push say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.server.metrics.client_rows import CLIENT_ROWS


class Telemetry(list[Any]):
    """The client instances; each has pushed one number."""

    def numbers(self) -> list[Any]:
        return [(SimpleNamespace(attributes=each), ("sent", (("topic", "t"), ("partition", "0"))), 7.0) for each in self]


def rows(telemetry: Telemetry | None) -> dict[str, list[Any]]:
    sources: Any = SimpleNamespace(context=SimpleNamespace(existing_client_telemetry=telemetry))
    return {name: list(make(sources)) for name, _, _, _, make in CLIENT_ROWS}


def test_names_that_clients_choose_are_values_of_labels() -> None:
    clients = [{"client_id": "c", "client_instance_id": "i"}, {"client_id": None, "client_instance_id": "j"}]
    attributes = "topic=t,partition=0"
    assert rows(Telemetry(clients)) == {
        "ottla_client_instances": [((), 2)],
        "ottla_client_metric": [(("c", "i", "sent", attributes), 7.0), (("", "j", "sent", attributes), 7.0)],
    }


def test_nobody_has_asked_for_a_subscription() -> None:
    assert rows(None) == {"ottla_client_instances": [((), 0)], "ottla_client_metric": []}

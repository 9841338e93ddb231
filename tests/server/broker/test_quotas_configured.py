"""Tests of whether anything limits clients: quotas, or the rate of new connections, wherever it is set."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.server.broker.quotas_configured import quotas_configured
from ottla.server.metadata.image import BROKER

RATE = "max.connection.creation.rate"


def limited(
    texts: dict[str, str] | None = None, written: dict[str, dict[str, str]] | None = None, *, quotas: bool = False
) -> bool:
    """For a broker 1 with this file, and what was written for a broker while it ran."""

    def config_of(kind: int, name: str) -> dict[str, str]:
        assert kind == BROKER
        return (written or {}).get(name, {})

    config: Any = SimpleNamespace(texts=texts or {}, node_id=1)
    image: Any = SimpleNamespace(has_quotas=quotas, config_of=config_of)
    return quotas_configured(config, image)


def test_nothing_limits_a_broker_that_sets_nothing() -> None:
    assert not limited({"max.connections": "5"}, {"": {"log.retention.ms": "1"}})


def test_a_quota_does() -> None:
    assert limited(quotas=True)


@pytest.mark.parametrize("name", [RATE, f"listener.name.plaintext.{RATE}"])
def test_a_rate_does_wherever_it_is_set(name: str) -> None:
    assert limited({name: "1"})
    assert limited(written={"": {name: "1"}})
    assert limited(written={"1": {name: "1"}})
    assert not limited(written={"2": {name: "1"}})  # of another broker
    assert not limited({f"other.{RATE}.ms": "1"})

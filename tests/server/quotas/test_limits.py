"""Tests of which of eight levels counts for a client, and with whom it shares its limit."""

from __future__ import annotations

import pytest

from ottla.server.metadata.quotas import Entity
from ottla.server.quotas.limits import Limits, Share

LEVELS: list[tuple[Entity, Share]] = [
    ((("client-id", "c"), ("user", "u")), ("u", "c")),
    ((("client-id", None), ("user", "u")), ("u", "c")),
    ((("user", "u"),), ("u", "")),
    ((("client-id", "c"), ("user", None)), ("u", "c")),
    ((("client-id", None), ("user", None)), ("u", "c")),
    ((("user", None),), ("u", "")),
    ((("client-id", "c"),), ("", "c")),
    ((("client-id", None),), ("", "c")),
]
"""The most specific first, with the share that a client `c` of user `u` has there."""


@pytest.mark.parametrize("level", range(8))
def test_the_most_specific_counts(level: int) -> None:
    limits = Limits({entity: float(number) for number, (entity, _) in enumerate(LEVELS) if number >= level})
    assert limits.find("u", "c") == (LEVELS[level][1], float(level))


@pytest.mark.parametrize("level", range(8))
def test_a_level_by_itself(level: int) -> None:
    entity, share = LEVELS[level]
    limits = Limits({entity: 5.0})
    assert limits.find("u", "c") == (share, 5.0)
    named = dict(entity)
    other = ("v" if named.get("user") == "u" else "u", "d" if named.get("client-id") == "c" else "c")
    assert (limits.find(*other) is None) == ("u" in named.values() or "c" in named.values())


def test_nobody_is_limited_without_limits() -> None:
    assert Limits({}).find("u", "c") is None


@pytest.mark.parametrize("client_id", [None, ""])
def test_clients_without_an_id_are_no_clients_by_default(client_id: str | None) -> None:
    assert Limits({(("client-id", None),): 1.0}).find("u", client_id) is None
    assert Limits({(("client-id", None), ("user", None)): 1.0}).find("u", client_id) is None
    assert Limits({(("user", None),): 1.0}).find("u", client_id) == (("u", ""), 1.0)


@pytest.mark.parametrize("client_id", [None, ""])
def test_clients_without_an_id_fall_to_the_level_of_their_user(client_id: str | None) -> None:
    limits = Limits({(("client-id", None), ("user", "u")): 1.0, (("user", None),): 2.0})
    assert limits.find("u", client_id) == (("u", ""), 2.0)
    assert limits.find("u", "c") == (("u", "c"), 1.0)
    assert limits.find("v", "c") == (("v", ""), 2.0)
    named = Limits({(("client-id", None), ("user", None)): 1.0, (("user", "u"),): 3.0})
    assert named.find("u", client_id) == (("u", ""), 3.0)
    assert named.find("v", client_id) is None

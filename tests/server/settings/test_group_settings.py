"""server/settings/group_settings.py: which clients a subscription to metrics may name. tests/server/settings/test_table.py
compares all other values with Kafka's answers.
"""

from __future__ import annotations

import pytest

from ottla.server.settings.group_settings import MATCH_KEYS, wrong_match


@pytest.mark.parametrize("key", sorted(MATCH_KEYS))
def test_a_subscription_matches_an_attribute_of_clients_with_a_pattern(key: str) -> None:
    for pair in (f"{key}=a.*", f" {key} = a", f"{key}=a=="):
        assert wrong_match(pair) is None


@pytest.mark.parametrize("pair", ["", "client_id", "client_id=", "client_id==", "=a", "client_id=a=b", "client=a", "CLIENT_ID=a"])
def test_what_is_not_an_attribute_with_a_pattern_is_refused(pair: str) -> None:
    why = wrong_match(pair)
    assert why is not None
    assert "key=pattern" in why


def test_a_pattern_has_to_be_a_regular_expression() -> None:
    why = wrong_match("client_id=[")
    assert why is not None
    assert "whose pattern cannot be compiled" in why
    assert wrong_match(r"client_id=\p{Lu}+[") is None, "not judged, since Java's syntax is not Python's"

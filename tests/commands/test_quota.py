"""`ottla quota`: which entity its options name, and how quotas are shown. compat_tests/test_commands_quota.py has the cluster."""

from __future__ import annotations

import pytest
import typer

from ottla.commands import quota

NOBODY = dict.fromkeys(quota.KINDS)
NO_DEFAULTS = dict.fromkeys(quota.KINDS, False)


def entity(defaults: tuple[str, ...] = (), **names: str) -> dict[str, str | None]:
    given = {name.replace("_", "-"): value for name, value in names.items()}
    return quota.entity_of(NOBODY | given, NO_DEFAULTS | dict.fromkeys(defaults, True))


def test_entities() -> None:
    assert entity() == {}
    assert entity(user="u") == {"user": "u"}
    assert entity(("client-id",), user="u") == {"user": "u", "client-id": None}
    assert entity(("user", "client-id")) == {"user": None, "client-id": None}
    assert entity(("ip",)) == {"ip": None}


@pytest.mark.parametrize(
    ("defaults", "names"),
    [(("user",), {"user": "u"}), ((), {"user": ""}), (("user",), {"ip": "::1"}), ((), {"ip": "::1", "client_id": "c"})],
)
def test_entities_that_are_none(defaults: tuple[str, ...], names: dict[str, str]) -> None:
    with pytest.raises(typer.BadParameter):
        entity(defaults, **names)


def test_somebody_has_to_be_named() -> None:
    with pytest.raises(typer.BadParameter, match="say whose"):
        quota.somebody({})


def test_rows() -> None:
    quotas = {"producer_byte_rate": 1048576.0, "request_percentage": 12.5}
    assert list(quota.rows({"user": None, "client-id": "c"}, quotas)) == [
        ("<default>", "c", None, "producer_byte_rate", 1048576),
        ("<default>", "c", None, "request_percentage", 12.5),
    ]
    assert quota.in_words({"user": "u", "client-id": None}) == "user u, client id <default>"


def test_numbers() -> None:
    assert quota._number("producer_byte_rate", "1e6") == 1_000_000.0
    with pytest.raises(typer.BadParameter, match="'much' is not a number"):
        quota._number("producer_byte_rate", "much")

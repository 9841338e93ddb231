"""`ottla quota`: which entity its options name, and how quotas are shown. compat_tests/test_commands_quota.py has the cluster."""

from __future__ import annotations

import pytest
import typer

from ottla.commands import quota
from ottla.commands.quota import EntityOptions as Options


def test_entities() -> None:
    assert quota.entity_of(Options()) == {}
    assert quota.entity_of(Options(user="u")) == {"user": "u"}
    assert quota.entity_of(Options(client_id="c")) == {"client-id": "c"}
    assert quota.entity_of(Options(user="u", client_defaults=True)) == {"user": "u", "client-id": None}
    assert quota.entity_of(Options(user_defaults=True, client_defaults=True)) == {"user": None, "client-id": None}
    assert quota.entity_of(Options(ip_defaults=True)) == {"ip": None}


@pytest.mark.parametrize(
    "options",
    [
        Options(user="u", user_defaults=True),
        Options(user=""),
        Options(ip="::1", user_defaults=True),
        Options(ip="::1", client_id="c"),
    ],
)
def test_entities_that_are_none(options: Options) -> None:
    with pytest.raises(typer.BadParameter):
        quota.entity_of(options)


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

"""The generated tables agree with the generated modules, and with facts that everybody knows of Kafka."""

from __future__ import annotations

import importlib

from ottla.wire.api import APIS, BY_MODULE
from ottla.wire.errors import ErrorCode


def test_every_api_has_its_module() -> None:
    assert BY_MODULE.keys() == {api.module for api in APIS.values()}
    assert len(BY_MODULE) == len(APIS) == 91
    for api in APIS.values():
        module = importlib.import_module(f"ottla.wire.messages.{api.module}")
        assert api.key == module.API_KEY
        versions = set(range(module.MIN_VERSION, module.MAX_VERSION + 1))
        for table in (module.DECODE_REQUEST, module.ENCODE_REQUEST, module.DECODE_RESPONSE, module.ENCODE_RESPONSE):
            assert set(table) == versions
        assert set(range(api.min_version, api.max_version + 1)) <= versions
        assert module.MAX_VERSION - api.max_version <= 1  # at most the newest one is unstable
        assert hasattr(module, f"{api.name}Request")
        assert hasattr(module, f"{api.name}Response")


def test_known_apis() -> None:
    produce, fetch, vote = APIS[0], BY_MODULE["fetch"], BY_MODULE["vote"]
    assert produce == (0, "Produce", "produce", 3, 13, 9, frozenset(("broker",)))
    assert (fetch.key, fetch.flexible_from, fetch.listeners) == (1, 12, frozenset(("broker", "controller")))
    assert vote.listeners == {"controller"}
    assert BY_MODULE["sasl_handshake"].flexible_from == 32767


def test_an_unstable_version_is_not_among_the_stable_ones() -> None:
    assert BY_MODULE["init_producer_id"].max_version == 5


def test_error_codes() -> None:
    assert ErrorCode(0) is ErrorCode.NONE
    assert ErrorCode(-1) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert sorted(ErrorCode) == list(range(-1, max(ErrorCode) + 1))  # no gaps

"""The common part of the console of `ottla console` and that of a broker before they start: the packages that they need, what a
token has to be, and the address for browsers that they print."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Final

from ottla.security.addresses import is_loopback

MIN_TOKEN: Final = 16
PACKAGES: Final = ("starlette", "uvicorn", "jinja2", "h11", "confluent_kafka")
"""The packages that the extra `console` brings and every client needs."""


def missing_packages() -> list[str]:
    """Returns which packages of a console are not installed."""
    return [name for name in PACKAGES if importlib.util.find_spec(name) is None]


def token_problem(token: str) -> str | None:
    """Returns what is wrong with a token that somebody chose; None if nothing is."""
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        return f"has to be {MIN_TOKEN} characters or more, in ASCII, without spaces"
    return None


def address_of(host: str, port: int, names: Sequence[str] | None) -> str:
    """Returns the address for browsers of a console that listens at this host: with TLS, where `names` are those of the
    certificate, by one of these if there is one for it, so that a browser takes it; they are None without TLS."""
    name = host
    if names and not is_loopback(host):
        name = next((each for each in names if "*" not in each), host)
    elif names and host not in names and "localhost" in names:
        name = "localhost"
    return f"{'http' if names is None else 'https'}://{f'[{name}]' if ':' in name else name}:{port}/"

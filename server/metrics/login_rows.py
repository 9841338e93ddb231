"""Makes rows for server/metrics/table.py of logins, TLS handshakes and decisions about rights.

A listener that neither encrypts nor has clients log in has none of these rows, and a broker without an authorizer none about
rights. As in Kafka, an authentication is a TLS handshake where nothing but a certificate says who comes, and else a login.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.server.metrics.rows import Row, Rows
from ottla.server.metrics.sources import Sources

if TYPE_CHECKING:
    from ottla.server.security.authorizer import Authorizer


_SOCKETS: Final = "kafka_server_socketservermetrics_"
_LISTENER: Final = ("listener",)
_PLUGIN: Final = "authorizer.class.name", "StandardAuthorizer", "broker"


def _of_listeners(number_of: Callable[[Any], float | None]) -> Rows:
    """Makes a row for each listener for which there is a number."""

    def rows(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
        for listener in sources.listeners:
            if (number := number_of(listener)) is not None:
                yield (listener.name,), number

    return rows


def _handshakes(of_listener: Callable[[Any], int]) -> Rows:
    """Makes a row for each listener with TLS."""
    return _of_listeners(lambda listener: of_listener(listener) if hasattr(listener, "handshakes") else None)


def _authentications(name: str, handshakes: str) -> Rows:
    """Makes a row for each listener with logins or TLS, of this counter of its logins or that of its handshakes."""
    return _of_listeners(
        lambda listener: getattr(listener, handshakes, None) if listener.logins is None else getattr(listener.logins, name)
    )


def _logins(of_logins: Callable[[Any], float | None]) -> Rows:
    """Makes a row for each listener with logins for which there is a number."""
    return _of_listeners(lambda listener: None if listener.logins is None else of_logins(listener.logins))


def _of_authorizer(rows_of: Callable[[Authorizer], Iterator[tuple[tuple[str, ...], float]]]) -> Rows:
    def rows(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
        authorizer = sources.context.authorizer
        if authorizer is not None:
            yield from rows_of(authorizer)

    return rows


def _decisions(authorizer: Authorizer) -> Iterator[tuple[tuple[str, ...], float]]:
    yield ("allowed",), authorizer.audit.allowed
    yield ("denied",), sum(authorizer.audit.denied.values())


LOGIN_ROWS: Final[tuple[Row, ...]] = (
    (
        f"{_SOCKETS}successful_authentication_total",
        "counter",
        _LISTENER,
        "Clients that have logged in; without logins, TLS handshakes that succeeded.",
        _authentications("successful", "handshakes"),
    ),
    (
        f"{_SOCKETS}failed_authentication_total",
        "counter",
        _LISTENER,
        "Logins that were refused; without logins, TLS handshakes that failed.",
        _authentications("failed", "failed_handshakes"),
    ),
    (
        f"{_SOCKETS}successful_reauthentication_total",
        "counter",
        _LISTENER,
        "Logins that were renewed.",
        _logins(lambda logins: int(logins.renewed)),
    ),
    (
        f"{_SOCKETS}failed_reauthentication_total",
        "counter",
        _LISTENER,
        "Renewals of logins that were refused.",
        _logins(lambda logins: int(logins.failed_renewals)),
    ),
    (
        f"{_SOCKETS}reauthentication_latency_avg",
        "gauge",
        _LISTENER,
        "How many ms renewals took, in the mean of the last one to two minutes; no row if there were none.",
        _logins(lambda logins: logins.renewal_times.mean_ms),
    ),
    (
        f"{_SOCKETS}reauthentication_latency_max",
        "gauge",
        _LISTENER,
        "How many ms the longest renewal of the last one to two minutes took; no row if there were none.",
        _logins(lambda logins: logins.renewal_times.longest_ms),
    ),
    (
        f"{_SOCKETS}expired_connections_killed_count",
        "gauge",
        _LISTENER,
        "Connections that were closed because their logins had ended and were not renewed.",
        _logins(lambda logins: int(logins.expired)),
    ),
    (
        "ottla_login_timeouts_total",
        "counter",
        _LISTENER,
        "Connections that were closed because their clients did not log in in time (ottla.login.timeout.ms).",
        _logins(lambda logins: int(logins.timed_out)),
    ),
    (
        "ottla_tls_handshakes_total",
        "counter",
        _LISTENER,
        "TLS handshakes that succeeded.",
        _handshakes(lambda listener: int(listener.handshakes)),
    ),
    (
        "ottla_tls_failed_handshakes_total",
        "counter",
        _LISTENER,
        "TLS handshakes that failed, took too long, or were never begun.",
        _handshakes(lambda listener: int(listener.failed_handshakes)),
    ),
    (
        "ottla_tls_waiting_handshakes",
        "gauge",
        _LISTENER,
        "Clients that wait for their TLS handshakes to begin.",
        _handshakes(lambda listener: int(listener.turns.waiting)),
    ),
    (
        "kafka_server_plugins_acls_total_count",
        "gauge",
        ("config", "class", "role"),
        "Access rules.",
        _of_authorizer(lambda authorizer: iter([(_PLUGIN, authorizer.rule_count)])),
    ),
    (
        "ottla_authorizer_decisions_total",
        "counter",
        ("decision",),
        "Decisions whether a client has a right, allowed or denied; super users are not asked about.",
        _of_authorizer(_decisions),
    ),
    (
        "ottla_authorizer_denials_total",
        "counter",
        ("request",),
        "Denials by API.",
        _of_authorizer(lambda authorizer: (((api,), count) for api, count in list(authorizer.audit.denied.items()))),
    ),
)

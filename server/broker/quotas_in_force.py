"""Applies all quotas of a running broker, as its metadata and settings have them now. It is loaded with the first quota."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.server.dispatch.chain import Chain, Place
from ottla.server.metadata.quotas import CONNECTION_CREATION_RATE, IP, entity_of
from ottla.server.network.connection_rates import UNLIMITED, ConnectionRates
from ottla.server.quotas.enforcement import ClientQuotas
from ottla.server.quotas.rates import Windows
from ottla.server.settings.listeners import MAX_CREATION_RATE
from ottla.wire.messages.internal.client_quota_record import ClientQuotaRecord

if TYPE_CHECKING:
    from ottla.server.base.network import Network
    from ottla.server.metadata.image import QuotasChanged
    from ottla.server.network.listener import Listener
    from ottla.server.requests.context import BrokerContext

_OF_LISTENER: Final = "listener.name.{}." + MAX_CREATION_RATE


class QuotasInForce:
    """Limits the clients of one broker. The broker calls `refresh` after each change of quotas or of its settings."""

    def __init__(self, context: BrokerContext, chain: Chain, listeners: Sequence[Listener], network: Network) -> None:
        self._context = context
        self._chain = chain
        self._listeners = listeners
        values = context.config.values
        windows = Windows(values["quota.window.num"], values["quota.window.size.seconds"] * 1000)
        changes = Windows(values["controller.quota.window.num"], values["controller.quota.window.size.seconds"] * 1000)
        self._clients = ClientQuotas(context.clock, windows, changes, context.clock.ticks_ns)
        among_brokers = values["inter.broker.listener.name"] or values["security.inter.broker.protocol"]
        protected = among_brokers.upper() if len(listeners) > 1 else None
        self._connections = ConnectionRates(windows, context.clock, network, protected)
        self._change(record for record in context.metadata.kept.values() if isinstance(record, ClientQuotaRecord))

    def _change(self, records: Iterable[ClientQuotaRecord]) -> None:
        """Sets and removes quotas, as these records do."""
        set_quota = self._clients.set_quota
        for record in records:
            entity = entity_of([(part.entity_type, part.entity_name) for part in record.entity])
            value = None if record.remove else record.value
            if record.key != CONNECTION_CREATION_RATE:
                set_quota(entity, record.key, value)
            elif entity[0][0] == IP:
                self._connections.set_quota(entity[0][1], None if value is None else int(value))

    def refresh(self, changed: QuotasChanged | None) -> None:
        """Applies the quotas and the rates as they are now, that is after this change of quotas, or None of them."""
        if changed is not None:
            self._change(changed.records)
        clients = self._clients if self._clients.limited else None
        self._context.quotas = clients
        self._chain.put(Place.QUOTAS, clients)
        rates = self._rates()
        limit = self._context.settings[MAX_CREATION_RATE]
        self._connections.set_rates(limit, rates)
        limited = self._connections.limited or any(rate != UNLIMITED for rate in (limit, *rates.values()))
        for listener in self._listeners:
            listener.rates = self._connections if limited else None

    def _rates(self) -> Mapping[str, int]:
        """Returns the limit of connections per second by listener: its own, or that of the broker."""
        context = self._context
        texts = context.settings.texts
        of_broker = context.settings[MAX_CREATION_RATE]
        own = {listener.name: texts.get(_OF_LISTENER.format(listener.name.lower()), "") for listener in self._listeners}
        return {name: int(text) if text.isdecimal() else of_broker for name, text in own.items()}

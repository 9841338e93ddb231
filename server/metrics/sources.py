"""The parts of a running broker that metrics are read from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.log.compaction.cleaner_manager import LogCleaner
    from ottla.log.manager import LogManager
    from ottla.server.dispatch.measured import MeasuredDispatch
    from ottla.server.network.listener import Listener
    from ottla.server.requests.context import BrokerContext


@dataclass(slots=True)
class Sources:
    """`serving` is set by the broker: true from the end of its start to the beginning of its stop."""

    context: BrokerContext
    dispatch: MeasuredDispatch
    listeners: Sequence[Listener]
    logs: LogManager
    serving: bool = False
    cleaner: LogCleaner | None = None
    """Once there was a compacted log."""

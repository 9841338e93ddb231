"""Defines what a handler declares about itself, in its own file, so that no table elsewhere has to be kept in step with it.

Each module of server/handlers has `TRAITS`. Dispatch reads them when it makes the route, and hands them to the links around the
handler (server/dispatch/chain.py): the guards, which enforce `rights`, and the quotas.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from ottla.server.security.rights import Rights


class Throttling(Enum):
    """Says what of a request counts against its client's quotas."""

    REQUEST = auto()
    """Only the time it takes counts (`request_percentage`). The members below say otherwise. That partitions are created and
    deleted counts as well (`controller_mutation_rate`), but is no trait: handlers ask for it (`Request.permits`)."""
    PRODUCE = auto()
    """The bytes of the request count (`producer_byte_rate`)."""
    FETCH = auto()
    """The bytes of the answer count (`consumer_byte_rate`). The handler charges them, and the time, before it decides on it."""
    ANSWER = auto()
    """The bytes of the answer count (`consumer_byte_rate`), and it goes out whatever they are."""
    NOTHING = auto()
    """Nothing counts, not even the time, because a broker sent the request and not a client."""


class Traits(NamedTuple):
    """Declares what dispatch and its links have to know about one handler."""

    rights: Rights
    throttling: Throttling = Throttling.REQUEST
    broker_only: bool = False
    """The API is not served at the controller's listeners, although the protocol has it there as well."""
    before_authentication: bool = False
    """A client may send the request before it has logged in. What may come when is a table in security/login.py, and a test keeps
    the two in step."""
    answers_with_regions: bool = False
    """The answer may hold regions of log files, so it goes out in parts."""
    reports_failure: bool = False
    """The handler sets `Request.failed` when its answer holds errors; other handlers' answers are searched for error codes."""
    long_answer: bool = False
    """The answer may be much longer than the request, so its lists are those of `BrokerContext.long_answers`, which bound it."""
    kept_throttle_time_since: int | None = None
    """The first version in which an answer that is kept encoded begins with `throttle_time_ms`; None where no answer is kept."""

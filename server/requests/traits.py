"""Defines what a handler declares about itself, in its own file.

Each module of server/handlers has `TRAITS`. Dispatch reads them when it makes the route, and hands them to the links around the
handler (server/dispatch/chain.py): the guards, which enforce `rights`, and the quotas. Two traits are asked for where no handler
may be imported; these places have a table, which a test holds against the declarations (tests/server/handlers/test_traits.py).
"""

from __future__ import annotations

from enum import Enum, auto
from types import ModuleType
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
    """The API is not served at the controller's listeners, although the protocol has it there as well. Who lists APIs imports no
    handler, and goes by a copy: `BROKER_ONLY` in server/handlers/__init__.py."""
    before_authentication: bool = False
    """A client may send the request before it has logged in. The login, in a room below the handlers, goes by a copy, which also
    says at which step: `ADMITS` in server/security/login.py."""
    carries_records: bool = False
    """The request holds records, so it may be long although it names few things."""
    own_codecs: ModuleType | None = None
    """The module whose `DECODE_REQUEST` and `ENCODE_RESPONSE` take the place of the generated ones."""
    answers_with_regions: bool = False
    """The answer may hold regions of log files, so it goes out in parts."""
    reports_failure: bool = False
    """The handler sets `Request.failed` when its answer holds errors; other handlers' answers are searched for error codes."""
    long_answer: bool = False
    """The answer may be much longer than the request, so its lists are those of `BrokerContext.long_answers`, which bound it."""
    kept_throttle_time_since: int | None = None
    """The first version in which an answer that is kept encoded begins with `throttle_time_ms`; None where no answer is kept."""

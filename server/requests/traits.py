"""What a handler declares about itself, in its own file, so that no table elsewhere has to be kept in step with it.

Each module of server/handlers has `TRAITS`. Dispatch reads them when it makes the route, and hands them to the links that stand
around the handler (server/dispatch/chain.py): quotas today. `rights` is what an authorizer will go by, and
`before_authentication` is for listeners where clients have to log in.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from ottla.server.security.rights import Rights


class Throttling(Enum):
    """What of a request counts against its client's quotas."""

    REQUEST = auto()
    """Only the time it takes (`request_percentage`). What follows adds something to that."""
    PRODUCE = auto()
    """The bytes of the request (`producer_byte_rate`)."""
    FETCH = auto()
    """The bytes of the answer (`consumer_byte_rate`). The handler charges them, and the time, before it decides on its answer."""
    ANSWER = auto()
    """The bytes of the answer (`consumer_byte_rate`), which goes out whatever they are."""
    CONTROLLER_MUTATION = auto()
    """The partitions that it makes or removes (`controller_mutation_rate`): its handler asks for permits (`Request.permits`)."""
    NOTHING = auto()
    """It is no client's request but a broker's, so not even its time counts."""


class Traits(NamedTuple):
    """The declaration of one handler."""

    rights: Rights
    throttling: Throttling = Throttling.REQUEST
    broker_only: bool = False
    """It is not served at the controller's listeners, although the protocol has the API there, too."""
    before_authentication: bool = False
    """A client may ask for it before it has logged in."""
    answers_with_regions: bool = False
    """Its answer may hold regions of log files, so it goes out in parts."""
    reports_failure: bool = False
    """The handler sets `Request.failed` when its answer holds errors; other handlers' answers are searched for error codes."""
    kept_throttle_time_since: int | None = None
    """The first version in which an answer that is kept encoded begins with `throttle_time_ms`; None where no answer is kept."""

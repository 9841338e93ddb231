"""Registers a broker: asks again as long as the answer allows that, and at most for `initial.broker.registration.timeout.ms`.

What is said and what an answer means is in registration.py.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ottla.server.base.clock import sleep
from ottla.server.metadata.cluster import CannotJoin
from ottla.server.quorum.channel import ControllerUnreachable
from ottla.server.quorum.registration import Verdict, describe_refusal, verdict
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.quorum.channel import Channel
    from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

RETRY_SECONDS: Final = 0.25
"""The pause before another attempt. The wait is mostly for the end of a session, which takes seconds."""

logger = logging.getLogger("ottla.server.quorum")


def _is_elsewhere(answer: BrokerRegistrationResponse) -> bool:
    return verdict(answer.error_code) is Verdict.ANOTHER_CONTROLLER


def _describe_delay(node_id: int, timeout_ms: int, said: ErrorCode) -> str:
    text = (
        f"node.id {node_id} could not register within {timeout_ms} ms (initial.broker.registration.timeout.ms): the controllers "
        f"answer {said.name}"
    )
    if said != ErrorCode.DUPLICATE_BROKER_REGISTRATION:
        return text
    return f"{text}; another broker of this node.id seems to run: stop it, or give this one another node.id"


async def register(channel: Channel, request: BrokerRegistrationRequest, clock: Clock, timeout_ms: int, attempt_ms: int) -> int:
    """Registers the broker and returns its epoch. An answer that does not come within `attempt_ms` is asked for again, by another
    connection: controllers know a broker's incarnation, and answer the same twice. Raises CannotJoin, also when the time is over.
    """
    deadline = clock.monotonic() + timeout_ms / 1000
    said = 0
    while True:
        left_ms = int((deadline - clock.monotonic()) * 1000)
        if left_ms <= 0:
            raise CannotJoin(_describe_delay(request.broker_id, timeout_ms, ErrorCode(said)))
        try:
            answer: BrokerRegistrationResponse = await channel.ask(
                request, left_ms, attempt_ms=attempt_ms, is_refused=_is_elsewhere
            )
        except ControllerUnreachable as error:
            if said:  # only the last attempt has no answer, because its time was short
                raise CannotJoin(_describe_delay(request.broker_id, timeout_ms, ErrorCode(said))) from error
            name = "initial.broker.registration.timeout.ms"
            raise CannotJoin(f"node.id {request.broker_id} could not register ({name}): {error}") from error
        what = verdict(answer.error_code)
        if what is Verdict.REGISTERED:
            return answer.broker_epoch
        if what is Verdict.REFUSED:
            raise CannotJoin(describe_refusal(answer.error_code, request))
        if answer.error_code != said:
            said = answer.error_code
            logger.info("the controllers answer the registration with %s; it is tried again", ErrorCode(said).name)
        await sleep(clock, RETRY_SECONDS)

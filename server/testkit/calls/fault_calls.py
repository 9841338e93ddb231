"""The calls about faults, for the table in control.py."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ottla.server.base.clock import wait_at_most
from ottla.server.testkit.fields import Refused
from ottla.server.testkit.given import Given

if TYPE_CHECKING:
    from ottla.server.testkit.faults.faults import Fault
    from ottla.server.testkit.kit import Kit

MOST_WAIT_MS: Final = 600_000


def install(kit: Kit, given: Given) -> Any:
    """Installs the fault of the body, or the faults if the body is a list; answers with what was installed."""
    several = given.body if isinstance(given.body, list) else None
    installed = kit.faults.install([given.body] if several is None else several)
    described = [fault.describe() for fault in installed]
    return described[0] if several is None else described


def describe_all(kit: Kit, given: Given) -> Any:
    """Answers with all faults, in the order of their installation."""
    given.fields.done()
    return [fault.describe() for fault in kit.faults]


def remove_all(kit: Kit, given: Given) -> Any:
    """Removes all faults; answers with them as they were."""
    given.fields.done()
    return _remove(kit, list(kit.faults))


def describe(kit: Kit, given: Given) -> Any:
    """Answers with one fault."""
    given.fields.done()
    return _fault(kit, given).describe()


def remove(kit: Kit, given: Given) -> Any:
    """Removes one fault; answers with it as it was."""
    given.fields.done()
    return _remove(kit, [_fault(kit, given)])[0]


def _remove(kit: Kit, faults: list[Fault]) -> list[Any]:
    described = [fault.describe() for fault in faults]
    kit.faults.remove(faults)
    return described


def release(kit: Kit, given: Given) -> Any:
    """Lets go of the requests that a fault holds; answers with the fault and how many they were."""
    given.fields.done()
    fault = _fault(kit, given)
    released = fault.release()
    return {**fault.describe(), "released": released}


async def wait(kit: Kit, given: Given) -> Any:
    """Waits until a fault has had so many hits; answers with the fault. Raises Refused, with 408, if that takes too long."""
    fault = _fault(kit, given)
    hits = given.fields.take_number("hits", 1, low=1)
    timeout_ms = given.fields.take_number("timeout_ms", 5000, high=MOST_WAIT_MS)
    given.fields.done()
    promise = fault.when_hit(hits)
    if not promise.done():
        waiting = asyncio.get_running_loop().create_future()
        promise.add_done_callback(lambda _: None if waiting.done() else waiting.set_result(None))
        try:
            was_hit = await wait_at_most(kit.clock, timeout_ms / 1000, (waiting,))
        finally:
            fault.forget_wait(promise)  # also if the client has gone
        if not was_hit:
            text = f"the fault {fault.id} has {fault.hits} of {hits} hits, and matched {fault.matches} requests"
            raise Refused(f"after {timeout_ms} ms: {text}", HTTPStatus.REQUEST_TIMEOUT)
    return fault.describe()


def _fault(kit: Kit, given: Given) -> Fault:
    return kit.faults.get(given.variables["id"])

"""The call `wait`, for the table in control.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.server.testkit.calls.fault_calls import MOST_WAIT_MS
from ottla.server.testkit.fields import Fields

if TYPE_CHECKING:
    from ottla.server.testkit.faults.bench import Bench
    from ottla.server.testkit.given import Given
    from ottla.server.testkit.kit import Kit
    from ottla.server.testkit.waiting.condition import Condition

TIMEOUT_MS: Final = 10_000


async def wait(kit: Kit, given: Given) -> Any:
    """Waits `until` something has come about; answers with what was found. Raises Refused, with 408 if that takes too long, and
    at once if it can never come about."""
    until = Fields(given.fields.take("until", dict), "until")
    timeout_ms = given.fields.take_number("timeout_ms", TIMEOUT_MS, high=MOST_WAIT_MS)
    given.fields.done()
    return await kit.waits.until(read_condition(kit, until), timeout_ms)


def read_condition(kit: Kit, fields: Fields) -> Condition:
    """Reads what is waited for. Raises Refused."""
    # Loaded only here: they need the code of groups of all kinds, and few tests wait.
    from ottla.server.testkit.waiting import conditions, group_conditions

    readers: dict[str, Callable[[Bench, Fields], Condition]] = {  # by the field that says what is waited for
        "group": group_conditions.read_group,
        "committed": group_conditions.read_committed,
        "topic": conditions.read_topic,
        "request": conditions.read_request,
        "transaction": conditions.read_transaction,
        "connections": conditions.read_connections,
        "quiet_ms": conditions.read_quiet,
    }
    condition = readers[fields.only_one(readers)](kit, fields)
    fields.done()
    return condition

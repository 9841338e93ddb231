"""Everything that a test may ask of the kit, as one table of functions, which HTTP and Python both call.

A `Call` is one of them: its name in Python, its method and path in HTTP, and the function. That takes the Kit and the
`Given`, what was given with the call, and returns what JSON can hold, or an awaitable of it, or an Archive; it raises Refused.
All run on the broker's loop, so a call is in force before it is answered.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.log.errors import LogError
from ottla.server.testkit.calls import disk_calls, fault_calls, look_calls, moves, node_calls, recording_calls, version_calls
from ottla.server.testkit.calls.topics import create_topic, delete_topic
from ottla.server.testkit.calls.wait_calls import wait
from ottla.server.testkit.fields import Refused, nearest
from ottla.server.testkit.given import Given
from ottla.server.testkit.looks import records

if TYPE_CHECKING:
    from ottla.server.testkit.kit import Kit


class Call(NamedTuple):
    """One thing that a test may ask."""

    name: str
    """The name in Python."""
    method: str
    path: str
    """The path in HTTP, with the names of its variables in braces."""
    function: Callable[[Kit, Given], Any]
    status: int = HTTPStatus.OK
    """The status of the HTTP answer if all is well."""
    is_wait: bool = False
    """True if it only waits, and so ends when the client has gone. Other calls are completed."""

    def run(self, kit: Kit, given: Given) -> Any:
        """Does what is asked. Raises Refused, with 409 where the disk or the network fails: a test may have broken it."""
        try:
            answer = self.function(kit, given)
        except (LogError, OSError) as error:
            raise Refused(str(error), HTTPStatus.CONFLICT) from error
        return _finished(answer) if inspect.isawaitable(answer) else answer


async def _finished(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except (LogError, OSError) as error:
        raise Refused(str(error), HTTPStatus.CONFLICT) from error


CALLS: Final[tuple[Call, ...]] = (
    Call("state", "GET", "/v1/state", look_calls.show_state),
    Call("topics", "GET", "/v1/topics", look_calls.list_topics),
    Call("topic", "GET", "/v1/topics/{topic}", look_calls.show_topic),
    Call("groups", "GET", "/v1/groups", look_calls.list_groups),
    Call("group", "GET", "/v1/groups/{group}", look_calls.show_group),
    Call("transactions", "GET", "/v1/transactions", look_calls.list_transactions),
    Call("transaction", "GET", "/v1/transactions/{transaction}", look_calls.show_transaction),
    Call("connections", "GET", "/v1/connections", look_calls.list_connections),
    Call("producers", "GET", "/v1/producers", look_calls.list_producers),
    Call("records", "GET", "/v1/records/{topic}", records.read_records),
    Call("produce", "POST", "/v1/records/{topic}", records.produce_records, HTTPStatus.CREATED),
    Call("wait", "POST", "/v1/wait", wait, is_wait=True),
    Call("fault", "POST", "/v1/faults", fault_calls.install, HTTPStatus.CREATED),
    Call("faults", "GET", "/v1/faults", fault_calls.describe_all),
    Call("remove_faults", "DELETE", "/v1/faults", fault_calls.remove_all),
    Call("fault.describe", "GET", "/v1/faults/{id}", fault_calls.describe),
    Call("fault.remove", "DELETE", "/v1/faults/{id}", fault_calls.remove),
    Call("fault.wait", "POST", "/v1/faults/{id}/wait", fault_calls.wait, is_wait=True),
    Call("fault.release", "POST", "/v1/faults/{id}/release", fault_calls.release),
    Call("clock", "GET", "/v1/clock", moves.show_clock),
    Call("advance", "POST", "/v1/clock/advance", moves.advance),
    Call("freeze", "POST", "/v1/clock/freeze", moves.freeze),
    Call("resume", "POST", "/v1/clock/resume", moves.resume),
    Call("set_clock", "POST", "/v1/clock/set", moves.set_clock),
    Call("run", "POST", "/v1/run", moves.run),
    Call("reset", "POST", "/v1/reset", moves.reset),
    Call("restart", "POST", "/v1/restart", moves.restart),
    Call("snapshot", "POST", "/v1/snapshots", moves.snapshot, HTTPStatus.CREATED),
    Call("snapshots", "GET", "/v1/snapshots", moves.list_snapshots),
    Call("restore", "POST", "/v1/snapshots/{snapshot}/restore", moves.restore),
    Call("archive", "GET", "/v1/snapshots/{snapshot}/archive", moves.archive),
    Call("delete_snapshot", "DELETE", "/v1/snapshots/{snapshot}", moves.delete_snapshot),
    Call("disk", "GET", "/v1/disk", disk_calls.describe_disk),
    Call("disk.break", "POST", "/v1/disk", disk_calls.break_disk, HTTPStatus.CREATED),
    Call("disk.clear", "DELETE", "/v1/disk", disk_calls.clear_disk),
    Call("disk.remove", "DELETE", "/v1/disk/{id}", disk_calls.remove_disk_fault),
    Call("pretend", "POST", "/v1/versions", version_calls.pretend),
    Call("versions", "GET", "/v1/versions", version_calls.describe_versions),
    Call("be_itself", "DELETE", "/v1/versions", version_calls.be_itself),
    Call("nodes", "GET", "/v1/nodes", node_calls.list_nodes),
    Call("add_node", "POST", "/v1/nodes", node_calls.add_node, HTTPStatus.CREATED),
    Call("node", "GET", "/v1/nodes/{node}", node_calls.show_node),
    Call("change_node", "POST", "/v1/nodes/{node}", node_calls.change_node),
    Call("remove_node", "DELETE", "/v1/nodes/{node}", node_calls.remove_node),
    Call("move_partition", "POST", "/v1/partitions/{topic}/{partition}", node_calls.move_partition),
    Call("move_group", "POST", "/v1/groups/{group}/coordinator", node_calls.move_group),
    Call("move_transaction", "POST", "/v1/transactions/{transactional_id}/coordinator", node_calls.move_transaction),
    Call("create_topic", "PUT", "/v1/topics/{topic}", create_topic, HTTPStatus.CREATED),
    Call("delete_topic", "DELETE", "/v1/topics/{topic}", delete_topic),
    Call("record", "POST", "/v1/recording", recording_calls.record),
    Call("recording", "GET", "/v1/recording", recording_calls.describe),
    Call("requests", "GET", "/v1/requests", recording_calls.requests),
    Call("forget_requests", "DELETE", "/v1/requests", recording_calls.forget),
    Call("report", "GET", "/v1/report", recording_calls.report),
)
"""The table. Beside it there are only the rules of HTTP in port.py."""


def find_call(method: str, path: str) -> tuple[Call, dict[str, str]]:
    """Returns the call of a path and its variables. Raises Refused, with 405 if the path has only other methods."""
    methods = []
    for call, pattern in _PATTERNS:
        found = pattern.fullmatch(path)
        if found is None:
            continue
        if call.method == method:
            return call, found.groupdict()
        methods.append(call.method)
    if methods:
        raise Refused(f"{path} is for {', '.join(methods)}, not for {method}", HTTPStatus.METHOD_NOT_ALLOWED)
    raise Refused(f"there is no {path}{nearest(path, {call.path for call in CALLS})}", HTTPStatus.NOT_FOUND)


_PATTERNS: Final = [(call, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", call.path))) for call in CALLS]

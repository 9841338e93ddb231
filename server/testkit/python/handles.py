"""Faults as Python objects, for `ottla.testing.Broker`: the same calls as over HTTP (control.py), on the loop of the broker."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Mapping
from concurrent.futures import CancelledError
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from ottla.server.testkit.calls.control import CALLS, Call
from ottla.server.testkit.fault_fields import ACTIONS, RULES, SELECTORS
from ottla.server.testkit.fields import Refused, nearest
from ottla.server.testkit.given import Given
from ottla.server.testkit.python.looking import WAIT_SECONDS as LOOKING_SECONDS
from ottla.server.testkit.python.looking import wait_body
from ottla.server.testkit.python.moving import Awaited, Moving
from ottla.server.testkit.python.node_handles import Node

if TYPE_CHECKING:
    from ottla.server.testkit.kit import Kit

WAIT_SECONDS: Final = 5.0
_STOPPED: Final = "the broker was stopped while the call waited"

_BY_NAME: Final = {call.name: call for call in CALLS}


def fault_body(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is sent for a fault that Python gives as keywords. Raises ValueError for an unknown one."""
    for name in given:
        if name not in (*SELECTORS, *ACTIONS, *RULES):
            raise ValueError(f"{name} is no keyword of a fault{nearest(name, (*SELECTORS, *ACTIONS, *RULES))}")
    body: dict[str, Any] = {
        "on": {name: given[name] for name in SELECTORS if name in given},
        "do": {name: given[name] for name in ACTIONS if name in given},
    }
    return body | {name: given[name] for name in RULES if name in given}


class Controls:
    """Calls the functions of a kit, by their names in Python, from the thread of the broker's loop or from any other."""

    def __init__(self, kit: Kit, loop: asyncio.AbstractEventLoop) -> None:
        self._kit = kit
        self._loop = loop

    def call(self, name: str, body: Any = None, *, method: str = "", **variables: str) -> Any:
        """Calls and returns the answer; see Calls. In the broker's own loop nothing can be waited for, so that raises
        RuntimeError. Raises ValueError for what is refused, TimeoutError, and RuntimeError if the broker is
        stopped meanwhile."""
        call, given = _BY_NAME[name], Given(variables, body)
        if _running_loop() is self._loop:
            if inspect.iscoroutinefunction(call.function):
                raise RuntimeError(f"{method or name} waits, which would stop the broker in this loop; await it (broker.aio)")
            return _answered(call, self._kit, given)
        try:
            return asyncio.run_coroutine_threadsafe(self._run(call, given), self._loop).result()
        except CancelledError:
            raise RuntimeError(_STOPPED) from None

    async def call_awaited(self, name: str, body: Any = None, **variables: str) -> Any:
        """Does the same for callers that await the answer, in any loop."""
        call, given = _BY_NAME[name], Given(variables, body)
        if asyncio.get_running_loop() is self._loop:
            return await self._run(call, given)
        task = asyncio.current_task()
        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._run(call, given), self._loop))
        except asyncio.CancelledError:
            if task is not None and task.cancelling():  # it is the caller that is to end
                raise
            raise RuntimeError(_STOPPED) from None

    async def _run(self, call: Call, given: Given) -> Any:
        answer = _answered(call, self._kit, given)
        try:
            return await answer if inspect.isawaitable(answer) else answer
        except Refused as refused:
            raise _raised(refused) from None


def _answered(call: Call, kit: Kit, given: Given) -> Any:
    try:
        return call.run(kit, given)
    except Refused as refused:
        raise _raised(refused) from None


def _raised(refused: Refused) -> Exception:
    return (TimeoutError if refused.status == HTTPStatus.REQUEST_TIMEOUT else ValueError)(str(refused))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Fault:
    """An installed fault. As a context manager, it is removed at the end."""

    def __init__(self, controls: Controls, installed: Mapping[str, Any]) -> None:
        self._controls = controls
        self._installed = installed

    @property
    def id(self) -> str:
        """Its id, as in paths of HTTP."""
        return str(self._installed["id"])

    @property
    def state(self) -> dict[str, Any]:
        """All that is known of it now: what it is, `matches`, `hits`, `left`, `held`, `active`, `last_hit`."""
        state: dict[str, Any] = self._controls.call("fault.describe", id=self.id)
        return state

    @property
    def hits(self) -> int:
        """Returns how many requests it has acted on."""
        return int(self.state["hits"])

    def wait(self, hits: int = 1, timeout: float = WAIT_SECONDS) -> None:
        """Waits until it has acted so often. Raises TimeoutError after so many seconds."""
        self._controls.call("fault.wait", {"hits": hits, "timeout_ms": int(timeout * 1000)}, id=self.id)

    def release(self) -> int:
        """Lets go of the requests that it holds; returns how many."""
        return int(self._controls.call("fault.release", id=self.id)["released"])

    def remove(self) -> None:
        """Removes it; what it holds goes on."""
        self._controls.call("fault.remove", id=self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        with contextlib.suppress(ValueError):  # it is gone already: removed by hand, or by a reset
            self.remove()

    def __repr__(self) -> str:
        return f"<fault {self.id}: {self._installed.get('do')} on {self._installed.get('on', 'everything')}>"


class AsyncFault:
    """An installed fault whose calls are awaited. As an asynchronous context manager, it is removed at the end."""

    def __init__(self, controls: Controls, installed: Mapping[str, Any]) -> None:
        self._controls = controls
        self.id = str(installed["id"])

    async def state(self) -> dict[str, Any]:
        """Returns all that is known of it now."""
        state: dict[str, Any] = await self._controls.call_awaited("fault.describe", id=self.id)
        return state

    async def wait(self, hits: int = 1, timeout: float = WAIT_SECONDS) -> None:  # noqa: ASYNC109 - as Fault has it
        """Waits until it has acted so often. Raises TimeoutError after so many seconds."""
        await self._controls.call_awaited("fault.wait", {"hits": hits, "timeout_ms": int(timeout * 1000)}, id=self.id)

    async def release(self) -> int:
        """Lets go of the requests that it holds; returns how many."""
        return int((await self._controls.call_awaited("fault.release", id=self.id))["released"])

    async def remove(self) -> None:
        """Removes it; what it holds goes on."""
        await self._controls.call_awaited("fault.remove", id=self.id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with contextlib.suppress(ValueError):  # as in Fault
            await self.remove()


class AsyncNode(Awaited):
    """A node of a simulated cluster, with the methods and attributes of Node to be awaited; but for `id`, which is known."""

    __slots__ = ("id",)

    def __init__(self, controls: Controls, node_id: int) -> None:
        super().__init__(Node(node_id, controls.call))
        self.id = node_id


class AsyncNodes:
    """The nodes of a simulated cluster by their ids: `await nodes[3].down()`, `await nodes[3].state`. The broker is asked when
    something is awaited, and refuses a node that it does not have with ValueError."""

    def __init__(self, controls: Controls) -> None:
        self._controls = controls

    def __getitem__(self, node_id: int) -> AsyncNode:
        return AsyncNode(self._controls, node_id)


class AsyncControls:
    """The calls of a broker under test, awaited (`ottla.testing.Broker.aio`)."""

    def __init__(self, controls: Controls) -> None:
        self._controls = controls
        self._methods = Awaited(Moving(controls.call))
        self.nodes = AsyncNodes(controls)
        """The nodes that the broker simulates."""

    def __getattr__(self, name: str) -> Any:
        """Returns what the broker itself has under this name (moving.py, looking.py), to be awaited."""
        return getattr(self._methods, name)

    async def wait(self, *, timeout: float = LOOKING_SECONDS, **until: Any) -> dict[str, Any]:  # noqa: ASYNC109 - as Looking
        """Waits as `ottla.testing.Broker.wait`, and keeps no thread busy."""
        found: dict[str, Any] = await self._controls.call_awaited("wait", wait_body(until, timeout))
        return found

    async def add_node(self, rack: str | None = None) -> AsyncNode:
        """Adds a node, as `ottla.testing.Broker.add_node`, and returns it as `nodes` has it."""
        return self.nodes[int((await self._controls.call_awaited("add_node", {"rack": rack}))["id"])]

    async def fault(self, **given: Any) -> AsyncFault:
        """Installs a fault; the keywords are those of `ottla.testing.Broker.fault`. Raises ValueError."""
        return AsyncFault(self._controls, await self._controls.call_awaited("fault", fault_body(given)))

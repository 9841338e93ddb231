"""A whole broker with an authorizer, on a disk in memory; its requests are frames of sessions with any principal and host."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from compat_tests.wire import encode, module_of
from ottla.server.base.promise import Promise
from ottla.server.broker.broker import Broker
from ottla.server.dispatch.route import Waiting
from ottla.server.dispatch.routes import Dispatch
from ottla.server.requests.session import Session
from ottla.server.security.authorizer import Authorizer
from ottla.server.settings.authorizer_settings import STANDARD_AUTHORIZER
from ottla.wire.header import decode_response_header
from ottla.wire.messages import create_acls
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.memdisk import MemDisk
from tests.server.broker.whole_broker import config, disk, run

ADMIN = "User:admin"
ANONYMOUS = "User:ANONYMOUS"


class Guarded:
    """Asks a broker on behalf of anybody; `admin` is a super user."""

    def __init__(self, broker: Broker) -> None:
        assert broker.context is not None
        self.context = broker.context
        self._dispatch = Dispatch(broker.context, broker.chain)

    @property
    def authorizer(self) -> Authorizer:
        authorizer = self.context.authorizer
        assert authorizer is not None
        return authorizer

    def session(self, principal: str, host: str = "10.0.0.1") -> Session:
        return Session("PLAINTEXT", host, principal=principal)

    async def ask(self, request: Any, version: int, who: str | Session = ADMIN) -> Any:
        """The answer as the client decodes it; None if there is none. Raises CloseConnection."""
        module = module_of(request)
        session = self.session(who) if isinstance(who, str) else who
        answer = self._dispatch.serve(encode(request, version, 1), session)
        if isinstance(answer, Waiting):
            kept: Promise[Any] = Promise()
            kept.set_result(await answer.answer)
            answer = answer.route.finish(kept, answer)
        if not answer:
            return None
        parts = [answer] if isinstance(answer, bytes) else answer
        frame = b"".join(part if isinstance(part, bytes) else part.read() for part in parts)
        _, at = decode_response_header(module.API_KEY, version, frame, 4)
        decoded, end = module.DECODE_RESPONSE[version](frame, at)
        assert end == len(frame)
        return decoded

    async def find(self, key: str, kind: int) -> None:
        """Waits until there is a coordinator, whose topic is made with the first question; 0 is of a group."""
        for _ in range(10_000):
            if not (await self.ask(FindCoordinatorRequest("", kind, [key]), 6)).coordinators[0].error_code:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"there is no coordinator of {key}")

    async def create(self, *names: str) -> None:
        answer = await self.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 5000), 7)
        assert not any(topic.error_code for topic in answer.topics), answer

    async def allow(self, *rules: AclCreation) -> None:
        answer = await self.ask(CreateAclsRequest(list(rules)), 3)
        assert not any(result.error_code for result in answer.results), answer

    def topic_id(self, name: str) -> bytes:
        return self.context.metadata.topics[name].topic_id

    def topic_id_or_none(self, name: str) -> bytes:
        """The id of a topic; one that no topic has if it is deleted."""
        topic = self.context.metadata.topics.get(name)
        return b"that is deleted." if topic is None else topic.topic_id


def rule(
    operation: int, name: str, kind: int = 2, principal: str = "User:a", permission: int = 3, pattern: int = 3
) -> AclCreation:
    return create_acls.AclCreation(kind, name, pattern, principal, "*", operation, permission)


def guarded(scenario: Callable[[Guarded], Awaitable[None]], storage: MemDisk | None = None, **settings: str) -> None:
    """Runs a scenario with a broker with an authorizer, of which `admin` is a super user, on this disk or an empty one."""

    async def whole() -> None:
        authorizer = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": ADMIN}
        delay = {"group_initial_rebalance_delay_ms": "0"}
        broker = Broker(config(**authorizer, **delay, **settings), disk=storage or disk())
        await broker.start()
        try:
            await scenario(Guarded(broker))
        finally:
            await broker.stop()

    run(whole)

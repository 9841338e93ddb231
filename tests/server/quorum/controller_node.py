"""A controller as a node on a real port of this machine, on the test's event loop: enough of one for a broker to join.

It is the only voter and leads from the start. Its metadata log is a LeadersLog, which it writes itself where a request changes
something; `write` adds whatever a test wants. What it was asked is in `asked`, but for Fetch and ApiVersions.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.header import decode_request_header
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.wire.messages.internal.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.internal.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.internal.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from ottla.wire.primitives import WireStruct
from tests.server.metadata.support import CLUSTER_ID
from tests.server.peers.node import frame
from tests.server.quorum.leaders_log import LEADER_ID, LeadersLog

EPOCH = 1


class ControllerNode:
    """The controller; see the module's docstring. `start` and `close` it in a running loop."""

    def __init__(self) -> None:
        self.log = LeadersLog()
        self.log.begin(EPOCH)
        self.log.name_voters(EPOCH)
        self.log.write(FeatureLevelRecord("metadata.version", 33))
        self.asked: list[WireStruct] = []
        self.lets_go = True
        self.refuses: dict[type[WireStruct], int] = {}
        """Error codes with which requests of a kind are answered."""
        self.fenced = True
        self.broker_epoch = -1
        self.port = 0
        self._changed = asyncio.Event()
        self._server: asyncio.Server
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        await self._server.wait_closed()

    def write(self, *records: WireStruct) -> None:
        """Adds one batch to the metadata."""
        self.log.write(*records)
        self.wake()

    def wake(self) -> None:
        """Answers whoever waits for more."""
        self._changed.set()
        self._changed = asyncio.Event()

    def of(self, kind: type[Any]) -> list[Any]:
        """Returns what was asked of one kind."""
        return [each for each in self.asked if isinstance(each, kind)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                data = await reader.readexactly(size)
                header, pos = decode_request_header(data, 0)
                module: Any = __import__(f"ottla.wire.messages.{APIS[header.api_key].module}", fromlist=[""])
                request, _ = module.DECODE_REQUEST[header.api_version](data, pos)
                writer.write(frame(header, await self._answer(request)))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the broker hung up
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(self, request: Any) -> WireStruct:
        if isinstance(request, FetchRequest):
            return await self._fetch(request)
        if type(request).__name__ == "ApiVersionsRequest":
            return ApiVersionsResponse(0, [ApiVersion(key, api.min_version, api.max_version) for key, api in APIS.items()])
        self.asked.append(request)
        code = self.refuses.get(type(request), ErrorCode.NONE)
        if isinstance(request, BrokerRegistrationRequest):
            return BrokerRegistrationResponse(0, code, -1 if code else self._register(request))
        if isinstance(request, BrokerHeartbeatRequest):
            return self._heartbeat(request, code)
        assert isinstance(request, AssignReplicasToDirsRequest), request
        return AssignReplicasToDirsResponse(error_code=code)

    async def _fetch(self, request: FetchRequest) -> FetchResponse:
        if request.cluster_id != CLUSTER_ID:
            return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        (asked,) = request.topics[0].partitions
        if asked.current_leader_epoch == EPOCH and asked.fetch_offset == self.log.end:
            changed = self._changed
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), request.max_wait_ms / 1000)
        found = PartitionData(current_leader=LeaderIdAndEpoch(LEADER_ID, EPOCH), high_watermark=self.log.end)
        if asked.current_leader_epoch != EPOCH:
            found.error_code = ErrorCode.FENCED_LEADER_EPOCH
        else:
            found.records = self.log.fetched(asked.fetch_offset)
        topic = FetchableTopicResponse(request.topics[0].topic, request.topics[0].topic_id, [found])
        return FetchResponse(responses=[topic], node_endpoints=[NodeEndpoint(LEADER_ID, "127.0.0.1", self.port)])

    def _register(self, request: BrokerRegistrationRequest) -> int:
        self.broker_epoch = self.log.end
        self.fenced = True
        self.write(
            RegisterBrokerRecord(
                broker_id=request.broker_id,
                incarnation_id=request.incarnation_id,
                broker_epoch=self.broker_epoch,
                end_points=[
                    BrokerEndpoint(each.name, each.host, each.port, each.security_protocol) for each in request.listeners
                ],
                fenced=True,
                log_dirs=request.log_dirs,
            )
        )
        return self.broker_epoch

    def _heartbeat(self, request: BrokerHeartbeatRequest, code: int) -> BrokerHeartbeatResponse:
        caught_up = request.current_metadata_offset >= self.broker_epoch
        if self.fenced and not request.want_fence and caught_up and not code:
            self.fenced = False
            self.write(BrokerRegistrationChangeRecord(request.broker_id, self.broker_epoch, fenced=-1))
        elif not self.fenced and request.want_fence:
            self.fenced = True
            self.write(BrokerRegistrationChangeRecord(request.broker_id, self.broker_epoch, fenced=1))
        lets_go = request.want_shut_down and self.lets_go
        return BrokerHeartbeatResponse(0, code, caught_up, self.fenced, lets_go)

"""`QuorumController`: the controller of a broker whose cluster has controllers of its own: what clients ask goes there.

A client's request goes in an Envelope (envelope.py) and its answer comes back as it is. What the broker itself asks (topics that
are created on demand, producer ids) goes plainly, with the rights of the broker. Quotas on changes are the controllers' to count,
so permits are left alone.

Requests may be about thousands of things, so threads encode them and decode their answers. While no controller answers, requests
wait here, and their clients may have gone meanwhile: what is beyond MOST_WAITING_BYTES is refused as if it had waited in vain.

After a success the local image is a few milliseconds behind. Clients expect to find what they have just created, so an answer
waits until the image has it, too, but not longer than `IMAGE_SECONDS`; Kafka's brokers do not wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.log.errors import StorageError
from ottla.server.metadata.controller import Controller
from ottla.server.metadata.names import INTERNAL_TOPICS
from ottla.server.metadata.operation import NO_LIMIT, Permits, Refused
from ottla.server.peers.outcomes import PeerError
from ottla.server.quorum.channel import ControllerUnreachable
from ottla.server.quorum.envelope import Enveloped
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.unregister_controller import UnregisterControllerRequest

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.base.turns import Workers
    from ottla.server.metadata.controller_settings import ControllerSettings
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.metadata.operation import Caller
    from ottla.server.peers.peer import Peer
    from ottla.server.quorum.channel import Channel
    from ottla.server.quorum.waiting import ImageWaits
    from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
    from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
    from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from ottla.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from ottla.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from ottla.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
    from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
    from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from ottla.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
    from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
    from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
    from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
    from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
    from ottla.wire.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
    from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
    from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
    from ottla.wire.primitives import WireStruct

IMAGE_SECONDS: Final = 2.0
"""The longest time that an answer waits for the image to have what was done."""
CREATION_PAUSE_SECONDS: Final = 1.0
"""The pause after a creation on demand that failed: clients ask for the topic again and again meanwhile."""
OLDEST_CREATION: Final = 2
MOST_WAITING_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of clients' requests that wait for the controllers, as objects and encoded. One alone may be larger."""

logger = logging.getLogger("ottla.server.quorum")
T = TypeVar("T")


class QuorumController(Controller):
    """Passes operations on; see the module's docstring. `node` returns the broker's id and its present epoch."""

    def __init__(
        self,
        channel: Channel,
        image: MetadataImage,
        settings: ControllerSettings,
        clock: Clock,
        waits: ImageWaits,
        broker_epoch: Callable[[], int],
        timeout_ms: int,
        spawn: Callable[[Any], object],
        workers: Workers,
    ) -> None:
        """`waits` tells when the image has changed, `timeout_ms` is how long an operation may take, `spawn` runs a coroutine
        whose end nobody waits for, and `workers` are the threads that encode and decode."""
        self._channel = channel
        self._image = image
        self._settings = settings
        self._clock = clock
        self._waits = waits
        self._broker_epoch = broker_epoch
        self._timeout_ms = timeout_ms
        self._spawn = spawn
        self._workers = workers
        self._waiting_bytes = 0
        self._in_creation: dict[str, None] = {}
        self._not_before = 0.0

    # Passing on

    async def _forward(self, request: WireStruct, caller: Caller) -> Any:
        """Returns the active controller's answer to a request of this caller. Raises ControllerUnreachable."""
        enveloped = Enveloped(request, caller)
        size = await self._in_thread(lambda: enveloped.encode(enveloped.version))
        if self._waiting_bytes and self._waiting_bytes + size > MOST_WAITING_BYTES:
            raise ControllerUnreachable(f"{self._waiting_bytes} bytes of requests wait for the controllers already")
        self._waiting_bytes += size
        try:
            return await self._forward_encoded(enveloped)
        finally:
            self._waiting_bytes -= size

    async def _forward_encoded(self, enveloped: Enveloped) -> Any:
        async def seal(peer: Peer) -> EnvelopeRequest:
            version = enveloped.version_for(peer.versions, peer.name)
            if version != enveloped.version:
                await self._in_thread(lambda: enveloped.encode(version))
            return enveloped.seal()

        answer: EnvelopeResponse = await self._channel.ask(seal, self._timeout_ms)
        if answer.error_code != ErrorCode.NONE or answer.response_data is None:
            known = ErrorCode._value2member_map_.get(answer.error_code)
            name = known.name if known is not None else str(answer.error_code)
            raise ControllerUnreachable(f"the active controller answers {enveloped.name} in an envelope with {name}")
        data = answer.response_data
        try:
            return await self._in_thread(lambda: enveloped.open(data))
        except PeerError as error:
            raise ControllerUnreachable(str(error)) from error

    async def _in_thread(self, job: Callable[[], T]) -> T:
        """Returns what `job` returns, or raises what it raises. A thread calls it, or the loop if the system has none for us."""
        try:
            return await self._workers.run(job)
        except RuntimeError:
            return job()

    async def _settle(self, condition: Callable[[], bool]) -> None:
        """Waits until the image has what was done, or long enough."""
        await self._waits.until(condition, IMAGE_SECONDS)

    # Topics, settings, quotas, leaders, producer ids

    async def create_topics(
        self, request: CreateTopicsRequest, caller: Caller | None, permits: Permits = NO_LIMIT
    ) -> CreateTopicsResponse:
        answer: CreateTopicsResponse
        if caller is None:
            answer = await self._create(request)
        else:
            answer = await self._forward(request, caller)
        if not request.validate_only:
            made = [topic.name for topic in answer.topics if topic.error_code == ErrorCode.NONE]
            await self._settle(lambda: all(name in self._image.topics for name in made))
        return answer

    async def _create(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Creates topics with the rights of the broker."""

        def is_refused(answer: CreateTopicsResponse) -> bool:
            return any(topic.error_code == ErrorCode.NOT_CONTROLLER for topic in answer.topics)

        answer: CreateTopicsResponse = await self._channel.ask(
            request, self._timeout_ms, min_version=OLDEST_CREATION, is_refused=is_refused
        )
        return answer

    async def delete_topics(
        self, request: DeleteTopicsRequest, caller: Caller, permits: Permits = NO_LIMIT
    ) -> DeleteTopicsResponse:
        answer: DeleteTopicsResponse = await self._forward(request, caller)
        gone = [topic.topic_id for topic in answer.responses if topic.error_code == ErrorCode.NONE]
        await self._settle(lambda: not any(topic_id in self._image.topics_by_id for topic_id in gone))
        return answer

    async def create_partitions(
        self, request: CreatePartitionsRequest, caller: Caller, permits: Permits = NO_LIMIT
    ) -> CreatePartitionsResponse:
        answer: CreatePartitionsResponse = await self._forward(request, caller)
        if not request.validate_only:
            counts = {topic.name: topic.count for topic in request.topics}
            made = [result.name for result in answer.results if result.error_code == ErrorCode.NONE]
            await self._settle(lambda: all(self._partitions(name) >= counts[name] for name in made))
        return answer

    def _partitions(self, name: str) -> int:
        topic = self._image.topics.get(name)
        return len(topic.partitions) if topic is not None else 0

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, caller: Caller
    ) -> IncrementalAlterConfigsResponse:
        answer: IncrementalAlterConfigsResponse = await self._forward(request, caller)
        return answer

    async def alter_configs(self, request: AlterConfigsRequest, caller: Caller) -> AlterConfigsResponse:
        answer: AlterConfigsResponse = await self._forward(request, caller)
        return answer

    async def alter_client_quotas(self, request: AlterClientQuotasRequest, caller: Caller) -> AlterClientQuotasResponse:
        answer: AlterClientQuotasResponse = await self._forward(request, caller)
        return answer

    async def elect_leaders(self, request: ElectLeadersRequest, caller: Caller) -> ElectLeadersResponse:
        answer: ElectLeadersResponse = await self._forward(request, caller)
        return answer

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, caller: Caller
    ) -> AlterPartitionReassignmentsResponse:
        answer: AlterPartitionReassignmentsResponse = await self._forward(request, caller)
        return answer

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest, caller: Caller
    ) -> ListPartitionReassignmentsResponse:
        answer: ListPartitionReassignmentsResponse = await self._forward(request, caller)
        return answer

    async def allocate_producer_ids(self) -> range:
        """See Controller. The image need not have the record: the controllers give no id twice. Raises ControllerUnreachable,
        also if they refuse this broker's epoch."""
        request = AllocateProducerIdsRequest(self._settings.node_id, self._broker_epoch())
        answer = await self._channel.ask(request, self._timeout_ms)
        if answer.error_code != ErrorCode.NONE:
            raise ControllerUnreachable(f"the active controller gives no producer ids: error {answer.error_code}")
        return range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)

    # Access rules, credentials and tokens

    async def create_acls(self, request: CreateAclsRequest, caller: Caller) -> CreateAclsResponse:
        answer: CreateAclsResponse = await self._forward(request, caller)
        return answer

    async def delete_acls(self, request: DeleteAclsRequest, caller: Caller) -> DeleteAclsResponse:
        answer: DeleteAclsResponse = await self._forward(request, caller)
        return answer

    async def alter_user_scram_credentials(
        self, request: AlterUserScramCredentialsRequest, caller: Caller
    ) -> AlterUserScramCredentialsResponse:
        answer: AlterUserScramCredentialsResponse = await self._forward(request, caller)
        return answer

    async def create_delegation_token(
        self, request: CreateDelegationTokenRequest, caller: Caller
    ) -> CreateDelegationTokenResponse:
        answer: CreateDelegationTokenResponse = await self._forward(request, caller)
        return answer

    async def renew_delegation_token(self, request: RenewDelegationTokenRequest, caller: Caller) -> RenewDelegationTokenResponse:
        answer: RenewDelegationTokenResponse = await self._forward(request, caller)
        return answer

    async def expire_delegation_token(
        self, request: ExpireDelegationTokenRequest, caller: Caller
    ) -> ExpireDelegationTokenResponse:
        answer: ExpireDelegationTokenResponse = await self._forward(request, caller)
        return answer

    # The cluster and the quorum

    async def update_features(self, request: UpdateFeaturesRequest, caller: Caller) -> UpdateFeaturesResponse:
        answer: UpdateFeaturesResponse = await self._forward(request, caller)
        return answer

    async def unregister_broker(self, broker_id: int, caller: Caller) -> None:
        answer = await self._forward(UnregisterBrokerRequest(broker_id), caller)
        if answer.error_code != ErrorCode.NONE:
            raise Refused(ErrorCode(answer.error_code), answer.error_message)

    async def unregister_controller(self, controller_id: int, caller: Caller) -> None:
        answer = await self._forward(UnregisterControllerRequest(controller_id), caller)
        if answer.error_code != ErrorCode.NONE:
            raise Refused(ErrorCode(answer.error_code), answer.error_message)

    async def add_raft_voter(self, request: AddRaftVoterRequest, caller: Caller) -> AddRaftVoterResponse:
        answer: AddRaftVoterResponse = await self._forward(request, caller)
        return answer

    async def remove_raft_voter(self, request: RemoveRaftVoterRequest, caller: Caller) -> RemoveRaftVoterResponse:
        answer: RemoveRaftVoterResponse = await self._forward(request, caller)
        return answer

    async def describe_quorum(self, request: DescribeQuorumRequest, caller: Caller) -> DescribeQuorumResponse:
        answer: DescribeQuorumResponse = await self._forward(request, caller)
        return answer

    # In the background

    def create_in_background(self, names: Iterable[str], caller: Caller | None, permits: Permits = NO_LIMIT) -> None:
        if self._clock.monotonic() < self._not_before:
            return
        new = [name for name in names if name not in self._image.topics and name not in self._in_creation]
        if new:
            self._in_creation.update(dict.fromkeys(new))
            self._spawn(self._create_on_demand(new, caller))

    async def _create_on_demand(self, names: Sequence[str], caller: Caller | None) -> None:
        """Creates topics with the broker's defaults. Raises nothing: clients ask again."""
        request = CreateTopicsRequest([self._default_topic(name) for name in names], self._timeout_ms)
        try:
            for result in (await self.create_topics(request, caller)).topics:
                code = result.error_code
                if code == ErrorCode.NONE:
                    logger.info("topic %s created on demand", result.name)
                elif code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    self._not_before = self._clock.monotonic() + CREATION_PAUSE_SECONDS
                    logger.warning("topic %s is not created: error %d %s", result.name, code, result.error_message)
        except StorageError as error:
            self._not_before = self._clock.monotonic() + CREATION_PAUSE_SECONDS
            logger.warning("topics %s are not created: %s", ", ".join(names), error)
        finally:
            for name in names:
                self._in_creation.pop(name, None)

    def _default_topic(self, name: str) -> CreatableTopic:
        """Returns a topic with what this broker's configuration says, and for the rest with the controller's defaults, as Kafka's
        broker asks for it."""
        settings = self._settings
        if name not in INTERNAL_TOPICS:
            return CreatableTopic(name, settings.given("num.partitions"), settings.given("default.replication.factor"))
        internal = settings.internal_topic(name)
        configs = [CreatableTopicConfig(key, value) for key, value in internal.configs.items()]
        return CreatableTopic(name, internal.partition_count, internal.replication_factor, configs=configs)

"""The controller of a broker that is its own quorum: the only voter of `__cluster_metadata-0`.

Every operation takes the same four steps: a rule looks at the image and makes records, the records become one batch on disk, the
image applies them, and the caller gets the answer. There is no await between them, so operations cannot interleave. Those that
name many topics do the first three steps for some topics at a time, with a turn of the event loop in between (`InParts`). Those
about access rules, credentials, quotas and leaders take effect as a whole, however many they name: others come in between while
they are planned, but for operations of these kinds, which wait for each other, so that what the plan was made from is still so.
Topics may go meanwhile; then elections are planned anew.

The rules (topics.py, partitions.py, configs.py and so on) are imported with the first operation that needs them: importing them
and their messages would take a tenth of the time allowed for a start, which needs none of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.log.errors import StorageError
from ottla.server.base.answers import wait_for
from ottla.server.base.turns import Steps, in_runs, take_steps
from ottla.server.metadata.controller import Controller
from ottla.server.metadata.feature_levels import SUPPORTED_FEATURES
from ottla.server.metadata.names import INTERNAL_TOPICS
from ottla.server.metadata.operation import MAX_RECORDS, NO_LIMIT, Outcome, Permits, Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.metadata_records import encode_value

if TYPE_CHECKING:
    from random import Random

    from ottla.server.base.clock import Clock
    from ottla.server.base.network import Network
    from ottla.server.metadata.controller_settings import ControllerSettings
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.metadata.metadata_log import MetadataLog
    from ottla.server.metadata.operation import Caller, InParts, Planning
    from ottla.server.metadata.quorum import Voter
    from ottla.server.metadata.tokens import TokenHmacs, TokenSettings
    from ottla.server.metadata.topics import Creation
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
    from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
    from ottla.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
    from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
    from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
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

PRODUCER_IDS_BLOCK: Final = 1000
_ENCODED_AT_ONCE: Final = 1_000
"""The number of records that are encoded without a turn of the event loop, which takes less than 10 ms."""
_ENCODED_A_STEP: Final = 100
"""The number of records of an operation taking effect as a whole that are encoded before others may come first: about 0.3 ms."""
LARGEST_CHANGE: Final = 8 * 1024 * 1024
"""The most bytes of records in an operation that takes effect as a whole. Kafka's controller writes no larger batches; they are
on the disk before anybody else is served."""
_MOST_NAMED: Final = 10
"""So many topics are named in a line of the log about many."""
_PLANS: Final = 3
"""The most times that a large part is planned before it is written without a turn of the event loop."""

logger = logging.getLogger("ottla.server.metadata")
_Answer = TypeVar("_Answer")


class StandaloneController(Controller):
    """The controller of a cluster whose only voter is this node. `image` is the cluster as it is now; `log` is the metadata
    log."""

    def __init__(
        self,
        log: MetadataLog,
        image: MetadataImage,
        settings: ControllerSettings,
        clock: Clock,
        random: Random,
        network: Network,
    ) -> None:
        self.image = image
        self._log = log
        self._settings = settings
        self._clock = clock
        self._random = random
        self._network = network
        self._wanted: dict[str, None] = {}  # topics to create in the background, in the order asked for
        self._in_creation: dict[str, None] = {}  # those of them that are being created
        self._hmacs: TokenHmacs | None = None
        self._planning = asyncio.Lock()  # held by the operation that is carried out in turns

    def commit(self, records: Sequence[WireStruct]) -> None:
        """Makes the records durable, then applies them to the image. Raises StorageError, with the image unchanged."""
        self._commit(records, self._build(records))

    def _build(self, records: Iterable[WireStruct]) -> bytes:
        return self._log.build([encode_value(record, self.image.metadata_version) for record in records])

    def _commit(self, records: Sequence[WireStruct], batch: bytes) -> None:
        """Does what `commit` does with records that are encoded already."""
        if records:
            last_offset = self._log.append_built(batch)
            self.image.apply_all(records, last_offset)

    def _carry_out(self, outcome: Outcome[_Answer]) -> _Answer:
        """Commits the records of an outcome and returns its answer. Raises StorageError."""
        self.commit(outcome.records)
        return outcome.answer

    async def _carry_out_in_turns(self, plan: Callable[[], Planning[_Answer]]) -> _Answer:
        """Plans an operation in turns, commits its records as a whole, and returns its answer. No other operation that comes this
        way is planned or committed meanwhile. Raises StorageError, or Refused if nothing of it is done."""
        async with self._planning:
            while True:
                version = self.image.metadata_version  # it says which records there may be, and how they are encoded
                outcome, batch = await wait_for(take_steps(self._build_in_steps(plan()), self._clock))
                if version == self.image.metadata_version and outcome.holds():
                    break
            self._commit(outcome.records, batch)
        return outcome.answer

    def _build_in_steps(self, planning: Planning[_Answer]) -> Steps[tuple[Outcome[_Answer], bytes]]:
        """Makes steps that return a planned operation and the batch of its records. They raise Refused."""
        outcome = yield from planning
        version, values, size = self.image.metadata_version, list[bytes](), 0
        for run in in_runs(outcome.records, _ENCODED_A_STEP):
            values += [encode_value(record, version) for record in run]
            size += sum(map(len, values[-len(run) :]))
            if size > LARGEST_CHANGE:
                text = f"One request may change at most {LARGEST_CHANGE} bytes of metadata; send several that name less."
                raise Refused(ErrorCode.POLICY_VIOLATION, text)
            yield None
        batch = self._log.build(values)
        if len(values) > _ENCODED_AT_ONCE:
            yield None
        return outcome, batch

    async def _carry_out_in_parts(self, operation: InParts[Any, Any]) -> None:
        """Carries out an operation, part by part. Raises StorageError if not even the first part could be written; a failure of a
        later one is in the results of its topics."""
        while not operation.is_over:
            self._commit_part(operation, *await self._plan(operation))
            if not operation.is_over:
                await asyncio.sleep(0)  # lets the event loop serve others

    async def _plan(self, operation: InParts[Any, Any]) -> tuple[list[WireStruct], bytes]:
        """Returns the records of the next part, and the batch of these. The thousands of records of one large topic are encoded
        in slices; if the metadata changes meanwhile, the part is planned anew, at last without a pause.
        """
        for attempt in range(_PLANS):
            changes = self.image.changes
            records, values = operation.plan(), list[bytes]()
            for start in range(0, len(records), _ENCODED_AT_ONCE):
                if start and attempt < _PLANS - 1:
                    await asyncio.sleep(0)
                version = self.image.metadata_version
                values += [encode_value(record, version) for record in records[start : start + _ENCODED_AT_ONCE]]
            batch = self._log.build(values)
            if len(records) > _ENCODED_AT_ONCE and attempt < _PLANS - 1:
                await asyncio.sleep(0)
            if self.image.changes == changes:
                break
            operation.undo()
        return records, batch

    def _commit_part(self, operation: InParts[Any, Any], records: Sequence[WireStruct], batch: bytes) -> None:
        """Commits the present part of an operation. Raises StorageError if it is the first one and cannot be written."""
        try:
            self._commit(records, batch)
        except StorageError as error:
            if operation.is_first_part:
                raise
            operation.give_up(str(error))

    # Topics, settings, quotas, leaders, producer ids

    async def create_topics(
        self, request: CreateTopicsRequest, caller: Caller | None, permits: Permits = NO_LIMIT
    ) -> CreateTopicsResponse:
        from ottla.server.metadata.topics import Creation

        creation = Creation(self.image, self._settings, self._random, request, permits)
        await self._carry_out_in_parts(creation)
        return creation.answer()

    async def delete_topics(
        self, request: DeleteTopicsRequest, caller: Caller, permits: Permits = NO_LIMIT
    ) -> DeleteTopicsResponse:
        from ottla.server.metadata.topics import Deletion

        deletion = Deletion(self.image, request, permits)
        for _ in deletion.look_up():
            await asyncio.sleep(0)  # lets the event loop serve others
        await self._carry_out_in_parts(deletion)
        return deletion.answer()

    async def create_partitions(
        self, request: CreatePartitionsRequest, caller: Caller, permits: Permits = NO_LIMIT
    ) -> CreatePartitionsResponse:
        from ottla.server.metadata.partitions import Addition

        addition = Addition(self.image, self._settings, self._random, request, permits)
        await self._carry_out_in_parts(addition)
        return addition.answer()

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, caller: Caller
    ) -> IncrementalAlterConfigsResponse:
        from ottla.server.metadata.configs import Alteration

        alteration = Alteration(self.image, self._settings, request)
        await self._carry_out_in_parts(alteration)
        return alteration.answer()

    async def alter_configs(self, request: AlterConfigsRequest, caller: Caller) -> AlterConfigsResponse:
        from ottla.server.metadata.replace_configs import Replacement

        replacement = Replacement(self.image, self._settings, request)
        await self._carry_out_in_parts(replacement)
        return replacement.answer()

    async def alter_client_quotas(self, request: AlterClientQuotasRequest, caller: Caller) -> AlterClientQuotasResponse:
        from ottla.server.metadata import quotas

        unknown = await quotas.unknown_hosts(request, self._network)
        return await self._carry_out_in_turns(lambda: quotas.alter(self.image, request, unknown))

    async def elect_leaders(self, request: ElectLeadersRequest, caller: Caller) -> ElectLeadersResponse:
        from ottla.server.metadata import elect_leaders

        return await self._carry_out_in_turns(
            lambda: elect_leaders.elect_leaders(self.image, self._settings.alive(self.image), request)
        )

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, caller: Caller
    ) -> AlterPartitionReassignmentsResponse:
        from ottla.server.metadata import reassignments

        return await wait_for(take_steps(reassignments.alter(self.image, request), self._clock))

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest, caller: Caller
    ) -> ListPartitionReassignmentsResponse:
        from ottla.server.metadata import reassignments

        return await wait_for(take_steps(reassignments.find_moving(self.image, request), self._clock))

    async def allocate_producer_ids(self) -> range:
        from ottla.wire.messages.internal.producer_ids_record import ProducerIdsRecord

        first = self.image.next_producer_id
        broker = self.image.brokers[self._settings.node_id]
        block = range(first, first + PRODUCER_IDS_BLOCK)
        self.commit([ProducerIdsRecord(broker.broker_id, broker.epoch, block.stop)])
        return block

    # Access rules, credentials and tokens

    async def create_acls(self, request: CreateAclsRequest, caller: Caller) -> CreateAclsResponse:
        from ottla.server.metadata import access

        access.check_authorizer(self._settings.broker_values)
        return await self._carry_out_in_turns(lambda: access.create(self.image, self._random, request))

    async def delete_acls(self, request: DeleteAclsRequest, caller: Caller) -> DeleteAclsResponse:
        from ottla.server.metadata import access

        access.check_authorizer(self._settings.broker_values)
        most_bytes = self._settings.broker_values["ottla.response.max.bytes"]
        return await self._carry_out_in_turns(lambda: access.delete(self.image, most_bytes, request))

    async def alter_user_scram_credentials(
        self, request: AlterUserScramCredentialsRequest, caller: Caller
    ) -> AlterUserScramCredentialsResponse:
        from ottla.server.metadata import scram

        return await self._carry_out_in_turns(lambda: scram.alter(self.image, request))

    async def create_delegation_token(
        self, request: CreateDelegationTokenRequest, caller: Caller
    ) -> CreateDelegationTokenResponse:
        from ottla.server.metadata import tokens

        settings, now_ms = tokens.settings_of(self._settings.broker_values), self._clock.now_ms()
        principal = tokens.principal_of(caller.principal)
        return self._carry_out(tokens.create(self.image, settings, self._random, now_ms, principal, request))

    async def renew_delegation_token(self, request: RenewDelegationTokenRequest, caller: Caller) -> RenewDelegationTokenResponse:
        from ottla.server.metadata import tokens

        hmacs, settings = await self._token_hmacs()
        principal = tokens.principal_of(caller.principal)
        return self._carry_out(tokens.renew(self.image, hmacs, settings, self._clock.now_ms(), principal, request))

    async def expire_delegation_token(
        self, request: ExpireDelegationTokenRequest, caller: Caller
    ) -> ExpireDelegationTokenResponse:
        from ottla.server.metadata import tokens

        hmacs, settings = await self._token_hmacs()
        principal = tokens.principal_of(caller.principal)
        return self._carry_out(tokens.expire(self.image, hmacs, settings, self._clock.now_ms(), principal, request))

    async def _token_hmacs(self) -> tuple[TokenHmacs, TokenSettings]:
        """Returns the HMACs of all tokens, which take turns if many tokens are new, and the settings of tokens."""
        from ottla.server.metadata import tokens

        settings = tokens.settings_of(self._settings.broker_values)
        if self._hmacs is None:
            self._hmacs = tokens.TokenHmacs()
        await wait_for(take_steps(self._hmacs.catch_up(self.image, settings), self._clock))
        return self._hmacs, settings

    def expire_tokens(self) -> None:
        """Removes the delegation tokens whose time is over. Raises StorageError."""
        from ottla.server.metadata import tokens

        self._carry_out(Outcome(tokens.expired(self.image, self._clock.now_ms()), None))

    # The cluster

    async def update_features(self, request: UpdateFeaturesRequest, caller: Caller) -> UpdateFeaturesResponse:
        from ottla.server.metadata import features

        node_id, min_isr = self._settings.node_id, self._settings.broker_values["min.insync.replicas"]
        records, raises_kraft, answer = features.update(self.image, node_id, SUPPORTED_FEATURES, min_isr, request)
        if raises_kraft:
            self._log.raise_kraft_version(self.image, self._settings.controller_endpoints)
        return self._carry_out(Outcome(records, answer))

    async def unregister_broker(self, broker_id: int, caller: Caller) -> None:
        from ottla.server.metadata import membership

        running = broker_id if broker_id in self._settings.nodes else self._settings.node_id
        self._carry_out(membership.unregister_broker(self.image, running, broker_id))

    async def unregister_controller(self, controller_id: int, caller: Caller) -> None:
        from ottla.server.metadata import membership

        self._carry_out(membership.unregister_controller(self.image, self._settings.node_id, controller_id))

    # The quorum

    async def describe_quorum(self, request: DescribeQuorumRequest, caller: Caller) -> DescribeQuorumResponse:
        from ottla.server.metadata import quorum

        return quorum.describe(self._voter(), self._log.epoch, self._log.end_offset, self._clock.now_ms(), request)

    async def add_raft_voter(self, request: AddRaftVoterRequest, caller: Caller) -> AddRaftVoterResponse:
        from ottla.server.metadata import quorum

        return quorum.add(self._voter(), self.image.cluster_id, self._settings.controller_listener, request)

    async def remove_raft_voter(self, request: RemoveRaftVoterRequest, caller: Caller) -> RemoveRaftVoterResponse:
        from ottla.server.metadata import quorum

        return quorum.remove(self._voter(), self.image.cluster_id, request)

    def _voter(self) -> Voter:
        from ottla.server.metadata.quorum import Voter

        return Voter(self._settings.node_id, self._log.directory_id, self._settings.controller_endpoints)

    # In the background

    def create_in_background(self, names: Iterable[str], caller: Caller | None, permits: Permits = NO_LIMIT) -> None:
        known = self.image.topics, self._wanted, self._in_creation
        unknown = [name for name in names if not any(name in topics for topics in known)]
        if len(unknown) + len(self._wanted) > MAX_RECORDS and not INTERNAL_TOPICS.issuperset(unknown):
            logger.warning("%s not created: so many cannot wait to be created at a time", _count_topics(unknown))
            return
        new = list(self._permitted(unknown, permits))
        is_first = not self._wanted and not self._in_creation
        self._wanted.update(dict.fromkeys(new))
        if new and is_first:
            self._clock.call_later(0, self._create_wanted)

    def _permitted(self, names: Iterable[str], permits: Permits) -> Iterator[str]:
        for name in names:
            try:
                permits.take(self._settings.num_partitions)
            except Refused:
                logger.debug("topic %s is not created now: the client has exceeded its controller mutation quota", name)
            else:
                yield name

    def _create_wanted(self) -> None:
        from ottla.server.metadata.topics import Creation
        from ottla.wire.messages.create_topics import CreateTopicsRequest

        topics: list[CreatableTopic] = []
        size = 0
        while self._wanted:
            topic = self.default_topic(next(iter(self._wanted)))
            size += 1 + len(topic.configs) + max(topic.num_partitions, self._settings.num_partitions)
            if topics and size > MAX_RECORDS:  # all of them would be refused, whoever wants them
                break
            del self._wanted[topic.name]
            self._in_creation[topic.name] = None
            if topic.name not in self.image.topics:
                topics.append(topic)
        self._create_some(Creation(self.image, self._settings, self._random, CreateTopicsRequest(topics)), 0)

    def _end_creation(self) -> None:
        """Goes on with the topics that were asked for meanwhile."""
        self._in_creation = {}
        if self._wanted:
            self._clock.call_later(0, self._create_wanted)

    def _create_some(self, creation: Creation, logged: int) -> None:
        """Creates the topics of the next part, and after it those of the others. So many of the results are logged already."""
        try:
            records = creation.plan()
            self._commit_part(creation, records, self._build(records))
        except StorageError as error:
            creation.give_up(str(error))
        except Exception:  # a bug of ours, which must not be the end of all topics that are made in the background
            self._end_creation()
            raise
        refused: dict[tuple[ErrorCode, str | None], list[str]] = {}
        for result in creation.results[logged:]:
            code = ErrorCode(result.error_code)
            if code is ErrorCode.NONE:
                logger.info("topic %s created with %d partitions", result.name, result.num_partitions)
            elif code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                refused.setdefault((code, result.error_message), []).append(result.name)
        for (code, message), names in refused.items():
            level = logging.ERROR if code is ErrorCode.KAFKA_STORAGE_ERROR else logging.WARNING
            logger.log(level, "%s not created: %s %s", _count_topics(names), code.name, message)
        if not creation.is_over:
            self._clock.call_later(0, partial(self._create_some, creation, len(creation.results)))
        else:
            self._end_creation()

    def default_topic(self, name: str) -> CreatableTopic:
        """Returns a topic with the broker's defaults. The configuration may ask for more replicas of internal topics than there
        are brokers, as Kafka's defaults do for a single broker; then the topic gets as many as possible.
        """
        from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

        if name not in INTERNAL_TOPICS:
            return CreatableTopic(name, num_partitions=-1, replication_factor=-1)
        internal = self._settings.internal_topic(name)
        return CreatableTopic(
            name,
            internal.partition_count,
            min(internal.replication_factor, max(1, len(self.image.brokers))),
            configs=[CreatableTopicConfig(key, value) for key, value in internal.configs.items()],
        )


def _count_topics(names: Sequence[str]) -> str:
    """Returns the beginning of a line of the log about topics, up to its verb."""
    if len(names) == 1:
        return f"topic {names[0]} is"
    more = len(names) - _MOST_NAMED
    return f"topics {', '.join(names[:_MOST_NAMED])}{f' and {more} more' if more > 0 else ''} are"

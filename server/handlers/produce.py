"""Produce v3-13 appends batches to partitions, one batch to each.

- acks -1 answers once the batch is in the logs of all in-sync replicas, acks 1 once it is in the leader's; with one replica that
  is the same. As in Kafka, only `flush.messages` asks for an fsync before the answer. acks -1 is answered 6
  NOT_LEADER_OR_FOLLOWER if this broker stops leading before the other replicas have the batch, 7 REQUEST_TIMED_OUT if they do not
  have it within `timeout_ms`, and 20 NOT_ENOUGH_REPLICAS_AFTER_APPEND if too few of them are in sync by then. Where fewer are in
  sync than `min.insync.replicas` before the append, it is refused: 19 NOT_ENOUGH_REPLICAS. acks 0 gets no answer; if anything
  went wrong the connection is closed, so that the client looks for the leader again. Any other acks is 21 INVALID_REQUIRED_ACKS.
- Each partition succeeds or fails by itself. If a request names a partition twice, the later batch counts. A topic without
  partitions is not answered.
- Produce never creates a topic. Internal topics are answered 17 INVALID_TOPIC_EXCEPTION. v13 names topics by id (100
  UNKNOWN_TOPIC_ID).
- A duplicate of one of the last five batches of an idempotent producer succeeds, with the offset of the first time.
- v7 allows zstd (76 below it). v8 adds errors of records and a message. v10 names the current leader beside errors (KIP-951).
- Where `flush.messages` makes a flush due (log.flush.interval.messages: for all topics), the answer comes after the fsync, which
  many requests share (server/partitions/flushing.py). Only the answer waits: what the same connection produces next is appended
  meanwhile.
- If a transactional batch comes without a transactional id, all partitions are answered 53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
  With an id, the partition has to be in the transaction (KIP-890). v12 adds it. Below v12 the broker checks that it is there, if
  `transaction.partition.verification.enable` is true; if it is not there, the answer is 120 TRANSACTION_ABORTABLE since v11 and
  48 INVALID_TXN_STATE before. Batches of several producers in one request are answered 49 INVALID_PRODUCER_ID_MAPPING, and so is
  an id that the coordinator does not know; if the coordinator cannot tell at the moment, the answer is 19 NOT_ENOUGH_REPLICAS.
- Further errors: 2 CORRUPT_MESSAGE, 3 UNKNOWN_TOPIC_OR_PARTITION, 6 NOT_LEADER_OR_FOLLOWER, 10 MESSAGE_TOO_LARGE, 18
  RECORD_LIST_TOO_LARGE, 32 INVALID_TIMESTAMP, 45 OUT_OF_ORDER_SEQUENCE_NUMBER, 47 INVALID_PRODUCER_EPOCH, 56 KAFKA_STORAGE_ERROR,
  87 INVALID_RECORD. Offset and time are then -1; the answer has the log start offset if it was the log that refused.

Records are views of the receive buffer. A request about many partitions, or with a batch that takes long to validate, is
answered in turns (server/base/turns.py): what is not appended when the first turn ends is copied. The connection serves nothing
else meanwhile, so the batches of a partition stay in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.log.errors import (
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    LogError,
    NotABatch,
    NotOneBatch,
    NotValidated,
    RecordListTooLarge,
    RecordTooLarge,
    StorageError,
    UnsupportedCompression,
)
from ottla.log.validate import ValidatedBatch
from ottla.server.base.answers import chain_answer, map_answer
from ottla.server.base.clock import Clock
from ottla.server.base.errors import CloseConnection, NotLeaderOrFollower, code_of
from ottla.server.base.promise import Acknowledgement, Promise
from ottla.server.metadata.names import INTERNAL_TOPICS, MAX_LENGTH
from ottla.server.partitions.leader_hints import leader_hint
from ottla.server.partitions.replica import Replica
from ottla.server.partitions.roles import Role
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Throttling, Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire import single_produce
from ottla.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, TRANSACTIONAL_BIT
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.wire.primitives import Buffer

if TYPE_CHECKING:
    from ottla.server.txn.transactional_produce import Produced

TRAITS = Traits(
    Inside(Need(Operation.WRITE, Resource.TRANSACTIONAL_ID), Need(Operation.WRITE, Resource.TOPIC)),
    throttling=Throttling.PRODUCE,
    carries_records=True,
    own_codecs=single_produce,
    reports_failure=True,
)

ALL: Final = -1
LEADER: Final = 1
NOBODY: Final = 0
VERIFY: Final = "transaction.partition.verification.enable"
NO_OFFSET: Final = -1
SUMMARIZED: Final = 10
"""So many errors are named in the line of the log about a Produce that wants no answer."""

TRANSACTIONS_V2_SINCE: Final = 12
ABORTABLE_SINCE: Final = 11
TOPIC_IDS_SINCE: Final = 13
ZSTD_SINCE: Final = 7
HINTS_SINCE: Final = 10
_ATTRIBUTES_AT: Final = 22  # of the low byte
_BATCH_LENGTH: Final = Struct(">8xi")
_NOT_THE_LOG: Final = (
    CorruptRecord,
    NotLeaderOrFollower,
    NotOneBatch,
    RecordTooLarge,
    RecordListTooLarge,
    StorageError,
    UnsupportedCompression,
)


_Key = tuple[str, bytes, int]
"""A partition as a request names it: the name and the id of its topic, one of which is empty, and its index."""
_NONE: Final[Mapping[_Key, ErrorCode]] = {}
_Outcome = ProduceResponse | None
"""The answer to a request; None for acks 0."""
_Answer = PartitionProduceResponse | Promise[PartitionProduceResponse]


class _Owed(NamedTuple):
    """Remembers an append whose acknowledgement has to wait for a flush or for other replicas."""

    replica: Replica
    role: Role
    end_offset: int
    answer: PartitionProduceResponse


def handle(body: ProduceRequest, request: Request) -> ProduceResponse | Promise[_Outcome] | None:
    topics = body.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1:
        topics = _merge_duplicates(topics)
    if body.transactional_id is None:
        return _append(body, request, topics, _has_transactional_batches(topics), _NONE)
    unverified = _find_unverified(topics, body.transactional_id, request)
    if isinstance(unverified, Promise):
        _copy_records(data for topic in topics for data in topic.partition_data)
        return chain_answer(unverified, partial(_append, body, request, topics, False))
    return _append(body, request, topics, False, unverified)


def _append(
    body: ProduceRequest,
    request: Request,
    topics: list[TopicProduceData],
    nameless: bool,
    unverified: Mapping[_Key, ErrorCode],
) -> _Outcome | Promise[_Outcome]:
    """Appends the batches, and returns the answer to the request or a promise of it; see _Work for the last two."""
    work = _Work(body, request, nameless, unverified)
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        answer = work.answer(topics[0], topics[0].partition_data[0], hold=request.session.joins)
        if not isinstance(answer, Promise):
            return work.finish(topics, [answer])
        return _finish_later(work, topics, answer)
    return _answer_in_turns(work, topics)


def _finish_later(work: _Work, topics: list[TopicProduceData], answer: _Answer) -> _Outcome | Promise[_Outcome]:
    """Finishes a request about one partition when its answer has come."""
    return chain_answer(map_answer(answer, lambda single: [single]), partial(work.finish, topics))


def _answer_in_turns(work: _Work, topics: list[TopicProduceData]) -> _Outcome | Promise[_Outcome]:
    """Answers a request about several partitions, or none."""
    from ottla.server.base.turns import answer_in_turns  # not loaded as long as requests are about one partition

    items = [(topic, data) for topic in topics for data in topic.partition_data]
    answers = answer_in_turns(items, work.answer_item, work.clock, partial(work.pause, items))
    return chain_answer(answers, partial(work.finish, topics))


class _Work:
    """Appends the batches of one request, and keeps what their answers have in common."""

    __slots__ = ("_body", "_done", "_nameless", "_owed", "_paused", "_request", "_unverified")

    def __init__(self, body: ProduceRequest, request: Request, nameless: bool, unverified: Mapping[_Key, ErrorCode]) -> None:
        self._body = body
        self._request = request
        self._nameless = nameless
        """True if there are transactional batches and no transactional id."""
        self._unverified = unverified
        self._owed: list[_Owed] | None = None
        self._done = 0
        """The number of partitions for which `answer_item` was called."""
        self._paused = False

    @property
    def clock(self) -> Clock:
        return self._request.broker.clock

    def answer_item(self, item: tuple[TopicProduceData, PartitionProduceData]) -> _Answer:
        """Returns the answer for one of several partitions, or a promise of it."""
        self._done += 1
        topic, data = item
        if self._paused and _is_transactional(data.records):  # the transaction may have ended meanwhile
            return chain_answer(self._verify_again(topic, data), lambda _: self.answer(topic, data))
        return self.answer(topic, data)

    def pause(self, items: Sequence[tuple[TopicProduceData, PartitionProduceData]]) -> None:
        """Copies the records that are not appended yet, since the frame will be gone when their turn comes."""
        self._paused = True
        _copy_records(data for _, data in items[self._done :])

    def _verify_again(self, topic: TopicProduceData, data: PartitionProduceData) -> Promise[None] | None:
        """Asks once more about a batch that waited; the promise is kept when the answer is noted."""
        if self._body.transactional_id is None or (topic.name, topic.topic_id, data.index) in self._unverified:
            return None
        single = [TopicProduceData(topic.name, topic.topic_id, [data])]
        return map_answer(_find_unverified(single, self._body.transactional_id, self._request), self._note_unverified)

    def _note_unverified(self, found: Mapping[_Key, ErrorCode]) -> None:
        self._unverified = {**self._unverified, **found}

    def answer(
        self,
        topic: TopicProduceData,
        data: PartitionProduceData,
        validated: ValidatedBatch | None = None,
        *,
        hold: bool = False,
    ) -> _Answer:
        """Appends one partition's batch and returns its answer, or a promise of it if the batch has to be validated in a thread;
        notes if the answer must not go out yet. With `hold` the batch may be written together with those of further requests.
        """
        index, records, body, request = data.index, data.records, self._body, self._request
        version = request.api_version
        if self._nameless:
            return _refusal(index, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if self._unverified and (topic.name, topic.topic_id, index) in self._unverified:
            return _unverified_refusal(topic, index, self._unverified[topic.name, topic.topic_id, index], request)
        replica = _replica(topic, index, request)
        if replica is None or not replica.is_leader:
            return _refusal(index, _why_not_here(replica, topic, index, version < TOPIC_IDS_SINCE, request))
        if body.acks not in (ALL, LEADER, NOBODY):
            return _refusal(index, ErrorCode.INVALID_REQUIRED_ACKS)
        if replica.topic in INTERNAL_TOPICS:
            return _refusal(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        if replica.under_min_isr and body.acks == ALL:
            return _refusal(index, ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            info = replica.append(records, zstd_allowed=version >= ZSTD_SINCE, quickly=True, validated=validated, hold=hold)
        except NotValidated:
            return self._answer_later(topic, data, replica)
        except LogError as error:
            return _refused(index, error, replica)
        if info.joined is not None:
            request.session.joined = info.joined
        answer = PartitionProduceResponse(index, 0, info.base_offset, info.log_append_time_ms, info.log_start_offset)
        if info.waits and (body.acks == ALL or replica.log.awaits_flush(info.last_offset + 1)):
            self._owed = self._owed or []
            self._owed.append(_Owed(replica, replica.role, info.last_offset + 1, answer))
        return answer

    def _answer_later(self, topic: TopicProduceData, data: PartitionProduceData, replica: Replica) -> _Answer:
        """Has the batch validated in a thread, appends it then, and promises the answer."""
        assert data.records is not None
        data.records = bytes(data.records)
        zstd_allowed = self._request.api_version >= ZSTD_SINCE
        validation = replica.validation(data.records, zstd_allowed=zstd_allowed)

        def append(batch: ValidatedBatch | LogError) -> _Answer:
            if isinstance(batch, LogError):
                return _refused(data.index, batch, replica)
            verified = self._verify_again(topic, data) if _is_transactional(data.records) else None
            return chain_answer(verified, lambda _: self.answer(topic, data, batch))

        return chain_answer(self._request.broker.workers().run(partial(_validated, validation)), append)

    def finish(
        self, topics: list[TopicProduceData], answers: list[PartitionProduceResponse]
    ) -> ProduceResponse | Acknowledgement[_Outcome] | None:
        """Returns the answer to the request, or a promise of it if some of the appends have to be acknowledged first; None for
        acks 0. `answers` are those for the partitions of `topics`, in their order. Raises CloseConnection.
        """
        body, request = self._body, self._request
        if len(topics) == 1:
            responses = [TopicProduceResponse(topics[0].name, topics[0].topic_id, answers)]
        else:
            rest = iter(answers)
            responses = [
                TopicProduceResponse(topic.name, topic.topic_id, [next(rest) for _ in topic.partition_data]) for topic in topics
            ]
        failed = False
        for answer in answers:
            if answer.error_code:
                failed = True
        if self._owed:
            return _answer_when_acknowledged(self._owed, responses, body, failed, request)
        if body.acks == NOBODY:
            if failed:
                raise CloseConnection(f"acks is 0 and there are errors: {_summary(responses)}")
            return None
        response = ProduceResponse(responses)
        if failed:
            request.failed = True
            if request.api_version >= HINTS_SINCE:
                response.node_endpoints = _add_hints(responses, request)
        return response


def _answer_when_acknowledged(
    owed: list[_Owed], responses: list[TopicProduceResponse], body: ProduceRequest, failed: bool, request: Request
) -> Acknowledgement[_Outcome] | None:
    """Returns a promise of the answer, kept once the last append in `owed` is acknowledged or refused; None for acks 0."""
    from ottla.server.partitions.acknowledging import when_acknowledged  # by default no answer has to wait

    flushing, by_all = request.broker.flushing, body.acks == ALL
    if body.acks == NOBODY:
        for replica, role, end_offset, _ in owed:
            when_acknowledged(replica, role, end_offset, flushing, _ignore_outcome, by_all=False)
        if failed:
            raise CloseConnection(f"acks is 0 and there are errors: {_summary(responses)}")
        return None
    promise: Acknowledgement[_Outcome] = Acknowledgement()
    response = ProduceResponse(responses)
    left = len(owed)

    def acknowledged(replica: Replica, answer: PartitionProduceResponse, error: Exception | None) -> None:
        nonlocal left, failed
        if error is not None:
            replica.traffic.refused += 1
            refusal = _refused_by_log(answer.index, error, replica)
            answer.error_code, answer.base_offset = refusal.error_code, refusal.base_offset
            answer.log_append_time_ms, answer.log_start_offset = refusal.log_append_time_ms, refusal.log_start_offset
            failed = True
        left -= 1
        if left == 0 and not promise.done():  # the connection may have gone
            if failed and request.api_version >= HINTS_SINCE:
                response.node_endpoints = _add_hints(responses, request)
            request.failed = failed
            promise.set_result(response)

    for replica, role, end_offset, answer in owed:
        told = partial(acknowledged, replica, answer)
        when_acknowledged(replica, role, end_offset, flushing, told, by_all=by_all, timeout_ms=body.timeout_ms)
    return promise


def _copy_records(partitions: Iterable[PartitionProduceData]) -> None:
    """Copies records out of the request's frame, for those that are appended when it is gone. A large frame has its buffer for
    itself (server/network/receive_buffers.py): only a bytearray is used again."""
    for data in partitions:
        records = data.records
        if records is not None and (type(records) is not memoryview or type(records.obj) is bytearray):
            data.records = bytes(records)


def _ignore_outcome(error: Exception | None) -> None:
    """Does nothing: with acks 0 the client wants no answer. A directory that went offline has already been logged."""


def _replica(topic: TopicProduceData, index: int, request: Request) -> Replica | None:
    replicas = request.broker.replicas
    return replicas.get(topic.name, index) if request.api_version < TOPIC_IDS_SINCE else replicas.get_by_id(topic.topic_id, index)


def _merge_duplicates(topics: list[TopicProduceData]) -> list[TopicProduceData]:
    """Returns the topics with each partition once: of two batches for it, the later. Leaves out topics without partitions."""
    merged: dict[tuple[str, bytes], dict[int, PartitionProduceData]] = {}
    for topic in topics:
        if not topic.partition_data:
            continue
        merged.setdefault((topic.name, topic.topic_id), {}).update({data.index: data for data in topic.partition_data})
    return [TopicProduceData(name, topic_id, list(each.values())) for (name, topic_id), each in merged.items()]


# Transactions


def _find_unverified(
    topics: list[TopicProduceData], transactional_id: str, request: Request
) -> Mapping[_Key, ErrorCode] | Promise[Mapping[_Key, ErrorCode]]:
    """Returns the partitions to refuse, with their errors, because they are not in the transaction and cannot be added to it; or
    a promise of them.
    """
    from ottla.server.txn.transactional_produce import Verification, find_unverified  # not loaded by brokers without transactions

    broker, version = request.broker, request.api_version
    add = version >= TRANSACTIONS_V2_SINCE
    if not add and not broker.settings[VERIFY]:
        return _NONE
    batches: list[Produced] = []
    for topic in topics:
        for data in topic.partition_data:
            replica = _replica(topic, data.index, request) if _is_transactional(data.records) else None
            if replica is not None and data.records is not None:
                batches.append(((topic.name, topic.topic_id, data.index), replica, data.records))
    verification = Verification(transactional_id, broker.replicas, broker.transaction_verifier(), add, version >= ABORTABLE_SINCE)
    return find_unverified(verification, batches)


def _has_transactional_batches(topics: list[TopicProduceData]) -> bool:
    for topic in topics:
        for data in topic.partition_data:
            if _is_transactional(data.records):
                return True
    return False


def _is_transactional(records: Buffer | None) -> bool:
    """Returns whether the records begin with a whole batch and this batch belongs to a transaction."""
    if records is None or len(records) < HEADER_SIZE or not records[_ATTRIBUTES_AT] & TRANSACTIONAL_BIT:
        return False
    length: int = _BATCH_LENGTH.unpack_from(records)[0]
    return length + LENGTH_OVERHEAD <= len(records)


# Refusals


def _refusal(index: int, code: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(index, code, NO_OFFSET)


def _unverified_refusal(topic: TopicProduceData, index: int, code: ErrorCode, request: Request) -> PartitionProduceResponse:
    answer = _refusal(index, code)
    replica = _replica(topic, index, request)
    if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and replica is not None:
        answer.log_start_offset = replica.log.log_start_offset
    if code is ErrorCode.INVALID_TXN_STATE:
        answer.error_message = "The transaction does not contain this partition."
    elif code is ErrorCode.NOT_ENOUGH_REPLICAS:
        answer.error_message = "The transaction coordinator cannot say now whether this partition belongs to the transaction."
    return answer


def _why_not_here(replica: Replica | None, topic: TopicProduceData, index: int, by_name: bool, request: Request) -> ErrorCode:
    if replica is not None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    name = topic.name
    if not by_name:
        image = request.broker.metadata.topics_by_id.get(topic.topic_id)
        if image is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = image.name
    return request.broker.replicas.why_missing(name, index)


def _validated(validation: Callable[[], ValidatedBatch]) -> ValidatedBatch | LogError:
    """Returns the batch, or why it is refused. That is not raised through promises: the error would be kept by the frames that it
    has passed, and they by it, with the decoder and up to 64 MiB of each refused batch, until the garbage collector comes."""
    try:
        return validation()
    except LogError as error:
        error.__traceback__ = error.__cause__ = error.__context__ = None
        return error


def _refused(index: int, error: LogError, replica: Replica) -> PartitionProduceResponse:
    """Counts and returns the refusal of a batch by the log."""
    replica.traffic.refused += 1
    return _refused_by_log(index, error, replica)


def _refused_by_log(index: int, error: Exception, replica: Replica) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index, code_of(error), NO_OFFSET)
    if not isinstance(error, _NOT_THE_LOG):
        answer.log_start_offset = replica.log.log_start_offset
    if isinstance(error, InvalidRecord | InvalidTimestamp) and error.record_errors:
        answer.record_errors = [BatchIndexAndErrorMessage(number, text) for number, text in error.record_errors]
        answer.error_message = str(error)
    elif isinstance(error, NotABatch):
        answer.error_message = str(error)
    return answer


def _summary(responses: list[TopicProduceResponse]) -> str:
    """Returns the errors by partition, the first few of them, as text for the log."""
    failed = [(topic, answer) for topic in responses for answer in topic.partition_responses if answer.error_code]
    texts = [
        f"{topic.name[:MAX_LENGTH] or topic.topic_id.hex()}-{answer.index}: {ErrorCode(answer.error_code).name}"
        for topic, answer in failed[:SUMMARIZED]
    ]
    return ", ".join(texts) + (f" and {len(failed) - SUMMARIZED} more" if len(failed) > SUMMARIZED else "")


def _add_hints(responses: list[TopicProduceResponse], request: Request) -> list[NodeEndpoint]:
    """Names the current leader beside each NOT_LEADER_OR_FOLLOWER; returns the addresses of these leaders."""
    metadata = request.broker.metadata
    endpoints: dict[int, NodeEndpoint] = {}
    for topic in responses:
        for answer in topic.partition_responses:
            if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            image = metadata.topics_by_id.get(topic.topic_id)
            hint = leader_hint(metadata, image.name if image is not None else topic.name, answer.index, request.session.listener)
            answer.current_leader = LeaderIdAndEpoch(hint.leader_id, hint.leader_epoch)
            if hint.host is not None:
                endpoints[hint.leader_id] = NodeEndpoint(hint.leader_id, hint.host, hint.port, hint.rack)
    return list(endpoints.values())

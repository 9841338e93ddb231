"""Says which transactional batches of a Produce may not be appended, and keeps the order of those that are sent again (KIP-890).

All batches of a request are one producer's. A batch that is refused for now is sent again by its producer, together with later
ones that it may have sent already: none of them may be appended before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.server.base.answers import map_answer
from ottla.server.metadata.names import INTERNAL_TOPICS
from ottla.server.txn.verification import TRANSIENT, Codes, Entry, Verifier, refused_entries
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.base.promise import Promise
    from ottla.server.partitions.replica import Replica
    from ottla.server.partitions.replicas import Replicas
    from ottla.wire.primitives import Buffer

_PRODUCER: Final = Struct(">qhi")
_PRODUCER_AT: Final = 43

Key = tuple[str, bytes, int]
"""A partition as a request names it: the name and the id of its topic, one of which is empty, and its index."""
Refusals = Mapping[Key, ErrorCode]
Produced = tuple[Key, "Replica", "Buffer"]
"""A transactional batch, with its partition as the request names it and as this broker has it."""


class Verification(NamedTuple):
    """The way in which a request's batches are verified; the fields are arguments of `refused_entries`."""

    transactional_id: str
    replicas: Replicas
    verify: Verifier
    add: bool
    generic_error: bool


class _Batch(NamedTuple):
    key: Key
    replica: Replica
    entry: Entry
    sequence: int


def find_unverified(how: Verification, produced: Sequence[Produced]) -> Refusals | Promise[Refusals]:
    """Returns the partitions to refuse with their error codes, or a promise of them. Batches for partitions that others lead, or
    of internal topics, are not looked at: Produce refuses them anyway.

    INVALID_PRODUCER_ID_MAPPING refuses batches of several producers, NOT_ENOUGH_REPLICAS what the coordinator cannot tell at the
    moment, and OUT_OF_ORDER_SEQUENCE_NUMBER a batch before which another one is missing.
    """
    batches = [
        _Batch(key, replica, Entry((replica.topic, replica.partition), producer_id, epoch), sequence)
        for key, replica, records in produced
        if replica.is_leader and replica.topic not in INTERNAL_TOPICS
        for producer_id, epoch, sequence in [_PRODUCER.unpack_from(records, _PRODUCER_AT)]
    ]
    if len({(batch.entry.producer_id, batch.entry.producer_epoch) for batch in batches}) > 1:
        return dict.fromkeys((batch.key for batch in batches), ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    entries = [batch.entry for batch in batches]
    refused = refused_entries(
        how.replicas, how.verify, how.transactional_id, entries, add=how.add, generic_error=how.generic_error
    )
    return map_answer(refused, partial(_in_order, batches, how.add))


def _in_order(batches: Sequence[_Batch], add: bool, refused: Codes) -> dict[Key, ErrorCode]:
    """Returns the refusals by key, after those batches are refused, too, before which another one is missing."""
    codes: dict[Key, ErrorCode] = {}
    for key, replica, (partition, producer_id, epoch), sequence in batches:
        states = replica.log.producers
        code = refused.get(partition)
        if code is not None:
            state = states.get(producer_id)
            if state is None or state.producer_epoch != epoch or state.last_sequence < sequence:
                states.refuse(producer_id, epoch, sequence)  # else it was sent again meanwhile, and appended
            codes[key] = ErrorCode.NOT_ENOUGH_REPLICAS if code in TRANSIENT else code
        elif (add and sequence > 0 and states.get(producer_id) is None) or states.overtakes(producer_id, epoch, sequence):
            codes[key] = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return codes

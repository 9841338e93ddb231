"""Reads what consumers in a classic group exchange: the subscription that each one joins with, and the assignment that it is
given (ConsumerProtocol 0 to 3).

Each begins with an int16, its version. A version newer than we know is read as the newest known one, since its fields come first.
Members of other protocols, such as Kafka Connect's workers, send other bytes, which may be anything.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from ottla.commands.clients.partition import Partition
from ottla.wire.frame import MALFORMED, decode_whole
from ottla.wire.messages.internal import consumer_protocol_assignment, consumer_protocol_subscription
from ottla.wire.primitives import Buffer, WireStruct

PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of the groups whose members are consumers."""
SUBSCRIPTION: Final = "subscription"
ASSIGNMENT: Final = "assignment"
_DECODE: Final[Mapping[str, Mapping[int, Callable[[Buffer, int], tuple[Any, int]]]]] = {
    SUBSCRIPTION: consumer_protocol_subscription.DECODE,
    ASSIGNMENT: consumer_protocol_assignment.DECODE,
}
_INT16: Final = struct.Struct(">h")

_T = TypeVar("_T")


def subscribed_topics(data: bytes) -> list[str]:
    """Returns the topics of a subscription; none if the bytes are no subscription."""
    try:
        subscription, _ = _decoder(consumer_protocol_subscription.DECODE, data)(data, _INT16.size)
    except MALFORMED:
        return []
    return list(subscription.topics)


def assigned_partitions(data: bytes) -> list[Partition]:
    """Returns the partitions of an assignment; none if the bytes are no assignment."""
    try:
        assignment, _ = _decoder(consumer_protocol_assignment.DECODE, data)(data, _INT16.size)
    except MALFORMED:
        return []
    return [Partition(topic.topic, number) for topic in assignment.assigned_partitions for number in topic.partitions]


def whole_message(name: str, data: bytes) -> WireStruct | None:
    """Returns the SUBSCRIPTION or ASSIGNMENT that the bytes are; None if they are none, or more than the fields that we know."""
    try:
        message: WireStruct = decode_whole(_decoder(_DECODE[name], data), data, _INT16.size)
    except MALFORMED:
        return None
    return message


def _decoder(table: Mapping[int, Callable[[Buffer, int], _T]], data: bytes) -> Callable[[Buffer, int], _T]:
    """Returns the decoder for the version that the bytes begin with. Raises struct.error or ValueError if there is none."""
    (version,) = _INT16.unpack_from(data)
    if version < 0:
        raise ValueError(f"the consumer protocol has no version {version}")
    return table[min(version, max(table))]

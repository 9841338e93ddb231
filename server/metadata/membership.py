"""Unregistering brokers and controllers that are gone for good (UnregisterBroker, UnregisterController): the rules, as functions
of the image.

Only a node that no longer exists can be unregistered, such as one that a data directory of a larger cluster still names. This
node refuses to unregister itself. Kafka does not refuse, and that broker then serves nobody until it is restarted.
"""

from __future__ import annotations

from typing import Final

from ottla.server.metadata.image import NO_LEADER, MetadataImage
from ottla.server.metadata.operation import Outcome, Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.internal.unregister_broker_record import UnregisterBrokerRecord
from ottla.wire.messages.internal.unregister_controller_record import UnregisterControllerRecord
from ottla.wire.primitives import WireStruct

CONTROLLERS_UNREGISTER: Final = 33
"""metadata.version 4.4-IV2."""


def unregister_broker(image: MetadataImage, node_id: int, broker_id: int) -> Outcome[None]:
    """Removes the broker from leadership and from the in-sync replicas, except where it is the last of these. Raises Refused with
    42 INVALID_REQUEST or 102 BROKER_ID_NOT_REGISTERED."""
    if broker_id == node_id:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is running: it is this one.")
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"There is no broker {broker_id} in the cluster.")
    records: list[WireStruct] = []
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            if broker_id not in (*partition.isr, *partition.elr, partition.leader):
                continue
            change = PartitionChangeRecord(index, topic.topic_id)
            if partition.leader == broker_id:
                change.leader = NO_LEADER
            if broker_id in partition.isr and len(partition.isr) > 1:
                change.isr = [each for each in partition.isr if each != broker_id]
            if broker_id in partition.elr:
                change.eligible_leader_replicas = [each for each in partition.elr if each != broker_id]
            records.append(change)
    return Outcome([*records, UnregisterBrokerRecord(broker_id, broker.epoch)], None)


def unregister_controller(image: MetadataImage, node_id: int, controller_id: int) -> Outcome[None]:
    """Removes the controller's registration. Raises Refused with 35 UNSUPPORTED_VERSION, 42 INVALID_REQUEST or 136
    CONTROLLER_ID_NOT_REGISTERED."""
    if controller_id == node_id:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Controller {controller_id} is running: it is this one.")
    if image.metadata_version < CONTROLLERS_UNREGISTER:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, "Unregistering a controller needs a newer metadata.version.")
    if ("controller", controller_id) not in image.kept:
        raise Refused(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"There is no controller {controller_id} in the cluster.")
    return Outcome([UnregisterControllerRecord(controller_id)], None)

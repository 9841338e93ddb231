"""The changes that follow when log directories of a broker fail (KIP-858): the rule, as a function of the image.

It is what Kafka's controller does when a heartbeat names offline directories: the broker stays registered with those that work,
and leaves the in-sync replicas of each partition that lay in the others. If no in-sync replica is left, the partition has no
leader, and the replica that went last is eligible to lead again (KIP-966) or, if the cluster does not have that feature, stays in
sync. So a start that finds the directory in order makes it leader again (standalone_elections.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ottla.server.metadata.eligible import is_on
from ottla.server.metadata.image import MIGRATING, NO_LEADER, UNASSIGNED, MetadataImage
from ottla.wire.messages.internal.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.primitives import WireStruct


def lose(
    image: MetadataImage, broker_id: int, online: Collection[bytes], lost: Mapping[tuple[str, int], bytes | None]
) -> list[WireStruct]:
    """Returns what changes when, of the directories of `broker_id`, only those in `online` (ids) work. `lost` are the partitions
    whose replica there is gone, with the id of the directory that it lay in, None if that is not known.
    """
    records: list[WireStruct] = []
    for (name, index), directory_id in lost.items():
        topic = image.topics.get(name)
        partition = topic.partitions.get(index) if topic is not None else None
        if topic is None or partition is None or (broker_id not in partition.isr and partition.leader != broker_id):
            continue
        record = PartitionChangeRecord(index, topic.topic_id, leader=NO_LEADER)
        others = [replica for replica in partition.isr if replica != broker_id]
        if is_on(image):
            record.isr = others
            record.eligible_leader_replicas = [*partition.elr, broker_id]
            record.last_known_elr = [broker_id]
        elif others:
            record.isr = others
        if directory_id is not None and partition.directory_of(broker_id) in (UNASSIGNED, MIGRATING):
            record.directories = partition.directories_with(broker_id, directory_id)
        records.append(record)
    broker = image.brokers[broker_id]
    if set(broker.log_dirs) != set(online):
        records.append(BrokerRegistrationChangeRecord(broker_id, broker.epoch, log_dirs=list(online)))
    return records
